"""The report as tables."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.simulation.report import configuration_report, difference
from apfproxy.simulation.report_tables import BETTER, WORSE, Cell, pair, summaries, tables
from apfproxy.simulation.simulation import Simulation
from tests.simulation.scene import objects
from tests.simulation.test_report import report_of


def report(*configurations: dict[str, Any]) -> dict[str, Any]:
    """A report of one or two configurations."""
    made: dict[str, Any] = {"configurations": list(configurations)}
    if len(configurations) > 1:
        made["difference"] = difference(*configurations, top=10)
    return made


def test_one_configuration() -> None:
    """Levels without requests are left out, and clients that are the flows."""
    levels, flows = tables(report(report_of("a", 10)))

    assert ["level"] == [row.name for row in levels.rows]
    assert ["schema/many", "schema/<one>"] == [row.name for row in flows.rows]
    assert ("nominal", "10") == (levels.headings[0], levels.rows[0].cells[0].text)
    assert ("Flows", "flow", 0) == (flows.title, flows.noun, flows.rest)


def test_two_configurations() -> None:
    """A cell has both figures, or one that is the same; levels are neither better nor worse."""
    first, second = report_of("a", 10), report_of("b", 2)
    second["clients"][0]["client"] = "somebody"
    levels, flows, clients = tables(report(first, second))
    (level,) = levels.rows
    many = flows.rows[0]

    assert Cell("11 → 7") == level.cells[1]
    assert Cell("10 → 6", WORSE) == many.cells[0]
    assert Cell("0 → 4 queue-full", WORSE) == many.cells[2]
    assert ["somebody (new)", "<one>", "many (gone)"] == [row.name for row in clients.rows]
    assert Cell("- → 6") == clients.rows[0].cells[0]


def test_no_requests() -> None:
    """Where nothing was asked, there is no table."""
    simulation = Simulation(objects(), 10)

    assert [] == tables(report(configuration_report("a", simulation)))


def test_summaries() -> None:
    """A line for each configuration, with a letter where there are two."""
    first, second = report_of("a", 10), report_of("b", 2)

    assert ["a: 11 requests in 0.1 s, 11 executed, 1 of them queued, 0 rejected"] == summaries(
        report(first)
    )
    assert ["A: a: ", "B: b: "] == [line[:6] for line in summaries(report(first, second))]


@pytest.mark.parametrize(
    ("name", "before", "after", "expected"),
    [
        pytest.param("waitP99", 1.0, 0.5, Cell("1 s → 500 ms", BETTER), id="waits-less"),
        pytest.param("waitP99", 0.5, 1.0, Cell("500 ms → 1 s", WORSE), id="waits-longer"),
        pytest.param("waitP99", 1.0, 1.05, Cell("1 s → 1.05 s"), id="hardly-longer"),
        pytest.param("executed", 100, 200, Cell("100 → 200", BETTER), id="more"),
        pytest.param("executed", 1000, 999, Cell("1,000 → 999"), id="hardly-less"),
        pytest.param("executed", 5, 5, Cell("5"), id="same"),
        pytest.param("seatSeconds", 5.0, 50.0, Cell("5.0 → 50.0"), id="neither"),
    ],
)
def test_tone(name: str, before: float, after: float, expected: Cell) -> None:
    """A difference that somebody would notice is better or worse."""
    assert expected == pair(name, {"before": {name: before}, "after": {name: after}})
