"""Requests through a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.fleet.standing import Standing
from apfproxy.simulation import fleet_simulation as module
from apfproxy.simulation.fleet_events import FleetPlan, parse_event
from apfproxy.simulation.fleet_simulation import NO_REPLICA, FleetSimulation
from apfproxy.simulation.mix import parse_mix
from apfproxy.simulation.replica import LOST
from apfproxy.simulation.series import MOST_BINS
from apfproxy.simulation.sources import Sequence, add_mix
from apfproxy.simulation.tally import Tally
from tests.simulation.scene import objects
from tests.simulation.test_simulation import MS, S, kind

if TYPE_CHECKING:
    from collections.abc import Callable

CLIENTS = b"""
duration: 40s
flows:
- {name: 'c-{}', count: 12, user: 'u-{}', request: GET /api/v1/pods, clients: 2, serviceTime: 100ms}
"""
RATE = CLIENTS.replace(b"clients: 2", b"rate: 5")


def fleet(
    *events: str, mix: bytes = CLIENTS, limit: int = 12, warm_up_ns: int = 0
) -> FleetSimulation:
    """Three replicas after a run; more clients than seats."""
    plan = FleetPlan(replicas=3, events=tuple(map(parse_event, events)))
    simulation = FleetSimulation(objects(), limit, plan, warm_up_ns=warm_up_ns)
    add_mix(simulation, parse_mix(mix))
    simulation.run()
    return simulation


def total(simulation: FleetSimulation) -> Tally:
    """The sum of what became of requests."""
    found = Tally()
    for tally in simulation.tallies.values():
        found.merge(tally)
    return found


def test_one_limit() -> None:
    """Replicas share nearly all seats, and never have more; each has its part of the requests."""
    simulation = fleet()
    executed = [replica.executed for replica in simulation.replicas]

    assert 11 <= simulation.most_seats <= 12
    assert 0 == simulation.over_ns
    assert total(simulation).executed == sum(executed)
    assert min(executed) > max(executed) * 0.8
    assert 0 == total(simulation).rejected_total
    assert 40 * S <= simulation.clock.time_ns < 42 * S
    assert repr(simulation).endswith("requests so far, 3 replicas>")
    assert simulation.replicas[0].member.stood_ns[Standing.HOLDING] > 39 * S


def test_seats_follow_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one replica that gets all requests has all seats; the others came and went idle."""
    simulation = FleetSimulation(objects(), 12, FleetPlan(replicas=3))
    one = simulation.replicas[0]
    monkeypatch.setattr(simulation, "_place", lambda _client: one)
    add_mix(simulation, parse_mix(CLIENTS))
    simulation.run()

    assert 12 == one.most_seats
    assert 0 == simulation.over_ns
    assert one.executed > 12 * 10 * 30


@pytest.mark.parametrize(
    ("events", "gone", "away"),
    [
        pytest.param(["10s leave 1"], [1], [], id="leaves"),
        pytest.param(["10s die 1", "20s join 1"], [1], [], id="dies-and-comes-back"),
        pytest.param(["10s join 1"], [1], [], id="is-replaced"),
        pytest.param(["10s join 3"], [], [], id="one-more"),
        pytest.param(["10s store-away", "25s store-back"], [], [0, 1, 2], id="store-away"),
        pytest.param(["10s store-away", "25s store-empty"], [], [0, 1, 2], id="store-empty"),
        pytest.param(["10s store-away", "10.5s store-back"], [], [], id="a-moment"),
        pytest.param(["10s die 7", "10s leave 7", "11s die 1", "12s die 1"], [1], [], id="twice"),
    ],
)
def test_events(events: list[str], gone: list[int], away: list[int]) -> None:
    """Whatever happens, the limit is kept, and the seats are used again at the end."""
    simulation = fleet(*events, mix=RATE)
    replicas = simulation.replicas

    assert 0 == simulation.over_ns
    assert simulation.most_seats <= 12
    assert gone == [each.number for each in replicas if each.is_gone]
    assert away == [each.number for each in replicas if each.member.stood_ns[Standing.ALONE] > S]
    assert total(simulation).executed > 12 * 5 * 40 * 0.85


def test_some_are_cut_off() -> None:
    """One without the store keeps to its safe share, and the others have all, as documented."""
    simulation = fleet("10s cut-off 2", "30s reconnect 2")
    cut_off = simulation.replicas[2]

    assert cut_off.member.failures
    assert 12 < simulation.most_seats <= 16
    assert 0 < simulation.over_ns <= 20 * S
    assert "<SimulatedMember replica-2#00000000: holding>" == repr(cut_off.member)


def test_a_replica_dies() -> None:
    """What waited there is lost, what was executed has no answer, and clients ask the others."""
    simulation = fleet("10s die 1")
    found = total(simulation)
    dead = simulation.replicas[1]

    assert dead.lost == found.rejected.get(LOST, 0) + found.cut_off > 0
    assert (10.0, "<Replica 1: gone>") == (dead.ended_ns / S, repr(dead))
    assert [True, False, True] == [each.is_serving for each in simulation.replicas]
    assert repr(simulation.replicas[0]).endswith(" requests>")


@pytest.mark.parametrize("mix", [CLIENTS, RATE], ids=["clients", "rate"])
def test_weights(mix: bytes) -> None:
    """Requests and clients go to replicas by weight, and so do seats: each has what it needs."""
    simulation = fleet("0s weigh 0 6", "0s weigh 2 0", mix=mix, limit=24)
    executed = [replica.executed for replica in simulation.replicas]

    assert 0 == executed[2]
    assert pytest.approx(6 * executed[1], rel=0.2) == executed[0]
    assert 0 == simulation.over_ns


@pytest.mark.parametrize("mix", [CLIENTS, RATE], ids=["clients", "rate"])
def test_load_moves(mix: bytes) -> None:
    """Clients choose again when weights change; the limit is kept, and the seats follow."""
    simulation = fleet(
        *("0s weigh 1 0", "0s weigh 2 0"), *("20s weigh 1 1", "20s weigh 0 0"), mix=mix
    )
    first, second, third = (replica.executed for replica in simulation.replicas)

    assert 0 == third
    assert pytest.approx(first, rel=0.25) == second
    assert 0 == simulation.over_ns
    assert total(simulation).executed > 0.9 * simulation.arrivals


def test_no_weight_at_all() -> None:
    """Then requests find no replica."""
    simulation = fleet(*(f"0s weigh {number} 0" for number in range(3)), mix=RATE)

    assert {NO_REPLICA} == total(simulation).rejected.keys()
    assert 0 == total(simulation).executed


@pytest.mark.parametrize("mix", [CLIENTS, RATE], ids=["clients", "rate"])
def test_nobody_serves(mix: bytes) -> None:
    """Requests find no replica, until one is there again."""
    simulation = fleet("1s die 0", "1s die 1", "1s leave 2", "5s join 0", mix=mix)

    assert total(simulation).rejected[NO_REPLICA]
    assert 4 == len(simulation.replicas)
    assert simulation.replicas[3].executed


def test_watches_and_requests_without_seats() -> None:
    """Watches give their seats back after a moment, and end with their replica."""
    simulation = FleetSimulation(
        objects(), 12, FleetPlan(replicas=2, events=(parse_event("1s die 0"),))
    )
    watch = kind(target="/api/v1/pods?watch=true")
    log = kind(target="/api/v1/namespaces/a/pods/b/log?follow=true")
    brief = kind(target="/api/v1/pods?watch=true&timeoutSeconds=1")
    asked = [(0, watch, 3 * S), (0, log, 3 * S), (950 * MS, brief, 2 * S)]
    Sequence(
        simulation, [(at_ns + n * MS, what, ns) for at_ns, what, ns in asked for n in (20, 21)]
    )
    simulation.run()

    assert 0 == simulation.over_ns
    assert 2 == total(simulation).without_seats


def test_a_request_that_waits_too_long() -> None:
    """Its time is over, in a replica that is there and in one that is not."""
    plan = FleetPlan(replicas=2, events=(parse_event("1s die 0"),))
    simulation = FleetSimulation(objects(), 1, plan)
    slow = kind(target="/api/v1/pods?timeout=8s")
    Sequence(simulation, [(n * MS, slow, 7 * S) for n in range(20, 26)])
    simulation.run()
    rejected = total(simulation).rejected

    assert rejected["time-out"]
    assert rejected[LOST]


def test_rejections_ask_for_seats() -> None:
    """What a level rejects counts as demand until the next write."""
    simulation = FleetSimulation(objects(), 12, FleetPlan(replicas=3))
    member = simulation.replicas[0].member
    simulation.clock.arm(S, lambda _: member.on_short("level", 9), None)
    simulation.clock.arm(S, lambda _: member.on_short("level", 9), None)
    Sequence(simulation, [(S + 500 * MS, kind(), 100 * MS)])
    before = simulation.store.writes
    simulation.run()

    assert simulation.store.writes > before
    assert 1 == total(simulation).executed


def test_warm_up() -> None:
    """What happens before is not counted."""
    whole, rest = fleet(), fleet(warm_up_ns=20 * S)

    assert 20 * S == rest.counted_from_ns
    assert total(rest).executed < total(whole).executed * 0.6


def test_nothing_to_do() -> None:
    """Without requests there is no run."""
    simulation = FleetSimulation(objects(), 12, FleetPlan(replicas=2))
    simulation.run()

    assert 0 == simulation.clock.time_ns


def test_progress_and_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is told, and a long run has wider bins."""
    told: list[int] = []
    on_progress: Callable[[int], None] = told.append
    monkeypatch.setattr(module, "FIRST_BIN_NS", 20 * MS)
    simulation = FleetSimulation(objects(), 12, FleetPlan(replicas=2), on_progress=on_progress)
    add_mix(simulation, parse_mix(CLIENTS))
    simulation.run()

    assert told == sorted(told)
    assert 80 * MS == simulation.bin_ns
    assert MOST_BINS <= len(simulation.views["level"].series.seats) < 2 * MOST_BINS
