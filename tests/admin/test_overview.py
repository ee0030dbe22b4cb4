"""Several clusters at a glance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from apfproxy.admin.overview import MAX_PROBLEM, Overview, Place
from apfproxy.flowcontrol.queue_set import RejectReason
from loadtest.objects import flow_schema, group_subject
from tests.admin.scene import Scene
from tests.admin.servers import StillUpstream

if TYPE_CHECKING:
    from apfproxy.flowcontrol.controller import Controller

S = 1_000_000_000
SCHEMA = flow_schema("everyone", "catch-all", group_subject("everyone"))


@dataclass(eq=False)
class Still:
    """A cluster that serves."""

    upstream: StillUpstream
    scene: Scene = field(default_factory=lambda: Scene((SCHEMA,)))
    fleet_problem: str = ""
    is_observing: bool = False

    @property
    def controller(self) -> Controller:
        """Its flow control."""
        return self.scene.controller


class Process:
    """Clusters, and a time that a test moves."""

    def __init__(self, **clusters: Still | str) -> None:
        self.now_ns = 0
        self.places = [
            Place(name, f"{name}.example", None, each)
            if isinstance(each, str)
            else Place(name, f"{name}.example", each, "")
            for name, each in clusters.items()
        ]
        self.overview = Overview(lambda: self.places, lambda: self.now_ns)


def test_worst_first() -> None:
    """Clusters with problems come first, and are named in words."""
    process = Process(
        well=Still(StillUpstream("up")),
        partly=Still(StillUpstream("up", "failing")),
        dead=Still(StillUpstream("failing")),
        bad="x" * 999,
    )
    state = process.overview.state()

    assert ["bad", "dead", "partly", "well"] == [each["name"] for each in state["clusters"]]
    assert [
        ("error", "1 of 4 clusters cannot be used: bad"),
        ("error", "1 of 4 clusters has no server that answers: dead"),
        ("warning", "1 of 4 clusters has a problem: partly"),
    ] == [(each["severity"], each["text"]) for each in state["verdict"]]
    assert [
        "x" * MAX_PROBLEM,
        "all fail",
        "1 of 2 servers is out: http://1:1: connection refused",
        "",
    ] == [each["problem"] for each in state["clusters"]]


@pytest.mark.parametrize("is_observing", [False, True])
def test_a_cluster_that_would_reject(is_observing: bool) -> None:
    """It is no error where flow control only observes."""
    busy = Still(StillUpstream("up"), is_observing=is_observing)
    process = Process(busy=busy)
    process.overview.sample()
    busy.scene.controller.levels["catch-all"].queue_set.rejected_total += 2
    process.now_ns = S
    process.overview.sample()
    state = process.overview.state()

    assert [2.0] == [row["rejectedPerSecond"] for row in state["clusters"]]
    assert ("note" if is_observing else "error") == state["clusters"][0]["severity"]
    assert ("ok" if is_observing else "error") == state["verdict"][0]["severity"]


def test_fleet() -> None:
    """A cluster whose seats are not in step with those of other proxies says why."""
    process = Process(away=Still(StillUpstream("up"), fleet_problem="redis://r: no answer"))
    state = process.overview.state()

    assert ("warning", "redis://r: no answer") == (
        state["clusters"][0]["severity"],
        state["clusters"][0]["problem"],
    )


def test_settings_that_are_not_in_force() -> None:
    """A cluster that serves by its settings of before has all that is wrong with the new ones."""
    process = Process()
    process.places = [Place("a", "", Still(StillUpstream("up")), "s.yaml:3: odd\ns.yaml:4: even")]

    [row] = process.overview.state()["clusters"]
    assert ("up", "stays as it was: s.yaml:3: odd; s.yaml:4: even") == (
        row["state"],
        row["problem"],
    )


def test_rates() -> None:
    """They are those between two samples; a cluster made anew begins again."""
    busy = Still(StillUpstream("up"))
    process = Process(busy=busy)
    process.overview.sample()
    busy.scene.ticket("ann")
    busy.scene.ticket("bob")
    process.now_ns = 2 * S
    process.overview.sample()
    [row] = process.overview.state()["clusters"]

    assert (1.0, 0.0, 0.0, 2) == (
        row["servedPerSecond"],
        row["failedPerSecond"],
        row["rejectedPerSecond"],
        row["executing"],
    )
    assert (
        "all is well: 1 requests/s in 1 cluster, nothing waits"
        == (process.overview.state()["verdict"][0]["text"])
    )
    process.places = Process(busy=Still(StillUpstream("up"))).places
    process.overview.sample()

    assert 0.0 == process.overview.state()["clusters"][0]["servedPerSecond"]


def test_busy_first() -> None:
    """Of clusters that are well those with most to do come first."""
    busy = Still(StillUpstream("up"))
    process = Process(idle=Still(StillUpstream("up")), busy=busy)
    process.overview.sample()
    busy.scene.ticket("ann")
    process.now_ns = S
    process.overview.sample()

    assert ["busy", "idle"] == [each["name"] for each in process.overview.state()["clusters"]]


def test_rejections() -> None:
    """A cluster that rejects is told, whatever its servers do."""
    busy = Still(StillUpstream("up"))
    process = Process(busy=busy)
    process.overview.sample()
    while isinstance(busy.scene.ask("ann"), RejectReason) is False:
        pass
    process.now_ns = S
    process.overview.sample()
    state = process.overview.state()

    assert ("error", 1.0) == (
        state["clusters"][0]["severity"],
        state["clusters"][0]["rejectedPerSecond"],
    )
    assert "1 of 1 cluster rejects requests: busy" == state["verdict"][0]["text"]
