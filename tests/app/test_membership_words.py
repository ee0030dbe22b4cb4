"""Tests of what a member of a fleet says of how it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.app.membership_words import MembershipWords
from apfproxy.base.events import ConfigurationEvents
from apfproxy.fleet.ledger import Ledger, Report

if TYPE_CHECKING:
    import pytest

LIMIT = 20


def test_a_store_that_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    """Each change is said once: that it has no store, why else, and that it has one, or again."""
    caplog.set_level("INFO")
    ledger, events = Ledger("m#1", LIMIT, lease_s=5.0), ConfigurationEvents()
    words = MembershipWords(ledger, "the shelf", events, prefix="c: ", of_fleet=" of the fleet f")
    assert "there is no answer yet; this member has no seats yet" == words.reason()

    ledger.failed(LIMIT, 0.0)
    for problem in ("on fire", "on fire", "gone", "on fire", "gone"):
        words.problem = problem
        words.say()
    ledger.written(ledger.plan(None, Report(limit=LIMIT, levels={}), 1.0))
    for problem in ("", "", "slow", "slow", "", "", "slow"):
        words.problem = problem
        words.say()
    words.problem = ""

    trouble = "c: the fleet's record in the shelf cannot be used: "
    means = "this member uses its safe share, 10 seats"
    slow = f"{trouble}slow; this member keeps its 0 seats until its lease ends"
    assert [
        f"{trouble}on fire; {means}",
        f"{trouble}gone; {means}",
        "c: holds 0 of 20 seats of the fleet f for now; they follow its requests",
        slow,
        "c: the fleet's record can be used again",
        slow,
    ] == caplog.messages
    assert [True, False] == [each.is_error for each in events]
    assert ("", "<MembershipWords: nothing is wrong>") == (words.trouble(), repr(words))
