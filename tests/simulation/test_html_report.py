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
        "verdict": [{"side": "wins", "text": "<ann> waits less"}],
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
    assert "→" not in page.text
    assert "wins <ann> waits less" in page.text


def test_two_configurations() -> None:
    """Both are shown beside each other; rejections have a plot where there are any."""
    page = page_of(LOG, report_of("first", 10), report_of("second", 2))

    assert "11 requests, 1 of its lines left out as broken, 2 of the service" in page.text
    for text in ("A: first", "B: second", "11 → 7", "0 → 4\u00a0queue-full"):
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
    assert 1 == page.text.count("level (gone)") == page.text.count("other (new)")
    assert 1 == page.tags.count("div") - page.tags.count("table") - 3  # the gap of the second


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        pytest.param({}, "0 rejected", id="none"),
        pytest.param({"cutOff": 1000}, "0 rejected, 1,000 cut off when their", id="cut-off"),
        pytest.param({"withoutSeats": 2}, "0 rejected, 2 long-running ones", id="without-seats"),
    ],
)
def test_exceptions(changes: dict[str, int], text: str) -> None:
    """Requests that were not served as others are told, if there are any."""
    report = report_of("first", 10)
    report["total"] |= changes
    page = page_of(LOG, report)

    assert text in page.text
    assert ("cut off when" in page.text) == ("cutOff" in changes)
    assert ("without seats" in page.text) == ("withoutSeats" in changes)


def test_a_new_level_without_requests() -> None:
    """It is among the differences, as nobody would miss it otherwise."""
    first, second = report_of("first", 10), report_of("second", 10)
    row = next(each for each in second["levels"] if not each["requests"])
    second["levels"].append(row | {"priorityLevel": "useless"})
    page = page_of(LOG, first, second)

    assert 1 == page.text.count("useless (new)")
    assert "useless: seats in use" not in page.labels


def test_long_names_leave_room_for_numbers() -> None:
    """A name of 200 letters is broken, rather than pushing the numbers off the page."""
    text = html_report(
        {"verdict": [], "input": LOG, "warnings": [], "configurations": [report_of("a", 10)]}
    )

    assert "td:first-child { min-width: 10rem; white-space: normal; overflow-wrap" in text


def test_rest() -> None:
    """It is said how many flows are not listed."""
    assert "and 1 more flow (--top)" in page_of(LOG, report_of("a", 10, top=1)).text


@pytest.mark.parametrize(
    "is_exempt", [pytest.param(True, id="exempt"), pytest.param(False, id="no")]
)
def test_limits_are_drawn(is_exempt: bool) -> None:
    """But for an exempt level, which has none."""
    report = report_of("first", 10)
    for row in report["levels"]:
        row["isExempt"] = is_exempt
    text = html_report({"verdict": [], "input": LOG, "warnings": [], "configurations": [report]})

    assert is_exempt == ('class="line limit"' not in text)
