"""All states that a small fleet can get into: a search in breadth, which forgets no interleaving.

Members look, write, and hear of it or not; time passes in halves of a lease; members die; a store
goes away and comes back.  Of states with one `signature`, nothing that comes tells them apart, one
is followed, so that a search comes to its end.
"""

# ruff: noqa: SLF001 - a state is all that a ledger knows

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from apfproxy.fleet.division import LevelRules
from apfproxy.fleet.ledger import LeaseState, Ledger, Report

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from apfproxy.fleet.ledger import Plan, Sighting
    from apfproxy.fleet.record import Member, Record

LEASE_S = 5.0
STEP_S = LEASE_S / 2
LONG_S = 1.5 * LEASE_S
"""Times that are longer ago make no difference."""
NAMES = ("a", "b")
EVENTS = ("die", "miss", "away")


@dataclass(frozen=True)
class Rules:
    """A fleet that is searched.

    If it `is_prompt` each member writes twice a lease while the store is there, which does not go
    before all have heard of their writes; if it `is_whole` nothing comes between a look and its
    write.  A member may "die", or "miss" that it wrote; the store may be "away" for a while.
    """

    members: int
    limit: int
    levels: int = 1
    is_prompt: bool = False
    is_whole: bool = False
    events: tuple[str, ...] = EVENTS


@dataclass(frozen=True)
class Swap:
    plan: Plan
    version: int


@dataclass
class State:
    """One state of living members; the `fresh` have heard of a write since time passed."""

    ledgers: dict[str, Ledger]
    swaps: dict[str, Swap] = field(default_factory=dict)
    fresh: frozenset[str] = frozenset()
    record: Record | None = None
    version: int = 0
    is_away: bool = False
    now_s: float = 0.0

    def copied(self, key: str = "") -> State:
        ledgers = self.ledgers | ({key: copied(self.ledgers[key])} if key else {})
        return replace(self, ledgers=ledgers, swaps=dict(self.swaps))


def copied(ledger: Ledger) -> Ledger:
    found = copy.copy(ledger)
    found.others = {key: copy.copy(each) for key, each in ledger.others.items()}
    found._ended = dict(ledger._ended)
    return found


class Search:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.levels = {
            name: LevelRules(1, 50, None, is_exempt=False) for name in NAMES[: rules.levels]
        }
        self.keys = [f"m{number}#1" for number in range(rules.members)]
        self.replicas = rules.members
        self.first = State(
            {
                key: Ledger(key, rules.limit, lease_s=LEASE_S, replicas=self.replicas)
                for key in self.keys
            }
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
        for key in state.ledgers:
            if key in state.swaps:
                yield from self._after_swap(state, key)
            for looked in () if key in state.swaps else self._after_look(state, key):
                if self.rules.is_whole and key in looked.swaps:
                    yield from self._after_swap(looked, key)
                else:
                    yield looked
            if len(state.ledgers) > 1 and "die" in self.rules.events:
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
        if "away" in self.rules.events and (state.is_away or self._may_go(state)):
            turned = state.copied()
            turned.is_away, turned.fresh = not state.is_away, frozenset()
            yield turned

    def _after_look(self, state: State, key: str) -> Iterator[State]:
        """A member looks, or hears nothing; the first may use all, the last wants all or none."""
        if state.is_away:
            if self.rules.is_prompt and state.ledgers[key].state is LeaseState.JOINING:
                return
            failed = state.copied(key)
            failed.ledgers[key].failed(self.rules.limit, state.now_s)
            yield failed
            return
        ledger = state.ledgers[key]
        held = ledger.in_force() if ledger.state is LeaseState.PARTITIONED else ledger.claim
        limit = self.rules.limit
        for used in {0, held} if key == self.keys[0] else (0,):
            for wanted in (0, limit) if key == self.keys[-1] else (limit,):
                looked = state.copied(key)
                plan = looked.ledgers[key].plan(
                    state.record, self.report(wanted, used), state.now_s
                )
                if ledger.state is LeaseState.HELD:
                    assert plan.entry.claim >= used, "it gives up what it uses"
                looked.swaps[key] = Swap(plan, state.version)
                yield looked

    def _after_swap(self, state: State, key: str) -> Iterator[State]:
        swap = state.swaps[key]
        is_joining = state.ledgers[key].state is LeaseState.JOINING
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
            if self.rules.is_prompt:
                heard.fresh = state.fresh | {key}
            if "miss" in self.rules.events and not (self.rules.is_prompt and is_joining):
                unheard.ledgers[key].failed(self.rules.limit, state.now_s)
                yield unheard
        yield heard

    def _may_pass(self, state: State) -> bool:
        is_fresh = state.fresh >= state.ledgers.keys() and not state.swaps
        return not self.rules.is_prompt or state.is_away or is_fresh

    def _may_go(self, state: State) -> bool:
        return not self.rules.is_prompt or all(
            each.state is LeaseState.HELD and math.isinf(each._away_s)
            for each in state.ledgers.values()
        )

    def report(self, wanted: int, used: int) -> Report:
        demand = dict.fromkeys(self.levels, wanted)
        demand["a"] = max(wanted, used)
        return Report(
            limit=self.rules.limit,
            levels=self.levels,
            demand=demand,
            used=used,
        )

    # What is true

    def check(self, state: State) -> None:
        entries: dict[str, Member] = {} if state.record is None else state.record.members
        assert sum(each.claim for each in entries.values()) <= self.rules.limit
        total = 0
        for key, ledger in state.ledgers.items():
            in_force = ledger.in_force()
            total += in_force
            excess = in_force - (entries[key].claim if key in entries else 0)
            if ledger.state is LeaseState.HELD:
                assert excess <= 0, f"{key} holds what others may have"
            else:
                assert excess <= ledger.safe_share(), f"{key} has more than its share"
        if self.rules.is_prompt and self.rules.limit >= self.rules.members:
            assert total <= self.rules.limit, f"{total} seats are in force"


# What tells states apart


def signature(state: State) -> Hashable:
    """The same for states that nothing that comes can tell apart.

    Left out is what was written last, by number and beat (this store loses nothing, so it is
    newer); what a ledger sets again before it is asked for it; how long ago things were, beyond
    what changes anything; and what is only shown or said to others.  Members are not exchanged for
    each other: of equals the division prefers one by its key.
    """
    entries = {} if state.record is None else state.record.members
    swaps = {key: each for key, each in state.swaps.items() if each.version == state.version}

    def entry_of(entry: Member) -> Hashable:
        return entry.claim, tuple(sorted(entry.demand.items()))

    def ago(then_s: float) -> float:
        return max(-LONG_S, min(LONG_S, state.now_s - then_s))

    def sighting_of(key: str, each: Sighting, read_s: float) -> Hashable:
        # Each beat says one thing, so the entry of one of now is the record's.
        is_of_now = key in entries and entries[key].beat == each.entry.beat
        # What is not of now is replaced or removed by the next look.
        counts = is_of_now or not each.is_present
        return (
            key,
            is_of_now,
            each.claim,
            each.is_present,
            min(LONG_S, read_s - each.seen_s) if counts else read_s - each.seen_s > LEASE_S,
            min(LONG_S, read_s - each.since_s) if counts else None,
            min(LEASE_S, state.now_s - each.after_s) if counts else None,
        )

    def seats_of(key: str, ledger: Ledger) -> Hashable:
        if key in swaps:  # the claim may be more when that is heard of, and the target counts then
            return ledger.claim, ledger.target
        if ledger.state in {LeaseState.JOINING, LeaseState.PARTITIONED}:
            return None
        return ledger.claim, min(ledger.claim, ledger.target)

    def ledger_of(key: str, ledger: Ledger) -> Hashable:
        is_holding = ledger.state is LeaseState.HELD
        # Where only that counts, whether the last look was a lease ago or more.
        is_seen = ledger._has_failed or all(each.is_present for each in ledger.others.values())
        return (
            key,
            ledger.state,
            seats_of(key, ledger),
            ledger.safe_share(),
            ledger._has_failed,
            state.record is not None and ledger._born == state.record.born,
            tuple(
                sighting_of(name, each, ledger._read_s)
                for name, each in sorted(ledger.others.items())
            ),
            tuple(
                sorted(
                    name
                    for name, beat in ledger._ended.items()
                    if name in entries and entries[name].beat == beat
                )
            ),
            min(LEASE_S, ago(ledger._watched_since_s)),
            min(ago(ledger._read_s), LEASE_S if is_seen else LONG_S),
            ledger._held_until_s - state.now_s if is_holding else None,
            min(LEASE_S, ago(ledger._away_s))
            if is_holding or ledger.state is LeaseState.EXPIRED
            else None,
        )

    return (
        None
        if state.record is None
        else tuple(sorted((key, entry_of(each)) for key, each in entries.items())),
        tuple(ledger_of(key, each) for key, each in sorted(state.ledgers.items())),
        tuple(
            (
                key,
                max(-LEASE_S, swaps[key].plan.begun_s - state.now_s),
                tuple(sorted(swaps[key].plan.record.members)),
                entry_of(swaps[key].plan.entry),
            )
            if key in swaps
            else (key,)
            for key in sorted(state.swaps)
        ),
        state.fresh,
        state.is_away,
    )
