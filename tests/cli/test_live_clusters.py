"""Several clusters in top."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from rich.console import Console

from apfproxy.cli.live_client import clusters_of
from apfproxy.cli.live_clusters import HINT, ClustersView
from apfproxy.cli.live_tables import render

URL = "http://127.0.0.1:8081"


def cluster(name: str, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """A cluster that is well."""
    return {
        "name": name,
        "severity": "ok",
        "state": "up",
        "problem": "",
        "healthyCount": 3,
        "endpointCount": 3,
        "seatsInUse": 4,
        "serverConcurrencyLimit": 600,
        "waiting": 0,
        "servedPerSecond": 20.0,
        "failedPerSecond": 0.0,
        "rejectedPerSecond": 0.0,
        "p99": 0.045,
        **changes,
    }


def view(*clusters: dict[str, Any]) -> ClustersView:
    """A view of these."""
    verdict = [{"severity": "ok", "text": "all is well"}]
    state = {"time": 1_792_481_236.0, "verdict": verdict, "clusters": list(clusters)}
    return ClustersView(URL, clusters_of(URL, state))


def lines(seen: ClustersView, width: int = 80) -> list[str]:
    """What is on the screen."""
    console = Console(file=io.StringIO(), width=width, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(render(seen, width))
    return [" ".join(line.split()) for line in capture.get().splitlines()]


DEAD = cluster("dead", state="failing", severity="error", problem="refused", p99=None)


def test_table() -> None:
    """A line each, in the order in which they come; it fits 80 columns."""
    found = lines(view(DEAD, cluster("a")))

    assert found[0] == "all is well"
    assert found[1].endswith(HINT)
    assert found[3:] == [
        "CLUSTER STATE SERVERS SEATS WAIT SERV/S FAIL/S REJ/S P99 PROBLEM",
        "dead failing 3/3 4/600 0 20 0 0 - refused",
        "a up 3/3 4/600 0 20 0 0 45 ms",
    ]
    assert "refused" not in " ".join(lines(view(DEAD), 60))


def test_many() -> None:
    """In a terminal the rest is counted, and the keys are below."""
    many = view(*(cluster(f"c{number}") for number in range(100)))
    found = lines(replace(many, height=24))

    assert len(found) == 24
    assert found[-2:] == ["and 82 more", "q quit / find"]


def test_parts() -> None:
    """Only those with a part of a name are shown, and that is said."""
    both = view(cluster("shop"), cluster("bank"))

    assert not any(line.startswith("bank") for line in lines(replace(both, part="HO")))
    assert "No cluster has such a name." in lines(replace(both, part="x"))
    assert lines(replace(both, part="ho", height=20))[-1] == "q quit / find only ho"
    assert lines(replace(both, part="ho", is_typing=True, height=20))[-1].startswith(
        "only names with: ho_"
    )
    assert "still trying: gone" in lines(replace(both, problem="gone"))[0]
