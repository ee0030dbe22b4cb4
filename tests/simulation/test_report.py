"""Tests of what a simulation found, as data."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from apfproxy.simulation.plots import Plot, escape, picture, plot
from apfproxy.simulation.report import NOTHING, compared, configuration_report, difference, listed
from apfproxy.simulation.server_model import parse_server_model
from apfproxy.simulation.simulation import Sequence, Simulation
from tests.simulation.scene import objects
from tests.simulation.test_simulation import MS, kind

Row = dict[str, Any]


def report_of(name: str, seats: int, top: int = 10) -> Row:
    simulation = Simulation(objects(), seats)
    Sequence(simulation, [(0, kind("many"), 100 * MS)] * 10 + [(0, kind("<one>"), 50 * MS)])
    simulation.run()
    return listed(configuration_report(name, simulation), top)


def test_report() -> None:
    report = report_of("a", 10)
    (level,) = [each for each in report["levels"] if each["requests"]]
    many, one = report["flows"]

    assert json.loads(json.dumps(report)) == report
    assert ("a", 10, 0.15) == (report["name"], report["serverConcurrencyLimit"], report["seconds"])
    assert (11, 11, 1, 0) == tuple(
        report["total"][name] for name in ("requests", "executed", "queued", "rejectedTotal")
    )
    assert ("level", "schema", "many") == (many["priorityLevel"], many["flowSchema"], many["flow"])
    assert (1.0, 0.05) == (many["seatSeconds"], one["seatSeconds"])
    assert 0.1 == one["waitMean"] == round(one["waitP99"], 2)
    assert (10, 10, 10, 0) == tuple(
        level[name] for name in ("nominalLimit", "highestLimit", "seatsMax", "borrowedMax")
    )
    assert ["many", "<one>"] == [row["client"] for row in report["clients"]]
    assert 10 == sum(report["series"]["levels"]["level"]["dispatched"])


def test_top() -> None:
    report = report_of("a", 10, top=1)
    assert (["many"], 2) == ([row["client"] for row in report["clients"]], report["clientsInAll"])
    assert (1, 2) == (len(report["flows"]), report["flowsInAll"])


def test_difference() -> None:
    before, after = report_of("a", 10), report_of("b", 2)
    changes = difference(before, after, top=10)

    assert (-4, 4) == (changes["total"]["executed"], changes["total"]["rejectedTotal"])
    assert ["many", "<one>"] == [row["client"] for row in changes["clients"]]
    assert {"priorityLevel": "level", "presence": "both", "executed": -4} == {
        name: changes["levels"][-1][name] for name in ("priorityLevel", "presence", "executed")
    }


def rows(**executed: int) -> list[Row]:
    return [{"name": name} | NOTHING | {"executed": number} for name, number in executed.items()]


@pytest.mark.parametrize(
    ("before", "after", "top", "expected"),
    [
        (rows(a=1), rows(b=2), None, [("b", "new", 2), ("a", "gone", -1)]),
        (rows(a=1, b=1), rows(b=3, a=2), 1, [("b", "both", 2), ("a", "both", 1)]),
        (rows(a=1, b=1), rows(a=3, c=2), 1, [("a", "both", 2)]),
        (rows(a=1, b=1), rows(c=3, a=2), 1, [("c", "new", 3), ("a", "both", 1)]),
    ],
    ids=["new-and-gone", "listed-in-one", "not-listed-in-either", "in-both-but-listed-in-one"],
)
def test_compared(
    before: list[Row], after: list[Row], top: int | None, expected: list[tuple[str, str, int]]
) -> None:
    found = compared(before, after, ("name",), top)
    assert expected == [(row["name"], row["presence"], row["executed"]) for row in found]


def flow_rows(flows: str) -> list[Row]:
    return [
        {"priorityLevel": f"level-{schema}", "flowSchema": schema, "flow": flow, "requests": 5}
        | NOTHING
        | {"executed": 5}
        for schema, _, flow in (each.partition("/") for each in flows.split())
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a/ann", "b/ann", "b/ann=moved"),
        ("a/ann a/bob", "a/bob b/ann", "a/bob=both b/ann=moved"),
        ("a/", "b/", "b/=new a/=gone"),
        ("a/ann c/ann", "b/ann", "b/ann=new a/ann=gone c/ann=gone"),
        ("a/ann", "b/ann c/ann", "b/ann=new c/ann=new a/ann=gone"),
    ],
    ids=["moved", "one-of-two", "no-name", "of-two", "to-two"],
)
def test_moved_flows(before: str, after: str, expected: str) -> None:
    """A user's flow that has another FlowSchema is one row, if it is clear which one it was."""
    names = ("priorityLevel", "flowSchema", "flow")
    found = compared(flow_rows(before), flow_rows(after), names, can_move=True)
    told = [f"{row['flowSchema']}/{row['flow']}={row['presence']}" for row in found]

    assert expected.split() == told
    for row in found:
        if row["presence"] == "moved":
            assert row["movedFrom"] == {"priorityLevel": "level-a", "flowSchema": "a"}
            executed = (row["executed"], *(row[side]["executed"] for side in ("before", "after")))
            assert (0, 5, 5) == executed
        elif row["presence"] == "new":
            assert row["before"] is None


SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("seconds", "texts"),
    [
        pytest.param(0, ["0 s"], id="nothing"),
        pytest.param(120, ["0 s", "50 s", "100 s"], id="seconds"),
        pytest.param(240, ["0 min", "1 min", "2 min", "3 min", "4 min"], id="minutes"),
        pytest.param(86_400, ["0 h", "10 h", "20 h"], id="hours"),
        pytest.param(30 * 86_400, ["0 d", "10 d", "20 d", "30 d"], id="days"),
    ],
)
def test_times(seconds: float, texts: list[str]) -> None:
    root = parsed(f"<g>{plot(Plot({'limit': [1.0]}, 1.0), 90, 1.0, seconds)}</g>")
    assert texts == [each.text for each in root if each.get("text-anchor") == "middle"]


def test_picture() -> None:
    reports = [report_of(f"<{name}>", seats) for name, seats in (("a", 10), ("b", 2))]
    root = parsed(picture({"configurations": reports}))
    classes = [str(each.get("class")) for each in root.iter()]
    texts = [each.text for each in root.iter(f"{SVG}text")]

    assert ["A: <a>", "B: <b>", "level"] == [
        each.text for each in root.iter() if each.get("class") == "heading"
    ]
    assert 2 == classes.count("area seats") == classes.count("area waiting")
    assert 2 == classes.count("area rejected") == classes.count("line rejected") - 1
    assert 3 == classes.count("line limit") == classes.count("line nominal")
    assert "current limit" in texts


def test_picture_of_a_server() -> None:
    """The limit over the seats in use, and goodput, of the configurations that have them."""
    model = parse_server_model("capacity=4")
    simulation = Simulation(objects(), 10, server_model=model)
    Sequence(simulation, [(at * MS, kind("many"), 500 * MS) for at in (0, 0, 0, 2000)])
    simulation.run()
    report = configuration_report("b", simulation)
    root = parsed(picture({"configurations": [report_of("a", 10), report]}))
    headings = [each.text for each in root.iter() if each.get("class") == "heading"]
    classes = [str(each.get("class")) for each in root.iter()]

    assert ["A: a", "B: b", "server", "level"] == headings
    # One of each in the legend.
    assert (2, 4) == (classes.count("line goodput"), classes.count("line limit"))


def test_levels_of_one_configuration() -> None:
    """A level that the other one lacks stands in its own column; an exempt one has no limit."""
    first, second = report_of("a", 10), report_of("b", 10)
    first["levels"] = [each | {"isExempt": True} for each in first["levels"]]
    second["levels"] = [each for each in second["levels"] if each["priorityLevel"] != "level"]
    root = parsed(picture({"configurations": [first, second]}))
    assert 1 == sum(each.get("class") == "area seats" for each in root.iter())
    assert 1 == sum(each.get("class") == "line limit" for each in root.iter())  # the legend


def test_nothing_to_draw() -> None:
    simulation = Simulation(objects(), 10)
    simulation.run()
    report = configuration_report("empty", simulation)
    report["levels"][0]["requests"] = 1
    assert parsed(picture({"configurations": [report]})).tag == f"{SVG}svg"


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314  our own


def test_hostile_text() -> None:
    assert "&lt;b&gt;\\u202e\\x1b\u00a0\u00e9" == escape("<b>\u202e\x1b\u00a0\u00e9")
