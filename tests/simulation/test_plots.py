"""Plots as SVG."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from apfproxy.simulation.plots import Line, Plot, bars, escape, plot, tick


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        pytest.param(0, 1e-7, id="nothing"),
        pytest.param(0.3, 0.1, id="small"),
        pytest.param(1, 0.2, id="one"),
        pytest.param(10, 2, id="ten"),
        pytest.param(60, 20, id="minute"),
        pytest.param(368, 100, id="hundreds"),
    ],
)
def test_tick(most: float, expected: float) -> None:
    """An axis has a few round numbers."""
    assert expected == pytest.approx(tick(most))


def test_plot() -> None:
    """A plot has its lines, its area and its axes; a line without values is left out."""
    lines = [Line("seats", [1, 2, 3], is_area=True), Line("limit", [3, 3, 3]), Line("none", [])]
    root = parsed(plot(Plot("a & b", lines, 1.0, 3.0, 3.0)))
    classes = [each.get("class") for each in root]

    assert "a & b" == root.get("aria-label")
    assert 1 == classes.count("area seats") == classes.count("line seats")
    assert 1 == classes.count("line limit")
    assert "line none" not in classes


@pytest.mark.parametrize(
    ("seconds", "texts"),
    [
        pytest.param(120, ["0 s", "50 s", "100 s"], id="seconds"),
        pytest.param(240, ["0 min", "1 min", "2 min", "3 min", "4 min"], id="minutes"),
        pytest.param(86_400, ["0 h", "10 h", "20 h"], id="hours"),
        pytest.param(30 * 86_400, ["0 d", "10 d", "20 d", "30 d"], id="days"),
    ],
)
def test_times(seconds: float, texts: list[str]) -> None:
    """The times below a plot have the unit that suits them."""
    root = parsed(plot(Plot("a", [], 1.0, seconds, 1.0)))

    assert texts == [each.text for each in root if each.get("text-anchor") == "middle"]


def test_plot_of_nothing() -> None:
    """A run of no time has a plot, too."""
    assert parsed(plot(Plot("empty", [], 1.0, 0.0, 0.0))).tag == "svg"


def test_bars() -> None:
    """Names are escaped, and long ones cut."""
    root = parsed(bars([("<b>" * 20, 2.0), ("b", 0.0)], 2.0))
    texts = [each.text for each in root if each.tag == "text"]

    assert [("<b>" * 20)[:29] + "…", "2", "b", "0"] == texts
    assert ["300.0", "0.0"] == [each.get("width") for each in root if each.tag == "rect"]
    assert parsed(bars([], 0.0)).tag == "svg"


def parsed(svg: str) -> ET.Element:
    """The SVG as XML."""
    return ET.fromstring(svg)  # noqa: S314  our own


def test_hostile_text() -> None:
    """A name from a log is neither markup nor turns round what is beside it."""
    assert "&lt;b&gt;\\u202e\\x1b\u00a0\u00e9" == escape("<b>\u202e\x1b\u00a0\u00e9")
