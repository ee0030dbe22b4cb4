"""Where requests come from."""

from __future__ import annotations

import random

import pytest

from apfproxy.objects.decode import decode_documents
from apfproxy.simulation.mix import parse_mix, parse_times
from apfproxy.simulation.simulation import Simulation
from apfproxy.simulation.sources import ClosedClient, add_mix
from tests.simulation.scene import LEVEL, objects
from tests.simulation.test_simulation import MS, S, kind


def test_a_client_waits_for_answers() -> None:
    """With one request at a time and a pause, a client makes so many as fit until its end."""
    simulation = Simulation(objects(), 10)
    ClosedClient(simulation, kind(), lambda: 60 * MS, think_ns=40 * MS, start_ns=S, stop_ns=2 * S)
    simulation.run()

    (tally,) = simulation.tallies.values()
    assert (10, 10) == (tally.executed, simulation.arrivals)
    assert 1_960 * MS == simulation.clock.time_ns


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
    assert 900 * MS == simulation.clock.time_ns


def test_clients_of_watches() -> None:
    """They watch again once a watch has ended, not when it has given its seats back."""
    simulation = Simulation(objects(), 1)
    ClosedClient(
        simulation,
        kind(target="/api/v1/pods?watch=1"),
        lambda: 10 * S,
        think_ns=0,
        start_ns=0,
        stop_ns=30 * S,
    )
    simulation.run()

    (tally,) = simulation.tallies.values()
    assert (3, 300 * MS) == (tally.executed, tally.seat_ns)
    assert 20_100 * MS == simulation.clock.time_ns  # what goes on without seats is not waited for


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


def test_seats_are_divided_fairly() -> None:
    """Clients get what they ask for, or an even share of what others leave: max-min fairness."""
    asked = {"modest": 2, "medium": 4, "greedy": 20, "greedier": 40}
    fair = {"modest": 2.0, "medium": 4.0, "greedy": 7.0, "greedier": 7.0}  # of 20 seats
    deep = [each for each in objects() if each.metadata.name != "level"]
    text = LEVEL.replace("LEVEL_ANNOTATIONS", "").replace("SCHEMA_ANNOTATIONS", "")
    text = text.partition("---")[0].replace("queueLengthLimit: 2", "queueLengthLimit: 99")
    deep += decode_documents(text.replace("queues: 8", "queues: 64").encode(), "test").objects
    simulation = Simulation(deep, 20)
    chance = random.Random(1)  # noqa: S311  no secret
    draw = parse_times("50ms-150ms").drawer(chance)
    for name, clients in asked.items():
        for _ in range(clients):
            ClosedClient(simulation, kind(name), draw, think_ns=0, start_ns=0, stop_ns=100 * S)
    simulation.run()
    used = {key[0]: tally.seat_ns / (100 * S) for key, tally in simulation.tallies.items()}

    assert pytest.approx(fair, rel=0.1) == used
