"""A server that slows down under load, and its limit that is found."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.limit_finder import FinderSettings, LimitFinder
from apfproxy.request.attributes import User
from apfproxy.simulation.measures import Tally
from apfproxy.simulation.mix import parse_mix
from apfproxy.simulation.records import kind_of
from apfproxy.simulation.report import configuration_report
from apfproxy.simulation.server_model import (
    ServerRate,
    SimulatedServer,
    named_numbers,
    parse_server_model,
)
from apfproxy.simulation.simulation import Sequence, Simulation
from apfproxy.simulation.virtual_clock import VirtualClock
from tests.simulation.scene import objects
from tests.simulation.test_simulation import GET, GROUPS, MS, S, hurried, kind, ran

if TYPE_CHECKING:
    from collections.abc import Iterable

NEVER = 1 << 62
AUTO = FinderSettings(2, 1000, 100, 0.97)
DEEP = "queues: 64, handSize: 4, queueLengthLimit: 1000"


def served(model: str, *requests: tuple[int, int, int]) -> list[tuple[int, int, bool]]:
    """When each request (at, service, deadline) ended, in ms, and whether it was cut off."""
    clock = VirtualClock()
    ends: list[tuple[int, int, bool]] = []
    server = SimulatedServer[int](
        clock,
        parse_server_model(model),
        lambda number, is_cut: ends.append((number, round(clock.time_ns / MS), is_cut)),
    )
    for number, (at_ms, service_ms, deadline_ms) in enumerate(requests):
        work = (number, service_ms * MS, deadline_ms * MS)
        clock.arm_arrival(at_ms * MS, lambda each: server.begin(*each), work)
    clock.run()
    return sorted(ends)


@pytest.mark.parametrize(
    ("model", "ends_ms"),
    [
        pytest.param("capacity=2", [100, 100], id="not-full"),
        pytest.param("capacity=1", [200, 200], id="shared"),
        pytest.param("capacity=1,overload=2", [400, 400], id="overloaded"),
        pytest.param("capacity=2,slowdown=3", [300, 300], id="slow"),
        pytest.param("contention=0.5", [150, 150], id="contention"),
        pytest.param("contention=0.5,coherency=0.25", [200, 200], id="coherency"),
        pytest.param("capacity=2; 50ms: capacity=1", [150, 150], id="half-in-between"),
        pytest.param("capacity=2; 50ms: capacity=0; 5s: capacity=2", [5050, 5050], id="stalled"),
        pytest.param("capacity=1; 50ms: capacity=2", [125, 125], id="recovers"),
    ],
)
def test_requests_in_service_share_what_the_server_can_do(model: str, ends_ms: list[int]) -> None:
    found = served(model, (0, 100, NEVER // MS), (0, 100, NEVER // MS))
    assert ends_ms == [end for _, end, _ in found]


def test_who_comes_slows_down_who_is_there() -> None:
    """One alone for 50 ms, both for 100 ms, then the second alone; the third is not concerned."""
    found = served("capacity=1", (0, 100, 9999), (50, 100, 9999), (1000, 10, 9999))
    assert [(0, 150, False), (1, 200, False), (2, 1010, False)] == found


def test_who_is_cut_off_leaves_its_share() -> None:
    """Also while the server stands still."""
    found = served("capacity=1", (0, 1000, 90), (0, 100, 9999), (0, 10, 9999))
    assert [(0, 90, True), (1, 150, False), (2, 30, False)] == found
    assert [(0, 150, False), (1, 50, True)] == served("capacity=1", (0, 125, 999), (0, 125, 50))
    assert [(0, 100, True), (1, 300, True)] == served("capacity=0", (0, 1, 100), (0, 1, 300))


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 100)), min_size=1, max_size=30))
def test_a_server_that_is_never_full_takes_the_times_as_given(
    requests: list[tuple[int, int]],
) -> None:
    found = served("capacity=30", *((at, service, 9999) for at, service in requests))
    expected = [(i, at + service, False) for i, (at, service) in enumerate(requests)]
    assert expected == found


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(1, 100)), min_size=1, max_size=30),
    st.integers(1, 5),
)
def test_a_full_server_loses_no_work(requests: list[tuple[int, int]], capacity: int) -> None:
    """It is never done sooner than all of the work takes, or later than if one did it all."""
    found = served(f"capacity={capacity}", *((at, each, 1 << 30) for at, each in requests))
    work, last = sum(each for _, each in requests), max(end for _, end, _ in found)
    assert last >= min(at for at, _ in requests) + work / capacity - 1
    assert last <= max(at for at, _ in requests) + work + 1


@pytest.mark.parametrize(
    ("rate", "knee", "most"),
    [
        (ServerRate(20), 20, 20.0),
        (ServerRate(100, overload=1.5), 97, 100.0),
        (ServerRate(20, slowdown=2), 20, 10.0),
        (ServerRate(0), 1, 0.0),
        (ServerRate(contention=0.02, coherency=0.0001), 70, 25.2),
    ],
)
def test_knee(rate: ServerRate, knee: int, most: float) -> None:
    assert (knee, most) == (rate.knee(0.97)[0], round(rate.knee(0.97)[1], 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected capacity=20, capacity=20,overload=1.5 or"),
        ("20", "expected capacity=20, capacity=20,overload=1.5 or"),
        ("capacty=20", "unknown 'capacty'; did you mean capacity?"),
        ("x=20", "unknown 'x'; known are capacity, overload, contention"),
        ("capacity=20,capacity=2", "capacity is given twice"),
        ("capacity=many", "capacity: expected a number from 0 to 10000, not 'many'"),
        ("capacity=20,overload=0.5", "overload: expected a number from 1 to 10, not '0.5'"),
        ("capacity=nan", "capacity: expected a number from 0 to 10000, not 'nan'"),
        ("overload=2", "expected either capacity, or contention and coherency"),
        ("capacity=20,contention=0.1", "expected either capacity, or contention and coherency"),
        ("contention=0.1,overload=2", "expected either capacity, or contention and coherency"),
        ("5s: capacity=20", "expected times from 0s on, one after the other"),
        ("capacity=20; 9s: capacity=2; 9s: capacity=1", "expected times from 0s on"),
        ("capacity=20; capacity=2", "'' is not a duration such as 30s or 1m30s; an example is"),
        ("capacity=20; soon: capacity=2", "'soon' is not a duration"),
    ],
)
def test_wrong_models(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        parse_server_model(text)


def test_models() -> None:
    found = parse_server_model("0s: capacity=40 , overload=1.5;1m30s:contention=0.1")
    assert ((0, ServerRate(40, 1.5)), (90 * S, ServerRate(contention=0.1))) == found.rates
    assert {"a": 2.0} == named_numbers("a = 2", {"a": (0, 3)}, "")


MIX = """
duration: 40s
flows:
- {name: "many-{}", count: 2, user: "many-{}", request: GET /api/v1/namespaces/a/pods/b,
   clients: 60, serviceTime: exp(100ms)}
- {name: few, user: few, request: GET /api/v1/namespaces/a/configmaps, rate: 5,
   serviceTime: 20ms}
"""


def found_in(
    model: str | None, settings: FinderSettings | None = AUTO, limit: int = 600, mix: str = MIX
) -> dict[str, Any]:
    simulation = Simulation(
        objects(queuing=DEEP),
        limit,
        warm_up_ns=20 * S,
        server_model=None if model is None else parse_server_model(model),
        finder=None if settings is None else LimitFinder(settings),
    )
    parse_mix(mix.encode()).feed(simulation)
    simulation.run()
    return configuration_report("a", simulation)


@pytest.mark.parametrize("model", ["capacity=15,overload=1.5", "contention=0.03,coherency=0.001"])
@pytest.mark.parametrize("initial", [4, 100])
def test_the_limit_is_found(model: str, initial: int) -> None:
    """From far too low and far too high."""
    report = found_in(model, dataclasses.replace(AUTO, initial=initial))
    server = report["server"]

    assert server["modelMostWork"] * 0.7 < server["workMean"] <= server["modelMostWork"] * 1.01
    found = server["foundLimit"]
    assert server["modelKnee"] * 0.4 < found["limit"] < server["modelKnee"] * 2.5
    assert found["limit"] == report["serverConcurrencyLimit"]
    assert found["decisions"][-1]["time"] < 41
    assert initial in report["series"]["server"]["limit"][:5]


def test_the_limit_follows_an_incident() -> None:
    """After the capacity has halved the limit is lower, and no flow is worse off for long."""
    server = found_in("capacity=30; 20s: capacity=8")["series"]["server"]
    before, after = server["limit"][190], server["limit"][390]
    assert (before > 15, after < before / 1.5) == (True, True)


def test_auto_is_better_than_a_limit_that_is_too_high() -> None:
    auto, fixed = (found_in("capacity=15,overload=1.5", each) for each in (AUTO, None))

    assert auto["server"]["goodput"] > 1.5 * fixed["server"]["goodput"]
    waits = [
        row["latencyP99"]
        for report in (auto, fixed)
        for row in report["clients"]
        if row["client"] == "few"
    ]
    assert waits[0] < waits[1] / 2
    assert fixed["server"].keys() == {*("goodput", "workMean"), *MODEL}
    assert {600} == set(fixed["series"]["server"]["limit"])


MODEL = ("model", "modelKnee", "modelMostWork")


def test_auto_without_a_model() -> None:
    """Service times do not slow down: there is no knee below what is asked for."""
    report = found_in(None)
    assert "model" not in report["server"]
    assert report["server"]["foundLimit"]["limit"] >= 30
    assert "latencyP99" not in report["total"]


def outcome(
    model: str | None, requests: Iterable[tuple[int, Any, int]], *, is_auto: bool = False
) -> Simulation:
    parsed = None if model is None else parse_server_model(model)
    finder = LimitFinder(AUTO) if is_auto else None
    made = Simulation(objects(), 10, server_model=parsed, finder=finder)
    ran(made, requests)
    return made


@pytest.mark.parametrize("model", [None, "capacity=100"])
def test_exempt_requests_watches_and_what_is_cut_off(model: str | None) -> None:
    """Watches are no work; what is cut off is no response, and tells only after 5 s."""
    requests = [
        (0, kind(target="/api/v1/pods?watch=1"), 10 * S),
        (0, kind(target="/api/v1/pods?watch=1"), 50 * MS),
        (0, hurried(1000), 3 * S),
        (0, hurried(6000), 7 * S),
        (0, kind(), 8 * S),
        (0, kind_of("m", User("m", ("system:masters", *GROUPS)), "GET", GET), MS),
    ]
    simulation = outcome(model, requests, is_auto=True)
    tally = Tally()
    for each in simulation.tallies.values():
        tally.merge(each)
    view = simulation.server_view
    assert view is not None
    assert (6, 2, 2) == (tally.executed, tally.cut_off, view.responses)
    assert 8 * S + MS == view.work_ns
    assert 150 * MS + S + 6 * S + 8 * S + MS == tally.service_ns


def test_long_runs_keep_short_series() -> None:
    simulation = outcome("capacity=5", [(index * S, kind(), MS) for index in range(200)])
    series = configuration_report("a", simulation)["series"]["server"]
    assert len(series["limit"]) == len(simulation.views["level"].series["seats"])
    assert 1.0 == round(sum(series["goodput"]) / len(series["goodput"]), 1)


def test_a_report_without_a_server() -> None:
    report = configuration_report("a", outcome(None, [(0, kind(), MS)]))
    assert ("server" in report, "server" in report["series"]) == (False, False)


def test_a_simulation_without_time() -> None:
    simulation = Simulation(objects(), 10, server_model=parse_server_model("capacity=1"))
    Sequence(simulation, [])
    simulation.run()
    assert 0.0 == configuration_report("a", simulation)["server"]["goodput"]
