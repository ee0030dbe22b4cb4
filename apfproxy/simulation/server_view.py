"""The server of a simulation as the report sees it, and its limit while that is to be found.

The limit is found as in the proxy: by the same looks at the same measures, ten a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from apfproxy.flowcontrol.limit_finder import Load
from apfproxy.flowcontrol.load_meter import TELLING_NS, LoadMeter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.passage import Passage
    from apfproxy.simulation.measures import LevelView
    from apfproxy.simulation.virtual_clock import VirtualClock

NS_PER_S: Final = 1_000_000_000
LOOK_NS: Final = 100_000_000


class Finder(Protocol):
    """Sets `limit`: a `LimitFinder`, or what it is compared with."""

    limit: int

    def look(self, now_s: float, load: Load) -> None: ...


class ServerView:
    """Goodput and limit over time.

    Attributes:
        finder: None while the limit is fixed.
        responses: Requests that were served in full.
        work_ns: Their service times, as given.
        series: By name a value for each bin: responses a second, seats of limited levels in use,
            and the server limit at its end.
    """

    def __init__(
        self,
        controller: Controller,
        views: Mapping[str, LevelView],
        clock: VirtualClock,
        finder: Finder | None,
    ) -> None:
        self.finder = finder
        self.responses = self.work_ns = 0
        self.series: dict[str, list[float]] = {"goodput": [], "seats": [], "limit": []}
        self._controller = controller
        self._limited = [view for view in views.values() if not view.level.is_exempt]
        self._clock = clock
        self._meter = LoadMeter()
        self._distress = self._in_bin = 0
        if finder is not None:
            self._arm(finder)

    def clear(self) -> None:
        """Count from now on; the series go on."""
        self.responses = self.work_ns = 0

    def add(self, passage: Passage, service_ns: int) -> None:
        """Count a request that was served in full; its service time is the one given."""
        self.responses += 1
        self.work_ns += service_ns
        self._in_bin += 1
        assert passage.ticket is not None
        if seats := passage.limited_seats:
            duration_ns = self._clock.time_ns - passage.ticket.dispatched_ns
            self._meter.add(passage.digest.attributes, 0, seats, duration_ns)

    def add_cut_off(self, timeout_ns: int) -> None:
        self._distress += timeout_ns >= TELLING_NS

    def sample(self, bin_ns: int) -> None:
        """Add a bin to the series, after the levels."""
        self.series["goodput"].append(self._in_bin * NS_PER_S / bin_ns)
        self.series["seats"].append(sum(each.series["seats"][-1] for each in self._limited))
        self.series["limit"].append(self._controller.server_concurrency_limit)
        self._in_bin = 0

    def halve(self) -> None:
        for values in self.series.values():
            values[:] = [(a + b) / 2 for a, b in zip(values[::2], values[1::2], strict=True)]

    def _arm(self, finder: Finder) -> None:
        self._clock.arm(self._clock.time_ns + LOOK_NS, self._look, finder)

    def _look(self, finder: Finder) -> None:
        seats, is_waiting = self._controller.limited_use()
        responses, distress = self._meter.take(), self._distress
        load = Load(LOOK_NS / NS_PER_S, seats, is_waiting, responses, distress)
        self._distress, limit = 0, finder.limit
        finder.look(self._clock.time_ns / NS_PER_S, load)
        if finder.limit != limit:
            self._controller.follow(finder.limit)
        self._arm(finder)
