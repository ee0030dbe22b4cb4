"""All states that a small fleet can get into: a search in breadth, which forgets no interleaving.

The steps are those of members that look, write, and hear of it or not; of time, in halves of a
lease; of members that die; and of a store that goes away and comes back.  States are the same if
nothing that comes can tell them apart: times count from now, beats and writes by their order only.

By hand: `python -m tests.fleet.states MEMBERS LIMIT LEVELS MOST_STATES [prompt] [whole]`.
"""

# ruff: noqa: SLF001 - a state is all that a ledger knows

from __future__ import annotations

import copy
import math
import sys
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from apfproxy.fleet.division import LevelRules
from apfproxy.fleet.ledger import Ledger, Report
from apfproxy.fleet.standing import Standing

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from apfproxy.fleet.ledger import Plan
    from apfproxy.fleet.record import Member, Record

LEASE_S = 2.0
STEP_S = LEASE_S / 2
LONG_S = 2.5 * LEASE_S
"""Times that are longer ago make no difference."""
NAMES = ("a", "b")


@dataclass(frozen=True)
class Rules:
    """What fleet is searched.

    Attributes:
        members: How many there are at the start.
        limit: Seats of the server.
        levels: One or two.
        is_prompt: Whether each member writes twice a lease while the store is there, and the store
            does not go before all have heard of their writes.
        is_whole: Whether nothing comes between a look and its write: fewer states, more deeply.
    """

    members: int
    limit: int
    levels: int = 1
    is_prompt: bool = False
    is_whole: bool = False


@dataclass(frozen=True)
class Swap:
    """A write on its way."""

    plan: Plan
    version: int


@dataclass
class State:
    """One state.

    Attributes:
        ledgers: Of those that live, by key.
        swaps: What they have sent.
        fresh: Who has heard of a write since time passed last.
        record: What the store has.
        version: Of that.
        is_away: Whether the store is.
        now_s: The time.
    """

    ledgers: dict[str, Ledger]
    swaps: dict[str, Swap] = field(default_factory=dict)
    fresh: frozenset[str] = frozenset()
    record: Record | None = None
    version: int = 0
    is_away: bool = False
    now_s: float = 0.0

    def copied(self, key: str = "") -> State:
        """A copy, in which the ledger of one member may change."""
        ledgers = self.ledgers | ({key: copied(self.ledgers[key])} if key else {})
        return replace(self, ledgers=ledgers, swaps=dict(self.swaps))


def copied(ledger: Ledger) -> Ledger:
    """A ledger that changes by itself."""
    found = copy.copy(ledger)
    found.others = {key: copy.copy(each) for key, each in ledger.others.items()}
    found._ended = dict(ledger._ended)
    return found


class Search:
    """Finds all states, and checks each."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.levels = {
            name: LevelRules(1, 50, None, is_exempt=False) for name in NAMES[: rules.levels]
        }
        keys = [f"m{number}#1" for number in range(rules.members)]
        self.replicas = rules.members
        self.first = State(
            {key: Ledger(key, rules.limit, lease_s=LEASE_S, replicas=self.replicas) for key in keys}
        )

    def states(self, most: int) -> tuple[int, int, bool]:
        """Check so many states; how many there were, how many steps deep, whether that is all."""
        seen = {hash(signature(self.first))}
        layer, depth = [self.first], 0
        while layer and len(seen) < most:
            following: list[State] = []
            for state in layer:
                if len(seen) >= most:
                    break
                for after in self.after(state):
                    self.check(after)
                    known = hash(signature(after))
                    if known not in seen:
                        seen.add(known)
                        following.append(after)
            layer, depth = following, depth + 1
        return len(seen), depth, not layer

    # Steps

    def after(self, state: State) -> Iterator[State]:
        """What may come next."""
        for key in state.ledgers:
            if key in state.swaps:
                yield from self._after_swap(state, key)
            for looked in () if key in state.swaps else self._after_look(state, key):
                if self.rules.is_whole and key in looked.swaps:
                    yield from self._after_swap(looked, key)
                else:
                    yield looked
            if len(state.ledgers) > 1:
                died = state.copied()
                del died.ledgers[key]
                died.swaps.pop(key, None)
                yield died
        if self._may_pass(state):
            passed = State(
                {key: copied(each) for key, each in state.ledgers.items()},
                dict(state.swaps),
                frozenset(),
                state.record,
                state.version,
                state.is_away,
                state.now_s + STEP_S,
            )
            for each in passed.ledgers.values():
                each.advance(passed.now_s)
            yield passed
        if state.is_away or self._may_go(state):
            turned = state.copied()
            turned.is_away, turned.fresh = not state.is_away, frozenset()
            yield turned

    def _after_look(self, state: State, key: str) -> Iterator[State]:
        """A member looks, or hears nothing; the first with and without requests on its seats."""
        if state.is_away:
            if self.rules.is_prompt and state.ledgers[key].standing is Standing.JOINING:
                return
            failed = state.copied(key)
            failed.ledgers[key].failed(self.rules.limit, state.now_s)
            yield failed
            return
        is_first = key == "m0#1"  # the only one that changes its mind
        for used in {0, state.ledgers[key].claim} if is_first else (0,):
            for wanted in (0, self.rules.limit) if is_first else (self.rules.limit,):
                looked = state.copied(key)
                plan = looked.ledgers[key].plan(
                    state.record, self.report(wanted, used), state.now_s
                )
                looked.swaps[key] = Swap(plan, state.version)
                yield looked

    def _after_swap(self, state: State, key: str) -> Iterator[State]:
        """Its write arrives, and it hears of that or not."""
        swap = state.swaps[key]
        is_joining = state.ledgers[key].standing is Standing.JOINING
        heard = state.copied(key)
        del heard.swaps[key]
        if state.is_away:
            if not (self.rules.is_prompt and is_joining):
                heard.ledgers[key].failed(self.rules.limit, state.now_s)
                yield heard
            return
        if swap.version == state.version:
            heard.record, heard.version = swap.plan.record, state.version + 1
            unheard = heard.copied(key)
            heard.ledgers[key].written(swap.plan)
            heard.ledgers[key].advance(state.now_s)
            heard.fresh = state.fresh | {key}
            if not (self.rules.is_prompt and is_joining):
                unheard.ledgers[key].failed(self.rules.limit, state.now_s)
                yield unheard
        yield heard

    def _may_pass(self, state: State) -> bool:
        is_fresh = state.fresh >= state.ledgers.keys() and not state.swaps
        return not self.rules.is_prompt or state.is_away or is_fresh

    def _may_go(self, state: State) -> bool:
        return not self.rules.is_prompt or all(
            each.standing is Standing.HOLDING and math.isinf(each._away_s)
            for each in state.ledgers.values()
        )

    def report(self, wanted: int, used: int) -> Report:
        """What a member says of itself: it wants much, or nothing but what it uses."""
        demand = dict.fromkeys(self.levels, wanted)
        demand["a"] = max(wanted, used)
        return Report(
            limit=self.rules.limit,
            levels=self.levels,
            demand=demand,
            used=used,
            busy=["a"] if used else [],
        )

    # What is true

    def check(self, state: State) -> None:
        """Of every state."""
        entries: dict[str, Member] = {} if state.record is None else state.record.members
        assert sum(each.claim for each in entries.values()) <= self.rules.limit
        total = 0
        for key, ledger in state.ledgers.items():
            in_force = ledger.in_force()
            total += in_force
            excess = in_force - (entries[key].claim if key in entries else 0)
            if ledger.standing is Standing.HOLDING:
                assert excess <= 0, f"{key} holds what others may have"
            else:
                assert excess <= ledger.safe_share(), f"{key} has more than its share"
        if self.rules.is_prompt and self.rules.limit >= self.rules.members:
            assert total <= self.rules.limit, f"{total} seats are in force"


# What tells states apart


def signature(state: State) -> Hashable:
    """The same for states that nothing that comes can tell apart."""
    record = state.record
    beats: dict[str, set[int]] = {}
    writes: set[int] = set()

    def note(key: str, entry: Member) -> None:
        beats.setdefault(key, set()).add(entry.beat)
        writes.update(entry.hungry.values())

    records = [] if record is None else [record]
    records += [each.plan.record for each in state.swaps.values() if each.version == state.version]
    for each in records:
        writes.add(each.writes)
        for key, entry in each.members.items():
            note(key, entry)
    for key, ledger in state.ledgers.items():
        beats.setdefault(key, set()).update((ledger._beat, ledger._written_beat))
        writes.add(ledger._known_writes)
        writes.update(ledger._hungry.values(), ledger._first.values())
        for name, sighting in ledger.others.items():
            note(name, sighting.entry)
        for name, beat in ledger._ended.items():
            beats.setdefault(name, set()).add(beat)
    places = {
        key: {beat: at for at, beat in enumerate(sorted(all_))} for key, all_ in beats.items()
    }
    order = {write: at for at, write in enumerate(sorted(writes))}

    def counts(values: dict[str, int]) -> Hashable:
        return tuple(sorted((name, order[write]) for name, write in values.items()))

    def entry_of(key: str, entry: Member) -> Hashable:
        demand = tuple(sorted(entry.demand.items()))
        return places[key][entry.beat], entry.claim, entry.used, demand, counts(entry.hungry)

    def members_of(record: Record) -> Hashable:
        return tuple(sorted((key, entry_of(key, each)) for key, each in record.members.items()))

    def ago(then_s: float) -> float:
        return max(-LONG_S, min(LONG_S, state.now_s - then_s))

    def ledger_of(key: str, ledger: Ledger) -> Hashable:
        others = tuple(
            sorted(
                (
                    name,
                    entry_of(name, each.entry),
                    each.claim,
                    min(LONG_S, ledger._read_s - each.since_s),
                    min(LONG_S, state.now_s - each.seen_s),
                    min(LONG_S, state.now_s - each.after_s),
                    each.is_present,
                )
                for name, each in ledger.others.items()
            )
        )
        return (
            key,
            ledger.standing,
            ledger.claim,
            ledger.target,
            others,
            (ledger._most, ledger._told, ledger._has_failed),
            record is not None and ledger._born == record.born,
            tuple(sorted((name, places[name][beat]) for name, beat in ledger._ended.items())),
            (places[key][ledger._beat], places[key][ledger._written_beat]),
            order[ledger._known_writes],
            counts(ledger._hungry),
            counts(ledger._first),
            tuple(sorted((name, each.nominal) for name, each in ledger._by_level.items())),
            ago(ledger._watched_since_s),
            ago(ledger._read_s),
            ago(ledger._held_until_s),
            ago(ledger._away_s),
        )

    return (
        None if record is None else (members_of(record), order[record.writes]),
        tuple(ledger_of(key, each) for key, each in sorted(state.ledgers.items())),
        tuple(
            (key, swap_of.plan.begun_s - state.now_s, members_of(swap_of.plan.record))
            if swap_of.version == state.version
            else (key,)
            for key, swap_of in sorted(state.swaps.items())
        ),
        state.fresh,
        state.is_away,
    )


def main() -> None:
    """Search, and say how much there was."""
    members, limit, levels, most = map(int, sys.argv[1:5])
    words = sys.argv[5:]
    rules = Rules(members, limit, levels, is_prompt="prompt" in words, is_whole="whole" in words)
    begun_s = time.monotonic()
    count, depth, is_all = Search(rules).states(most)
    took_s = time.monotonic() - begun_s
    end = "which is all" if is_all else "and there are more"
    print(f"{rules}: {count} states, {depth} steps deep, {end}; {took_s:.0f} s")  # noqa: T201


if __name__ == "__main__":
    main()
