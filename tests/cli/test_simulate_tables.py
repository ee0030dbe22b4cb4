from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.text import Text

from apfproxy.cli.simulate_tables import cell, print_report, tables
from apfproxy.simulation.report import difference
from tests.simulation.test_report import report_of


def report(*configurations: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"warnings": ["x" * 200], "configurations": list(configurations)}
    if len(configurations) > 1:
        made["difference"] = difference(*configurations, top=10)
    return made


def test_print_report() -> None:
    """Names stand as they are; a table of clients that says nothing new is left out."""
    first, second = report_of("a [bold]", 10), report_of("b", 2)
    first["clients"][1]["client"] = "\x1b]0;title\x07[red]"
    file = io.StringIO()
    print_report(report(first, second), file)
    text = file.getvalue()

    assert f"Note: {'x' * 200}" == text.splitlines()[0]
    assert "A: a [bold]: 11 requests in 0.1 s, 11 executed, 1 of them queued, 0 rejected" in text
    assert "\\x1b]0;title\\x07[red]" in text
    assert "\x1b" not in text
    assert [] == [line for line in text.splitlines() if line != line.rstrip()]
    assert 1 == text.count("\n client")
    assert "0 → 4 queue-full" in text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("width", "has_p50"), [(160, True), (80, False)])
def test_print_on_a_terminal(width: int, has_p50: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A narrow one lacks columns; clients that are flows have no table of their own."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    file = Terminal()
    print_report(report(report_of("a", 10), report_of("b", 2)), file)
    text = re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue())

    assert "client" not in text
    assert "→" in text
    assert width >= max(map(len, text.splitlines()))
    assert (has_p50, True) == (" p50 " in text, " p99 " in text)
    assert has_p50 == ("too narrow for: " not in text)


def test_tables_of_two_configurations() -> None:
    first, second = report_of("a", 10), report_of("b", 2)
    second["clients"][0]["client"] = "newcomer"
    levels, flows, clients = tables(report(first, second))
    (_, level), (_, many) = levels.rows[0], flows.rows[0]

    assert Text("11 → 7") == cell("executed", level)
    assert ("10 → 6", "red") == (cell("executed", many).plain, cell("executed", many).style)
    assert "0 → 4 queue-full" == cell("rejected", many).plain
    assert ["newcomer (new)", "<one>", "many (gone)"] == [name for name, _ in clients.rows]
    assert "- → 6" == cell("executed", clients.rows[0][1]).plain


@pytest.mark.parametrize(
    ("name", "before", "after", "text", "style"),
    [
        ("waitP99", 1.0, 0.5, "1 s → 500 ms", "green"),
        ("waitP99", 0.5, 100.2, "500 ms → 100 s", "red"),
        ("waitP99", 1.0, 1.05, "1 s → 1.05 s", ""),
        ("waitP99", 0.0, 4e-5, "0 → 40 µs", ""),
        ("executed", 100, 200, "100 → 200", "green"),
        ("executed", 1000, 999, "1,000 → 999", ""),
        ("executed", 5, 5, "5", ""),
        ("seatSeconds", 5.0, 50.0, "5.0 → 50.0", ""),
    ],
)
def test_colour(name: str, before: float, after: float, text: str, style: str) -> None:
    """A difference that would be noticed is better or worse."""
    found = cell(name, {"before": {name: before}, "after": {name: after}})

    assert (text, style) == (found.plain, found.style)
