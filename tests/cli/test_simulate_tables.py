"""The tables of `apfproxy simulate`."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest

from apfproxy.cli.simulate_tables import print_report
from apfproxy.simulation.report import difference
from tests.simulation.test_report import report_of

SAID = [{"side": "wins", "text": "ann waits less"}]


def test_print_report() -> None:
    """Names stand as they are; a table of clients that says nothing new is left out."""
    first, second = report_of("a [bold]", 10), report_of("b", 2)
    first["clients"][1]["client"] = "\x1b]0;title\x07[red]"
    file = io.StringIO()
    report = {
        "verdict": SAID,
        "warnings": ["x" * 200],
        "configurations": [first, second],
        "difference": difference(first, second, top=10),
    }
    print_report(report, file)
    text = file.getvalue()

    assert ["wins    ann waits less", "", f"Note: {'x' * 200}"] == text.splitlines()[:3]
    assert "A: a [bold]: 11 requests in 0.1 s, 11 executed, 1 of them queued, 0 rejected" in text
    assert "\\x1b]0;title\\x07[red]" in text
    assert "\x1b" not in text
    assert [] == [line for line in text.splitlines() if line != line.rstrip()]
    assert 1 == text.count("\n client")
    assert "0 → 4 queue-full" in text


def test_rest() -> None:
    """It is said how many are not listed."""
    file = io.StringIO()
    print_report(
        {"verdict": SAID, "warnings": [], "configurations": [report_of("a", 10, top=1)]}, file
    )

    assert "and 1 more flow (--top)" in file.getvalue()


def cells_of_levels(
    report: dict[str, Any], width: int, monkeypatch: pytest.MonkeyPatch
) -> set[str]:
    """The cells of all rows about the level, on a terminal so wide."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    file = Terminal()
    print_report(report, file)
    text = re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue())
    rows = [line for line in text.splitlines() if line.startswith(" level ")]
    return {cell for row in rows for cell in re.split(" {2,}", row.strip())}


def test_numbers_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """However narrow a terminal is, a number that it shows has all its digits and its unit."""
    first, second = report_of("a", 10), report_of("b", 5)
    changes = difference(first, second, top=10)
    report = {
        "verdict": SAID,
        "warnings": [],
        "configurations": [first, second],
        "difference": changes,
    }
    whole = cells_of_levels(report, 200, monkeypatch)

    assert set() == {
        (width, cell)
        for width in range(54, 160, 3)
        for cell in cells_of_levels(report, width, monkeypatch) - whole
    }


class Terminal(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


@pytest.mark.parametrize(
    ("width", "has_p50", "has_p99"),
    [
        pytest.param(160, True, True, id="wide"),
        pytest.param(80, False, True, id="usual"),
        pytest.param(10, False, True, id="hopeless"),
    ],
)
def test_print_on_a_terminal(
    width: int, has_p50: bool, has_p99: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A narrow one lacks columns; clients that are flows have no table of their own."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    file = Terminal()
    first, second = report_of("a", 10), report_of("b", 2)
    report = {
        "verdict": SAID,
        "warnings": ["x" * 200],
        "configurations": [first, second],
        "difference": difference(first, second, top=10),
    }
    print_report(report, file)
    text = re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue())

    assert "client" not in text
    if width == 10:
        return
    assert "→" in text
    assert width >= max(map(len, text.splitlines()))
    assert (has_p50, has_p99) == (" p50 " in text, " p99 " in text)
    assert has_p50 == ("too narrow for: " not in text)
