"""A fleet of proxies that share one limit by a ledger, with requests replayed through them.

Each replica is a proxy of its own, with the same configuration, and a member of the fleet.  A
client keeps to a replica while that serves, as its connection does; requests that come at a rate go
to each in turn, by their weights.  What happens to replicas and their store is in the plan of the
fleet.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from apfproxy.flowcontrol.limits import level_limits, nominal_limits
from apfproxy.flowcontrol.priority_level import level_shares
from apfproxy.simulation.fleet_events import What
from apfproxy.simulation.fleet_levels import FleetLevel
from apfproxy.simulation.fleet_store import SimulatedStore
from apfproxy.simulation.replica import AGAIN_AFTER_S, Replica, next_in_turn
from apfproxy.simulation.series import FIRST_BIN_NS, MOST_BINS
from apfproxy.simulation.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.objects.types import FlowControlObject
    from apfproxy.simulation.fleet_events import FleetEvent, FleetPlan
    from apfproxy.simulation.kinds import Kind
    from apfproxy.simulation.simulation import Client
    from apfproxy.simulation.tally import Tally

NO_REPLICA = "no-replica"
"""Why a request was not served that found no replica."""


class FleetSimulation:
    """One run of requests through a fleet; it offers what `Simulation` does.

    Args:
        objects: The configuration, built-in objects included.
        server_concurrency_limit: Seats of the server, which all replicas share.
        plan: What the fleet is, and what happens to it.
        hash_seed, is_prompt, warm_up_ns, on_progress: As of `Simulation`.

    Attributes:
        clock, limit, sources, problems, views, tallies, arrivals, bin_ns, counted_from_ns: As of
            `Simulation`, over all replicas.
        store: Where the record is.
        replicas: All that there ever were, in the order in which they joined.
        most_seats: The most seats of requests that the server had at once; of limited levels.
        over_ns: For how long these were more than the limit.
    """

    def __init__(
        self,
        objects: Iterable[FlowControlObject],
        server_concurrency_limit: int,
        plan: FleetPlan,
        *,
        hash_seed: int = 0,
        is_prompt: bool = True,
        warm_up_ns: int = 0,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        self.clock = VirtualClock()
        self.limit = server_concurrency_limit
        self.plan = plan
        self.sources = 0
        self.tallies: dict[tuple[str, str, str, str], Tally] = {}
        self.arrivals = 0
        self.bin_ns = FIRST_BIN_NS
        self.counted_from_ns = 0
        self.store = SimulatedStore(self.clock, plan.latency_ns)
        self.replicas: list[Replica] = []
        self.views: dict[str, FleetLevel] = {}
        self.most_seats = 0
        self.over_ns = 0
        self._new_replica = partial(
            Replica,
            fleet=self,
            objects=tuple(objects),
            limit=server_concurrency_limit,
            hash_seed=hash_seed,
            is_prompt=is_prompt,
            clock=self.clock,
            tallies=self.tallies,
            store=self.store,
            plan=plan,
        )
        self._warm_up_ns = warm_up_ns
        self._on_progress = on_progress
        self._by_number: dict[int, Replica] = {}
        self._serving: list[Replica] = []
        self._places: dict[Client, Replica] = {}
        self._bins = 0
        self._seats = 0
        self._noted_ns = 0
        for number in range(plan.replicas):
            self._join(number)
        self.problems = self.replicas[0].problems

    def run(self) -> None:
        """Go on until all sources have ended and the last request has."""
        if not self.sources:
            return
        for event in self.plan.events:
            if event.at_ns:
                self.clock.arm_arrival(event.at_ns, self._happen, event)
            else:  # before the first requests
                self._happen(event)
        if self._warm_up_ns:
            self.clock.arm_arrival(self._warm_up_ns, self._begin_to_count, None)
        self.clock.arm(self.bin_ns, self._sample, None)
        self.clock.run()
        now_ns = self.clock.time_ns
        self._account()
        for view in self.views.values():
            view.note(now_ns)
        for replica in self.replicas:
            replica.member.note()

    def request(self, kind: Kind, service_ns: int, client: Client | None = None) -> None:
        """A request arrives now at one of the replicas, and takes so long to serve."""
        self.arrivals += 1
        replica = self._place(client)
        if replica is not None:
            replica.request(kind, service_ns, client)
            return
        self.replicas[0].lane(kind).tally.reject(NO_REPLICA)
        if client is not None:
            client.on_end(AGAIN_AFTER_S)

    def source_ended(self) -> None:
        """From one of the sources nothing more will come."""
        self.sources -= 1
        self.on_idle()

    def on_idle(self) -> None:
        """End the run if no more requests come, and none is in flight."""
        if not self.sources and not any(replica.in_flight for replica in self.replicas):
            self.clock.stop()

    def on_gone(self, replica: Replica) -> None:
        """A replica has left, or died."""
        for name, level in replica.controller.levels.items():
            self.views[name].remove(level)

    def on_seats(self, level: PriorityLevel, seats: int) -> None:
        """The server has so many seats more of requests, or less; of others something changed."""
        self.views[level.name].note(self.clock.time_ns)
        if seats and not level.is_exempt:
            self._account()
            self._seats += seats
            self.most_seats = max(self.most_seats, self._seats)

    def _account(self) -> None:
        """Count the time since the last change."""
        now_ns = self.clock.time_ns
        if self._seats > self.limit:
            self.over_ns += now_ns - self._noted_ns
        self._noted_ns = now_ns

    def _place(self, client: Client | None) -> Replica | None:
        """Where a request goes; None if no replica takes it."""
        if client is not None:
            replica = self._places.get(client)
            if replica is not None and replica.is_serving:
                return replica
        replica = next_in_turn(self._serving)
        if client is not None and replica is not None:
            self._places[client] = replica
        return replica

    def _happen(self, event: FleetEvent) -> None:
        number = event.replica
        replica = self._by_number.get(number)
        match event.what:
            case What.JOIN:
                if replica is not None:
                    replica.die()
                self._join(number)
            case What.LEAVE if replica is not None:
                replica.leave()
            case What.DIE if replica is not None:
                replica.die()
            case What.WEIGH if replica is not None:
                replica.weight = event.weight
                self._places.clear()
            case What.CUT_OFF:
                self.store.cut_off.add(number)
            case What.RECONNECT:
                self.store.cut_off.discard(number)
            case What.STORE_AWAY:
                self.store.is_away = True
            case What.STORE_EMPTY:
                self.store.forget()
                self.store.is_away = False
            case What.STORE_BACK:
                self.store.is_away = False
            case _:
                pass  # a replica that there never was
        self._serving = [each for each in self._by_number.values() if each.is_serving]

    def _join(self, number: int) -> None:
        epoch = sum(each.number == number for each in self.replicas)
        replica = self._new_replica(number, epoch)
        if not self.views:
            levels = replica.controller.levels
            shares = {name: level_shares(level.configuration) for name, level in levels.items()}
            nominal = nominal_limits(self.limit, {name: each[0] for name, each in shares.items()})
            self.views = {
                name: FleetLevel(level, level_limits(nominal[name], self.limit, *shares[name][1:]))
                for name, level in levels.items()
            }
        self.replicas.append(replica)
        self._by_number[number] = replica
        self._serving = [each for each in self._by_number.values() if each.is_serving]
        for name, level in replica.controller.levels.items():
            self.views[name].add(level)

    def _begin_to_count(self, _: None) -> None:
        now_ns = self.clock.time_ns
        self._account()
        self.over_ns, self.most_seats = 0, self._seats
        for view in self.views.values():
            view.clear(now_ns)
        for tally in self.tallies.values():
            tally.clear()
        self.counted_from_ns = now_ns

    def _sample(self, _: None) -> None:
        for view in self.views.values():
            view.sample(self.clock.time_ns, self.bin_ns)
        self._bins += 1
        if self._bins == 2 * MOST_BINS:
            for view in self.views.values():
                view.series.halve()
            self._bins = MOST_BINS
            self.bin_ns *= 2
        if self._on_progress is not None:
            self._on_progress(self.arrivals)
        self.clock.arm(self.clock.time_ns + self.bin_ns, self._sample, None)

    def __repr__(self) -> str:
        return f"<FleetSimulation: {self.arrivals} requests so far, {len(self._serving)} replicas>"
