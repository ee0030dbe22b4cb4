"""The flows with most seats, waits, rejections and tokens, in bounded memory.

Each measure has a sketch of its own.  When a sketch counts more keys than twice its capacity, all
counts are lowered by the one that comes next after the capacity's largest, and
those at zero are forgotten (Misra and Gries, "Finding repeated elements", 1982; lowering many at
once: Agarwal et al., "Mergeable summaries", 2012).  With `total` the sum of all weights:

1. A count is never above the true sum, and at most `error` below it.
2. `error` <= total / (capacity + 1), since each lowering takes at least capacity + 1 times its
   amount out of the total.
3. So every key above that is in the sketch, and `count + error` is what the Space-Saving sketch
   would say: at least the true sum, and at most total / (capacity + 1) above it.

Weights decay by half every five minutes.  Instead of lowering all counts all the time, new weights
grow by as much (Cormode et al., "Forward decay", 2009); the sketch is linear, so the bounds hold
for decayed sums.
"""

from __future__ import annotations

from heapq import nlargest
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from apfproxy.admin.state import Flow, FlowsState
from apfproxy.base.faults import Part, contained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.base.clock import Clock, Timer
    from apfproxy.flowcontrol.ticket import Flow as Asked
    from apfproxy.flowcontrol.ticket import Ticket

HALF_LIFE_S: Final = 300.0
FOLD_PERIOD_NS: Final = 1_000_000_000
"""Much shorter than the half-life, so the order within it does not matter."""
MAX_BATCH: Final = 1024
MAX_NAME: Final = 256
"""Characters of a distinguisher; those that begin alike for so long are one."""
MAX_EXPONENT: Final = 64.0
"""Half-lives after which the counts are scaled down: far from a float's maximum, 2**1023."""

MEASURES: Final = ("seat_seconds", "wait_seconds", "rejected", "tokens")
MOST: Final = 20


FlowKey = tuple[str, str, str]
"""Names of FlowSchema and priority level, and the distinguisher."""


class Sketch:
    """The largest of many sums: `capacity` of them if there are more than twice as many.

    Each of `counts` is at most `error` below its true sum; `total` is the sum of all weights.
    """

    __slots__ = ("_capacity", "counts", "error", "total")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.counts: dict[FlowKey, float] = {}
        self.error = 0.0
        self.total = 0.0

    def add(self, key: FlowKey, weight: float) -> None:
        """Add to a key's sum; `weight` > 0.  Call `settle` after some."""
        counts = self.counts
        counts[key] = counts.get(key, 0.0) + weight
        self.total += weight

    def settle(self) -> None:
        """Forget the smallest, if there are too many keys."""
        if len(self.counts) <= 2 * self._capacity:
            return
        amount = sorted(self.counts.values(), reverse=True)[self._capacity]
        self.counts = {key: count - amount for key, count in self.counts.items() if count > amount}
        self.error += amount

    def estimate(self, key: FlowKey) -> float:
        count = self.counts.get(key)
        return 0.0 if count is None else count + self.error

    def scale(self, factor: float) -> None:
        self.counts = {key: count * factor for key, count in self.counts.items()}
        self.error *= factor
        self.total *= factor

    def __repr__(self) -> str:
        return f"<Sketch of {len(self.counts)} keys, error {self.error:g} of {self.total:g}>"


class Used:
    __slots__ = ("rejections", "seats", "tokens", "wait_ns")

    def __init__(self) -> None:
        self.seats = 0
        self.wait_ns = 0
        self.rejections = 0
        self.tokens = 0

    def __repr__(self) -> str:
        return f"<Used {self.seats}, waited {self.wait_ns} ns, {self.rejections} rejected>"


class TopFlows:
    """Sums what flows use, and finds the largest; `capacity` flows by each measure.

    Sums are kept by flow until the next fold; the sketches see each flow once a second.
    """

    def __init__(self, capacity: int, clock: Clock) -> None:
        self.capacity = capacity
        self._clock = clock
        self._sketches = tuple(Sketch(capacity) for _ in MEASURES)
        self._batch: dict[Asked, Used] = {}
        self._timer: Timer | None = None
        self._zero_ns = clock.now_ns()
        """The time at which a weight of 1 counts as 1 in the sketches."""

    def on_seats_back(self, ticket: Ticket, now_ns: int) -> None:
        estimate = ticket.estimate
        dispatched_ns = ticket.dispatched_ns
        used = self._batch.get(ticket.flow) or self._begin(ticket.flow)
        used.seats += estimate.max_seats * (now_ns - dispatched_ns + estimate.additional_latency_ns)
        used.wait_ns += dispatched_ns - ticket.arrived_ns

    def on_no_seats(self, flow: Asked, waited_ns: int, *, is_rejected: bool) -> None:
        """A request ends without seats: rejected, or given up by its client."""
        used = self._batch.get(flow) or self._begin(flow)
        used.wait_ns += waited_ns
        used.rejections += is_rejected

    def on_tokens(self, flow: Asked, tokens: int) -> None:
        used = self._batch.get(flow) or self._begin(flow)
        used.tokens += tokens

    def _begin(self, flow: Asked) -> Used:
        if len(self._batch) >= MAX_BATCH:
            self._fold()
        used = self._batch[flow] = Used()
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.now_ns() + FOLD_PERIOD_NS, self._on_timer)
        return used

    def _on_timer(self) -> None:
        self._timer = None
        self._fold()

    def _fold(self) -> None:
        batch, self._batch = self._batch, {}
        with contained(Part.TOP_FLOWS):  # the current request is not the cause
            self._put(batch)

    def _put(self, batch: dict[Asked, Used]) -> None:
        growth = self._growth()
        seats, waits, rejections, tokens = self._sketches
        for flow, used in batch.items():
            counters = flow.counters
            key = counters.flow_schema, counters.priority_level, flow.distinguisher[:MAX_NAME]
            if used.seats:
                seats.add(key, used.seats * growth * 1e-9)
            if used.wait_ns:
                waits.add(key, used.wait_ns * growth * 1e-9)
            if used.rejections:
                rejections.add(key, used.rejections * growth)
            if used.tokens > 0:
                tokens.add(key, used.tokens * growth)
        for sketch in self._sketches:
            sketch.settle()

    def _growth(self) -> float:
        now_ns = self._clock.now_ns()
        exponent = (now_ns - self._zero_ns) / (HALF_LIFE_S * 1e9)
        if exponent > MAX_EXPONENT:
            for sketch in self._sketches:
                sketch.scale(2.0**-exponent)
            self._zero_ns = now_ns
            exponent = 0.0
        return float(2.0**exponent)

    def state(self, most: int = MOST) -> FlowsState:
        """The largest flows by each measure, and what is known of all.

        A number is 0 where a flow is not known by that measure, else at most the error too large.
        """
        self._fold()
        growth = self._growth()
        keys: dict[FlowKey, None] = {}
        for sketch in self._sketches:
            counts = sketch.counts
            keys.update(dict.fromkeys(nlargest(most, counts, key=counts.__getitem__)))
        return FlowsState(
            capacity=self.capacity,
            totals=[sketch.total / growth for sketch in self._sketches],
            errors=[sketch.error / growth for sketch in self._sketches],
            flows=[self._flow(key, growth) for key in keys],
        )

    def _flow(self, key: FlowKey, growth: float) -> Flow:
        flow_schema, priority_level, flow = key
        shown = flow.encode(errors="backslashreplace").decode()
        numbers = [sketch.estimate(key) / growth for sketch in self._sketches]
        return Flow(
            flow_schema=flow_schema,
            priority_level=priority_level,
            flow=shown,
            is_whole=shown == flow and len(flow) < MAX_NAME,
            **dict(zip(MEASURES, numbers, strict=True)),
        )

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __repr__(self) -> str:
        return f"<TopFlows, {', '.join(map(repr, self._sketches))}>"


def largest(found: FlowsState, most: int = MOST, by: Sequence[str] = MEASURES) -> list[Flow]:
    """The flows with most by any of some measures, in the order of the first one."""
    order: dict[int, Flow] = {}
    for name in by:
        flows = (each for each in found.flows if getattr(each, name))
        for flow in nlargest(most, flows, key=attrgetter(name)):
            order[id(flow)] = flow
    return list(order.values())
