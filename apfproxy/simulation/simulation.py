"""A configuration with requests replayed through it.

Everything that decides is the proxy's own: the controller, with its adjustment of limits every
10 s and where a request waits for idle seats, the queue sets, the work estimator, the times that
clients are told to stay away.  Only the time is virtual, and service times are given: a server that
gets slower under load is not modelled.

Costs of LISTs are not learned, since nobody answers them: a LIST takes one seat unless it is said
how many.  WATCHes are counted while they are open, and make writes wider as they do in the proxy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.flowcontrol.controller import ADJUSTMENT_PERIOD_S, Controller
from apfproxy.flowcontrol.flow_limits import count_rejection
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.flowcontrol.ticket import WorkEstimate
from apfproxy.flowcontrol.work_estimate import LIST_VERBS, MAX_LIST_SEATS, WorkEstimator
from apfproxy.simulation.replay import Lane, Replay
from apfproxy.simulation.seat_meter import SeatMeter
from apfproxy.simulation.series import FIRST_BIN_NS, MOST_BINS, LevelSeries
from apfproxy.simulation.tally import Tally
from apfproxy.simulation.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.api.flowcontrol.types import FlowControlObject
    from apfproxy.flowcontrol.controller import Classification
    from apfproxy.flowcontrol.flow_limits import FlowLimits
    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.request.attributes import RequestAttributes
    from apfproxy.simulation.kinds import Kind
    from apfproxy.simulation.replay import Client

NS_PER_S = 1_000_000_000
ADJUSTMENT_PERIOD_NS = round(ADJUSTMENT_PERIOD_S * NS_PER_S)

WATCH_SEATS_NS = 100_000_000
"""A WATCH gives its seats back after a silence of 0.1 s, the proxy's default; logs do not tell."""

EPOCH_S = 1_000_000_000
"""When virtual time begins, for what reckons in seconds since 1970."""

MAX_TALLIES = 100_000
"""Of more clients and flows, all others are one."""

OTHERS = "(others)"


class SimulatedLane(Lane):
    """Where requests of one kind go.

    Attributes:
        level: Their priority level.
        estimate: The work of each; None if it depends on what is known then.
        takes_seats: False if flow control lets them pass.
        limits: What annotations ask of the flow; None if there are none.
        is_long_running: Whether each may last as long as it likes.
    """

    __slots__ = (
        "_attributes",
        "_simulation",
        "estimate",
        "is_long_running",
        "level",
        "limits",
        "takes_seats",
    )

    def __init__(
        self,
        simulation: Simulation,
        kind: Kind,
        classification: Classification,
        estimate: WorkEstimate | None,
        tally: Tally,
    ) -> None:
        attributes = kind.attributes
        is_watch = attributes.is_resource_request and attributes.verb == "watch"
        super().__init__(
            classification.level.queue_set,
            classification.flow,
            wait_limit_ns=classification.level.longest_wait_ns(kind.timeout_ns),
            timeout_ns=0 if attributes.long_running else kind.timeout_ns,
            watch_seats_ns=WATCH_SEATS_NS if is_watch else -1,
            tally=tally,
        )
        self.estimate = estimate
        self.takes_seats = is_watch or not attributes.long_running
        self.limits = classification.limits
        self.is_long_running = attributes.long_running
        self._simulation = simulation
        self._attributes = attributes
        self.level = classification.level

    def on_watch(self, service_ns: int) -> None:
        """Count a WATCH as open until its end."""
        self._simulation.open_watch(self._attributes, service_ns)
        self.hold_place(service_ns)

    def hold_place(self, service_ns: int) -> None:
        """Count a long-running request against its flow's limit until its end."""
        if self.limits is not None and self.limits.long_running_limit is not None:
            clock = self._simulation.clock
            clock.arm(clock.time_ns + service_ns, self.limits.release, self.flow.distinguisher)

    def on_reject(self, now_ns: int) -> int:
        """Tell a client to stay away for as long as the proxy would."""
        if self.is_long_running:
            self.hold_place(0)
        tracker = self.level.retry_after
        tracker.record_drop(EPOCH_S + now_ns // NS_PER_S)
        return tracker.get()


class LevelView:
    """A priority level as the series and the report see it.

    Attributes:
        level: Itself.
        meter: What it used, up to the last sample.
        series: The same over time.
        max_limit: The highest current limit, as seen after each adjustment by period and each bin.
    """

    __slots__ = ("_before", "level", "max_limit", "meter", "series")

    def __init__(self, level: PriorityLevel) -> None:
        self.level = level
        queue_set = level.queue_set
        queue_set.meter = self.meter = SeatMeter(queue_set.meter, level.nominal_limit)
        self.series = LevelSeries()
        self.max_limit = level.current_limit
        self._before = (0, 0, 0, 0)

    def sync(self) -> None:
        """Bring the meter up to now."""
        self.level.queue_set.sync()

    def note_limit(self) -> None:
        """The level's limit may have been changed."""
        self.max_limit = max(self.max_limit, self.level.current_limit)

    def clear(self) -> None:
        """Begin anew to measure; the series go on."""
        self.sync()
        meter = self.meter
        seat_ns, waiting_ns, dispatched, rejected = self._before
        self._before = (
            seat_ns - meter.seat_ns,
            waiting_ns - meter.waiting_ns,
            dispatched,
            rejected,
        )
        meter.clear()
        self.max_limit = self.level.current_limit

    def sample(self, bin_ns: int) -> None:
        """End a bin of the series."""
        self.sync()
        self.note_limit()
        meter, queue_set = self.meter, self.level.queue_set
        now = (
            meter.seat_ns,
            meter.waiting_ns,
            queue_set.dispatched_total,
            queue_set.rejected_total,
        )
        seat_ns, waiting_ns, dispatched, rejected = (
            after - before for after, before in zip(now, self._before, strict=True)
        )
        self._before = now
        self.series.add(
            seat_ns / bin_ns, waiting_ns / bin_ns, self.level.current_limit, dispatched, rejected
        )

    def __repr__(self) -> str:
        return f"<LevelView of {self.level.name}, {len(self.series.seats)} bins>"


class Simulation(Replay):
    """One run of requests through one configuration.

    Args:
        objects: The configuration, built-in objects included.
        server_concurrency_limit: Seats of the whole proxy.
        hash_seed: Decides which queues flows are dealt.
        is_prompt: As of `Controller`; the proxy's default.
        warm_up_ns: What happens before is in the series, but does not count otherwise.  A level
            that has just been made has few seats until the first adjustment of limits.
        on_progress: Called now and then with the requests so far.

    Attributes:
        controller: With the configuration in force.
        problems: What of it is not used, one line each.
        views: Level name to its view.
        tallies: Client, priority level, FlowSchema and distinguisher to what became of requests.
        arrivals: Requests so far.
        bin_ns: The width of a bin of the series.
        counted_from_ns: When the warm-up was over; 0 without one, or if it never was.
    """

    def __init__(
        self,
        objects: Iterable[FlowControlObject],
        server_concurrency_limit: int,
        *,
        hash_seed: int = 0,
        is_prompt: bool = True,
        warm_up_ns: int = 0,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        clock = VirtualClock()
        super().__init__(clock)
        self.controller = Controller(
            clock, server_concurrency_limit, hash_seed, is_prompt=is_prompt
        )
        digest = self.controller.digest(objects)
        self.controller.commit(digest)
        self.problems = digest.problems
        self.views = {name: LevelView(level) for name, level in self.controller.levels.items()}
        self.tallies: dict[tuple[str, str, str, str], Tally] = {}
        self.arrivals = 0
        self.bin_ns = FIRST_BIN_NS
        self.counted_from_ns = 0
        self._on_progress = on_progress
        self._warm_up_ns = warm_up_ns
        self._lanes: dict[Kind, SimulatedLane] = {}
        self._costs = LearnedCosts(clock.now_ns)
        self._estimator = WorkEstimator(self._costs.object_stats, self._costs.watch_count)
        self._bins = 0

    def run(self) -> None:
        """Go on until all sources have ended and the last request has."""
        clock = self.clock
        if not self.sources:
            return
        clock.arm(ADJUSTMENT_PERIOD_NS, self._adjust, None)
        if self._warm_up_ns:
            clock.arm_arrival(self._warm_up_ns, self._begin_to_count, None)
        clock.arm(self.bin_ns, self._sample, None)
        clock.run()
        for view in self.views.values():
            view.sync()

    def request(self, kind: Kind, service_ns: int, client: Client | None = None) -> None:
        """A request arrives now."""
        self.arrivals += 1
        lane = self._lanes.get(kind)
        if lane is None:
            lane = self._new_lane(kind)
        estimate = lane.estimate
        if estimate is None:
            estimate = self._estimator.estimate(kind.attributes, lane.level.max_seats)
        if lane.limits is not None and self._is_refused(lane, lane.limits, client):
            return
        if lane.takes_seats:
            self.arrive(lane, estimate, service_ns, client)
            return
        lane.tally.without_seats += 1
        lane.hold_place(service_ns)
        if client is not None:
            client.on_open(self.clock.time_ns + service_ns)

    def open_watch(self, attributes: RequestAttributes, service_ns: int) -> None:
        """Count a WATCH as open for so long."""
        self._costs.watch_started(attributes)
        self.clock.arm(self.clock.time_ns + service_ns, self._costs.watch_ended, attributes)

    def _is_refused(self, lane: SimulatedLane, limits: FlowLimits, client: Client | None) -> bool:
        """Whether annotations keep a request from ever coming to its queue set."""
        flow = lane.flow
        refusal = limits.refusal(
            flow.distinguisher, self.clock.time_ns, is_long_running=lane.is_long_running
        )
        if refusal is None:
            return False
        count_rejection(lane.queue_set, flow.counters, refusal.reason)
        lane.tally.reject(refusal.reason)
        if client is not None:
            client.on_end(refusal.retry_after_s or 1)
        return True

    def _new_lane(self, kind: Kind) -> SimulatedLane:
        found = self.controller.classify(kind.user, kind.attributes)
        level = found.level
        if kind.seats:
            estimate: WorkEstimate | None = WorkEstimate(
                min(kind.seats, level.max_seats or MAX_LIST_SEATS)
            )
        elif kind.attributes.verb in LIST_VERBS:
            # Nothing is ever learned here, so it stays as it is.
            estimate = self._estimator.estimate(kind.attributes, level.max_seats)
        else:
            estimate = self._estimator.fixed(kind.attributes)
        flow = found.flow
        key = (kind.client, level.name, found.flow_schema.metadata.name, flow.distinguisher)
        if key not in self.tallies and len(self.tallies) >= MAX_TALLIES:
            key = (OTHERS, level.name, found.flow_schema.metadata.name, OTHERS)
        tally = self.tallies.setdefault(key, Tally())
        lane = self._lanes[kind] = SimulatedLane(self, kind, found, estimate, tally)
        return lane

    def _adjust(self, _: None) -> None:
        self.controller.adjust_limits()
        for view in self.views.values():
            view.note_limit()
        self.clock.arm(self.clock.time_ns + ADJUSTMENT_PERIOD_NS, self._adjust, None)

    def _begin_to_count(self, _: None) -> None:
        for view in self.views.values():
            view.clear()
        for tally in self.tallies.values():
            tally.clear()
        self.counted_from_ns = self.clock.time_ns

    def _sample(self, _: None) -> None:
        views = self.views.values()
        for view in views:
            view.sample(self.bin_ns)
        self._bins += 1
        if self._bins == 2 * MOST_BINS:
            for view in views:
                view.series.halve()
            self._bins = MOST_BINS
            self.bin_ns *= 2
        if self._on_progress is not None:
            self._on_progress(self.arrivals)
        self.clock.arm(self.clock.time_ns + self.bin_ns, self._sample, None)

    def __repr__(self) -> str:
        return f"<Simulation: {self.arrivals} requests so far, {self.clock.time_ns} ns>"
