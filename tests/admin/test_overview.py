"""Several clusters at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.admin.overview import MAX_PROBLEM, Overview
from apfproxy.admin.state import ClusterState, ProcessState
from tests.admin.scene import Scene, StillUpstream
from tests.fleet.views import fleet
from tests.support.builders import flow_schema, group_subject

if TYPE_CHECKING:
    from collections.abc import Callable

S = 1_000_000_000


def still(*states: str) -> Scene:
    """A cluster whose servers are in these states."""
    scene = Scene((flow_schema("everyone", "catch-all", group_subject("everyone")),))
    scene.upstream = StillUpstream(*states)
    return scene


def after(
    seconds: int,
    change: Callable[[], object],
    scenes: dict[str, Scene],
    enforcement: str = "enforce",
) -> tuple[Overview, dict[str, Any]]:
    def state() -> ProcessState:
        clusters = [each.cluster(name, enforcement=enforcement) for name, each in scenes.items()]
        return ProcessState(clusters=clusters)

    overview = Overview()
    overview.take(state(), 0)
    change()
    overview.take(state(), seconds * S)
    return overview, overview.json(state())


def test_worst_first() -> None:
    well = still("up").cluster("well")
    well.problem = "s.yaml:3: odd\ns.yaml:4: even"
    clusters = [
        well,
        still("up", "failing").cluster("partly"),
        still("failing").cluster("dead"),
        ClusterState(name="bad", problem="x" * 999),
        still("up").cluster("away", fleet=fleet(problem="no answer")),
    ]
    state = Overview().json(ProcessState(clusters=clusters))

    assert ["bad", "dead"] == [each["name"] for each in state["clusters"]][:2]
    assert [
        ("error", "1 of 5 clusters cannot be used: bad"),
        ("error", "1 of 5 clusters has no server that answers: dead"),
    ] == [(each["severity"], each["text"]) for each in state["verdict"]][:2]
    assert {
        "bad": "x" * MAX_PROBLEM,
        "dead": "all fail",
        "partly": "1 of 2 servers is out: http://1:1: connection refused",
        "away": "no answer",
        "well": "stays as it was: s.yaml:3: odd; s.yaml:4: even",
    } == {each["name"]: each["problem"] for each in state["clusters"]}


@pytest.mark.parametrize("is_observing", [False, True])
def test_a_cluster_that_would_reject(is_observing: bool) -> None:
    busy, enforcement = still("up"), "observe" if is_observing else "enforce"
    queue_set = busy.controller.levels["catch-all"].queue_set

    def reject() -> None:
        queue_set.rejected_total = 4

    _, state = after(2, reject, {"busy": busy}, enforcement)
    [row], [first] = state["clusters"], state["verdict"]
    told = "1 of 1 cluster rejects requests: busy" == first["text"]

    assert 2.0 == row["rejectedPerSecond"]
    expected = ("note", "ok", False) if is_observing else ("error", "error", True)
    assert expected == (row["severity"], first["severity"], told)


def test_rates() -> None:
    """They are those between two samples; a cluster made again begins again."""
    busy = still("up")
    scenes = {"a": still("up"), "busy": busy}
    overview, state = after(2, lambda: (busy.ticket("ann"), busy.ticket("bob")), scenes)
    row, other = state["clusters"]
    names = "servedPerSecond", "failedPerSecond", "rejectedPerSecond", "executing"

    assert ("busy", "a") == (row["name"], other["name"])
    assert (1.0, 0.0, 0.0, 2) == tuple(row[name] for name in names)
    assert "all is well: 1 requests/s in 2 clusters, nothing waits" == state["verdict"][0]["text"]
    again = ProcessState(clusters=[still("up").cluster("busy")])
    overview.take(again, 3 * S)

    assert 0.0 == overview.json(again)["clusters"][0]["servedPerSecond"]
