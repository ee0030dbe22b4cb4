"""A cluster's membership of a fleet: keeps its seats in step with the record that all share.

`pacer` says when it looks at the record, and `ledger` what it writes and uses; here is what waits
for the store and for time.  Nothing of it is in the way of a request: a request only finds the
seats that are in force.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import secrets
import socket
import time
from typing import TYPE_CHECKING, Final, TypeVar

from apfproxy.base.faults import Part
from apfproxy.base.tasks import Supervised
from apfproxy.fleet.demand import MemberDemand
from apfproxy.fleet.ledger import LeaseState, Ledger
from apfproxy.fleet.pacer import MOST_CONFLICTS, Pacer, Step
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
from apfproxy.fleet.store import StoreError, address_of
from apfproxy.fleet.view import FleetView, member_views
from apfproxy.settings.store_address import Kind, store_address

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from apfproxy.base.events import ConfigurationEvents
    from apfproxy.fleet.ledger import Plan
    from apfproxy.fleet.store import LedgerStore, Stored, StoreOpener
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.settings import FleetSettings, Settings

JOIN_WITHIN_S: Final = 0.5
"""For a newcomer to get a share from others before it serves with what it has."""
LEAVE_WITHIN_S: Final = 1.0
LEAVE_TRIES: Final = 5
STALE_PERIODS: Final = 10
"""Periods without a look after which something is wrong with the task itself."""
MOST_PROBLEMS: Final = 8
"""Problems logged until the record is up to date: what a server says may differ each time."""
MOST_NAMED: Final = 3

T = TypeVar("T")


def drawn(most_s: float) -> float:
    """Seconds by which members march out of step."""
    return random.uniform(0, most_s)  # noqa: S311 - as said


log = logging.getLogger(__name__)


class Membership:
    """One member's part of a fleet; `join` at the start, `leave` at the end.

    The seats are those of `controller`, of a `cluster` if there are several; `limit` gives those of
    the server by the settings.  The record is in `store`, which `leave` closes.  `on_change` is
    called when other seats are in force.
    """

    def __init__(
        self,
        controller: Controller,
        store: LedgerStore,
        settings: FleetSettings,
        limit: Callable[[], int],
        events: ConfigurationEvents,
        on_change: Callable[[], None],
        cluster: str = "",
    ) -> None:
        assert settings.store is not None
        is_local = store_address(settings.store).kind is Kind.PARENT
        self._period_s = settings.refresh_interval_s
        self._settings = settings
        self._controller = controller
        self._demand = MemberDemand(controller)
        self._store = store
        self._limit = limit
        self._on_change = on_change
        self._prefix = f"{cluster}: " if cluster else ""
        self._loop = asyncio.get_running_loop()
        name = settings.member or socket.gethostname()
        self.ledger = Ledger(
            member_key(name, secrets.randbits(32)),
            limit(),
            lease_s=settings.lease_s,
            replicas=settings.replicas,
        )
        self._pacer = Pacer(self._period_s, settings.lease_s, drawn)
        of_fleet = "" if is_local else f" of the fleet {settings.name}"  # workers have no name
        self._words = MembershipWords(
            self.ledger, str(address_of(settings)), events, self._prefix, of_fleet
        )
        self._has_event = asyncio.Event()
        self._has_share = asyncio.Event()
        self._lease_timer: asyncio.TimerHandle | None = None
        self._is_giving = False  # whether others wait for what it stopped using since it wrote
        self._written_s: float | None = None
        self._lost_s: float | None = None
        self._has_warned = False
        self._is_leaving = False
        self.refreshes = self.conflicts = self.failures = 0
        self._task: asyncio.Task[None] | None = None
        self._following = Supervised(
            Part.FLEET,
            "refreshing the seats of the fleet",
            self._follow,
            stale_after_s=STALE_PERIODS * self._period_s + MOST_CONFLICTS * self._pacer.in_time_s,
        )

    @property
    def key(self) -> str:
        return self.ledger.key

    async def join(self) -> None:
        """Have the first seats, or find that the store is away; go on by itself from then on.

        Where others hold all seats it waits a moment for those that they give up.
        """
        self._store.listen(self._on_urgent)
        await self._step()
        self._task = self._following.start()
        try:
            async with asyncio.timeout(JOIN_WITHIN_S):
                await self._has_share.wait()
        except TimeoutError:
            pass  # the others use them: requests wait for these, as they do there

    def stop(self) -> None:
        """Refresh no more; what is in force stays so until the lease ends."""
        self._is_leaving = True
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
        self._pacer.wake()
        self._has_event.set()

    def on_short(self, level: str, seats: int) -> None:
        """A request waits, or is rejected by a level: look as soon as that may bring more seats."""
        self._demand.on_rejection(level, seats)
        if self._pacer.short(self._loop.time()):
            self._has_event.set()

    def problem(self) -> str | None:
        return self._following.problem() or self._words.trouble() or None

    def view(self) -> FleetView:
        ledger, now_s = self.ledger, self._loop.time()
        age_s = None if self._written_s is None else now_s - self._written_s
        own = self._demand.report(self._limit(), self._demand.peak())
        members = member_views(ledger, own, now_s, age_s or 0.0)
        return FleetView(
            store=self._words.described,
            name=self._settings.name,
            state=ledger.state.value,
            problem=self._words.reason(),
            age_s=age_s,
            limit=ledger.limit,
            claims=sum(each.claim for each in members),
            claim=ledger.claim,
            in_force=ledger.in_force(),
            safe_share=ledger.safe_share(),
            refreshes=self.refreshes,
            conflicts=self.conflicts,
            failures=self.failures,
            lost=ledger.lost,
            lost_age_s=None if self._lost_s is None else now_s - self._lost_s,
            members=members,
        )

    # When to look

    async def _follow(self, beat: Callable[[], None]) -> None:
        """Do each step when it is due, and beat once a period."""
        while True:
            until_s = min(self._pacer.next_s(), self._loop.time() + self._period_s)
            try:
                async with asyncio.timeout_at(until_s):
                    await self._has_event.wait()
            except TimeoutError:
                pass  # it is time for something
            self._has_event.clear()
            await self._step()
            beat()

    async def _step(self) -> None:
        step = self._pacer.next_step(self._loop.time())
        if step is Step.REST:
            return
        if step is Step.GAIN:
            if self._foreseen(self._demand.peak()) <= self.ledger.in_force():
                return
            self._pacer.hope(self._loop.time())
        demand = self._demand.sample()
        if step is not Step.SPARE or self._foreseen(demand) < self.ledger.in_force():
            await self._refresh(demand)
        self._pacer.settle(self._loop.time(), is_somebody_short=self.ledger.is_somebody_short())

    def _foreseen(self, demand: Mapping[str, int]) -> int:
        return self.ledger.foreseen(self._demand.report(self._limit(), demand))

    def _on_urgent(self) -> None:
        if self._pacer.urgent(self._loop.time(), len(self.ledger.others)):
            self._has_event.set()

    # One look

    async def _refresh(self, demand: Mapping[str, int]) -> None:
        self._pacer.begin(self._loop.time())
        before = self.ledger.in_force()
        try:
            await self._exchange(demand)
            self._words.problem = ""
        except (StoreError, RecordError, RecordFullError, TimeoutError) as error:
            self.failures += 1
            self._words.problem = str(error) or f"no answer within {self._pacer.in_time_s:g} s"
            if isinstance(error, StoreError) and error.pause_s:
                self._pacer.paused(self._loop.time(), error.pause_s)
            is_full = isinstance(error, RecordFullError)
            self.ledger.failed(self._limit(), self._loop.time(), is_full=is_full)
        if self.ledger.in_force() > before:
            self._pacer.gained()
        self._put()

    async def _exchange(self, demand: Mapping[str, int]) -> None:
        stored = await self._response(self._store.read())
        for _ in range(MOST_CONFLICTS):
            plan = self._plan(stored, demand)
            if not self._pacer.is_due and not plan.is_news and not self._is_giving:
                return
            data = encode(plan.record)
            if len(data) > MAX_RECORD_BYTES:
                raise RecordFullError(f"it would have more than {MAX_RECORD_BYTES} bytes")
            swapped = await self._response(
                self._store.swap(data, stored, is_urgent=plan.is_urgent or self._is_giving)
            )
            if swapped.is_done:
                self._written(plan)
                return
            self.conflicts += 1
            if not self._pacer.is_due:
                self._pacer.lost(self._loop.time(), self._members())
                return
            stored = swapped.stored
        raise StoreError(f"{MOST_CONFLICTS} times others wrote first")

    async def _response(self, question: Awaitable[T]) -> T:
        asked_s = self._loop.time()
        async with asyncio.timeout(self._pacer.in_time_s):
            response = await question
        self._pacer.responded(self._loop.time() - asked_s)
        return response

    def _plan(self, stored: Stored, demand: Mapping[str, int]) -> Plan:
        record = None if stored.data is None else decode(stored.data)
        ledger, now_s = self.ledger, self._loop.time()
        lost, claim, others = ledger.lost, ledger.claim, dict(ledger.others)
        plan = ledger.plan(record, self._demand.report(self._limit(), demand), now_s)
        # The next plan, if others are faster to write, knows of it no more.
        self._is_giving |= plan.is_urgent and ledger.claim < claim
        if ledger.lost > lost:
            self._lost_s = now_s
            names = [
                member_name(key)
                for key, each in others.items()
                if key not in ledger.others and not each.is_live(now_s)
            ]
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            log.warning(
                "%sthe lease of %s ended: it was killed, hangs or lost the store; the others share"
                " its seats",
                self._prefix,
                ", ".join(names[:MOST_NAMED]) + more,
            )
        self._put()
        return plan

    def _written(self, plan: Plan) -> None:
        self.ledger.written(plan)
        self._is_giving = False
        self._demand.forget_rejections()
        self.refreshes += 1
        self._written_s = self._loop.time()
        members = self._members()
        self._pacer.wrote(self._written_s, members)
        least_s = self._pacer.least_lease_s(members)
        if least_s > self.ledger.lease_s and not self._has_warned:
            self._has_warned = True
            log.warning(
                "%sfleet.lease is short for %d members and a store that is %d ms away: some lose"
                " their seats now and then; set %d s or more",
                self._prefix,
                members,
                1000 * self._pacer.round_trip_s,
                math.ceil(least_s),
            )

    def _members(self) -> int:
        return len(self.ledger.others) + 1

    async def _remove(self) -> None:
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

    # What is in force

    def _put(self) -> None:
        """Have in force what the ledger says, now and when a lease ends."""
        ledger = self.ledger
        if self._lease_timer is not None:
            self._lease_timer.cancel()
            self._lease_timer = None
        ledger.advance(self._loop.time())
        next_s = ledger.next_change_s()
        if next_s < math.inf:  # first, so that no error can keep a lease from its end
            self._lease_timer = self._loop.call_at(next_s, self._lease_due)
        in_force = ledger.in_force()
        enough = min(ledger.target, ledger.safe_share()) / 2
        if ledger.state is not LeaseState.JOINING and in_force >= enough:
            self._has_share.set()
        own = self._demand.report(self._limit(), self._demand.peak())
        self._controller.allot(in_force, ledger.allotment(own))
        self._on_change()
        if not self._is_leaving:
            self._words.say()

    def _lease_due(self) -> None:
        self._lease_timer = None
        self._put()


class MembershipWords:
    """The state of one member in words; `problem` is why the last look failed, or ""."""

    def __init__(
        self,
        ledger: Ledger,
        described: str,
        events: ConfigurationEvents,
        prefix: str,
        of_fleet: str,
    ) -> None:
        self.described = described
        self._ledger = ledger
        self._events = events
        self._prefix = prefix
        self._of_fleet = of_fleet
        self.problem = ""
        self._logged = LeaseState.JOINING
        self._logged_problems: set[str] = set()  # since the record was up to date

    def say(self) -> None:
        """Log the state, and why the record is not kept, where that has changed."""
        state = self._ledger.state
        if state is self._logged:
            if self._is_new():
                self._logged_problems.add(self.problem)
                log.warning("%s%s", self._prefix, self.trouble())
            elif self._logged_problems and not self.problem and state is LeaseState.HELD:
                self._logged_problems.clear()
                log.info("%sthe fleet's record can be used again", self._prefix)
            return
        if state is LeaseState.EXPIRED and self._logged is LeaseState.PARTITIONED:
            return  # it has just read the record, and is about to write
        was, self._logged = self._logged, state
        if state is LeaseState.HELD:
            self._logged_problems.clear()
            shared = f"shares the {self._ledger.limit} seats{self._of_fleet}"
            now = f"it has {self._ledger.in_force()} now, and takes more as requests come"
            text = f"{self._prefix}this member {shared}: {now}"
            log.info("%s", text)
            if was is LeaseState.JOINING:
                return  # a start, and no change
        else:
            self._logged_problems.add(self.problem)
            text = f"{self._prefix}{self.trouble() or state.value}"
            log.warning("%s", text)
        self._events.record(time.time(), text, is_error=state is not LeaseState.HELD, is_own=True)

    def _is_new(self) -> bool:
        """Whether the problem has not been logged; where they alternate, each is once."""
        return (
            bool(self.problem)
            and self.problem not in self._logged_problems
            and len(self._logged_problems) < MOST_PROBLEMS
        )

    def trouble(self) -> str:
        """The record that cannot be used, and why; "" if it is up to date."""
        reason = self.reason()
        return f"the fleet's record in {self.described} cannot be used: {reason}" if reason else ""

    def reason(self) -> str:
        """Why the record is not up to date, and what that means; "" if it is."""
        if not self.problem and self._ledger.state is LeaseState.HELD:
            return ""
        seats = self._ledger.in_force()
        means = {
            LeaseState.JOINING: "this member has no seats yet",
            LeaseState.HELD: f"this member keeps its {seats} seats until its lease ends",
            LeaseState.EXPIRED: f"this member's lease is over, and it uses {seats} seats",
            LeaseState.PARTITIONED: f"this member uses its safe share, {seats} seats",
        }[self._ledger.state]
        return f"{self.problem or 'there is no answer yet'}; {means}"


def open_membership(
    settings: Settings,
    cluster: str,
    controller: Controller,
    limit: Callable[[], int],
    events: ConfigurationEvents,
    on_change: Callable[[], None],
    open_store: StoreOpener,
) -> Membership | None:
    """The membership that settings ask for, if any; OperatorError if its store cannot be used."""
    fleet = settings.fleet
    if fleet.store is None:
        return None
    store = open_store(fleet, f"{fleet.name}/{cluster}" if cluster else fleet.name)
    return Membership(controller, store, fleet, limit, events, on_change, cluster)
