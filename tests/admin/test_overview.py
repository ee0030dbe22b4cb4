"""Several clusters at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.admin.gathering import gathered
from apfproxy.admin.overview import MAX_PROBLEM, Overview
from apfproxy.admin.state import ClusterState
from loadtest.objects import flow_schema, group_subject
from tests.admin.scene import Scene, StillUpstream
from tests.fleet.views import fleet

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.admin.state import ProcessState

S = 1_000_000_000
SCHEMA = flow_schema("everyone", "catch-all", group_subject("everyone"))


class Still:
    def __init__(self, *states: str, enforcement: str = "enforce", fleet: Any = None) -> None:  # noqa: ANN401
        self.scene = Scene((SCHEMA,))
        self.scene.upstream = StillUpstream(*states)
        self.fleet = fleet
        self.enforcement = enforcement

    def cluster(self, name: str) -> ClusterState:
        return self.scene.cluster(name, fleet=self.fleet, enforcement=self.enforcement)


class Process:
    def __init__(self, **clusters: Still | str) -> None:
        self.now_ns = 0
        self.clusters = clusters
        self.overview = Overview()

    def state(self) -> ProcessState:
        parts = [
            ClusterState(name=name, problem=each) if isinstance(each, str) else each.cluster(name)
            for name, each in self.clusters.items()
        ]
        *_, state = gathered(started_s=1.0, health=(), clusters=parts)
        return state

    def sample(self) -> None:
        self.overview.take(self.state(), self.now_ns)

    def json(self) -> dict[str, Any]:
        return self.overview.json(self.state())

    def after(self, seconds: int, change: Callable[[], object]) -> dict[str, Any]:
        self.sample()
        change()
        self.now_ns += seconds * S
        self.sample()
        return self.json()


def test_worst_first() -> None:
    partly, dead = Still("up", "failing"), Still("failing")
    away = Still("up", fleet=fleet(problem="no answer"))
    process = Process(well=Still("up"), partly=partly, dead=dead, bad="x" * 999, away=away)
    whole = process.state()
    whole.clusters[0].problem = "s.yaml:3: odd\ns.yaml:4: even"
    state = process.overview.json(whole)
    out = "1 of 2 servers is out: http://1:1: connection refused"

    assert ["bad", "dead"] == [each["name"] for each in state["clusters"]][:2]
    assert [
        ("error", "1 of 5 clusters cannot be used: bad"),
        ("error", "1 of 5 clusters has no server that answers: dead"),
    ] == [(each["severity"], each["text"]) for each in state["verdict"]][:2]
    assert {
        "bad": "x" * MAX_PROBLEM,
        "dead": "all fail",
        "partly": out,
        "away": "no answer",
        "well": "stays as it was: s.yaml:3: odd; s.yaml:4: even",
    } == {each["name"]: each["problem"] for each in state["clusters"]}


@pytest.mark.parametrize("is_observing", [False, True])
def test_a_cluster_that_would_reject(is_observing: bool) -> None:
    busy = Still("up", enforcement="observe" if is_observing else "enforce")
    queue_set = busy.scene.controller.levels["catch-all"].queue_set
    state = Process(busy=busy).after(2, lambda: setattr(queue_set, "rejected_total", 4))
    [row], [first] = state["clusters"], state["verdict"]
    told = "1 of 1 cluster rejects requests: busy" == first["text"]

    assert 2.0 == row["rejectedPerSecond"]
    expected = ("note", "ok", False) if is_observing else ("error", "error", True)
    assert expected == (row["severity"], first["severity"], told)


def test_rates() -> None:
    """They are those between two samples; a cluster made again begins again."""
    busy = Still("up")
    process = Process(a=Still("up"), busy=busy)
    state = process.after(2, lambda: (busy.scene.ticket("ann"), busy.scene.ticket("bob")))
    row, other = state["clusters"]

    assert ("busy", "a") == (row["name"], other["name"])
    assert (1.0, 0.0, 0.0, 2) == (
        row["servedPerSecond"],
        row["failedPerSecond"],
        row["rejectedPerSecond"],
        row["executing"],
    )
    assert "all is well: 1 requests/s in 2 clusters, nothing waits" == state["verdict"][0]["text"]
    process.clusters = {"busy": Still("up")}
    process.sample()

    assert 0.0 == process.json()["clusters"][0]["servedPerSecond"]
