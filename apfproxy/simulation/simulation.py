"""A configuration with requests replayed through it.

Everything that decides is the proxy's own.  Only the time is virtual, and service times are given;
with a model of the server they are those of an idle one, and it slows down under load.  Costs of
LISTs are not learned, since there are no responses: a LIST takes one seat unless it is said how
many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.flowcontrol.classifier import MODEL
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.passage import MAX_LIST_SEATS, FlowControl, Passage
from apfproxy.flowcontrol.ticket import WorkEstimate
from apfproxy.request.completion import Completion
from apfproxy.simulation.measures import FIRST_BIN_NS, MOST_BINS, LevelView, Tally
from apfproxy.simulation.server_model import SimulatedServer
from apfproxy.simulation.server_view import ServerView
from apfproxy.simulation.simulated_digest import SimulatedDigest
from apfproxy.simulation.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.flowcontrol.flow_limits import Refusal
    from apfproxy.objects.types import FlowControlObject
    from apfproxy.simulation.records import Kind
    from apfproxy.simulation.server_model import ServerModel
    from apfproxy.simulation.server_view import Finder

NS_PER_S = 1_000_000_000

WATCH_SEATS_NS = 100_000_000
"""A WATCH gives its seats back after a silence of 0.1 s, the proxy's default; logs do not tell."""

EPOCH_S = 1_000_000_000
"""When virtual time begins, in seconds since 1970."""

MAX_TALLIES = 100_000
"""Beyond so many clients and flows, all others are one."""

OTHERS = "(others)"


class Lane:
    """The common part of requests of one kind; a `timeout_ns` of 0 is no limit."""

    __slots__ = ("digest", "tally", "timeout_ns")

    def __init__(self, digest: SimulatedDigest, tally: Tally) -> None:
        self.digest = digest
        self.timeout_ns = 0 if digest.is_long_running else digest.timeout_ns
        self.tally = tally


class SimulatedRequest(Passage):
    __slots__ = ("_simulation", "client", "lane", "service_ns")

    def __init__(
        self, simulation: Simulation, lane: Lane, service_ns: int, client: ClosedClient | None
    ) -> None:
        super().__init__(simulation.flow_control, lane.digest)
        self._simulation = simulation
        self.lane = lane
        self.service_ns = service_ns
        self.client = client
        if lane.digest.tokens:
            self.completion = Completion(0, lane.digest.header(MODEL))

    def on_seats(self) -> None:
        self._simulation.execute(self)

    def on_time_out(self) -> None:
        self._simulation.end_wait(self)

    def fail(self, error: Exception) -> None:
        raise error


class Simulation:
    """One run of requests through one configuration.

    A request that executes ends when it is served, or cut off when its time is over; a WATCH gives
    its seats back once its initial events are through, and counts as open until its end.  Watches
    cost a server model nothing.

    Args:
        objects: The configuration, built-in objects included.
        limit: Seats of the whole server, unless they are to be found.
        hash_seed: Decides which queues flows are dealt.
        is_prompt: As of `Controller`; the proxy's default.
        max_list_seats: Of one LIST, whatever a log or a mix says.
        warm_up_ns: What happens before is in the series, but does not count otherwise.
        server_model: Without one, service times are as given.
        finder: Finds the limit, if that is to be found.
        on_progress: Called now and then with the requests so far.

    Attributes:
        in_flight: Requests that wait or execute.
        sources: Where requests may still come from; when they have ended, and with them all
            requests, the run is over.
        problems: What of the configuration is not used, one line each.
        views: Level name to its view.
        server_view: None without a model and a limit that is found.
        tallies: Client, priority level, FlowSchema and distinguisher to outcomes of requests.
        bin_ns: The width of a bin of the series.
        counted_from_ns: When the warm-up was over; 0 without one, or if it never was.
    """

    def __init__(  # noqa: PLR0913  one for each flag
        self,
        objects: Iterable[FlowControlObject],
        limit: int,
        *,
        hash_seed: int = 0,
        is_prompt: bool = True,
        max_list_seats: int = MAX_LIST_SEATS,
        warm_up_ns: int = 0,
        server_model: ServerModel | None = None,
        finder: Finder | None = None,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.clock = clock = VirtualClock()
        self.in_flight = self.sources = self.arrivals = self.counted_from_ns = self._bins = 0
        limit = limit if finder is None else finder.limit
        self.controller = Controller(clock, limit, hash_seed, is_prompt=is_prompt)
        self._pauses_s = self.controller.adjustment_pauses_s()
        digest = self.controller.digest(objects)
        self.controller.commit(digest)
        self.problems = digest.problems
        self.views = {name: LevelView(level) for name, level in self.controller.levels.items()}
        self.tallies: dict[tuple[str, str, str, str], Tally] = {}
        self.bin_ns = FIRST_BIN_NS
        self.server_model = server_model
        self.server_view = (
            ServerView(self.controller, self.views, clock, finder)
            if server_model or finder
            else None
        )
        self._server: SimulatedServer[SimulatedRequest] | None = (
            SimulatedServer(clock, server_model, self._end_of_server) if server_model else None
        )
        self._on_progress = on_progress
        self._warm_up_ns = warm_up_ns
        self._lanes: dict[Kind, Lane] = {}
        self.flow_control = FlowControl(
            self.controller, clock, unix_s=lambda: EPOCH_S + clock.time_ns // NS_PER_S
        )
        self._costs = self.flow_control.costs
        self.flow_control.estimator.bound_lists(max_list_seats)
        self._on_end = self._end if self.server_view is None else self._end_in_view

    @property
    def limit(self) -> int:
        """Seats of the whole server now."""
        return self.controller.server_concurrency_limit

    def run(self) -> None:
        clock = self.clock
        if not self.sources:
            return
        self._arm_adjustment()
        if self._warm_up_ns:
            clock.arm_arrival(self._warm_up_ns, self._begin_to_count, None)
        clock.arm(self.bin_ns, self._sample, None)
        clock.run()
        for view in self.views.values():
            view.sync()

    def request(self, kind: Kind, service_ns: int, client: ClosedClient | None = None) -> None:
        self.arrivals += 1
        lane = self._lanes.get(kind) or self._new_lane(kind)
        request = SimulatedRequest(self, lane, service_ns, client)
        if request.acquire(request):
            if request.ticket is None:
                self._go_on(request, service_ns)
                lane.tally.without_seats += 1
            else:
                self.in_flight += 1
                self.execute(request)
        elif request.refusal is None:
            self.in_flight += 1
            lane.tally.queued += 1
        else:
            self._reject(request, request.refusal)

    def execute(self, request: SimulatedRequest) -> None:
        """Hold the seats until the request is served, or its time is over."""
        lane, service_ns, ticket = request.lane, request.service_ns, request.ticket
        assert ticket is not None
        tally = lane.tally
        dispatched_ns = ticket.dispatched_ns
        waited_ns = dispatched_ns - ticket.arrived_ns
        if waited_ns:
            tally.waits.add(waited_ns)
        end = self._on_end
        tally.executed += 1
        if lane.digest.is_watch:
            attributes = lane.digest.attributes
            self._costs.watch_started(attributes)
            self.clock.arm(dispatched_ns + service_ns, self._costs.watch_ended, attributes)
            if service_ns > WATCH_SEATS_NS:
                self._go_on(request, service_ns)
                service_ns, end = WATCH_SEATS_NS, self._release
        elif self._server is not None:
            self._server.begin(request, service_ns, ticket.arrived_ns + lane.timeout_ns)
            return  # how long it takes is known at its end
        elif 0 < lane.timeout_ns < waited_ns + service_ns:
            tally.cut_off += 1
            service_ns, end = max(0, lane.timeout_ns - waited_ns), self._end_cut_off
        estimate = ticket.estimate
        tally.service_ns += service_ns
        tally.seat_ns += estimate.max_seats * (service_ns + estimate.additional_latency_ns)
        self.clock.arm(dispatched_ns + service_ns, end, request)

    def end_wait(self, request: SimulatedRequest) -> None:
        self.in_flight -= 1
        assert request.refusal is not None
        self._reject(request, request.refusal)
        self._stop_if_over()

    def source_ended(self) -> None:
        self.sources -= 1
        self._stop_if_over()

    def _go_on(self, request: SimulatedRequest, service_ns: int) -> None:
        """Have a request go on without seats until its end, which does not keep a run going."""
        end_ns = self.clock.time_ns + service_ns
        self.clock.arm(end_ns, self._end_without_seats, request)
        if request.client is not None:
            request.client.on_open(end_ns)

    def _release(self, request: SimulatedRequest) -> None:
        self.in_flight -= 1
        request.release_seats(self.clock.time_ns)
        self._stop_if_over()

    def _end_without_seats(self, request: SimulatedRequest) -> None:
        request.release(self.clock.time_ns)

    def _end(self, request: SimulatedRequest) -> None:
        self.in_flight -= 1
        if request.completion is not None:
            request.completion.count(0, request.lane.digest.tokens)
        request.release(self.clock.time_ns)
        if request.client is not None:
            request.client.on_end(0)
        self._stop_if_over()

    def _end_in_view(self, request: SimulatedRequest) -> None:
        assert self.server_view is not None
        if not request.lane.digest.is_watch:
            self.server_view.add(request, request.service_ns)
        self._end(request)

    def _end_cut_off(self, request: SimulatedRequest) -> None:
        if self.server_view is not None:
            self.server_view.add_cut_off(request.lane.timeout_ns)
        self._end(request)

    def _end_of_server(self, request: SimulatedRequest, is_cut_off: bool) -> None:
        tally, ticket = request.lane.tally, request.ticket
        assert ticket is not None
        estimate, service_ns = ticket.estimate, self.clock.time_ns - ticket.dispatched_ns
        tally.latencies.add(self.clock.time_ns - ticket.arrived_ns)
        tally.cut_off += is_cut_off
        tally.service_ns += service_ns
        tally.seat_ns += estimate.max_seats * (service_ns + estimate.additional_latency_ns)
        (self._end_cut_off if is_cut_off else self._end_in_view)(request)

    def _reject(self, request: SimulatedRequest, refusal: Refusal) -> None:
        request.lane.tally.rejected[refusal.reason] += 1
        request.cancel(self.clock.time_ns)
        if request.client is not None:
            request.client.on_end(refusal.retry_after_s or 1)

    def _stop_if_over(self) -> None:
        if not self.in_flight and not self.sources:
            self.clock.stop()

    def _new_lane(self, kind: Kind) -> Lane:
        attributes = kind.attributes
        digest = SimulatedDigest(
            kind,
            self.flow_control.kinds.kinds[attributes.is_mutating],
            self.flow_control.estimator.fixed(attributes),
        )
        found = self.flow_control.classify(digest)
        level, schema = found.level, found.flow_schema.metadata.name
        if kind.seats:
            most = self.flow_control.estimator.max_list_seats
            digest.fixed_estimate = WorkEstimate(min(kind.seats, level.max_seats or most, most))
        key = (kind.client, level.name, schema, found.flow.distinguisher)
        if key not in self.tallies and len(self.tallies) >= MAX_TALLIES:
            key = (OTHERS, level.name, schema, OTHERS)
        lane = self._lanes[kind] = Lane(digest, self.tallies.setdefault(key, Tally()))
        return lane

    def _adjust(self, _: None) -> None:
        self.controller.adjust_limits()
        for view in self.views.values():
            view.note_limit()
        self._arm_adjustment()

    def _arm_adjustment(self) -> None:
        pause_ns = round(next(self._pauses_s) * NS_PER_S)
        self.clock.arm(self.clock.time_ns + pause_ns, self._adjust, None)

    def _begin_to_count(self, _: None) -> None:
        for view in self.views.values():
            view.clear()
        for tally in self.tallies.values():
            tally.clear()
        if self.server_view is not None:
            self.server_view.clear()
        self.counted_from_ns = self.clock.time_ns

    def _sample(self, _: None) -> None:
        views: list[LevelView | ServerView] = [*self.views.values()]
        if self.server_view is not None:
            views.append(self.server_view)  # last, since it sums the others
        for view in views:
            view.sample(self.bin_ns)
        self._bins += 1
        if self._bins == 2 * MOST_BINS:
            for view in views:
                view.halve()
            self._bins = MOST_BINS
            self.bin_ns *= 2
        self._on_progress(self.arrivals)
        self.clock.arm(self.clock.time_ns + self.bin_ns, self._sample, None)


class Sequence:
    """Requests in order of their given times: time, kind and service time of each."""

    __slots__ = ("_arm", "_fire_next", "_next", "_request", "_simulation")

    def __init__(self, simulation: Simulation, requests: Iterable[tuple[int, Kind, int]]) -> None:
        self._simulation = simulation
        self._request = simulation.request
        self._next = iter(requests).__next__
        self._arm = simulation.clock.arm_arrival
        self._fire_next = self._fire
        simulation.sources += 1
        self._advance()

    def _fire(self, item: tuple[int, Kind, int]) -> None:
        self._request(item[1], item[2])
        self._advance()

    def _advance(self) -> None:
        try:
            item = self._next()
        except StopIteration:
            self._simulation.source_ended()
            return
        self._arm(item[0], self._fire_next, item)


class ClosedClient:
    """A client with one request at a time and a pause; rejected, it stays away as told."""

    __slots__ = ("_draw_service_ns", "_kind", "_simulation", "_stop_ns", "_think_ns")

    def __init__(
        self,
        simulation: Simulation,
        kind: Kind,
        draw_service_ns: Callable[[], int],
        *,
        think_ns: int,
        start_ns: int,
        stop_ns: int,
    ) -> None:
        self._simulation = simulation
        self._kind = kind
        self._draw_service_ns = draw_service_ns
        self._think_ns = think_ns
        self._stop_ns = stop_ns
        simulation.sources += 1
        simulation.clock.arm_arrival(start_ns, self._ask, None)

    def _ask(self, _: None) -> None:
        self._simulation.request(self._kind, self._draw_service_ns(), self)

    def on_end(self, retry_after_s: int) -> None:
        """The request has ended now: served if `retry_after_s` is 0, else rejected."""
        pause_ns = retry_after_s * NS_PER_S or self._think_ns
        self._ask_again(self._simulation.clock.time_ns + pause_ns)

    def on_open(self, end_ns: int) -> None:
        """The request goes on without seats, and will end then; `on_end` is not called."""
        self._ask_again(end_ns + self._think_ns)

    def _ask_again(self, again_ns: int) -> None:
        if again_ns < self._stop_ns:
            self._simulation.clock.arm(again_ns, self._ask, None)
        else:
            self._simulation.source_ended()
