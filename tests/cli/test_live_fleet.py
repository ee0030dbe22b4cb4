"""The line of the fleet in top."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.admin.fleet_state import fleet_state
from apfproxy.cli.live_client import state_of
from apfproxy.cli.live_head import head
from apfproxy.cli.live_view import View
from tests.cli.live_states import level, state
from tests.fleet.views import fleet, member

if TYPE_CHECKING:
    from apfproxy.fleet.view import FleetView

URL = "http://127.0.0.1:8081"


@pytest.mark.parametrize(
    ("view", "text", "style"),
    [
        pytest.param(
            fleet(),
            "fleet 3 seen  340 in use, 500 claimed of 600  here 200 held",
            "green",
            id="well",
        ),
        pytest.param(
            fleet(store="the parent process"),
            "workers 3 seen  340 in use, 500 claimed of 600  here 200 held",
            "green",
            id="workers",
        ),
        pytest.param(
            fleet(state="partitioned", problem="no\x1banswer", age_s=20.0, in_force=120),
            "fleet 3 seen  340 in use, 500 claimed of 600  here 120 partitioned"
            "  not written for 20 s: no\\x1banswer",
            "bold yellow",
            id="away",
        ),
        pytest.param(
            fleet(state="joining", problem="refused", age_s=None),
            "fleet 3 seen  340 in use, 500 claimed of 600  here 200 joining  not written: refused",
            "bold yellow",
            id="never-written",
        ),
        pytest.param(
            fleet(member("a", is_self=True), member("b", age_s=4.0), claims=700),
            "fleet 1 of 2 seen  300 in use, 700 claimed of 600  here 200 held",
            "bold red",
            id="over-and-silent",
        ),
        pytest.param(
            fleet(member("a", is_self=True), member("b", is_alike=False)),
            "fleet 2 seen  300 in use, 400 claimed of 600  here 200 held  1 unlike",
            "bold yellow",
            id="unlike",
        ),
    ],
)
def test_line(view: FleetView, text: str, style: str) -> None:
    """It says how many there are, what they use and claim, and how this one stands."""
    found = head(View(URL, state_of(URL, state(level(seatsInUse=7), fleet=fleet_state(view)))), 120)

    assert text == found[-1].plain
    assert style in {str(span.style) for span in found[-1].spans}
    assert f"7 of {view.in_force} seats in use" in found[-2].plain
