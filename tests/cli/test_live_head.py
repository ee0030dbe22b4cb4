"""The first lines of top."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.cli.live_client import state_of
from apfproxy.cli.live_head import head, sentences, sums
from apfproxy.cli.live_view import View
from tests.cli.live_states import level, state

URL = "http://127.0.0.1:8081"
NOW = 1_792_481_236.0
UPSTREAM = {
    "address": "http://127.0.0.1:8000",
    "state": "up",
    "problem": None,
    "since": NOW - 60,
    "answersPerSecond": {"2xx": 10.0, "5xx": 2.0},
    "failuresPerSecond": 0.0,
    "p50": 0.004,
    "p99": 0.045,
}


def said(*sentences: tuple[str, str]) -> list[dict[str, str]]:
    """A verdict."""
    return [{"severity": severity, "text": text} for severity, text in sentences]


def view(height: int | None = None, **changes: Any) -> View:  # noqa: ANN401 - any JSON
    """A view of a state."""
    return View(URL, state_of(URL, state(level(waiting=3), **changes)), height=height)


def test_words_first() -> None:
    """The first line says what is wrong; the server behind has a line of its own."""
    lines = head(view(verdict=said(("error", "work rejects")), upstream=UPSTREAM), 120)

    assert ["work rejects", "apfproxy http://127.0.0.1:8081  generation 3"] == [
        lines[0].plain,
        lines[1].plain.rpartition("  ")[0],
    ]
    assert "bold red" == lines[0].style
    assert lines[3].plain == (
        "server behind up  12 answers/s  2.0/s are 5xx  p50 4 ms  p99 45 ms  http://127.0.0.1:8000"
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        pytest.param(
            {"state": "failing", "problem": "connection refused", "failuresPerSecond": 868.4},
            "server behind failing for 60 s: connection refused  868/s without answer  http:",
            id="failing",
        ),
        pytest.param(
            {"state": "failing", "since": None}, "server behind failing  http:", id="just-failing"
        ),
        pytest.param({"state": "unknown"}, "server behind unknown  http:", id="unknown"),
        pytest.param({"answersPerSecond": {"2xx": 1.5}}, "up  1.5 answers/s  http:", id="no-5xx"),
    ],
)
def test_server(changes: dict[str, Any], text: str) -> None:
    """Its state comes first, with the reason and since when it fails."""
    quiet = {**UPSTREAM, "answersPerSecond": {}, "p50": None, "p99": None, **changes}

    assert text in head(view(upstream=quiet), 120)[-1].plain


@pytest.mark.parametrize(
    ("healthy", "text", "style"),
    [
        pytest.param(3, "servers behind 3 of 3 up  12 answers/s", "green", id="all"),
        pytest.param(2, "servers behind 2 of 3 up  12 answers/s", "bold yellow", id="some"),
        pytest.param(0, "servers behind up  12 answers/s", "green", id="none"),
    ],
)
def test_several_servers(healthy: int, text: str, style: str) -> None:
    """How many of them get requests; where none does, how they are together."""
    upstream = {**UPSTREAM, "endpointCount": 3, "healthyCount": healthy}
    found = head(view(upstream=upstream), 120)[-1]

    assert found.plain.startswith(text)
    assert "http:" not in found.plain
    assert style in {str(span.style) for span in found.spans}


@pytest.mark.parametrize(("height", "count"), [(None, 4), (24, 2), (40, 4)])
def test_how_many_sentences(height: int | None, count: int) -> None:
    """A low terminal has the first two, and none has more than four."""
    verdict = said(*(("note", f"sentence {number}") for number in range(9)))

    assert count == len(sentences(view(height, verdict=verdict), 80))


def test_long_sentences() -> None:
    """The first one takes two lines at most, another one; none can move the cursor."""
    found = sentences(view(verdict=said(("error", "word " * 99), ("odd", "x\x1b " * 99))), 40)

    assert 3 == len(found)
    assert all(len(each.plain) <= 40 and each.plain.isprintable() for each in found)


def test_sums() -> None:
    """Failed requests are not served, and are told where there are any."""
    failing = level(waiting=3, servedPerSecond=6.0, failedPerSecond=4.0)
    seen = View(URL, state_of(URL, state(failing)))

    assert "3 waiting  0/s served  0/s rejected" in sums(view()).plain
    assert "3 waiting  6.0/s served  4.0/s failed  0/s rejected" in sums(seen).plain
