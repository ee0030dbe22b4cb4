"""A replica's membership of a fleet on the virtual clock, as `app.membership` has it on a real one.

When it looks, what it reads, plans and writes, and when its lease ends are as there; what chance
decides there is even here, and a store that is not reached is found out when time is up.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from apfproxy.fleet.ledger import Ledger
from apfproxy.fleet.pace import (
    GENEROUS_PERIODS,
    LEAST_PAUSE_S,
    MOST_CONFLICTS,
    MOST_STORE_TIME_S,
    SPREAD_S,
    STORE_TIME,
)
from apfproxy.fleet.record import left, member_key
from apfproxy.fleet.standing import Standing
from apfproxy.fleet.store_distance import StoreDistance
from apfproxy.fleet.wants import Wants

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.fleet.ledger import Plan
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.simulation.fleet_events import FleetPlan
    from apfproxy.simulation.fleet_store import Seen, SimulatedStore
    from apfproxy.simulation.virtual_clock import VirtualClock, VirtualTimer

NS_PER_S: Final = 1_000_000_000
LEAST_PAUSE_NS: Final = round(LEAST_PAUSE_S * NS_PER_S)
SPREAD_NS: Final = round(SPREAD_S * NS_PER_S)


class SimulatedMember:
    """One member.

    Args:
        replica: Its number.
        epoch: How often a replica of that number had started before.
        controller: Whose seats they are.
        store: Where the record lives.
        clock: The run's.
        limit: Seats of the server.
        plan: What the fleet is.
        on_change: Called when other seats may be in force.

    Attributes:
        ledger: Its side of the ledger.
        refreshes, conflicts, failures: How often it wrote, lost a swap, and did not get through.
        stood_ns: For how long it stood how.
    """

    def __init__(
        self,
        replica: int,
        epoch: int,
        controller: Controller,
        store: SimulatedStore,
        clock: VirtualClock,
        limit: int,
        plan: FleetPlan,
        on_change: Callable[[], None],
    ) -> None:
        self.ledger = Ledger(
            member_key(f"replica-{replica}", epoch),
            limit,
            lease_s=plan.lease_s,
            replicas=plan.replicas,
        )
        self.refreshes = 0
        self.conflicts = 0
        self.failures = 0
        self.stood_ns = dict.fromkeys(Standing, 0)
        self._replica = replica
        self._controller = controller
        self._store = store
        self._clock = clock
        self._limit = limit
        self._on_change = on_change
        self._period_ns = round(plan.refresh_s * NS_PER_S)
        self._least_lease_s = plan.lease_s
        self._in_time_ns = round(min(plan.lease_s * STORE_TIME, MOST_STORE_TIME_S) * NS_PER_S)
        self._wants = Wants(controller)
        self._pause_ns = LEAST_PAUSE_NS
        self._asked_ns = self._looked_ns = -NS_PER_S
        self._noted_ns = clock.time_ns
        self._due_ns = 0
        self._tries = 0
        self._is_due = False
        self._is_looking = False
        self._is_woken = False
        self._is_giving = False
        self._is_short_armed = self._is_urgent_armed = False
        self._is_over = False
        self._calm_until_ns = 0
        self._distance = StoreDistance()
        self._distance.note(2 * store.half_ns / NS_PER_S)
        self._due_timer: VirtualTimer | None = None
        self._calm_timer: VirtualTimer | None = None
        self._lease_timer: VirtualTimer | None = None

    def join(self) -> None:
        """Begin, without seats at first."""
        self._store.listen(self._replica, self._on_urgent)
        self._put(0)
        self._look()

    def end(self, *, is_leaving: bool) -> None:
        """Be gone; `is_leaving` gives the seats back first, where the store is reached."""
        if self._is_over:
            return
        self.note()
        self._is_over = True
        for timer in (self._due_timer, self._calm_timer, self._lease_timer):
            if timer is not None:
                timer.cancel()
        seen = self._store.read()
        if is_leaving and seen.record is not None and self._store.is_reached_by(self._replica):
            record = left(seen.record, self.ledger.key)
            self._store.swap(record, seen.version, self._replica, is_urgent=True)

    def on_short(self, level: str, seats: int) -> None:
        """A request waits, or is rejected by a level: look as soon as that may bring more seats."""
        self._wants.on_rejection(level, seats)
        if not self._is_short_armed and not self._is_over:
            self._is_short_armed = True
            due_ns = max(self._clock.time_ns, self._asked_ns + self._pause_ns)
            self._clock.arm(due_ns, self._short_due, None)

    # When to look

    def _be_due_in(self, period_ns: int) -> None:
        """Write again then, be there news or not."""
        if self._due_timer is not None:
            self._due_timer.cancel()
        self._due_ns = self._clock.time_ns + period_ns
        self._due_timer = self._clock.call_at(self._due_ns, self._look)

    def _calm_over(self) -> None:
        self._calm_timer = None
        self._look()

    def _generous(self, _: None) -> None:
        """Give up what others want, once it is not wanted here any more."""
        if self._is_over or self._is_looking:
            return
        if (
            self.ledger.foreseen(self._wants.report(self._limit, is_sample=True))
            < self.ledger.in_force()
        ):
            self._look()
        else:
            self._be_generous()

    def _be_generous(self) -> None:
        if self.ledger.is_somebody_short():
            due_ns = self._clock.time_ns + round(self._period_ns * GENEROUS_PERIODS)
            if due_ns < self._due_ns:
                self._clock.arm(due_ns, self._generous, None)

    def _short_due(self, _: None) -> None:
        self._is_short_armed = False
        if self._is_over:
            return
        now_ns = self._clock.time_ns
        if self.ledger.foreseen(self._wants.report(self._limit)) > self.ledger.in_force():
            is_again = now_ns < self._asked_ns + 2 * self._period_ns
            self._pause_ns = (
                min(2 * self._pause_ns, self._period_ns) if is_again else LEAST_PAUSE_NS
            )
            self._asked_ns = now_ns
            self._look()

    def _on_urgent(self, _: None) -> None:
        if not self._is_urgent_armed and not self._is_over:
            self._is_urgent_armed = True
            spread_ns = SPREAD_NS * self._replica // 2
            due_ns = max(self._clock.time_ns, self._looked_ns + LEAST_PAUSE_NS) + spread_ns
            self._clock.arm(due_ns, self._urgent_due, None)

    def _urgent_due(self, _: None) -> None:
        self._is_urgent_armed = False
        self._look()

    # One look

    def _look(self) -> None:
        """Read, plan and write, one after the other; not while it leaves the store to others."""
        now_ns = self._clock.time_ns
        if self._is_over:
            return
        if self._is_looking:
            self._is_woken = True
            return
        calm_ns = min(self._calm_until_ns, self._due_ns)
        if now_ns < calm_ns:
            if self._calm_timer is None:
                self._calm_timer = self._clock.call_at(calm_ns, self._calm_over)
            return
        self._is_due = now_ns >= self._due_ns
        if self._is_due:
            self._be_due_in(self._period_ns)  # if this one fails
        self._is_looking = True
        self._tries = 0
        self._looked_ns = now_ns
        self._clock.arm(now_ns + self._store.half_ns, self._read, None)

    def _read(self, _: None) -> None:
        if not self._store.is_reached_by(self._replica):
            self._fail_in_time()
            return
        seen = self._store.read()
        self._clock.arm(self._clock.time_ns + self._store.half_ns, self._plan, seen)

    def _plan(self, seen: Seen) -> None:
        if self._is_over:
            return
        self.note()
        before, claim = self.ledger.in_force(), self.ledger.claim
        self.ledger.lease_s = self._distance.lease_s(
            self.ledger.lease_s, self._least_lease_s, self._members()
        )
        plan = self.ledger.plan(
            seen.record, self._wants.report(self._limit, is_sample=True), self._now_s()
        )
        self._is_giving |= plan.is_urgent and self.ledger.claim < claim
        self._put(before)
        if not self._is_due and not plan.is_news and not self._is_giving:
            self._done()
            return
        due_ns = self._clock.time_ns + self._store.half_ns
        self._clock.arm(due_ns, self._swap, (seen.version, plan))

    def _swap(self, asked: tuple[int, Plan]) -> None:
        if self._is_over:
            return
        if not self._store.is_reached_by(self._replica):
            self._fail_in_time()
            return
        version, plan = asked
        is_urgent = plan.is_urgent or self._is_giving
        others = self._store.swap(plan.record, version, self._replica, is_urgent=is_urgent)
        due_ns = self._clock.time_ns + self._store.half_ns
        if others is None:
            self._clock.arm(due_ns, self._written, plan)
            return
        self.conflicts += 1
        self._tries += 1
        if not self._is_due:
            self._clock.arm(due_ns, self._yield, None)
        elif self._tries == MOST_CONFLICTS:
            self._clock.arm(due_ns, self._failed, None)
        else:
            self._clock.arm(due_ns, self._plan, others)

    def _written(self, plan: Plan) -> None:
        if self._is_over:
            return
        self.note()
        before = self.ledger.in_force()
        self.ledger.written(plan)
        self._is_giving = False
        self._wants.forget_rejections()
        self.refreshes += 1
        period_s = self._distance.period_s(
            self._members(), self._period_ns / NS_PER_S, self.ledger.lease_s
        )
        self._be_due_in(round(period_s * NS_PER_S))
        self._put(before)
        self._done()

    def _members(self) -> int:
        return len(self.ledger.others) + 1

    def _yield(self, _: None) -> None:
        """Leave the store to those whose writes are due; each looks again after another time."""
        if self._is_over:
            return
        members = self._members()
        turn_ns = round(self._distance.turn_s(members) * NS_PER_S)
        self._calm_until_ns = self._clock.time_ns + turn_ns * (self._replica % members) // members
        self._is_woken = True
        self._done()

    def _fail_in_time(self) -> None:
        """The answer to what was asked, half the way ago, does not come."""
        rest_ns = max(0, self._in_time_ns - self._store.half_ns)
        self._clock.arm(self._clock.time_ns + rest_ns, self._failed, None)

    def _failed(self, _: None) -> None:
        if self._is_over:
            return
        self.note()
        before = self.ledger.in_force()
        self.failures += 1
        self.ledger.failed(self._limit, self._now_s())
        self._put(before)
        self._done()

    def _done(self) -> None:
        self._is_looking = self._is_due = False
        if self._is_woken:
            self._is_woken = False
            self._look()
        else:
            self._be_generous()

    # What follows

    def _put(self, before: int) -> None:
        """Have in force what the ledger says, and see to it that it is when a lease ends."""
        if self._lease_timer is not None:
            self._lease_timer.cancel()
            self._lease_timer = None
        self.ledger.advance(self._now_s())
        next_s = self.ledger.next_change_s()
        if next_s < math.inf:
            due_ns = math.ceil(next_s * NS_PER_S)
            self._lease_timer = self._clock.call_at(due_ns, self._lease_due)
        if self.ledger.in_force() > before:
            self._pause_ns = LEAST_PAUSE_NS
        report = self._wants.report(self._limit)
        self._controller.allot(self.ledger.in_force(), self.ledger.allotment(report))
        self._on_change()

    def _lease_due(self) -> None:
        self.note()
        self._put(self.ledger.in_force())

    def note(self) -> None:
        """Count the time since the last note to how it stands."""
        now_ns = self._clock.time_ns
        if self._is_over:
            return
        self.stood_ns[self.ledger.standing] += now_ns - self._noted_ns
        self._noted_ns = now_ns

    def _now_s(self) -> float:
        return self._clock.time_ns / NS_PER_S

    def __repr__(self) -> str:
        return f"<SimulatedMember {self.ledger.key}: {self.ledger.standing}>"
