"""Where requests come from."""

from __future__ import annotations

from apfproxy.simulation.mix import parse_mix
from apfproxy.simulation.simulation import Simulation
from apfproxy.simulation.sources import ClosedClient, Sequence, add_mix
from tests.simulation.scene import objects
from tests.simulation.test_simulation import MS, S, kind


def test_a_client_waits_for_answers() -> None:
    """With one request at a time and a pause, a client makes so many as fit until its end."""
    simulation = Simulation(objects(), 10)
    client = ClosedClient(
        simulation, kind(), lambda: 60 * MS, think_ns=40 * MS, start_ns=S, stop_ns=2 * S
    )
    simulation.run()

    (tally,) = simulation.tallies.values()
    assert (10, 10) == (tally.executed, simulation.arrivals)
    assert 1_960 * MS == simulation.clock.time_ns
    assert "<ClosedClient of u>" == repr(client)


def test_a_rejected_client_stays_away() -> None:
    """It comes back after the seconds that the proxy tells it."""
    simulation = Simulation(objects(), 1)
    for _ in range(6):  # one executes, four wait in two queues of two
        ClosedClient(simulation, kind(), lambda: 600 * MS, think_ns=0, start_ns=0, stop_ns=900 * MS)
    simulation.run()

    (tally,) = simulation.tallies.values()
    assert {"queue-full": 1} == tally.rejected


def test_clients_of_requests_without_seats() -> None:
    """They go on as well."""
    simulation = Simulation(objects(), 1)
    ClosedClient(
        simulation,
        kind(target="/api/v1/namespaces/a/pods/b/log?follow=1"),
        lambda: 100 * MS,
        think_ns=0,
        start_ns=0,
        stop_ns=S,
    )
    simulation.run()

    (tally,) = simulation.tallies.values()
    assert 10 == tally.without_seats


def test_a_client_whose_flow_is_limited() -> None:
    """It stays away as long as the limit says."""
    simulation = Simulation(objects(schema="apfproxy.io/request-rate: '1'"), 1)
    ClosedClient(simulation, kind(), lambda: MS, think_ns=0, start_ns=0, stop_ns=10 * S)
    simulation.run()

    (tally,) = simulation.tallies.values()
    assert 10 <= tally.executed <= 11
    assert {"rate"} == set(map(str, tally.rejected))


def test_a_mix() -> None:
    """Flows with a rate and clients come together; a second run is the same."""
    mix = parse_mix(
        b'{"duration": "5s", "flows": [{"name": "a", "user": "a", "rate": 20,'
        b' "request": "GET /x", "serviceTime": "5ms"}, {"name": "b", "user": "b",'
        b' "clients": 2, "request": "GET /x", "serviceTime": "exp(50ms)"}]}'
    )
    found = []
    for _ in range(2):
        simulation = Simulation(objects(), 10)
        add_mix(simulation, mix)
        simulation.run()
        found.append({key[0]: tally.executed for key, tally in simulation.tallies.items()})
    first, second = found

    assert {"a", "b"} == first.keys()
    assert first == second
    assert len(list(mix.flows[0].requests(mix.chance(0)))) == first["a"]


def test_repr() -> None:
    """A sequence names its simulation."""
    simulation = Simulation(objects(), 1)

    assert "<Sequence into <Simulation: 0 requests so far, 0 ns>>" == repr(Sequence(simulation, []))
