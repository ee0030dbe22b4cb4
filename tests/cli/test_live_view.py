"""The order of what top shows, and what is left out."""

from __future__ import annotations

import pytest

from apfproxy.cli.live_client import state_of
from apfproxy.cli.live_view import View
from tests.cli.live_states import flow, level, state

URL = "http://127.0.0.1:8081"
STATE = state_of(
    URL,
    state(
        level("a", seatsInUse=1),
        level("b", waiting=5),
        level("c", seatsInUse=9),
        level("d", rejectedPerSecond={"queue-full": 2.0}),
        topFlows=[
            flow("x", seatSeconds=3.0, rejected=1.0),
            flow("y", waitSeconds=9.0, flowSchema="special"),
            flow("w", rejected=5.0, priorityLevel="d"),
        ],
    ),
)


@pytest.mark.parametrize(
    ("sort", "levels", "flows"),
    [
        ("p", "dbca", "xyw"),
        ("s", "cabd", "xyw"),
        ("w", "bacd", "yxw"),
        ("r", "dbac", "wxy"),
        ("n", "abcd", "wxy"),
    ],
)
def test_sorts(sort: str, levels: str, flows: str) -> None:
    """Levels and flows have an order for each key; problems are rejections, then waits."""
    view = View(URL, STATE, sort)

    assert levels == "".join(each.name for each in view.levels())
    assert flows == "".join(each.flow for each in view.flows())


@pytest.mark.parametrize(
    ("part", "levels", "flows"),
    [("A", ["a"], ["y"]), ("special", [], ["y"]), ("work", [], ["x", "y"]), ("z", [], [])],
)
def test_part(part: str, levels: list[str], flows: list[str]) -> None:
    """A part of a level's name, of a flow's, or of those of its FlowSchema and its level."""
    view = View(URL, STATE, part=part)

    assert (levels, flows) == (
        [each.name for each in view.levels()],
        [each.flow for each in view.flows()],
    )
