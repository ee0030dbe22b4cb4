"""The report as a page."""

from __future__ import annotations

import copy
from html.parser import HTMLParser
from typing import Any

import pytest

from apfproxy.simulation.html_report import html_report
from apfproxy.simulation.report import difference
from tests.simulation.test_report import report_of

LOG = {"log": "a.log", "requests": 11, "brokenLines": 1, "guessedServiceTimes": 2}


class Page(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.labels: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag, its label, and where it leads."""
        self.labels += [value or "" for name, value in attrs if name == "aria-label"]
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in {"src", "href"}]

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.text += data


def page_of(source: dict[str, Any], *reports: dict[str, Any]) -> Page:
    """The page of one or two configurations."""
    report: dict[str, Any] = {
        "input": source,
        "warnings": ["<a note>"],
        "configurations": list(reports),
    }
    if len(reports) > 1:
        report["difference"] = difference(*reports, top=10)
    return Page(html_report(report))


def test_one_configuration() -> None:
    """A page names what it is about, and needs nothing from elsewhere."""
    report = report_of("objects, 10 seats", 10)
    report["warmUpSeconds"] = 10.0
    report["problems"] = ["something is not used"]
    page = page_of({"mix": "mix.yaml"}, report)

    assert [] == page.addresses
    assert "script" not in page.tags
    assert "one" not in page.tags  # a client's name is no tag
    for text in (
        "The mix mix.yaml.",
        "objects, 10 seats",
        "<one>",
        "something is not used",
        "Note: <a note>",
        "after a warm-up of 10 s,",
    ):
        assert text in page.text
    assert 3 == page.tags.count("svg")
    assert "B less A" not in page.text


def test_two_configurations() -> None:
    """Both are shown, with their difference; rejections have a plot where there are any."""
    page = page_of(LOG, report_of("first", 10), report_of("second", 2))

    assert "11 requests, 1 broken lines left out, 2 service times guessed" in page.text
    for text in ("A: first", "B: second", "B less A", "4 queue-full"):
        assert text in page.text
    assert "level: rejected a second" in page.labels
    assert 2 * 4 == page.tags.count("svg")


def test_a_level_in_one_of_two() -> None:
    """A level that only one configuration has is shown for that one."""
    first = report_of("first", 10)
    second = copy.deepcopy(first)
    for row in second["levels"]:
        row["priorityLevel"] = row["priorityLevel"].replace("level", "other")
    series = second["series"]["levels"]
    series["other"] = series.pop("level")
    page = page_of(LOG, first, second)

    assert 1 == page.labels.count("level: seats in use") == page.labels.count("other: seats in use")
    assert 1 == page.text.count("B less A (new)") == page.text.count("B less A (gone)")


@pytest.mark.parametrize(
    "is_exempt", [pytest.param(True, id="exempt"), pytest.param(False, id="no")]
)
def test_limits_are_drawn(is_exempt: bool) -> None:
    """But for an exempt level, which has none."""
    report = report_of("first", 10)
    for row in report["levels"]:
        row["isExempt"] = is_exempt
    text = html_report({"input": LOG, "warnings": [], "configurations": [report]})

    assert is_exempt == ('class="line limit"' not in text)
