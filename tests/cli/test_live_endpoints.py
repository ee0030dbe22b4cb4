"""The servers behind in top."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from rich.console import Console

from apfproxy.cli.live_client import state_of
from apfproxy.cli.live_tables import render
from apfproxy.cli.live_view import View
from tests.cli.live_states import state

URL = "http://127.0.0.1:8081"
NOW = 1_792_481_236.0


def endpoint(url: str, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """A server that is well."""
    return {
        "url": url,
        "state": "up",
        "problem": None,
        "since": NOW - 60,
        "ramp": 1.0,
        "share": 0.5,
        "seats": 12,
        "inFlight": 14,
        "answersPerSecond": {"2xx": 100.0, "5xx": 0.5},
        "failuresPerSecond": 0.0,
        "p99": 0.045,
        **changes,
    }


OUT = {"state": "failing", "share": 0.0, "seats": 0, "inFlight": 0, "answersPerSecond": {}}


def view(*endpoints: dict[str, Any], **changes: Any) -> View:  # noqa: ANN401 - any JSON
    """A view of a state with these servers."""
    upstream = {
        "address": URL,
        "state": "up",
        "problem": None,
        "since": NOW,
        "answersPerSecond": {"2xx": 200.0},
        "failuresPerSecond": 0.0,
        "p50": None,
        "p99": None,
        "endpoints": list(endpoints),
        "endpointCount": len(endpoints),
        "healthyCount": sum(each["state"] == "up" for each in endpoints),
        **changes,
    }
    return View(URL, state_of(URL, state(upstream=upstream)))


def lines(seen: View, width: int = 80) -> list[str]:
    """What is on the screen, from the heading of the servers on."""
    console = Console(file=io.StringIO(), width=width, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(render(seen, width))
    found = [line.rstrip() for line in capture.get().splitlines()]
    return found[[line.startswith("SERVERS BEHIND") for line in found].index(True) :]


THREE = view(
    endpoint("http://10.0.0.1:80"),
    endpoint("http://10.0.0.2:80", ramp=0.4),
    endpoint("http://10.0.0.3:80", **OUT, problem="connection refused", p99=None),
)


def test_table() -> None:
    """Those that get no requests come first; printed once, it is there by itself."""
    assert [
        "SERVERS BEHIND STATE SHARE SEATS FLIGHT ANS/S FAIL/S P99",
        "http://10.0.0.3:80 failing 60 s 0% 0 0 0 0 -",
        "http://10.0.0.1:80 up 50% 12 14 100 0.5 45 ms",
        "http://10.0.0.2:80 starting 40% 50% 12 14 100 0.5 45 ms",
    ] == [" ".join(line.split()) for line in lines(THREE)[:4]]
    assert all(len(line) <= 80 for line in lines(THREE))


def test_width() -> None:
    """A narrow terminal has no shares, a wide one the reasons."""
    assert "SHARE" not in lines(THREE, 60)[0]
    assert lines(THREE, 120)[1].endswith("connection refused")


def test_lines() -> None:
    """In a low terminal the servers take the place of queues and flows, and the rest is counted."""
    many = view(*(endpoint(f"http://10.0.0.{number}:80") for number in range(20)))
    found = lines(replace(many, height=16, is_endpoints=True))

    assert "and 13 more" == found[8]
    assert not any("TOP FLOWS" in line or "FULLEST" in line for line in found)


def test_none() -> None:
    """That there is but one, or none of a name, is said."""
    one = replace(view(), is_endpoints=True)

    assert ["SERVERS BEHIND", "There is but one."] == lines(one)[:2]
    assert "None has such a name." == lines(replace(THREE, part="x", is_endpoints=True))[1]
    assert ["http://10.0.0.2:80"] == [each.url for each in replace(THREE, part="0.2").endpoints()]
