"""Requests through a whole configuration."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.classifier import MODEL
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.meters import pack
from apfproxy.flowcontrol.preset import HTTP
from apfproxy.request.attributes import User
from apfproxy.simulation import simulation as module
from apfproxy.simulation.measures import MOST_BINS, Durations, Tally
from apfproxy.simulation.mix import parse_mix, parse_times
from apfproxy.simulation.records import Kind, kind_of
from apfproxy.simulation.simulation import ClosedClient, Sequence, SimulatedRequest, Simulation
from apfproxy.simulation.virtual_clock import VirtualClock
from tests.simulation.scene import objects

if TYPE_CHECKING:
    from collections.abc import Iterable


MS = 1_000_000
S = 1_000_000_000
GROUPS = ("system:authenticated",)
GET = "/api/v1/namespaces/a/pods/b"


def kind(user: str = "u", target: str = GET, method: str = "GET", seats: int = 0) -> Kind:
    return kind_of(user, User(user, GROUPS), method, target, seats, (("a", "b"),))


def ran(simulation: Simulation, requests: Iterable[tuple[int, Kind, int]]) -> Tally:
    Sequence(simulation, requests)
    simulation.run()
    total = Tally()
    for tally in simulation.tallies.values():
        total.merge(tally)
    return total


def test_seats_and_queues_are_those_of_the_configuration() -> None:
    simulation = Simulation(objects(), 10)
    wide = kind(seats=2, target="/api/v1/pods")
    total = ran(simulation, [(0, wide, 100 * MS)] * 14)

    assert (9, 4, {"queue-full": 5}) == (total.executed, total.queued, total.rejected)
    assert 200 * MS == simulation.clock.time_ns
    assert [("u", "level", "schema", "u")] == list(simulation.tallies)
    view = simulation.views["level"]
    assert (10, 1_800 * MS, 0) == (view.max_seats, view.seat_ns, view.borrowed_ns)


@pytest.mark.parametrize(("most", "seats"), [(100, 60), (40, 40), (5, 5)])
def test_seats_of_a_list_are_bounded(most: int, seats: int) -> None:
    simulation = Simulation(objects(), 400, max_list_seats=most)
    ran(simulation, [(0, kind(seats=100, target="/api/v1/pods"), MS)])

    assert seats == simulation.views["level"].max_seats


def test_watches_make_writes_wider() -> None:
    """A watch gives its seat back at once, but counts for writes until its end."""
    simulation = Simulation(objects(), 100)
    watches = [(0, kind(target="/api/v1/pods?watch=1"), 10 * S)] * 20
    write = kind("w", GET, "PUT")
    ran(simulation, [*watches, (S, write, 10 * MS), (20 * S, write, 10 * MS)])

    assert 20 * 100 * MS == simulation.tallies["u", "level", "schema", "u"].seat_ns
    # Two seats for 5 ms after the first write's end, none after the second's.
    assert 2 * 15 * MS + 10 * MS == simulation.tallies["w", "level", "schema", "w"].seat_ns


def test_clients_of_watches() -> None:
    """They watch again once a watch has ended, not when it has given its seats back."""
    simulation = Simulation(objects(), 1)
    tally = of_clients(simulation, kind(target="/api/v1/pods?watch=1"), 10 * S, 30 * S)

    assert (3, 300 * MS) == (tally.executed, tally.seat_ns)
    assert 20_100 * MS == simulation.clock.time_ns  # what goes on without seats is not waited for


def test_places_of_long_running_requests_come_back() -> None:
    """Also of a request without seats, and of a watch that waited in vain; headers count, too."""
    added = objects(
        level="apfproxy.io/wait-limit: 100ms",
        schema="apfproxy.io/long-running-limit: '1', apfproxy.io/match-header: 'A: b'",
    )
    simulation = Simulation(added, 1)
    plain = kind_of("plain", User("u", GROUPS), "GET", GET, 0)
    log, watch = kind(target=f"{GET}/log?follow=true"), kind(target="/api/v1/pods?watch=1")
    total = ran(
        simulation,
        [
            (0, log, 50 * MS),
            (40 * MS, log, 50 * MS),
            (60 * MS, kind(), S),
            (70 * MS, watch, S),
            (80 * MS, watch, S),
            (200 * MS, log, S),
        ],
    )

    Sequence(simulation, [(300 * MS, plain, MS)])
    simulation.run()
    assert {"plain": "catch-all", "u": "schema"} == {key[0]: key[2] for key in simulation.tallies}
    assert {"long-running": 2, "time-out": 1} == total.rejected
    assert (2, 1) == (total.without_seats, total.executed)


@pytest.mark.parametrize(("cost", "ratio"), [("tokens", 1), ("header:X-Cost", 0.1)])
def test_tenants_with_few_and_many_tokens(cost: str, ratio: float) -> None:
    """Their completions take as long; where a level counts tokens, they get as many of them."""
    added = objects(
        level=f"apfproxy.io/cost: '{cost}'",
        schema="apfproxy.io/match-model: llama3",
        queuing="queues: 64, handSize: 4, queueLengthLimit: 50",
    )
    simulation = Simulation(added, 8)
    target = ("POST", "/v1/chat/completions", 0, ((MODEL, "llama3"),), HTTP)
    for tokens in (200, 2000):
        tenant = kind_of(f"{tokens}", User(f"{tokens}", GROUPS), *target, tokens)
        for _ in range(20):
            ClosedClient(
                simulation, tenant, lambda: 500 * MS, think_ns=0, start_ns=0, stop_ns=400 * S
            )
    simulation.run()
    few, many = (simulation.tallies[n, "level", "schema", n].executed for n in ("200", "2000"))

    assert 200 * few == pytest.approx(2000 * many * ratio, rel=0.1)


def test_series_stay_small() -> None:
    told: list[int] = []
    simulation = Simulation(objects(), 10, on_progress=told.append)
    ran(simulation, [(index * S, kind(), MS) for index in range(200)])

    series = simulation.views["level"].series
    assert MOST_BINS <= len(series["seats"]) < 2 * MOST_BINS
    assert 400 * MS == simulation.bin_ns
    assert told == sorted(told)
    assert 200 - 1 == sum(series["dispatched"])


def test_too_many_clients_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TALLIES", 1)
    simulation = Simulation(objects(), 10)
    ran(simulation, [(0, kind(name), MS) for name in "abc"])
    assert [("a", "level", "schema", "a"), ("(others)", "level", "schema", "(others)")] == list(
        simulation.tallies
    )


@pytest.mark.parametrize(
    ("is_prompt", "times_s"), [(True, [0.5, 1, 2, 5, 10, 20, 30]), (False, [10, 20, 30])]
)
def test_limits_are_adjusted_as_in_the_proxy(
    times_s: list[float], monkeypatch: pytest.MonkeyPatch, *, is_prompt: bool
) -> None:
    """Soon after the start, then every 10 s; as in Kubernetes, every 10 s."""
    simulation = Simulation(objects(), 10, is_prompt=is_prompt)
    adjusted: list[float] = []
    monkeypatch.setattr(
        Controller, "adjust_limits", lambda _: adjusted.append(simulation.clock.time_ns / S)
    )
    ran(simulation, [(0, hurried(40_000), 35 * S)])

    assert times_s == adjusted


def test_warm_up_does_not_count() -> None:
    simulation = Simulation(objects(), 10, warm_up_ns=S)
    total = ran(simulation, [(index * 200 * MS, kind(), 100 * MS) for index in range(10)])
    view = simulation.views["level"]

    assert (5, 500 * MS) == (total.executed, total.seat_ns)
    assert (500 * MS, 1, S) == (
        view.seat_ns,
        view.max_seats,
        simulation.counted_from_ns,
    )
    assert [1, 0] * 9 == view.series["seats"][:18]
    assert 10 == sum(view.series["dispatched"])


class Asking(ClosedClient):
    def __init__(self, simulation: Simulation, kind: Kind, *requests: tuple[int, int]) -> None:
        self._simulation = simulation
        self._kind = kind
        self.heard: list[tuple[int, int]] = []
        simulation.sources += 1
        for at_ns, service_ns in requests:
            simulation.clock.arm_arrival(at_ns, self.ask, service_ns)
        last_ns = max(at_ns for at_ns, _ in requests)
        simulation.clock.arm(last_ns, lambda _: simulation.source_ended(), None)
        simulation.run()

    def ask(self, service_ns: int) -> None:
        self._simulation.request(self._kind, service_ns, self)

    def on_end(self, retry_after_s: int) -> None:
        self.heard.append((self._simulation.clock.time_ns // MS, retry_after_s))

    def on_open(self, end_ns: int) -> None:
        self.heard.append((end_ns // MS, 0))


def hurried(timeout_ms: int, target: str = GET) -> Kind:
    """A kind of requests that may take so long, and wait for a quarter of that."""
    return kind(target=f"{target}?timeout={timeout_ms}ms")


def test_waits_and_gives_up() -> None:
    simulation = Simulation(objects(), 1)
    requests = [(0, 350), (0, 10), (0, 10), (0, 10), (0, 10), (50, 10), (310, 10)]
    asking = Asking(
        simulation, hurried(400), *((at * MS, service * MS) for at, service in requests)
    )
    (tally,) = simulation.tallies.values()

    assert [(50, 1), *[(100, 1)] * 4, (350, 0), (360, 0)] == asking.heard
    assert {"queue-full": 1, "time-out": 4} == tally.rejected
    assert (2, 5, 7) == (tally.executed, tally.queued, tally.requests)
    assert (360 * MS, 40 * MS) == (tally.seat_ns, tally.waits.total_ns)
    assert 0 == simulation.in_flight


@pytest.mark.parametrize(
    ("timeout_ms", "ends_ms", "cut_off"),
    [
        pytest.param(800, [90, 120], 0, id="in-time"),
        pytest.param(400, [90, 400], 1, id="cut-off"),
        pytest.param(80, [20, 80], 1, id="gives-up"),
    ],
)
def test_ends(timeout_ms: int, ends_ms: list[int], cut_off: int) -> None:
    simulation = Simulation(objects(), 1)
    second_ms = 30 if timeout_ms == 800 else 1000
    asking = Asking(simulation, hurried(timeout_ms), (0, 90 * MS), (0, second_ms * MS))
    (tally,) = simulation.tallies.values()
    assert ends_ms == [at_ms for at_ms, _ in asking.heard]
    assert cut_off == tally.cut_off


def test_watches_give_their_seats_back_before_they_end() -> None:
    """The next gets the seat once a watch has begun; its client knows when it will end."""
    simulation = Simulation(objects(), 1)
    asking = Asking(simulation, kind(target="/api/v1/pods?watch=1"), (0, 900 * MS), (0, 30 * MS))
    assert [(900, 0), (130, 0)] == asking.heard
    assert 130 * MS == simulation.clock.time_ns


def test_errors_are_not_hidden() -> None:
    simulation = Simulation(objects(), 1)
    request = SimulatedRequest(simulation, simulation._new_lane(kind()), S, None)  # noqa: SLF001
    with pytest.raises(ZeroDivisionError):
        request.fail(ZeroDivisionError())


def of_clients(
    simulation: Simulation,
    each: Kind,
    service_ns: int,
    stop_ns: int,
    *,
    clients: int = 1,
    think_ns: int = 0,
    start_ns: int = 0,
) -> Tally:
    for _ in range(clients):
        ClosedClient(
            simulation,
            each,
            lambda: service_ns,
            think_ns=think_ns,
            start_ns=start_ns,
            stop_ns=stop_ns,
        )
    simulation.run()
    (tally,) = simulation.tallies.values()
    return tally


def test_a_client_waits_for_answers() -> None:
    """With one request at a time and a pause, a client makes so many as fit until its end."""
    simulation = Simulation(objects(), 10)
    tally = of_clients(simulation, kind(), 60 * MS, 2 * S, think_ns=40 * MS, start_ns=S)
    assert (10, 10) == (tally.executed, simulation.arrivals)
    assert 1_960 * MS == simulation.clock.time_ns


def test_a_rejected_client_stays_away() -> None:
    # One executes, four wait in two queues of two.
    tally = of_clients(Simulation(objects(), 1), kind(), 600 * MS, 900 * MS, clients=6)
    assert {"queue-full": 1} == tally.rejected


def test_a_mix() -> None:
    mix = parse_mix(
        b'{"duration": "5s", "flows": [{"name": "a", "user": "a", "rate": 20,'
        b' "request": "GET /x", "serviceTime": "5ms"}, {"name": "b", "user": "b",'
        b' "clients": 2, "request": "GET /x", "serviceTime": "exp(50ms)"}]}'
    )
    simulation = Simulation(objects(), 10)
    mix.feed(simulation)
    simulation.run()
    found = {key[0]: tally.executed for key, tally in simulation.tallies.items()}

    assert {"a", "b"} == found.keys()
    assert len(list(mix.flows[0].requests(mix.chance(0)))) == found["a"]


def test_seats_are_divided_fairly() -> None:
    """Clients get what they ask for, or an even share of what others leave: max-min fairness."""
    asked = {"modest": 2, "medium": 4, "greedy": 20, "greedier": 40}
    fair = {"modest": 2.0, "medium": 4.0, "greedy": 7.0, "greedier": 7.0}  # of 20 seats
    deep = objects(queuing="queues: 64, handSize: 2, queueLengthLimit: 99")
    simulation = Simulation(deep, 20)
    chance = random.Random(1)  # noqa: S311  no secret
    draw = parse_times("50ms-150ms").drawer(chance)
    for name, clients in asked.items():
        for _ in range(clients):
            ClosedClient(simulation, kind(name), draw, think_ns=0, start_ns=0, stop_ns=40 * S)
    simulation.run()
    used = {key[0]: tally.seat_ns / (40 * S) for key, tally in simulation.tallies.items()}

    assert pytest.approx(fair, rel=0.1) == used


def durations_of(values: list[int]) -> Durations:
    found = Durations()
    for value in values:
        found.add(value)
    return found


@given(values=st.lists(st.integers(0, 10**13), min_size=1), part=st.floats(0.01, 1))
def test_quantiles_are_close(values: list[int], part: float) -> None:
    exact = sorted(values)[math.ceil(part * len(values)) - 1]
    (found,) = durations_of(values).quantiles((part,))
    assert found == pytest.approx(exact, rel=0.008)


def test_zeros_count() -> None:
    found = durations_of([100, 100])
    assert (0.0, 0.0, 100.0) == found.quantiles((0.5, 0.6, 1.0), zeros=3)
    assert (0.0,) == Durations().quantiles((0.5,))


@given(first=st.lists(st.integers(0, 10**9)), second=st.lists(st.integers(0, 10**9)))
def test_merges(first: list[int], second: list[int]) -> None:
    merged = durations_of(first)
    merged.merge(durations_of(second))
    expected = durations_of(first + second)
    assert expected.counts == merged.counts
    assert expected.total_ns == merged.total_ns


def test_tallies_merge() -> None:
    first, second = Tally(), Tally()
    for tally in (first, second):
        tally.executed, tally.queued, tally.cut_off, tally.without_seats = 3, 2, 1, 4
        tally.seat_ns, tally.service_ns = 10, 20
        tally.waits.add(5)
        tally.rejected["time-out"] = 2
    second.rejected["queue-full"] = 1
    first.merge(second)

    assert (6, 4, 2, 8) == (first.executed, first.queued, first.cut_off, first.without_seats)
    assert (20, 40, 10) == (first.seat_ns, first.service_ns, first.waits.total_ns)
    assert {"time-out": 4, "queue-full": 1} == first.rejected
    assert (5, 19) == (first.rejected_total, first.requests)


def test_integrates() -> None:
    view = Simulation(objects(), 2).views["level"]
    view.time_at[pack(1, 3, 0, 0)] = 10
    view.time_at[pack(1, 1, 4, 4)] = 100
    view.fold()

    assert (130, 400, 10) == (view.seat_ns, view.waiting_ns, view.borrowed_ns)
    assert (3, 4) == (view.max_seats, view.max_waiting)
    assert {} == view.time_at


def test_events_come_in_order() -> None:
    clock = VirtualClock()
    happened: list[tuple[int, str]] = []

    def note(name: str) -> None:
        happened.append((clock.now_ns(), name))

    clock.arm(20, note, "late")
    clock.arm(10, note, "first")
    clock.call_at(10, lambda: note("second"))
    clock.arm_arrival(10, note, "arrival")
    clock.arm_arrival(10, note, "next arrival")
    clock.run()

    assert [
        (10, "arrival"),
        (10, "next arrival"),
        (10, "first"),
        (10, "second"),
        (20, "late"),
    ] == happened


def test_cancelled_stopped_and_late() -> None:
    """A cancelled timer does nothing; a run goes on from where it ended, never backwards."""
    clock = VirtualClock(100)
    seen: list[tuple[str, int]] = []
    clock.call_at(105, lambda: seen.append(("cancelled", 105))).cancel()
    clock.arm(50, lambda _: seen.append(("late", clock.now_ns())), None)
    clock.arm(108, lambda _: clock.stop(), None)
    clock.arm(109, lambda _: seen.append(("next run", clock.now_ns())), None)
    clock.run()

    assert [("late", 100)] == seen
    clock.run()
    assert [("late", 100), ("next run", 109)] == seen
