"""Places of names that are not verified."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.authn import unverified_names
from apfproxy.authn.unverified_names import LEASE_NS, NamesOfAddresses
from tests.support.clocks import VirtualClock

if TYPE_CHECKING:
    import pytest


def test_an_address_that_shows_too_many_names(caplog: pytest.LogCaptureFixture) -> None:
    """The log and the page say which one it is and what to do, without any name."""
    clock = VirtualClock()
    names = NamesOfAddresses(1, clock)
    names.admit("key:1", "address:192.0.2.7")
    assert "" == names.problem()
    for number in range(3):
        assert not names.admit(f"key:0a{number}", "address:192.0.2.7")

    assert [names.problem()] == caplog.messages
    assert names.problem().startswith("192.0.2.7 shows more than 1 API keys, tokens or names in 30")
    assert "0a" not in names.problem()
    clock.run_until(LEASE_NS)
    assert "" == names.problem()
    # Clients of a Unix socket share the places of one.
    assert names.admit("a", "")
    assert not names.admit("b", "")
    assert names.problem().startswith("a Unix socket shows ")


def test_each_place_ends_by_itself() -> None:
    clock = VirtualClock()
    names = NamesOfAddresses(2, clock)
    names.admit("a", "address:192.0.2.7")
    clock.run_until(LEASE_NS // 2)
    names.admit("b", "address:192.0.2.7")
    clock.run_until(LEASE_NS)

    assert [True, False] == [names.admit(name, "address:192.0.2.7") for name in "cd"]


def test_too_many_names_of_all_addresses(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unverified_names, "MAX_PLACES", 10)
    clock = VirtualClock()
    names = NamesOfAddresses(2, clock)
    found = [names.admit("x" * 300, f"address:192.0.2.{number}") for number in range(99)]

    assert [True] * 10 + [False] * 89 == found
    assert [names.problem()] == caplog.messages
    assert names.problem().startswith("all addresses together show more than 10 API keys, tokens")
    assert "192.0.2" not in names.problem()
    clock.run_until(LEASE_NS)
    assert [True] * 10 == [names.admit("y", f"address:192.0.2.{number}") for number in range(10)]
    assert not names.admit("y", "address:192.0.2.10")
