"""A fleet in one process: members, each with a clock of its own, and a store that may do anything.

A refresh is taken apart: the member asks, the store answers, the member plans, the store swaps, and
the member hears of it.  Anything can come between.  Strays are swaps whose members have given up on
them, and which the store may do all the same.

`World.check` has what is always true: no write leaves more claims than the limit, or than before;
who holds uses what its entry has, but for what the store lost; others have a safe share more at
most.  In `PromptWorld` no member is kept from the store longer than the others, and all together
use the limit at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.fleet.division import LevelRules
from apfproxy.fleet.ledger import LeaseState, Ledger, Report
from apfproxy.fleet.record import Member, Record, decode, encode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from apfproxy.fleet.ledger import Plan

LEASE_S = 4.0
PERIOD_S = 1.0
PIECE_S = 0.2
LEVELS = {
    1: {"a": LevelRules(1, 0, None, is_exempt=False)},
    2: {
        "a": LevelRules(1, 50, None, is_exempt=False),
        "b": LevelRules(2, 50, None, is_exempt=False),
    },
    3: {
        "a": LevelRules(1, 100, None, is_exempt=False),
        "b": LevelRules(2, 0, 50, is_exempt=False),
        "exempt": LevelRules(1, 50, None, is_exempt=True),
    },
}


@dataclass
class Swap:
    member: WorldMember
    plan: Plan
    version: int


class WorldMember:
    """One process.

    It has requests of one seat `waiting` and `running` by level, an `answer` of the store with its
    version, and `is_trusted` while the store has all that it said since this member last wrote.
    """

    def __init__(
        self,
        key: str,
        limit: int,
        levels: Mapping[str, LevelRules],
        replicas: int | None,
        lease_s: float = LEASE_S,
    ) -> None:
        self.key = key
        self.ledger = Ledger(key, limit, lease_s=lease_s, replicas=replicas)
        self.levels = levels
        self.limit = limit
        self.rate = 1.0
        self.now_s = 0.0
        self.waiting = dict.fromkeys(levels, 0)
        self.running = dict.fromkeys(levels, 0)
        self.is_stalled = False
        self.is_cut = False
        self.answer: tuple[bytes | None, int] | None = None
        self.swap: Swap | None = None
        self.is_trusted = True
        self.asked_s = 0.0
        self.has_failed = False

    def report(self) -> Report:
        limited = [name for name, rules in self.levels.items() if not rules.is_exempt]
        return Report(
            limit=self.limit,
            levels=self.levels,
            demand={name: self.running[name] + self.waiting[name] for name in limited},
            used=sum(self.running[name] for name in limited),
        )

    def fail(self) -> None:
        self.ledger.failed(self.limit, self.now_s)
        self.has_failed = True

    def in_force(self) -> int:
        if self.is_stalled:
            return 0
        self.ledger.advance(self.now_s)
        return self.ledger.in_force()

    def allotted(self) -> dict[str, int]:
        found = self.ledger.allotment(self.report())
        return {
            name: each.nominal for name, each in found.items() if not self.levels[name].is_exempt
        }

    def start(self) -> None:
        if self.is_stalled:
            return
        self.ledger.advance(self.now_s)
        for name, seats in self.allotted().items():
            begun = max(0, min(self.waiting[name], seats - self.running[name]))
            self.waiting[name] -= begun
            self.running[name] += begun


class World:
    """The members that live and their store; `strays` are swaps that may be done yet."""

    def __init__(self, limit: int, levels: int = 1, replicas: int | None = None) -> None:
        self.limit = limit
        self.levels = LEVELS[levels]
        self.replicas = replicas
        self.members: list[WorldMember] = []
        self.data: bytes | None = None
        self.version = 0
        self.older: list[bytes | None] = []
        self.is_away = False
        self.strays: list[Swap] = []
        self._joined = 0
        self._record: Record | None = None

    @property
    def record(self) -> Record | None:
        return self._record

    def _put(self, data: bytes | None) -> None:
        self.older = [*self.older[-20:], self.data]
        self.data = data
        self._record = None if data is None else decode(data)
        self.version += 1

    # What members do

    def join(
        self, rate: float = 1.0, offset_s: float = 0.0, lease_s: float = LEASE_S
    ) -> WorldMember:
        self._joined += 1
        member = WorldMember(f"m{self._joined}#1", self.limit, self.levels, self.replicas, lease_s)
        member.rate, member.now_s = rate, offset_s
        self.members.append(member)
        return member

    def die(self, member: WorldMember) -> None:
        self.members.remove(member)
        if member.swap is not None:
            self.strays.append(member.swap)

    def leave(self, member: WorldMember) -> None:
        self.members.remove(member)
        if self._record is not None and not self.is_away and not member.is_cut:
            self._put(encode(leaving(self._record, member.key)))

    def ask(self, member: WorldMember) -> None:
        if member.is_stalled or member.swap is not None or member.answer is not None:
            return
        member.asked_s = member.now_s
        if self.is_away or member.is_cut:
            member.fail()
        else:
            member.answer = self.data, self.version

    def plan(self, member: WorldMember) -> None:
        if member.is_stalled or member.answer is None:
            return
        data, version = member.answer
        member.answer = None
        record = None if data is None else decode(data)
        before = member.in_force()
        plan = member.ledger.plan(record, member.report(), member.now_s)
        after = member.in_force()
        assert after <= max(before, member.ledger.claim), "seats are given before they are written"
        member.swap = Swap(member, plan, version)

    def apply(self, swap: Swap) -> bool:
        if swap.version != self.version:
            return False
        before = 0 if self._record is None else claims(self._record)
        self._put(encode(swap.plan.record))
        for each in self.members:
            each.is_trusted = each.is_trusted or each is swap.member
        assert self._record is not None
        assert claims(self._record) <= max(before, swap.member.ledger.limit), "claims exceed"
        return True

    def swap(self, member: WorldMember, outcome: str = "heard") -> None:
        swap = member.swap
        if member.is_stalled or swap is None:
            return
        member.swap = None
        if self.is_away or member.is_cut:
            outcome = "lost"
        is_done = outcome in {"heard", "unheard"} and self.apply(swap)
        if outcome == "stray":
            self.strays = [*self.strays[-5:], swap]
        if outcome != "heard":
            member.fail()
        elif is_done:
            member.ledger.written(swap.plan)
            member.has_failed = False

    def refresh(self, member: WorldMember) -> None:
        member.answer = member.swap = None
        self.ask(member)
        self.plan(member)
        self.swap(member)

    # What else happens

    def turn(self) -> None:
        self.is_away = not self.is_away

    def arrive(self, swap: Swap) -> None:
        self.strays.remove(swap)
        if not self.is_away:
            self.apply(swap)

    def lose(self) -> None:
        self._distrust()
        self._put(None)

    def roll_back(self, steps: int) -> None:
        if self.older:
            self._distrust()
            self._put(self.older[-min(steps, len(self.older))])

    def _distrust(self) -> None:
        for each in self.members:
            each.is_trusted = False

    def wait(self, duration_s: float) -> None:
        for each in self.members:
            each.now_s += duration_s * each.rate

    # What is true

    def entry(self, member: WorldMember) -> Member | None:
        return None if self._record is None else self._record.members.get(member.key)

    def in_force(self) -> int:
        return sum(each.in_force() for each in self.members)

    def overshoot(self) -> int:
        """Seats that members may use beyond the record; holders none, but for what it lost."""
        found = 0
        for each in self.members:
            entry = self.entry(each)
            excess = each.in_force() - (0 if entry is None else entry.claim)
            if excess > 0:
                found += excess
                if each.ledger.state is LeaseState.HELD:
                    assert not each.is_trusted, f"{each.key} holds what others may have"
                else:
                    assert excess <= each.ledger.safe_share(), f"{each.key} has more than its share"
        return found

    def check(self) -> None:
        total = 0 if self._record is None else claims(self._record)
        overshoot = self.overshoot()
        assert self.in_force() <= total + overshoot
        for each in self.members:
            assert sum(each.allotted().values()) <= each.ledger.in_force()
            entry = self.entry(each)
            if entry is not None and each.ledger.state is LeaseState.JOINING:
                assert 0 == each.ledger.in_force()


def claims(record: Record) -> int:
    return sum(each.claim for each in record.members.values())


def leaving(record: Record, key: str) -> Record:
    members = {name: each for name, each in record.members.items() if name != key}
    return Record(version=record.version, born=record.born, writes=record.writes, members=members)


class PromptWorld(World):
    """All members refresh once a period, whenever the store can be reached.

    Once that is back it stays until everybody has written, and it does not go while somebody has
    just failed, nor before a newcomer has written.
    """

    def __init__(self, limit: int, levels: int, random: Random, replicas: int | None) -> None:
        super().__init__(limit, levels, replicas)
        self._random = random
        self._behind: set[str] = set()

    def wait(self, duration_s: float) -> None:
        while duration_s > 0:
            piece_s = min(PIECE_S, duration_s)
            duration_s -= piece_s
            super().wait(piece_s)
            due_s = PERIOD_S * self._random.uniform(0.85, 1)
            due = [each for each in self.members if each.now_s - each.asked_s >= due_s]
            self._random.shuffle(due)
            for each in due:
                self.refresh(each)
            self.check()

    def turn(self) -> None:
        if self.is_away:
            self.is_away = False
            self._behind = {each.key for each in self.members}
        elif not self._behind and not any(
            each.has_failed or each.ledger.state is LeaseState.JOINING for each in self.members
        ):
            self.is_away = True

    def check(self) -> None:
        super().check()
        if not self.is_away:
            self._behind &= {each.key for each in self.members if each.has_failed}
        if all(each.is_trusted for each in self.members):
            assert self.in_force() <= self.limit, "more than the limit is in force"
