"""One replica of a simulated fleet: a proxy with the requests that reach it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from apfproxy.simulation.fleet_member import SimulatedMember
from apfproxy.simulation.simulation import Simulation
from apfproxy.simulation.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.objects.types import FlowControlObject
    from apfproxy.simulation.fleet_events import FleetPlan
    from apfproxy.simulation.fleet_store import SimulatedStore
    from apfproxy.simulation.kinds import Kind
    from apfproxy.simulation.simulation import Client, SimulatedRequest
    from apfproxy.simulation.virtual_clock import VirtualClock

LOST = "replica-lost"
"""Why a request was not served that waited in a replica which died."""
AGAIN_AFTER_S = 1
"""A client whose connection broke off asks again so much later."""


def next_in_turn(replicas: Iterable[Replica]) -> Replica | None:
    """Who gets the next request: each by its weight, in turns that are spread evenly.

    None if no replica has a weight.
    """
    total, found = 0, None
    for each in replicas:
        if each.weight:
            total += each.weight
            each.due += each.weight
            if found is None or each.due > found.due:
                found = each
    if found is not None:
        found.due -= total
    return found


class Fleet(Protocol):
    """What a replica tells."""

    def on_seats(self, level: PriorityLevel, seats: int) -> None:
        """The server has so many seats more of requests, or less; of others something changed."""

    def on_idle(self) -> None:
        """A replica has no request in flight."""

    def on_gone(self, replica: Replica) -> None:
        """A replica has left, or died."""


class Replica(Simulation):
    """The proxy.

    Args:
        number: From 0 on.
        epoch: How often one of that number had started before.
        fleet: Is told.
        objects: The configuration.
        limit: Seats of the server, which all replicas share.
        hash_seed, is_prompt: As of `Simulation`.
        clock: That of all replicas.
        tallies: Those of all replicas.
        store: Where their record is.
        plan: What the fleet is.

    Attributes:
        number: From 0 on.
        member: Its membership.
        is_serving: Whether it gets requests.
        weight: How many of them, in proportion to the weights of the others.
        due: What it is behind with that, in turns of all others; for `next_in_turn`.
        is_gone: Whether it has left or died.
        executed, lost: Requests of it.
        most_seats: That it ever had.
        began_ns, ended_ns: When it joined and was gone; the latter is -1 before.
    """

    def __init__(  # noqa: PLR0913 - what a replica is made of
        self,
        number: int,
        epoch: int,
        fleet: Fleet,
        objects: Iterable[FlowControlObject],
        limit: int,
        *,
        hash_seed: int,
        is_prompt: bool,
        clock: VirtualClock,
        tallies: dict[tuple[str, str, str, str], Tally],
        store: SimulatedStore,
        plan: FleetPlan,
    ) -> None:
        super().__init__(
            objects,
            limit,
            hash_seed=hash_seed,
            is_prompt=is_prompt,
            clock=clock,
            on_short=self._on_short,
        )
        self.tallies = tallies
        self.number = number
        self.is_serving = True
        self.weight = 1
        self.due = 0
        self.is_gone = False
        self.executed = 0
        self.lost = 0
        self.most_seats = 0
        self.began_ns = clock.time_ns
        self.ended_ns = -1
        self._fleet = fleet
        self._open: dict[SimulatedRequest, None] = {}
        self.member = SimulatedMember(
            number, epoch, self.controller, store, clock, limit, plan, self._on_change
        )
        self.start()
        self.member.join()

    def request(
        self, kind: Kind, service_ns: int, client: Client | None = None
    ) -> SimulatedRequest:
        """A request arrives now, and takes so long to serve."""
        before = self.in_flight
        request = super().request(kind, service_ns, client)
        if self.in_flight > before:
            self._open[request] = None
        self._fleet.on_seats(request.lane.level, 0)
        return request

    def execute(self, request: SimulatedRequest) -> None:
        """A request has its seats."""
        super().execute(request)
        assert request.ticket is not None
        self.executed += 1
        self._fleet.on_seats(request.lane.level, request.ticket.estimate.max_seats)

    def end_wait(self, request: SimulatedRequest) -> None:
        """A request has waited as long as it may."""
        if not self.is_gone:
            self._open.pop(request)
            super().end_wait(request)
            self._fleet.on_seats(request.lane.level, 0)

    def leave(self) -> None:
        """Get no new requests, and be gone when those in flight have ended."""
        self.is_serving = False
        self._stop_if_over()

    def die(self) -> None:
        """Be gone at once: the server ends what it has, but nobody gets an answer."""
        if self.is_gone:
            return
        opened, self._open = self._open, {}
        tallies = {lane: lane.tally for lane in self._lanes.values()}
        for lane in tallies:
            lane.tally = Tally()  # of what goes on without anybody
        self.in_flight = 0
        self._be_gone(is_leaving=False)
        for request in opened:
            client, request.client = request.client, None
            tally = tallies[request.lane]
            if request.ticket is not None and request.ticket.is_executing:
                tally.cut_off += 1
            else:
                tally.reject(LOST)
            self.lost += 1
            if client is not None:
                client.on_end(AGAIN_AFTER_S)
        self._fleet.on_idle()

    def _end(self, request: SimulatedRequest) -> None:
        assert request.ticket is not None
        level = request.lane.level
        self._fleet.on_seats(level, -request.ticket.estimate.max_seats)
        if not self.is_gone:
            self._open.pop(request)
            super()._end(request)
            self._fleet.on_seats(level, 0)

    def _release(self, request: SimulatedRequest) -> None:
        assert request.ticket is not None
        level = request.lane.level
        self._fleet.on_seats(level, -request.ticket.estimate.max_seats)
        if not self.is_gone:
            self._open.pop(request)
            super()._release(request)
            self._fleet.on_seats(level, 0)

    def _stop_if_over(self) -> None:
        if self.in_flight:
            return
        if not self.is_serving and not self.is_gone:
            self._be_gone(is_leaving=True)
        self._fleet.on_idle()

    def _be_gone(self, *, is_leaving: bool) -> None:
        self.is_serving = False
        self.is_gone = True
        self.ended_ns = self.clock.time_ns
        self.member.end(is_leaving=is_leaving)
        self._fleet.on_gone(self)

    def _on_short(self, level: str, seats: int) -> None:
        self.member.on_short(level, seats)

    def _on_change(self) -> None:
        self.most_seats = max(self.most_seats, self.controller.server_concurrency_limit)

    def _adjust(self, argument: None) -> None:
        if not self.is_gone:
            super()._adjust(argument)

    def __repr__(self) -> str:
        how = "gone" if self.is_gone else f"{self.in_flight} requests"
        return f"<Replica {self.number}: {how}>"
