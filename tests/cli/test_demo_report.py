"""What the demo shows of its two halves."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from apfproxy.cli.demo_clients import GREEDY, KINDS, MODEST, Tally
from apfproxy.cli.demo_report import Arm, bars_of, price, summary, table_of


def arm(name: str, latency_s: float) -> Arm:
    """A half of two seconds in which each kind got 100 answers of one latency."""
    tallies = {kind.name: Tally() for kind in KINDS}
    for tally in tallies.values():
        for _ in range(100):
            tally.add(200, latency_s)
    return Arm(name, tallies, 2.0)


def shown(arms: list[Arm]) -> list[list[str]]:
    """The cells of the table's rows, in a terminal of 80 columns."""
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as capture:
        console.print(table_of(arms))
    return [line.split() for line in capture.get().splitlines()]


def test_table() -> None:
    """The table fits into 80 columns and has a row for each kind of client in each half."""
    rows = shown([arm("without", 0.1), arm("with", 0.01)])

    assert ["greedy", "without", "50", "50", "100.3", "100.3", "0", "0"] in rows
    assert ["modest", "without", "50", "10", "100.3", "100.3", "0", "0"] in rows
    assert ["with", "50", "10", "10.1", "10.1", "0", "0"] in rows


def test_table_before_anything_is_measured() -> None:
    """Nothing measured yet shows as such."""
    empty = Arm("without", {kind.name: Tally() for kind in KINDS})

    assert ["modest", "without", "0", "0", "-", "-", "0", "0"] in shown([empty])


@pytest.mark.parametrize(
    ("names", "is_whole", "text"),
    [
        (
            ["without", "with"],
            True,
            (
                "Half of a modest client's requests took at most 100.3 ms without flow control,"
                " and 100.3 ms with it.\nThe greedy client got 50 answers/s without flow control,"
                " and 50 with it: it pays nothing."
            ),
        ),
        (
            ["without", "with"],
            False,
            (
                "Half of a modest client's requests took at most 100.3 ms without flow control,"
                " and 100.3 ms with it.\nThe greedy client got 50 answers/s without flow control,"
                " and 50 with it: it pays nothing.\n(Interrupted.)"
            ),
        ),
        (["without"], False, "Nothing to compare: interrupted."),
        ([], True, "Nothing to compare: no modest client got an answer in both."),
    ],
)
def test_summary(names: list[str], is_whole: bool, text: str) -> None:
    """The summary compares both halves, or says why it cannot."""
    assert summary([arm(name, 0.1) for name in names], is_whole=is_whole) == text


@pytest.mark.parametrize(
    ("answered", "rejected", "text"),
    [
        (200, 0, "it pays nothing, as a server that is not overloaded does more."),
        (99, 0, "it pays nothing."),
        (98, 0, "it pays with 2% of its throughput."),
        (75, 0, "it pays with 25% of its throughput."),
        (75, 3, "it pays with 25% of its throughput and 3 rejected requests."),
        (200, 1, "it pays with 1 rejected request."),
    ],
)
def test_price(answered: int, rejected: int, text: str) -> None:
    """The greedy client pays with throughput and rejections, or with nothing."""
    limited = Arm("with", {kind.name: Tally() for kind in KINDS}, 2.0)
    for status, count in ((200, answered), (429, rejected)):
        for _ in range(count):
            limited.tally(GREEDY).add(status, 0.1)

    assert price(arm("without", 0.1), limited).endswith(text)


@pytest.mark.parametrize("width", [40, 120])
def test_bars(width: int) -> None:
    """The longest bar of a group fills what the names and numbers leave of the line."""
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as capture:
        console.print(bars_of([arm("without", 0.1), arm("with", 0.01)]))
    lines = capture.get().splitlines()
    waits = lines[lines.index(next(line for line in lines if "half of" in line)) :]

    assert all(len(line) <= width for line in lines)
    assert [width - 21, round((width - 21) / 10)] == [
        pytest.approx(
            sum(letter in "\u2588\u258f\u258e\u258d\u258c\u258b\u258a\u2589" for letter in line),
            abs=1,
        )
        for line in waits[1:3]
    ]


def test_clients() -> None:
    """There is one greedy flow, and several modest ones with one request each."""
    assert (len(GREEDY.users), GREEDY.in_flight, len(MODEST.users), MODEST.in_flight) == (
        1,
        200,
        5,
        1,
    )
