"""A server that slows down under load, on virtual time, and clients that wait for seats in it."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from typing import TYPE_CHECKING, Final

from apfproxy.flowcontrol.limit_finder import FinderSettings, LimitFinder, Load

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.flowcontrol.load_meter import LoadClass

    Capacity = Callable[[int], float]
    """Seconds of work that a server does in a second, by the requests that it has at once."""

LOOK_S: Final = 0.1
RETRY_S: Final = 0.2
GETS: Final[LoadClass] = ("get", "pods", 5)
LISTS: Final[LoadClass] = ("list", "pods", 9)


def flat(knee: float) -> Capacity:
    return lambda requests: min(requests, knee)


def falling(knee: float, power: float = 1.5) -> Capacity:
    """Beyond the knee it does the less, the more is asked of it."""
    return lambda requests: requests if requests <= knee else requests * (knee / requests) ** power


class SlowServer:
    """Shares what it can do among its requests.

    Attributes:
        refuses_above: So many requests at once it takes; further ones get 503 at once.
        refused_part: The part of requests that get 503 whatever the load is.
    """

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self.is_standing = False
        self.refuses_above = math.inf
        self.refused_part = 0.0
        self._requests: list[tuple[float, int, LoadClass, float, float]] = []
        self._done = 0.0  # work of each request that is in it for ever
        self._now_s = 0.0
        self._count = 0

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, now_s: float, kind: LoadClass, work_s: float) -> None:
        self._go_on(now_s)
        self._count += 1
        heapq.heappush(self._requests, (self._done + work_s, self._count, kind, now_s, work_s))

    def next_s(self) -> float:
        if not self._requests or self.is_standing:
            return math.inf
        rest = max(self._requests[0][0] - self._done, 0.0)
        return self._now_s + rest * len(self) / self.capacity(len(self))

    def pop(self, now_s: float) -> tuple[LoadClass, float, float]:
        """The request that is through: its class, when it came, and its work."""
        self._go_on(now_s)
        _, _, kind, came_s, work_s = heapq.heappop(self._requests)
        return kind, came_s, work_s

    def stand_still(self, now_s: float) -> None:
        self._go_on(now_s)
        self.is_standing = True

    def go_on(self, now_s: float) -> None:
        self._go_on(now_s)
        self.is_standing = False

    def _go_on(self, now_s: float) -> None:
        if self._requests and not self.is_standing:
            self._done += (now_s - self._now_s) * self.capacity(len(self)) / len(self)
        self._now_s = now_s


class Scene:
    """So many clients, each with one request after the other, before one server.

    `classes` has the mean seconds of work by class; requests of all are as frequent.  What they
    take differs from it by `spread` at most, as a part.

    Attributes:
        limits: The limit after each look.
    """

    def __init__(
        self,
        capacity: Capacity,
        *,
        clients: int = 100,
        initial: int = 20,
        least: int = 2,
        most: int = 1000,
        is_observing: bool = False,
        seed: int = 1,
        target: float = 0.97,
    ) -> None:
        settings = FinderSettings(least, most, initial, target)
        self.finder = LimitFinder(settings, is_observing=is_observing)
        self.server = SlowServer(capacity)
        self.fixed: int | None = None  # the limit in force, if not the finder's
        self.classes: dict[LoadClass, float] = {GETS: 0.1}
        self.spread = 0.5
        self.think_s = 0.0
        self.reachable = 1.0  # the part of the limit that requests can use
        self.now_s = 0.0
        self.limits: list[int] = []
        self._random = random.Random(seed)  # noqa: S311  a walk that can be repeated
        self._asking = [(self._random.random() * 0.1, client) for client in range(clients)]
        self._waiting: deque[tuple[LoadClass, float]] = deque()
        self._look_s = LOOK_S
        self._responses: dict[LoadClass, list[float]] = {}
        self._refused = 0
        self._work: list[tuple[float, float]] = []

    @property
    def limit(self) -> int:
        return self.finder.limit if self.fixed is None else self.fixed

    def run(self, until_s: float) -> None:
        while True:
            asking_s = self._asking[0][0] if self._asking else math.inf
            through_s = self.server.next_s()
            now_s = self.now_s = min(asking_s, through_s, self._look_s, until_s)
            if now_s == until_s:
                return
            if now_s == through_s:
                self._end(now_s)
            elif now_s == asking_s:
                heapq.heappop(self._asking)
                kind = self._random.choice([*self.classes])
                work_s = self.classes[kind] * (1 + self.spread * (2 * self._random.random() - 1))
                self._waiting.append((kind, work_s))
            else:
                self._look(now_s)
            self._dispatch(now_s)

    def goodput(self, begin_s: float, end_s: float) -> float:
        """Seconds of work done in a second of this time."""
        done = sum(work_s for at_s, work_s in self._work if begin_s <= at_s < end_s)
        return done / (end_s - begin_s)

    def _end(self, now_s: float) -> None:
        kind, came_s, work_s = self.server.pop(now_s)
        found = self._responses.setdefault(kind, [0.0, 0.0])
        found[0] += 1
        found[1] += now_s - came_s
        self._work.append((now_s, work_s))
        think_s = self.think_s * 2 * self._random.random()
        heapq.heappush(self._asking, (now_s + think_s + 1e-6, 0))

    def _dispatch(self, now_s: float) -> None:
        server = self.server
        while self._waiting and len(server) < max(1.0, self.limit * self.reachable):
            kind, work_s = self._waiting.popleft()
            if len(server) >= server.refuses_above or self._random.random() < server.refused_part:
                self._refused += 1
                heapq.heappush(self._asking, (now_s + RETRY_S, 0))
            else:
                server.add(now_s, kind, work_s)

    def _look(self, now_s: float) -> None:
        responses = {kind: (count, taken_s) for kind, (count, taken_s) in self._responses.items()}
        is_waiting = bool(self._waiting)
        load = Load(LOOK_S, float(len(self.server)), is_waiting, responses, self._refused)
        self.finder.look(now_s, load)
        self.limits.append(self.finder.limit)
        self._responses = {}
        self._refused = 0
        self._look_s += LOOK_S
