"""A store in memory and the members that share it, one step at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.fleet.division import LevelRules, seats_of
from apfproxy.fleet.ledger import Ledger, Report
from apfproxy.fleet.record import decode, encode

if TYPE_CHECKING:
    from apfproxy.fleet.ledger import Plan
    from apfproxy.fleet.record import Record

LEASE_S = 4.0
ONE_LEVEL = {"a": LevelRules(1, 0, None, is_exempt=False)}


@dataclass
class SharedStore:
    """One record, swapped as a whole, by the number of writes; None while there is none."""

    data: bytes | None = None
    version: int = 0

    def read(self) -> tuple[Record | None, int]:
        """What is there, and its version."""
        return None if self.data is None else decode(self.data), self.version

    def swap(self, record: Record, version: int) -> bool:
        """Write, unless somebody has since."""
        if version != self.version:
            return False
        self.put(encode(record))
        return True

    def put(self, data: bytes | None) -> None:
        """Have it hold something else."""
        self.data = data
        self.version += 1

    def claims(self) -> int:
        """Of all members, in sum."""
        record, _ = self.read()
        return 0 if record is None else sum(each.claim for each in record.members.values())


class SharingMember:
    """A member that refreshes when it is told to.

    Attributes:
        demand: What its requests use and want, by level.
        used: What they use; less than `in_force` when they begin.
    """

    def __init__(
        self, name: str, store: SharedStore, limit: int, *, replicas: int | None = None
    ) -> None:
        self.ledger = Ledger(name, limit, lease_s=LEASE_S, replicas=replicas)
        self.store = store
        self.limit = limit
        self.levels = ONE_LEVEL
        self.demand: dict[str, int] = {}
        self.used = 0

    def report(self) -> Report:
        """What it knows of itself."""
        return Report(
            limit=self.limit,
            levels=self.levels,
            demand=self.demand,
            used=self.used,
        )

    def plan(self, now_s: float) -> tuple[Plan, int]:
        """Read; the plan, and the version that it is for."""
        record, version = self.store.read()
        return self.ledger.plan(record, self.report(), now_s), version

    def refresh(self, now_s: float) -> Plan:
        """Read and write without anybody between."""
        plan, version = self.plan(now_s)
        assert self.store.swap(plan.record, version)
        self.ledger.written(plan)
        return plan

    def fail(self, now_s: float) -> None:
        """The store is away."""
        self.ledger.failed(self.limit, now_s)

    def in_force(self, now_s: float) -> int:
        """Seats that it may use at a time."""
        self.ledger.advance(now_s)
        return self.ledger.in_force()

    def allotted(self) -> int:
        """The seats of its levels."""
        return seats_of(self.ledger.allotment(self.report()), self.levels)


def settled(*members: SharingMember, begin_s: float = 0.0) -> float:
    """Have members join and refresh until they know each other; the time then."""
    now_s = begin_s
    for _ in range(10):
        for each in members:
            each.refresh(now_s)
        now_s += 1.0
    return now_s
