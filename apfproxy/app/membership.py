"""A cluster's membership of a fleet: keeps its seats in step with the record that all share.

It looks at the record once a period, and at once when something waits that more seats would admit,
when another member lacks seats, and when the limit or the levels change.  Nothing of it is in the
way of a request: a request only finds the seats that are in force.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import secrets
import socket
from typing import TYPE_CHECKING, Final, TypeVar

from apfproxy.admin.findings import listed
from apfproxy.app.membership_words import MembershipWords
from apfproxy.base.faults import Part
from apfproxy.base.tasks import Supervised
from apfproxy.fleet.ledger import LeaseState, Ledger
from apfproxy.fleet.opened import described, open_store
from apfproxy.fleet.pace import (
    GENEROUS_PERIODS,
    LEAST_PAUSE_S,
    MOST_CONFLICTS,
    MOST_STORE_TIME_S,
    SPREAD_S,
    STORE_TIME,
)
from apfproxy.fleet.record import (
    MAX_RECORD_BYTES,
    RecordError,
    RecordFullError,
    decode,
    encode,
    left,
    member_key,
    member_name,
)
from apfproxy.fleet.store import StoreError
from apfproxy.fleet.store_distance import StoreDistance
from apfproxy.fleet.view import fleet_view
from apfproxy.fleet.wants import Wants
from apfproxy.settings.store_address import Kind, store_address

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from apfproxy.base.events import ConfigurationEvents
    from apfproxy.fleet.ledger import Plan
    from apfproxy.fleet.store import LedgerStore, Stored
    from apfproxy.fleet.view import FleetView
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.settings import Settings
    from apfproxy.sources.servers_behind import ServersBehind

JITTER: Final = 0.1
"""The part of a period that is left to chance, so that members do not march in step."""
WORKERS_PERIOD_S: Final = 0.25
WORKERS_LEASE_S: Final = 2.0
"""Of the workers of one machine, whose parent drops the seats of one that dies at once."""
JOIN_WITHIN_S: Final = 0.5
"""For a newcomer to get a share from others before it serves with what it has."""
LEAVE_WITHIN_S: Final = 1.0
LEAVE_TRIES: Final = 5
STALE_PERIODS: Final = 10
"""Periods without a look after which something is wrong with the task itself."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class Membership:
    """One member's part of a fleet; `join` at the start, `leave` at the end.

    Args:
        controller: Whose seats they are.
        store: Where the record lives; closed by `leave`.
        described: The store in words, without secrets.
        fleet: The name of the fleet.
        member: The name of this member.
        limit: Seats of the server by the settings, as they are now.
        lease_s: See `Ledger`.
        period_s: Between two looks at the record.
        replicas: How many members are meant to be there; None if nobody says.
        events: What happened is noted there.
        on_change: Called when other seats are in force.
        cluster: Whose seats they are; "" where there are not several.
        is_named: Whether the log has the fleet's name: nobody has named the workers of a machine.
    """

    def __init__(  # noqa: PLR0913 - what a member is made of
        self,
        controller: Controller,
        store: LedgerStore,
        *,
        described: str,
        fleet: str,
        member: str,
        limit: Callable[[], int],
        lease_s: float,
        period_s: float,
        replicas: int | None,
        events: ConfigurationEvents,
        on_change: Callable[[], None],
        cluster: str = "",
        is_named: bool = True,
    ) -> None:
        self._controller = controller
        self._wants = Wants(controller)
        self._store = store
        self._described = described
        self._fleet = fleet
        self._limit = limit
        self._period_s = period_s
        self._on_change = on_change
        self._prefix = f"{cluster}: " if cluster else ""
        self._loop = asyncio.get_running_loop()
        self.ledger = Ledger(
            member_key(member, secrets.randbits(32)), limit(), lease_s=lease_s, replicas=replicas
        )
        self._least_lease_s = lease_s
        self._in_time_s = min(lease_s * STORE_TIME, MOST_STORE_TIME_S)
        self._wake = asyncio.Event()
        self._has_share = asyncio.Event()
        self._short_timer: asyncio.TimerHandle | None = None
        self._urgent_timer: asyncio.TimerHandle | None = None
        self._lease_timer: asyncio.TimerHandle | None = None
        self._pause_s = LEAST_PAUSE_S
        self._asked_s = -math.inf  # when it looked last since something waited
        self._looked_s = -math.inf
        self.due_s = -math.inf  # when it writes again, be there news or not
        self._calm_until_s = -math.inf  # and until when it leaves all else to others
        self._is_giving = False  # whether others wait for what it stopped using since it wrote
        self._distance = StoreDistance()
        self._written_s: float | None = None
        self._lost_s: float | None = None
        self._words = MembershipWords(
            self.ledger,
            described,
            events,
            prefix=self._prefix,
            of_fleet=f" of the fleet {fleet}" if is_named else "",
        )
        self._is_leaving = False
        self.refreshes = 0
        self.conflicts = 0
        self.failures = 0
        self._task: asyncio.Task[None] | None = None
        self._following = Supervised(
            Part.FLEET,
            "refreshing the seats of the fleet",
            self._follow,
            stale_after_s=STALE_PERIODS * period_s + MOST_CONFLICTS * self._in_time_s,
        )

    @property
    def key(self) -> str:
        """Of this member in the record."""
        return self.ledger.key

    async def join(self) -> None:
        """Have the first seats, or find that the store is away; go on by itself from then on.

        Where others hold all seats it waits a moment for those that they give up.
        """
        self._store.listen(self._on_urgent)
        await self._refresh(is_due=True)
        self._task = self._following.start()
        try:
            async with asyncio.timeout(JOIN_WITHIN_S):
                await self._has_share.wait()
        except TimeoutError:
            pass  # the others use them: requests wait for these, as they do there

    def stop(self) -> None:
        """Refresh no more; what is in force stays so until the lease ends."""
        self._is_leaving = True
        for timer in (self._short_timer, self._urgent_timer):
            if timer is not None:
                timer.cancel()
        if self._task is not None:
            self._task.cancel()

    async def leave(self) -> None:
        """Give all seats back to the others, and close the store; `stop` comes first."""
        if self._lease_timer is not None:
            self._lease_timer.cancel()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=LEAVE_WITHIN_S)
        try:
            async with asyncio.timeout(LEAVE_WITHIN_S):
                if self._written_s is not None:
                    await self._remove()
        except (StoreError, RecordError, TimeoutError) as error:
            log.warning(
                "%sthe seats of this member of the fleet are free for others only when its lease"
                " ends: %s",
                self._prefix,
                str(error) or "the store did not answer in time",
            )
        finally:
            await self._store.close()

    def look(self) -> None:
        """Look at once: the limit or the levels are others now."""
        self._put()
        self._wake.set()

    def on_short(self, level: str, seats: int) -> None:
        """A request waits, or is rejected by a level: look as soon as that may bring more seats."""
        self._wants.on_rejection(level, seats)
        if self._short_timer is None and not self._is_leaving:
            self._short_timer = self._loop.call_at(self._asked_s + self._pause_s, self._short_due)

    def problem(self) -> str | None:
        """What is wrong, for the health pages; None while all is well."""
        return self._following.problem() or self._words.trouble() or None

    def view(self) -> FleetView:
        """All of it, as pages show it."""
        now_s = self._loop.time()
        return fleet_view(
            self.ledger,
            self._wants.report(self._limit()),
            now_s,
            store=self._described,
            name=self._fleet,
            problem=self._words.reason(),
            age_s=None if self._written_s is None else now_s - self._written_s,
            lost_age_s=None if self._lost_s is None else now_s - self._lost_s,
            refreshes=self.refreshes,
            conflicts=self.conflicts,
            failures=self.failures,
        )

    # When to look

    async def _follow(self, beat: Callable[[], None]) -> None:
        """Look once a period, and whenever somebody asks for it."""
        while True:
            periods = GENEROUS_PERIODS if self.ledger.is_somebody_short() else 1
            until_s = min(self.due_s, self._loop.time() + periods * self._period_s)
            try:
                async with asyncio.timeout_at(until_s):
                    await self._wake.wait()
            except TimeoutError:
                pass  # it is due, or time to see what others may have
            calm_s = min(self._calm_until_s, self.due_s) - self._loop.time()
            if calm_s > 0:
                await asyncio.sleep(min(calm_s, self._period_s))
                beat()
                continue
            is_due = self._loop.time() >= self.due_s
            if is_due or self._wake.is_set() or self._has_too_much():
                self._wake.clear()
                await self._refresh(is_due=is_due)
            beat()

    def _has_too_much(self) -> bool:
        """Whether it has seats that it does not want any more, and another member does."""
        return (
            self.ledger.foreseen(self._wants.report(self._limit(), is_sample=True))
            < self.ledger.in_force()
        )

    def _next_due_s(self, period_s: float) -> float:
        # To march out of step needs no secrecy.
        early = random.uniform(0, JITTER)  # noqa: S311
        return self._loop.time() + period_s * (1 - early)

    def _members(self) -> int:
        """That are known, itself included."""
        return len(self.ledger.others) + 1

    def _short_due(self) -> None:
        """Look, if that may bring more; less and less often while it does not."""
        self._short_timer = None
        now_s = self._loop.time()
        if self.ledger.foreseen(self._wants.report(self._limit())) > self.ledger.in_force():
            is_again = now_s < self._asked_s + 2 * self._period_s
            self._pause_s = min(2 * self._pause_s, self._period_s) if is_again else LEAST_PAUSE_S
            self._asked_s = now_s
            self._wake.set()

    def _on_urgent(self) -> None:
        """Another member lacks seats, or has given some back."""
        if self._urgent_timer is None and not self._is_leaving:
            spread_s = random.uniform(0, SPREAD_S * len(self.ledger.others))  # noqa: S311 - as above
            due_s = max(self._loop.time(), self._looked_s + LEAST_PAUSE_S) + spread_s
            self._urgent_timer = self._loop.call_at(due_s, self._urgent_due)

    def _urgent_due(self) -> None:
        self._urgent_timer = None
        self._wake.set()

    # One refresh

    async def _refresh(self, *, is_due: bool) -> None:
        """Read, plan and write, or find that it cannot be done; what is in force follows."""
        self._looked_s = self._loop.time()
        if is_due:
            self.due_s = self._next_due_s(self._period_s)  # if this one fails
        before = self.ledger.in_force()
        try:
            await self._exchange(is_due=is_due)
            self._words.problem = ""
        except (StoreError, RecordError, RecordFullError, TimeoutError) as error:
            self.failures += 1
            self._words.problem = str(error) or f"no answer within {self._in_time_s:g} s"
            if isinstance(error, StoreError) and error.pause_s:
                self._calm_until_s = self.due_s = self._loop.time() + min(
                    error.pause_s, self.ledger.lease_s
                )
            is_full = isinstance(error, RecordFullError)
            self.ledger.failed(self._limit(), self._loop.time(), is_full=is_full)
        if self.ledger.in_force() > before:
            self._pause_s = LEAST_PAUSE_S
        self._put()

    async def _exchange(self, *, is_due: bool) -> None:
        """Have the store and the ledger agree."""
        stored = await self._answer(self._store.read())
        for _ in range(MOST_CONFLICTS):
            plan = self._plan(stored)
            if not is_due and not plan.is_news and not self._is_giving:
                return
            data = encode(plan.record)
            if len(data) > MAX_RECORD_BYTES:
                raise RecordFullError(f"it would have more than {MAX_RECORD_BYTES} bytes")
            swapped = await self._answer(
                self._store.swap(data, stored, is_urgent=plan.is_urgent or self._is_giving)
            )
            if swapped.is_done:
                self._written(plan)
                return
            self.conflicts += 1
            if not is_due:
                self._yield()
                return
            stored = swapped.stored
        raise StoreError(f"{MOST_CONFLICTS} times others wrote first")

    async def _answer(self, question: Awaitable[T]) -> T:
        """What the store says, if it does so in time."""
        asked_s = self._loop.time()
        async with asyncio.timeout(self._in_time_s):
            answer = await question
        self._distance.note(self._loop.time() - asked_s)
        return answer

    def _written(self, plan: Plan) -> None:
        """The plan is in the store; with news or without, the next write is due a period later."""
        self.ledger.written(plan)
        self._is_giving = False
        self._wants.forget_rejections()
        self.refreshes += 1
        self._written_s = self._loop.time()
        self.due_s = self._next_due_s(
            self._distance.period_s(self._members(), self._period_s, self.ledger.lease_s)
        )

    def _fit_lease(self) -> None:
        """Have a lease that is long enough for the store's distance, and not far longer."""
        members, held_s = self._members(), self.ledger.lease_s
        self.ledger.lease_s = self._distance.lease_s(held_s, self._least_lease_s, members)
        if self.ledger.lease_s > held_s:
            log.warning(
                "%sfleet.lease is short for %d members and a store that is %d ms away; it is %g s"
                " from now on",
                self._prefix,
                members,
                1000 * self._distance.round_trip_s,
                self.ledger.lease_s,
            )
        elif self.ledger.lease_s < held_s:
            log.info(
                "%sthe store is near again: fleet.lease is %g s from now on",
                self._prefix,
                self.ledger.lease_s,
            )

    def _yield(self) -> None:
        """Leave the store to those whose writes are due, and look again after that."""
        turn_s = self._distance.turn_s(self._members())
        self._calm_until_s = self._loop.time() + random.uniform(0, turn_s)  # noqa: S311 - as below
        self._wake.set()

    def _plan(self, stored: Stored) -> Plan:
        """What to write in place of what is stored; what it takes away is in force at once."""
        record = None if stored.data is None else decode(stored.data)
        lost, claim = self.ledger.lost, self.ledger.claim
        self._fit_lease()
        others = dict(self.ledger.others)
        plan = self.ledger.plan(
            record, self._wants.report(self._limit(), is_sample=True), self._loop.time()
        )
        # The next plan, if others are faster to write, knows of it no more.
        self._is_giving |= plan.is_urgent and self.ledger.claim < claim
        if self.ledger.lost > lost:
            self._lost_s = self._loop.time()
            log.warning(
                "%sthe lease of %s ended: it was killed, hangs or lost the store; the others share"
                " its seats",
                self._prefix,
                listed(
                    [
                        member_name(key)
                        for key, each in others.items()
                        if key not in self.ledger.others and not each.is_live(self._lost_s)
                    ]
                ),
            )
        self._put()
        return plan

    async def _remove(self) -> None:
        """Take this member's entry out of the record."""
        stored = await self._store.read()
        for _ in range(LEAVE_TRIES):
            record = None if stored.data is None else decode(stored.data)
            if record is None or self.key not in record.members:
                return
            swapped = await self._store.swap(encode(left(record, self.key)), stored, is_urgent=True)
            if swapped.is_done:
                return
            stored = swapped.stored
        raise StoreError(f"{LEAVE_TRIES} times others wrote first")

    def _put(self) -> None:
        """Have in force what the ledger says, and see to it that it is when a lease ends."""
        if self._lease_timer is not None:
            self._lease_timer.cancel()
            self._lease_timer = None
        self.ledger.advance(self._loop.time())
        next_s = self.ledger.next_change_s()
        if next_s < math.inf:  # first, so that no error can keep a lease from its end
            self._lease_timer = self._loop.call_at(next_s, self._lease_due)
        own = self._wants.report(self._limit())
        enough = min(self.ledger.target, self.ledger.safe_share()) / 2
        if self.ledger.state is not LeaseState.JOINING and self.ledger.in_force() >= enough:
            self._has_share.set()
        self._controller.allot(self.ledger.in_force(), self.ledger.allotment(own))
        self._on_change()
        if not self._is_leaving:
            self._words.say()

    def _lease_due(self) -> None:
        self._lease_timer = None
        self._put()

    def __repr__(self) -> str:
        return f"<Membership {self.key}: {self.ledger.state}, {self.ledger.in_force()} seats>"


def open_membership(
    settings: Settings,
    cluster: str,
    controller: Controller,
    limit: Callable[[], int],
    events: ConfigurationEvents,
    on_change: Callable[[], None],
    behind: ServersBehind,
) -> Membership | None:
    """The membership that settings ask for; None if they name no fleet.

    OperatorError if its store cannot be used.
    """
    fleet = settings.fleet
    if fleet.store is None:
        return None
    is_local = store_address(fleet.store).kind is Kind.PARENT
    return Membership(
        controller,
        open_store(fleet, f"{fleet.name}/{cluster}" if cluster else fleet.name, behind),
        described=described(fleet),
        fleet=fleet.name,
        member=fleet.member or socket.gethostname(),
        limit=limit,
        lease_s=WORKERS_LEASE_S if is_local else fleet.lease_s,
        period_s=WORKERS_PERIOD_S if is_local else fleet.refresh_interval_s,
        replicas=fleet.replicas,
        events=events,
        on_change=on_change,
        cluster=cluster,
        is_named=not is_local,
    )
