"""Fair queuing written down plainly, walking all queues at every step, without short cuts."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from apfproxy.flowcontrol.dealer import Dealer
from apfproxy.flowcontrol.queue_set import QueueSetConfig, QueueSetKind
from apfproxy.flowcontrol.ticket import ns_per_seat, seat_ticks

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.clocks import VirtualClock

GUESS_NS = 3_000_000


def half_away(exact: Fraction) -> int:
    """Round to the nearest integer, half away from zero."""
    magnitude = int(abs(exact) + Fraction(1, 2))
    return magnitude if exact >= 0 else -magnitude


class PlainRequest:
    def __init__(
        self, name: int, hash_: int, initial: int, final: int, latency_ns: int, weight: int = 1
    ) -> None:
        self.name = name
        self.weight = weight
        self.hash = hash_
        self.initial = initial
        self.final = final
        self.latency_ns = latency_ns
        self.work = (seat_ticks(initial, GUESS_NS) + seat_ticks(final, latency_ns)) // weight
        self.state = "new"
        self.queue: PlainQueue | None = None
        self.arrival_r = 0
        self.started_ns = 0

    @property
    def seats(self) -> int:
        return max(self.initial, self.final)


class PlainQueue:
    """All requests that a queue ever had which have not ended, in order of arrival."""

    def __init__(self) -> None:
        self.requests: list[PlainRequest] = []
        self.next_dispatch_r = 0
        self.weight = 1
        self.owner: int | None = None

    @property
    def is_active(self) -> bool:
        return bool(self.those("waiting", "executing"))

    def those(self, *states: str) -> list[PlainRequest]:
        return [request for request in self.requests if request.state in states]

    def bound(self, *, has_weights: bool) -> None:
        """Let virtual dispatch not precede arrival, and the weight be that of the oldest."""
        waiting = self.those("waiting")
        if waiting:
            self.weight = waiting[0].weight if has_weights else 1
            self.next_dispatch_r = max(self.next_dispatch_r, waiting[0].arrival_r)


class PlainQueueSet:
    def __init__(self, clock: VirtualClock, config: QueueSetConfig, limit: int) -> None:
        self.clock = clock
        self.config = config
        self.limit = limit
        self.length_limit = 0
        self.queues: list[PlainQueue] = []
        self.idle: list[PlainQueue] = []  # in the order in which they became so
        self.requests: list[PlainRequest] = []
        self.current_r = 0
        self.last_ns = clock.now_ns()
        self.robin_index = 0
        self.enqueues = 0
        self.dispatch_order: list[int] = []
        self.reconfigure(config, limit)

    def count(self, *states: str) -> int:
        return sum(request.state in states for request in self.requests)

    def seats_in_use(self) -> int:
        return sum(r.seats for r in self.requests if r.state in ("executing", "lingering"))

    def sync(self) -> None:
        elapsed_ns = self.clock.now_ns() - self.last_ns
        self.last_ns = self.clock.now_ns()
        asked = sum(
            request.seats
            for queue in self.queues
            for request in queue.those("waiting", "executing", "lingering")
        )
        active = sum(queue.weight for queue in self.queues if queue.is_active)
        if active:
            self.current_r += seat_ticks(min(asked, self.seat_limit()) / active, elapsed_ns)

    def seat_limit(self) -> int:
        return 1 << 62 if self.config.kind is QueueSetKind.EXEMPT else self.limit

    def fits(self, request: PlainRequest) -> bool:
        if request.seats > self.seat_limit():
            return self.count("executing") == 0
        return self.seats_in_use() + request.seats <= self.seat_limit()

    def admit(self, request: PlainRequest) -> None:
        self.sync()
        if self.config.kind is not QueueSetKind.QUEUE:
            if self.fits(request):
                self.requests.append(request)
                self.start(request)
            else:
                request.state = "concurrency-limit"
            return
        hand = Dealer(self.config.queues, self.config.hand_size).deal(request.hash)
        offset = self.enqueues % len(hand)
        self.enqueues += 1
        queue = self.choose(request.hash, hand[offset:] + hand[:offset])
        if self.seats_in_use() >= self.seat_limit() and self.is_full(queue):
            request.state = "queue-full"
            return
        if not queue.is_active:
            queue.next_dispatch_r = self.current_r
            if self.config.has_weights:
                queue.owner = request.hash
        request.queue = queue
        request.arrival_r = self.current_r
        request.state = "waiting"
        queue.requests.append(request)
        self.requests.append(request)
        queue.bound(has_weights=self.config.has_weights)
        self.dispatch()
        self.note_idle()

    def choose(self, hash_: int, cards: tuple[int, ...]) -> PlainQueue:
        if self.config.has_weights:
            for queue in self.queues:
                if queue.owner == hash_:
                    return queue
            if self.idle:
                return self.idle[-1]
        return min(
            (self.queues[card] for card in cards),
            key=lambda queue: sum(other.work for other in queue.those("waiting")),
        )

    def is_full(self, queue: PlainQueue) -> bool:
        waiting, limit = len(queue.those("waiting")), self.length_limit
        if not self.config.has_weights or waiting < limit:
            return waiting >= limit
        is_crowded = self.count("waiting") >= limit * self.config.queues
        return is_crowded or waiting >= limit * self.config.hand_size

    def note_idle(self) -> None:
        idle = [queue for queue in self.queues if not queue.is_active]
        for queue in idle:
            queue.owner = None
        self.idle = [queue for queue in self.idle if queue in idle]
        self.idle += [queue for queue in idle if queue not in self.idle]

    def start(self, request: PlainRequest) -> None:
        request.state = "executing"
        request.started_ns = self.clock.now_ns()
        self.dispatch_order.append(request.name)

    def dispatch(self) -> None:
        while self.count("waiting") and self.seats_in_use() < self.seat_limit():
            best: tuple[int, int] | None = None
            length = len(self.queues)
            for step in range(length):
                index = (self.robin_index + 1 + step) % length
                waiting = self.queues[index].those("waiting")
                if waiting:
                    end_r = self.queues[index].next_dispatch_r + waiting[0].work
                    if best is None or end_r < best[0]:
                        best = (end_r, index)
            assert best is not None
            queue = self.queues[best[1]]
            request = queue.those("waiting")[0]
            if not self.fits(request):
                self.robin_index %= length
                return
            if request.final > self.seat_limit():
                request.final, work = (
                    self.seat_limit(),
                    seat_ticks(request.final, request.latency_ns),
                )
                request.latency_ns = ns_per_seat(work, request.final)
            self.robin_index = best[1]
            self.start(request)
            queue.next_dispatch_r += request.work
            queue.bound(has_weights=self.config.has_weights)

    def finish(self, request: PlainRequest) -> None:
        self.sync()
        request.state = "lingering"
        queue = request.queue
        if queue is not None:
            actual_ns = self.clock.now_ns() - request.started_ns
            queue.next_dispatch_r += half_away(
                Fraction(request.initial * (actual_ns - GUESS_NS), 10 * request.weight)
            )
            queue.bound(has_weights=self.config.has_weights)
        if request.latency_ns:
            self.clock.call_at(self.clock.now_ns() + request.latency_ns, self.lingered(request))
        else:
            self.release(request)
        self.dispatch()
        self.note_idle()

    def lingered(self, request: PlainRequest) -> Callable[[], None]:
        def release() -> None:
            self.sync()
            self.release(request)
            self.dispatch()
            self.note_idle()

        return release

    def release(self, request: PlainRequest) -> None:
        request.state = "done"
        self.requests.remove(request)
        queue = request.queue
        if queue is None:
            return
        queue.requests.remove(request)
        surplus = len(self.queues) > self.config.queues
        if surplus and queue in self.queues and not queue.is_active:
            index = self.queues.index(queue)
            del self.queues[index]
            if self.robin_index >= index:
                self.robin_index -= 1

    def withdraw(self, request: PlainRequest) -> None:
        self.sync()
        queue = request.queue
        assert queue is not None
        request.state = "withdrawn"
        queue.requests.remove(request)
        self.requests.remove(request)
        queue.bound(has_weights=self.config.has_weights)
        self.note_idle()

    def reconfigure(self, config: QueueSetConfig, limit: int) -> None:
        self.sync()
        is_new = config is not self.config
        is_other = config.has_weights != self.config.has_weights
        self.config = config
        self.limit = limit
        if config.kind is QueueSetKind.QUEUE:
            self.length_limit = config.queue_length_limit
        while len(self.queues) < config.queues:
            self.queues.append(PlainQueue())
        for queue in self.queues:
            if is_other:
                queue.weight, queue.owner = 1, None
                queue.bound(has_weights=config.has_weights)
        if is_new:
            self.idle.clear()
        self.note_idle()
        self.dispatch()
