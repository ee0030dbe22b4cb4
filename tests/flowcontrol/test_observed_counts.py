"""Passages that are only observed count as if flow control were enforced, by simulated loads."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.flowcontrol.test_passage import GET, Bench, Request, S

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.flowcontrol.observed_passage import Caller


@dataclass
class Server:
    bench: Bench
    workers: int
    service_s: Callable[[], float]

    def __post_init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, done: Callable[[], None]) -> None:
        if not self.workers:
            self._waiting.append(done)
            return
        self.workers -= 1
        clock = self.bench.clock
        clock.call_at(clock.now_ns() + round(self.service_s() * S), partial(self._end, done))

    def _end(self, done: Callable[[], None]) -> None:
        self.workers += 1
        if self._waiting:
            self.take(self._waiting.popleft())
        done()


class Asked(Request):
    def __init__(self, world: World, callers: list[Caller], done: Callable[[float], None]) -> None:
        super().__init__(world.bench, GET, 60 * S, callers)
        self._world, self._done = world, done
        if self.passage.acquire(self):
            self.on_seats()
        elif self.passage.ticket is None:
            self._reject()

    def on_seats(self) -> None:
        self._world.server.take(self._through)

    def on_time_out(self) -> None:
        self._reject()

    def _through(self) -> None:
        self._bench.end(self.passage)
        self._done(0.0)

    def _reject(self) -> None:
        self._bench.end(self.passage)
        self._done(MEAN_S)  # as soon as if it had been served, as those are that are observed


MEAN_S = 0.19
SEATS, QUEUING = 12, "queues: 1, handSize: 1, queueLengthLimit: 50"
WARM_S, LONG_S = 6, 12


class World:
    """Clients and a server, with 12 seats and 50 places in the queue between them."""

    def __init__(self, *, is_observing: bool, seed: int, workers: int, is_even: bool) -> None:
        self.bench = Bench(is_observing=is_observing, seats=SEATS, queuing=QUEUING)
        self._arrivals, draws = random.Random(seed), random.Random(seed + 1)  # noqa: S311  no secrets
        service_s = partial(draws.expovariate, 1 / MEAN_S)
        self.server = Server(self.bench, workers, (lambda: MEAN_S) if is_even else service_s)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        clock = self.bench.clock
        clock.call_at(clock.now_ns() + round(seconds * S), action)

    def closed(self, clients: int, think_s: float = 0.0) -> None:
        """Have clients each of which asks again once it has its response, and has thought."""
        for _ in range(clients):
            ask = partial(self._ask_in_turn, [], think_s)
            self._later(self._arrivals.random() * MEAN_S, ask)

    def _ask_in_turn(self, callers: list[Caller], think_s: float) -> None:
        def again(pause_s: float) -> None:
            if think_s:
                pause_s += self._arrivals.expovariate(1 / think_s)
            self._later(pause_s + 1e-4, partial(self._ask_in_turn, callers, think_s))

        Asked(self, callers, again)

    def open(self, rate: float) -> None:
        Asked(self, [], lambda _: None)
        self._later(self._arrivals.expovariate(rate), partial(self.open, rate))

    def counts(self) -> dict[str, float]:
        before = self._totals(WARM_S)
        waiting = 0
        for step in range(100):
            after = self._totals(WARM_S + LONG_S * (step + 1) / 100)
            waiting += self.bench.queue_set.requests_waiting
        found = {name: after[name] - before[name] for name in after}
        return {**found, "waiting": waiting / 100}

    def _totals(self, at_s: float) -> dict[str, float]:
        self.bench.clock.run_until(round(at_s * S))
        assert not self.bench.errors
        queue_set = self.bench.queue_set
        (counters,) = (
            each
            for each in self.bench.controller.flow_schema_counters()
            if each.flow_schema == "schema"
        )
        return {
            "rejected": queue_set.rejected_total,
            "dispatched": queue_set.dispatched_total,
            "queued": sum(counters.lengths_met.counts),
            "waited": counters.wait_executed_ns.sum / S,
        }


ALL = ("rejected", "dispatched", "queued", "waited", "waiting")


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("come", "workers", "is_even", "same"),
    [
        pytest.param(lambda w: w.closed(62), 1000, True, ALL, id="closed-even"),
        pytest.param(lambda w: w.closed(62), 1000, False, ALL, id="closed"),
        pytest.param(lambda w: w.closed(25), 1000, False, ALL, id="closed-few"),
        pytest.param(lambda w: w.closed(110), 1000, False, ALL, id="closed-many"),
        pytest.param(lambda w: w.closed(150, 0.5), 1000, False, ALL, id="closed-thinking"),
        pytest.param(lambda w: w.open(100), 1000, False, ALL, id="open"),
        pytest.param(lambda w: w.open(200), 1000, True, ALL, id="open-even"),
        pytest.param(lambda w: w.open(100), 24, False, ALL, id="open-server-of-24"),
        # With more requests such a server takes longer over each, which enforcing would change.
        (lambda w: w.closed(62), 12, False, ("rejected", "waiting")),
    ],
)
def test_counts_are_those_of_enforcing(
    come: Callable[[World], None], workers: int, is_even: bool, same: tuple[str, ...], seed: int
) -> None:
    found: list[dict[str, Any]] = []
    for is_observing in (False, True):
        world = World(is_observing=is_observing, seed=seed, workers=workers, is_even=is_even)
        come(world)
        counts = world.counts()
        found.append({name: counts[name] for name in same})
    enforced, observed = found

    assert enforced == pytest.approx(observed, rel=0.2)
