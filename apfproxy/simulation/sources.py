"""Where the requests of a simulation come from: a sequence, or clients that wait for answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.simulation.kinds import Kind
    from apfproxy.simulation.mix import Mix
    from apfproxy.simulation.simulation import Simulation

NS_PER_S = 1_000_000_000


class Sequence:
    """Requests that arrive when they arrive, whatever becomes of them.

    `requests` are arrival times, kinds and service times in order, in nanoseconds.
    """

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
    """A client with one request at a time; rejected, it stays away as long as it is told.

    It asks from `start_ns` to `stop_ns`, and pauses for `think_ns` after an answer.
    """

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
        """Ask again, after a pause."""
        pause_ns = retry_after_s * NS_PER_S or self._think_ns
        self._ask_again(self._simulation.clock.time_ns + pause_ns)

    def on_open(self, end_ns: int) -> None:
        """Ask again, after a pause at the end."""
        self._ask_again(end_ns + self._think_ns)

    def _ask_again(self, again_ns: int) -> None:
        if again_ns < self._stop_ns:
            self._simulation.clock.arm(again_ns, self._ask, None)
        else:
            self._simulation.source_ended()


def add_mix(simulation: Simulation, mix: Mix) -> None:
    """Let the requests of a mix come."""
    for index, flow in enumerate(mix.flows):
        if flow.rate:
            Sequence(simulation, flow.requests(mix.chance(index)))
            continue
        draw = flow.service.drawer(mix.chance(index))
        for _ in range(flow.clients):
            ClosedClient(
                simulation,
                flow.kind,
                draw,
                think_ns=flow.think_ns,
                start_ns=flow.start_ns,
                stop_ns=flow.stop_ns,
            )
