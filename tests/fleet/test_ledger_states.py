"""Every state of a small fleet is checked; of larger ones those of the first steps."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from apfproxy.fleet import ledger
from apfproxy.fleet.ledger import LeaseState, Ledger
from tests.fleet.states import Rules, Search, State, signature

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

INTERLEAVED = Rules(2, 2, is_prompt=True, events=())
MORTAL = Rules(2, 2, is_prompt=True, is_whole=True, events=("die", "miss"))
UNEVEN = Rules(2, 2, is_whole=True, events=())
AWAY = Rules(2, 2, is_prompt=True, is_whole=True, events=("away",))


@pytest.mark.parametrize(
    "rules",
    [
        INTERLEAVED,
        MORTAL,
        AWAY,
        UNEVEN,
        Rules(2, 1, is_prompt=True, is_whole=True, events=()),
        Rules(3, 3, is_prompt=True, is_whole=True, events=()),
    ],
    ids=repr,
)
def test_all_states(rules: Rules) -> None:
    """To the end: no history, however long, gets to another one."""
    count, depth, is_all = Search(rules).states(50_000)
    assert is_all
    assert count > 100
    assert depth > 8


@pytest.mark.parametrize(
    "rules",
    [
        Rules(2, 2),
        Rules(2, 3, is_prompt=True),
        Rules(2, 4, 2, is_prompt=True),
        Rules(3, 2),
        Rules(3, 4, is_prompt=True),
    ],
    ids=repr,
)
def test_the_first_states(rules: Rules) -> None:
    count, depth, is_all = Search(rules).states(2500)
    assert count >= 2500
    assert depth >= 4
    assert not is_all


@pytest.mark.parametrize("rules", [INTERLEAVED, MORTAL], ids=repr)
def test_states_that_count_as_the_same_have_the_same_future(rules: Rules) -> None:
    """So nothing is missed by following one of them alone: a sample of those that are left out."""
    search, random = Search(rules), Random(1)  # noqa: S311  no secret
    followed = {signature(search.first): search.first}
    todo = [search.first]
    compared = 0
    for state in todo:
        for after in search.after(state):
            known = followed.setdefault(signature(after), after)
            if known is after:
                todo.append(after)
            elif random.random() < 0.05:
                assert future(search, known) == future(search, after)
                compared += 1

    assert compared > 100


def future(search: Search, state: State) -> set[Hashable]:
    return {signature(after) for after in search.after(state)}


def claims_alone(self: Ledger, now_s: float) -> int:
    del now_s
    return sum(each.claim for each in self.others.values())


def whole_claim(self: Ledger) -> int:
    is_alone = self.state is LeaseState.PARTITIONED
    return self.safe_share() if is_alone else min(self.claim, self.target)


def old_claim(self: Ledger, record: object, *, is_known: bool) -> int:
    del record, is_known
    return self.claim


@pytest.mark.parametrize(
    ("owner", "name", "broken", "rules"),
    [
        pytest.param(ledger, "HELD", 2.0, UNEVEN, id="stops-after-its-lease"),
        pytest.param(Ledger, "_reserved", claims_alone, AWAY, id="safe-shares-are-not-counted"),
        pytest.param(Ledger, "in_force", whole_claim, AWAY, id="expired-with-its-whole-claim"),
        pytest.param(Ledger, "_held", old_claim, AWAY, id="holds-what-others-may-have"),
    ],
)
def test_a_broken_rule_is_found(
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    broken: float | Callable[..., int],
    rules: Rules,
) -> None:
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(AssertionError):
        Search(rules).states(50_000)
