"""A load on a server at one concurrency after another, until its best one is known.

1, 2, 4 requests at a time and so on, until the throughput grows no more, falls, or requests fail;
then between, around the knee, which is that of `serverConcurrencyLimit: auto`.  The step below
the knee is looked at twice, and its better look counts: what else the machines do only takes
throughput away.  Each unit of concurrency sends its next request when it has the response to its
last one, over a connection that it keeps.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import yarl

from apfproxy.authn.upstream_api import EXCHANGE_ERRORS, explained, new_session
from apfproxy.base.tasks import spawn
from apfproxy.flowcontrol.limit_finder import A_SEAT, NEAR
from apfproxy.flowcontrol.load_curve import Point, knee_index, smoothed

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from apfproxy.base.address import Address

TIMEOUT_S: Final = 10.0
LOOK_S: Final = 0.1
LEAST_S: Final = 0.5
LEAST_LATENCIES: Final = 3
"""A step lasts for so many times as long as a response takes, since these come in waves."""
LEAST_RESPONSES: Final = 8
ENOUGH_RESPONSES: Final = 1600
"""Then the standard error of the throughput is 2.5 %."""
STEPS: Final = 18
"""About as many as there are; one takes this part of the time at most."""
FALLEN: Final = 0.8
"""Throughput that falls to this part of the highest one ends the doubling at once."""
STEEP: Final = 0.7
"""Throughput that grows by this part of what the concurrency grew by has not bent yet."""
MOST_BEYOND: Final = 3.0
"""The concurrency is doubled up to so many times the knee."""
BUSY: Final = 0.8
"""The part of the time in which this program worked, from which on it may be what is slow."""
FAILED_PART: Final = 0.05
"""The part of requests that fail from which on the concurrency is too high."""
DOWN_PART: Final = 0.5
LEAST_FAILURES: Final = 5
"""So many, if they are too large a part, end a step before its time."""
RECOVERY_S: Final = 1.0
SCHEDULED: Final = Path("/proc/thread-self/schedstat")
OK_STATUSES: Final = range(200, 300)


@dataclass(slots=True)
class Step:
    """The responses at one concurrency.

    Attributes:
        latencies_s: Of the responses of success.
        failures: Other statuses, and errors by their texts.
        busy: The part of the time in which this program worked, or waited for a processor.
    """

    concurrency: int
    duration_s: float = 0.0
    latencies_s: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    busy: float = 0.0

    @property
    def throughput(self) -> float:
        """Responses a second."""
        return len(self.latencies_s) / self.duration_s

    @property
    def requests(self) -> int:
        return len(self.latencies_s) + self.failures.total()

    @property
    def has_failed(self) -> bool:
        return self.failures.total() > FAILED_PART * self.requests

    @property
    def is_down(self) -> bool:
        return self.failures.total() > DOWN_PART * self.requests

    def percentile_s(self, percent: float) -> float | None:
        if not self.latencies_s:
            return None
        rank = math.ceil(len(self.latencies_s) * percent / 100)
        return sorted(self.latencies_s)[rank - 1]


class Search:
    """Decides at which concurrency to look next.

    Attributes:
        steps: By concurrency.
        failed: The step of the least concurrency at which too many requests failed.
        broken: The step at which most failed, though they did not with as many at a time before:
            then it is not the concurrency that is too high.
    """

    def __init__(self, most: int, target: float) -> None:
        self.most = most
        self.target = target
        self.steps: dict[int, Step] = {}
        self.failed: Step | None = None
        self.broken: Step | None = None
        self._is_up = True  # responses came since most requests of a step failed
        self._is_doubling = True
        self._confirmed: set[int] = set()

    def add(self, step: Step) -> None:
        if step.is_down and self.good and step.concurrency <= self.good[-1].concurrency:
            self.broken = step
            return
        self._is_up = not step.is_down
        before = self.steps.get(step.concurrency)
        if before is not None:
            self._confirmed.add(step.concurrency)
            if not step.has_failed and before.throughput >= step.throughput:
                return
        self.steps[step.concurrency] = step
        if step.has_failed:
            if self.failed is None or step.concurrency < self.failed.concurrency:
                self.failed = step
            self._is_doubling = False
        elif self._is_doubling:
            self._is_doubling = (
                step.concurrency < min(self.most, MOST_BEYOND * self.knee.concurrency)
                and step.throughput > FALLEN * self.best.throughput
                and step.busy < BUSY
            )

    @property
    def good(self) -> list[Step]:
        """The steps below all that failed, by concurrency."""
        least = math.inf if self.failed is None else self.failed.concurrency
        return [each for _, each in sorted(self.steps.items()) if each.concurrency < least]

    @property
    def best(self) -> Step:
        return max(self.good, key=lambda each: each.throughput)

    @property
    def knee(self) -> Step:
        """The least concurrency that has about the most throughput."""
        return self.good[knee_index(self._points(), self.target)]

    @property
    def is_busy(self) -> bool:
        """Whether the most throughput may be that of this program, not of the server."""
        return self.best.busy >= BUSY

    @property
    def is_open(self) -> bool:
        """Whether a greater concurrency than all that were tried may have more throughput."""
        return self.failed is None and self.knee is self.good[-1]

    def next(self) -> int | None:
        """The concurrency to look at next; None where the knee is known, or none can be."""
        if not self.steps:
            return 1
        good = self.good
        if self.broken is not None or not good:
            return None
        found = self._next(good)
        return self.knee.concurrency if found is None and not self._is_up else found

    def _next(self, good: list[Step]) -> int | None:
        if self._is_doubling:
            return min(2 * good[-1].concurrency, self.most)
        points = self._points()
        index = knee_index(points, self.target)
        if not index:
            return None  # it is 1
        below, knee, *above = (each.concurrency for each in good[index - 1 : index + 2])
        if not above and self.failed is not None:
            above = [self.failed.concurrency]
        steep = points[index - 1].goodput * (1 + STEEP * (knee / below - 1))
        is_bent = points[index].goodput < steep
        for lower, upper in [(below, knee)] if is_bent else [(knee, each) for each in above]:
            if upper / lower > NEAR and upper - lower > A_SEAT:
                return round(math.sqrt(lower * upper))
        return None if below in self._confirmed else below

    def _points(self) -> list[Point]:
        return smoothed(
            Point(each.concurrency, each.throughput, 1 / math.sqrt(max(len(each.latencies_s), 1)))
            for each in self.good
        )


def busy_s() -> float:
    """The seconds that this thread worked, or waited for a processor, where the system tells."""
    try:
        ran_ns, waited_ns, _ = SCHEDULED.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return time.thread_time()
    return (int(ran_ns) + int(waited_ns)) / 1e9


class SteppedLoad:
    """Sends requests, the paths in turn, with as many at a time as `search` says."""

    def __init__(
        self,
        server: Address,
        paths: tuple[str, ...],
        search: Search,
        *,
        longest_s: float,
        headers: Mapping[str, str],
        tls: ssl.SSLContext | None,
    ) -> None:
        self.server = server
        self.paths = paths
        self.search = search
        self._url = f"{'https' if server.is_tls else 'http'}://{server.authority}"
        self._turns = itertools.cycle(paths)
        self._longest_s = longest_s / STEPS
        self._session = new_session(ssl=tls or True, headers=headers, socket_path=server.path)
        self._concurrency = 0
        self._latency_s = 0.05
        self._senders: dict[int, asyncio.Task[Any]] = {}
        self._step = Step(0)

    async def request(self, path: str) -> tuple[int, str]:
        """The status of a response that is there in full, and its Location.

        Raises:
            TimeoutError: It took too long; other errors are EXCHANGE_ERRORS.
        """
        async with self._session.get(
            yarl.URL(self._url + path, encoded=True),
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
        ) as response:
            async for _ in response.content.iter_any():
                pass
            return response.status, response.headers.get("Location", "")

    async def run(self, show: Callable[[str], None]) -> None:
        """Go on until the knee is known, or until cancelled."""
        while concurrency := self.search.next():
            show(f"{concurrency} at a time")
            await self._look_at(concurrency)

    async def close(self) -> None:
        for each in self._senders.values():
            each.cancel()
        if self._senders:
            await asyncio.wait(self._senders.values(), timeout=RECOVERY_S)
        await self._session.close()

    async def _look_at(self, concurrency: int) -> None:
        self._concurrency = concurrency
        for number in range(concurrency):
            if number not in self._senders or self._senders[number].done():
                self._senders[number] = spawn(self._send(number), name="requests to find a limit")
        step = self._step = Step(concurrency)
        await asyncio.sleep(min(2 * self._latency_s, self._longest_s / 2) + LOOK_S)  # it settles
        if not step.has_failed:
            step = self._step = Step(concurrency)
        began_s, worked_s = time.perf_counter(), busy_s()
        while not self._is_enough(step):
            await asyncio.sleep(LOOK_S)
            step.duration_s = time.perf_counter() - began_s
        step.busy = (busy_s() - worked_s) / step.duration_s
        self.search.add(step)
        if step.has_failed:
            self._concurrency = 0
            await asyncio.sleep(RECOVERY_S)

    def _is_enough(self, step: Step) -> bool:
        if step.failures.total() >= LEAST_FAILURES and step.has_failed:
            return step.duration_s > 0
        return (
            step.requests >= LEAST_RESPONSES
            and step.duration_s >= max(LEAST_S, LEAST_LATENCIES * self._latency_s)
            and (step.requests >= ENOUGH_RESPONSES or step.duration_s > self._longest_s)
        )

    async def _send(self, number: int) -> None:
        while number < self._concurrency:
            began_s = time.perf_counter()
            try:
                status, _ = await self.request(next(self._turns))
                failure = "" if status in OK_STATUSES else str(status)
            except TimeoutError:
                failure = "timed out"
            except EXCHANGE_ERRORS as error:
                failure, _ = explained(error, "the server")
            if failure:
                self._step.failures[failure] += 1
                await asyncio.sleep(min(max(self._latency_s, 0.01), RECOVERY_S))
                continue
            latency_s = time.perf_counter() - began_s
            self._latency_s += 0.1 * (latency_s - self._latency_s)
            self._step.latencies_s.append(latency_s)
