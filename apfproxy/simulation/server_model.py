"""A server that slows down under load: requests in service share what it can do at once.

Each of N requests in service progresses at the same rate, which falls as N rises (processor
sharing).  Its service time, as given, is the one on an idle server.  The rate is one of

- 1 up to `capacity`, and (capacity / N) ** overload beyond.  With an `overload` of 1 the goodput of
  a full server is flat, with more it falls; the embedded API server's `--capacity` has 1.5.
- 1 / (1 + contention (N - 1) + coherency N (N - 1)): the universal scalability law (Gunther 1993).

Either is divided by `slowdown`.  Another rate may begin at any time, as in an incident.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from apfproxy.objects.field_errors import closest
from apfproxy.request.attributes import DeadlineError, parse_duration_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from apfproxy.simulation.virtual_clock import VirtualClock

Request = TypeVar("Request")

NS_PER_S: Final = 1_000_000_000
MOST_CONCURRENCY: Final = 10_000
BOUNDS: Final = {
    "capacity": (0.0, float(MOST_CONCURRENCY)),
    "overload": (1.0, 10.0),
    "contention": (0.0, 1.0),
    "coherency": (0.0, 1.0),
    "slowdown": (0.01, 1000.0),
}
FORMS: Final = "capacity=20, capacity=20,overload=1.5 or contention=0.02,coherency=0.0001"
EXAMPLE: Final = "an example is 'capacity=40; 30s: capacity=20'"
NEVER: Final = math.inf
LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class ServerRate:
    """How fast a server serves; without a `capacity` by the universal scalability law."""

    capacity: float | None = None
    overload: float = 1.0
    contention: float = 0.0
    coherency: float = 0.0
    slowdown: float = 1.0

    def progress(self, requests: int) -> float:
        """The part of its service time that each of so many requests gets done in that time."""
        if self.capacity is None:
            others = requests - 1
            slower = 1.0 + self.contention * others + self.coherency * requests * others
            return 1.0 / slower / self.slowdown
        if requests <= self.capacity:
            return 1.0 / self.slowdown
        return math.pow(self.capacity / requests, self.overload) / self.slowdown

    def knee(self, target: float) -> tuple[int, float]:
        """The least concurrency with this part of the highest goodput, and that goodput.

        Goodput is in seconds of service, as on an idle server, that are done in a second.
        """
        goodputs = [each * self.progress(each) for each in range(1, MOST_CONCURRENCY + 1)]
        highest = max(goodputs)
        aim = target * highest * (1.0 - 1e-9)  # 20 / 3 * 3 is not 20
        return 1 + next(index for index, each in enumerate(goodputs) if each >= aim), highest


@dataclass(frozen=True, slots=True)
class ServerModel:
    """Rates of a server, each from a time on, in nanoseconds; the first from 0."""

    text: str
    rates: tuple[tuple[int, ServerRate], ...]


def parse_server_model(text: str) -> ServerModel:
    """Read a model such as `capacity=40; 30s: capacity=20`; ValueError."""
    rates: list[tuple[int, ServerRate]] = []
    for part in text.split(";"):
        time, _, numbers = part.rpartition(":")
        try:
            at_ns = parse_duration_ns(time.strip()) if rates or time else 0
        except DeadlineError as error:
            raise ValueError(f"{error}; {EXAMPLE}") from None
        is_in_order = at_ns > rates[-1][0] if rates else at_ns == 0
        if not is_in_order:
            raise ValueError(f"expected times from 0s on, one after the other; {EXAMPLE}")
        rates.append((at_ns, _rate(numbers)))
    return ServerModel(text, tuple(rates))


def _rate(text: str) -> ServerRate:
    given = named_numbers(text, BOUNDS, FORMS)
    is_law = not given.keys().isdisjoint({"contention", "coherency"})
    if is_law == ("capacity" in given) or (is_law and "overload" in given):
        raise ValueError(f"expected either capacity, or contention and coherency: {FORMS}")
    return ServerRate(**given)


def named_numbers(
    text: str, bounds: Mapping[str, tuple[float, float]], forms: str
) -> dict[str, float]:
    """Read numbers such as `capacity=20,overload=1.5`, each within its bounds; ValueError.

    `forms` are examples of what is expected.
    """
    given: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals:
            raise ValueError(f"expected {forms}, not {text.strip()[:LONGEST_SHOWN]!r}")
        if name not in bounds:
            close = closest(name, bounds)
            hint = f"did you mean {close}?" if close else f"known are {', '.join(bounds)}"
            raise ValueError(f"unknown {name[:LONGEST_SHOWN]!r}; {hint}")
        if name in given:
            raise ValueError(f"{name} is given twice")
        least, most = bounds[name]
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not least <= number <= most:
            wanted = f"a number from {least:.10g} to {most:.10g}"
            raise ValueError(f"{name}: expected {wanted}, not {value[:LONGEST_SHOWN]!r}")
        given[name] = number
    return given


class SimulatedServer(Generic[Request]):
    """Serves requests on virtual time by a model.

    Args:
        on_end: Called with each request that is served, or, if True, whose time is over before.

    Attributes:
        rate: The one now.
    """

    def __init__(
        self, clock: VirtualClock, model: ServerModel, on_end: Callable[[Request, bool], None]
    ) -> None:
        self._clock = clock
        self._on_end = on_end
        (_, self.rate), *others = model.rates
        for at_ns, rate in others:
            clock.arm(at_ns, self._change, rate)
        self._numbers = itertools.count()
        self._requests: dict[int, Request] = {}
        self._ends: list[tuple[float, int]] = []  # the progress at which each is served
        self._deadlines: list[tuple[float, int]] = []
        self._progress_ns = 0.0  # of each request since the server was last idle
        self._at_ns = 0
        self._wake_ns: float = NEVER

    def begin(self, request: Request, service_ns: int, deadline_ns: int) -> None:
        """Serve a request from now on; after the deadline it is cut off."""
        self._go_on()
        if not self._requests:
            self._progress_ns = 0.0
            self._ends.clear()
            self._deadlines.clear()
        number = next(self._numbers)
        self._requests[number] = request
        heappush(self._ends, (self._progress_ns + service_ns, number))
        heappush(self._deadlines, (deadline_ns, number))
        self._arm()

    def _go_on(self) -> None:
        """Have the progress of all requests be that of now."""
        now_ns = self._clock.time_ns
        if self._requests:
            elapsed_ns = now_ns - self._at_ns
            self._progress_ns += elapsed_ns * self.rate.progress(len(self._requests))
        self._at_ns = now_ns

    def _arm(self) -> None:
        """Wake up when the next request may end.

        More requests only make that later: then it wakes up in vain, and looks again.
        """
        requests, ends, deadlines = self._requests, self._ends, self._deadlines
        if not requests:
            return
        while deadlines[0][1] not in requests:
            heappop(deadlines)
        while ends[0][1] not in requests:
            heappop(ends)
        wake_ns = deadlines[0][0]
        if rate := self.rate.progress(len(requests)):
            rest_ns = (ends[0][0] - self._progress_ns) / rate
            wake_ns = min(wake_ns, self._at_ns + math.ceil(max(rest_ns, 0.0)))
        if wake_ns < self._wake_ns:
            self._wake_ns = wake_ns
            self._clock.arm(int(wake_ns), self._wake, wake_ns)

    def _wake(self, wake_ns: float) -> None:
        if wake_ns != self._wake_ns:
            return  # an earlier one came instead
        self._wake_ns = NEVER
        self._go_on()
        ended = [(each, False) for each in self._due(self._ends, self._progress_ns)]
        ended += [(each, True) for each in self._due(self._deadlines, self._at_ns)]
        for request, is_cut_off in ended:
            self._on_end(request, is_cut_off)
        self._arm()

    def _due(self, heap: list[tuple[float, int]], most: float) -> Iterator[Request]:
        """Take the requests that end by now out of service."""
        while heap and heap[0][0] <= most:
            _, number = heappop(heap)
            if number in self._requests:
                yield self._requests.pop(number)

    def _change(self, rate: ServerRate) -> None:
        self._go_on()
        self.rate = rate
        self._arm()
