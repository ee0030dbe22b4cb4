"""What the live state has of the last seconds."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.admin import live_recent
from apfproxy.admin.live_recent import (
    displayable,
    flow_kind,
    flow_schemas,
    level_part,
    recent,
)
from apfproxy.admin.recent_rates import Rates, RecentRates
from apfproxy.admin.top_flows import MAX_NAME
from apfproxy.flowcontrol.queue_set import RejectReason
from apfproxy.objects.types import QueuingConfiguration
from loadtest.objects import flow_schema, group_subject, priority_level
from tests.admin.scene import Scene

S = 1_000_000_000
KEY = "tiny", "all"


@pytest.fixture
def scene() -> Scene:
    """Two seats, eight queues of one place."""
    queuing = QueuingConfiguration(queues=8, hand_size=1, queue_length_limit=1)
    level = priority_level("tiny", shares=1000, queuing=queuing)
    return Scene((level, flow_schema("all", "tiny", group_subject("everyone"))), 2)


def level_of(scene: Scene, rates: Rates | None = None) -> dict[str, Any]:
    """What is recent of the level."""
    level = scene.controller.levels["tiny"]
    return level_part(scene.controller, level, rates or Rates(), scene.clock.now_ns())


def test_idle(scene: Scene) -> None:
    """A level that does nothing is idle."""
    assert {
        "condition": "idle",
        "dispatchedPerSecond": 0.0,
        "servedPerSecond": 0.0,
        "failedPerSecond": 0.0,
        "leftPerSecond": 0.0,
        "rejectedPerSecond": {},
        "oldestWaitSeconds": 0.0,
        "holder": None,
    } == level_of(scene)


def test_rejecting(scene: Scene) -> None:
    """A level that rejects says why, how often, and who has its seats."""
    for _ in range(3):
        scene.ask("ann")
    scene.clock.run_until(2 * S)

    assert {
        "condition": "rejects",
        "dispatchedPerSecond": 2.33,
        "servedPerSecond": 1.83,
        "failedPerSecond": 0.5,
        "leftPerSecond": 1.5,
        "rejectedPerSecond": {"queue-full": 3.0},
        "oldestWaitSeconds": 2.0,
        "holder": {"flowSchema": "all", "flow": "ann", "kind": "user", "seats": 2, "waitsFor": 1},
    } == level_of(scene, Rates(5.3, 2.333, {RejectReason.QUEUE_FULL: 3.0}, 0.5, 1.5))


def test_conditions(scene: Scene) -> None:
    """A level waits while a request does; else it works while one executes or came lately."""
    lately = level_of(scene, Rates(1.0, 1.0))["condition"]
    scene.ask("ann")
    executing = level_of(scene)["condition"]
    scene.ask("ann")
    scene.ask("ann")
    waiting = level_of(scene)["condition"]

    assert ("works", "works", "waits") == (lately, executing, waiting)


def test_flow_schemas(scene: Scene) -> None:
    """FlowSchemas in force come in the order in which they are tried."""
    rates = {KEY: Rates(4.0, 1.0, {RejectReason.RATE: 2.0, RejectReason.QUEUE_FULL: 1.0})}
    first, *others = flow_schemas(scene.controller, rates)
    scene_uid = first.pop("uid")

    assert ["all", "catch-all"] == [each["name"] for each in others]
    assert scene_uid
    assert "exempt" == first["name"]
    assert (4.0, 3.0) == (others[0]["matchedPerSecond"], others[0]["rejectedPerSecond"])
    assert ("tiny", "user") == (others[0]["priorityLevel"], others[0]["kind"])


def test_many_flow_schemas(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many those stay that match most."""
    monkeypatch.setattr(live_recent, "MAX_FLOW_SCHEMAS", 1)
    found = flow_schemas(scene.controller, {KEY: Rates(1.0)})

    assert ["all"] == [each["name"] for each in found]


def test_recent(scene: Scene) -> None:
    """All parts are made of the rates."""
    rates = RecentRates(scene.controller, 0)
    scene.ask("ann")
    rates.look(S)
    found = recent(scene.controller, rates, (), {"401": 2.0})

    assert 1.0 == found.levels["tiny"]["servedPerSecond"]
    assert [0.0, 1.0, 0.0] == [each["matchedPerSecond"] for each in found.flow_schemas]
    assert ([], {"401": 2.0}) == (found.top_flows, found.refusals)


def test_kinds(scene: Scene) -> None:
    """A flow is one of a user, unless its FlowSchema is unknown."""
    assert ("user", "") == (
        flow_kind(scene.controller, "all"),
        flow_kind(scene.controller, "gone"),
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("", True, id="none"),
        pytest.param("ann", True, id="short"),
        pytest.param("a" * (MAX_NAME - 1), True, id="long"),
        pytest.param("a" * MAX_NAME, False, id="cut"),
        pytest.param("ann\udcfe", False, id="escaped"),
    ],
)
def test_names_of_flows(scene: Scene, name: str, expected: bool) -> None:
    """Whether a name is that of the flow, to the last letter, is told."""
    flow = {"flowSchema": "all", "priorityLevel": "tiny", "flow": name}
    (shown,) = recent(scene.controller, RecentRates(scene.controller, 0), [flow], {}).top_flows

    assert expected == shown["isWhole"]
    assert "user" == shown["kind"]


def test_displayable() -> None:
    """What is Unicode stays as it is."""
    assert "Zoë <b>" == displayable("Zoë <b>")
