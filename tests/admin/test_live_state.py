"""The state that the live page shows."""

from __future__ import annotations

import pytest

from apfproxy import __version__
from apfproxy.admin import live_state as live_state_module
from apfproxy.admin.fleet_state import fleet_state
from apfproxy.admin.live_recent import Recent
from apfproxy.admin.live_state import NEW_LEVEL, LiveInputs, live_state
from apfproxy.base.events import ConfigurationEvents
from apfproxy.base.health_checks import HealthRegistry
from apfproxy.objects.types import QueuingConfiguration
from apfproxy.proxy.counters import ListenerCounters, ProxyCounters, Refusal
from loadtest.objects import flow_schema, group_subject, priority_level
from tests.admin.scene import Scene
from tests.fleet.views import fleet


@pytest.fixture
def scene() -> Scene:
    """Two seats, one queue of one place: two execute, one waits, one is rejected."""
    queuing = QueuingConfiguration(queues=2, hand_size=1, queue_length_limit=1)
    level = priority_level("tiny", shares=20, queuing=queuing, lendable_percent=50)
    scene = Scene(
        (level, flow_schema("all", "tiny", group_subject("everyone"))), server_concurrency_limit=2
    )
    for _ in range(4):
        scene.ask("ann")
    return scene


def test_level(scene: Scene) -> None:
    """A level has its limits, what it does now, what it did, and its queues."""
    state = live_state(scene.controller, LiveInputs())
    level = {each["name"]: each for each in state["levels"]}["tiny"]
    waiting, seats = level.pop("queues"), level.pop("queueSeats")

    assert {
        "name": "tiny",
        "uid": scene.controller.levels["tiny"].uid,
        "type": "Limited",
        "isQuiescing": False,
        "shares": 20,
        "lendablePercent": 50,
        "borrowingLimitPercent": 0,
        "nominal": 2,
        "min": 1,
        "max": 2,
        "current": 2,
        "seatsInUse": 2,
        "executing": 2,
        "waiting": 1,
        "lent": 0,
        "borrowed": 0,
        "dispatched": 2,
        "rejected": 1,
        "timedOut": 0,
        "cancelled": 0,
        "failed": 0,
        "queueCount": 2,
        **NEW_LEVEL,
    } == level
    assert [0, 1] == sorted(waiting)
    assert [0, 2] == sorted(seats)


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        pytest.param(1, (1, 0), id="lends"),
        pytest.param(2, (0, 0), id="neither"),
        pytest.param(5, (0, 3), id="borrows"),
    ],
)
def test_lent_and_borrowed(scene: Scene, current: int, expected: tuple[int, int]) -> None:
    """What the current limit is off the nominal one is lent or borrowed."""
    scene.controller.levels["tiny"].current_limit = current
    levels = live_state(scene.controller, LiveInputs())["levels"]
    level = {each["name"]: each for each in levels}["tiny"]

    assert expected == (level["lent"], level["borrowed"])


def test_many_queues(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many queues the first are shown, and how many there are."""
    monkeypatch.setattr(live_state_module, "MAX_QUEUES", 1)
    levels = live_state(scene.controller, LiveInputs())["levels"]
    level = {each["name"]: each for each in levels}["tiny"]

    assert (1, 1, 2) == (len(level["queues"]), len(level["queueSeats"]), level["queueCount"])


def test_exempt_level(scene: Scene) -> None:
    """An exempt level has no greatest limit and no queues."""
    levels = live_state(scene.controller, LiveInputs())["levels"]
    level = {each["name"]: each for each in levels}["exempt"]

    assert ("Exempt", None, []) == (level["type"], level["max"], level["queues"])
    assert ["catch-all", "exempt", "tiny"] == [each["name"] for each in levels]


def test_the_whole(scene: Scene) -> None:
    """Beside the levels there are the server's limit, what is recent, and what happened."""
    events = ConfigurationEvents()
    events.record(3.0, "bad \udcff", is_error=True)
    inputs = LiveInputs(
        lambda: "observe",
        events,
        started_s=2.0,
        source=lambda: "files",
        upstream=lambda: {"state": "up"},
        client_problems=lambda: iter(("all are one",)),
    )
    found = Recent(flow_schemas=[{"name": "all"}], top_flows=[{"flow": "ann"}])
    state = live_state(scene.controller, inputs, found)
    del state["levels"], state["seatFairFrac"]

    assert {
        "serverConcurrencyLimit": 2,
        "enforcement": "observe",
        "proxy": {
            "version": __version__,
            "startTime": 2.0,
            "loopDelaySeconds": 0.0,
            "sheds": [],
            "refusedPerSecond": {},
        },
        "cluster": "",
        "problems": [],
        "clientProblems": ["all are one"],
        "flowSchemas": [{"name": "all"}],
        "flowSchemaCount": 3,
        "topFlows": [{"flow": "ann"}],
        "upstream": {"state": "up"},
        "fleet": None,
        "configuration": {
            "generation": 2,
            "source": "files",
            "events": [{"time": 3.0, "message": "bad \\udcff", "isError": True}],
        },
    } == state


def test_what_is_recent_of_a_level(scene: Scene) -> None:
    """A level has what is recent of it; one that came since has done nothing yet."""
    found = Recent(levels={"tiny": {"condition": "rejects"}})
    levels = live_state(scene.controller, LiveInputs(), found)["levels"]
    conditions = {each["name"]: each["condition"] for each in levels}

    assert {"catch-all": "idle", "exempt": "idle", "tiny": "rejects"} == conditions


def test_health(scene: Scene) -> None:
    """Checks that fail are listed, with their problems."""
    health = HealthRegistry()
    health.add("limits", is_blocking=False, problem="late\udcff")
    health.add("sweep")
    problems = live_state(scene.controller, LiveInputs(health=health))["problems"]

    assert [{"check": "limits", "problem": "late\\udcff", "isBlocking": False}] == problems


def test_overload(scene: Scene) -> None:
    """How late the proxy is, and why it sheds connections."""
    counters = ProxyCounters(ListenerCounters(loop_delay_ns=256_000_000))
    counters.listener.overloads[Refusal.LOOP_DELAY] = True
    proxy = live_state(scene.controller, LiveInputs(counters=counters))["proxy"]

    assert {} == proxy["refusedPerSecond"]
    assert (0.26, ["loop-delay"]) == (proxy["loopDelaySeconds"], proxy["sheds"])


def test_no_flows_by_default() -> None:
    """Who does not watch flows shows none."""
    assert [] == list(LiveInputs().top_flows())


def test_problems_of_a_cluster(scene: Scene) -> None:
    """Those of other clusters are not among them."""
    health = HealthRegistry()
    for name in ("a", "b", "ab"):
        checks = health.of_cluster(name)
        checks.publish()
        checks.add("upstream", problem=name)
    health.add("cluster/a", problem="refused")
    health.add("limits", problem="late")
    found = live_state(scene.controller, LiveInputs(health=health, cluster="a"))

    assert "a" == found["cluster"]
    assert [("upstream", "a"), ("cluster/a", "refused"), ("limits", "late")] == [
        (each["check"], each["problem"]) for each in found["problems"]
    ]


def test_fleet() -> None:
    """Who shares the seats is there, if anybody does."""
    scene = Scene(())
    state = live_state(scene.controller, LiveInputs(fleet=fleet))

    assert fleet_state(fleet()) == state["fleet"]
