"""The picture of a report, as SVG."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from apfproxy.simulation.plots import Plot, escape, picture, plot
from apfproxy.simulation.report import configuration_report
from apfproxy.simulation.simulation import Simulation
from tests.simulation.scene import objects
from tests.simulation.test_report import report_of

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
    """Each busy level has its plots, side by side; an exempt one has no limit."""
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


def test_levels_of_one_configuration() -> None:
    """A level that the other one lacks stands in its own column; an exempt one has no limit."""
    first, second = report_of("a", 10), report_of("b", 10)
    first["levels"] = [each | {"isExempt": True} for each in first["levels"]]
    second["levels"] = [each for each in second["levels"] if each["priorityLevel"] != "level"]
    root = parsed(picture({"configurations": [first, second]}))

    assert 1 == sum(each.get("class") == "area seats" for each in root.iter())
    assert 1 == sum(each.get("class") == "line limit" for each in root.iter())  # the legend


def test_nothing_to_draw() -> None:
    """A run of no time has a picture, too."""
    simulation = Simulation(objects(), 10)
    simulation.run()
    report = configuration_report("empty", simulation)
    report["levels"][0]["requests"] = 1

    assert parsed(picture({"configurations": [report]})).tag == f"{SVG}svg"


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314  our own


def test_hostile_text() -> None:
    """A name from a log is neither markup nor turns round what is beside it."""
    assert "&lt;b&gt;\\u202e\\x1b\u00a0\u00e9" == escape("<b>\u202e\x1b\u00a0\u00e9")
