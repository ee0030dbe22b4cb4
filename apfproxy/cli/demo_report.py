"""What the demo shows of its two halves: a table, bars, and what they mean in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from apfproxy.cli.bars import Bar
from apfproxy.cli.demo_clients import GREEDY, KINDS, MODEST
from apfproxy.cli.demo_servers import SEATS, SERVICE_S
from apfproxy.objects.field_errors import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.cli.demo_clients import ClientKind, Tally

WITHOUT = "without"
WITH = "with"
STYLES = {WITHOUT: "yellow", WITH: "green"}

A_LITTLE = 0.01
"""Part of a throughput: less of a difference is none."""


@dataclass(slots=True)
class Arm:
    """One half of the demo: all clients against one proxy, `WITHOUT` or `WITH` flow control.

    Attributes:
        tallies: What each kind of client got, by its name.
        duration_s: How long that was measured.
    """

    name: str
    tallies: dict[str, Tally]
    duration_s: float = 0.0

    def tally(self, kind: ClientKind) -> Tally:
        """What the clients of a kind got."""
        return self.tallies[kind.name]

    def rate(self, kind: ClientKind) -> float:
        """Answers a second to all clients of a kind."""
        return self.tally(kind).answered / self.duration_s if self.duration_s else 0.0


def table_of(arms: list[Arm]) -> Table:
    """What each kind of client got, in each half."""
    # Simple enough to fit into 80 columns.
    table = Table(
        title=f"Before a server that does {SEATS} requests at once in {SERVICE_S * 1000:.0f} ms",
        caption="  ".join(described(kind) for kind in KINDS),
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
    )
    for heading in ("clients", "flow control"):
        table.add_column(heading, no_wrap=True)
    for heading in ("answers/s", "each", "p50 ms", "p99 ms", "rejected", "failed"):
        table.add_column(heading, justify="right", no_wrap=True)
    for kind in KINDS:
        clients = len(kind.users)
        label = kind.name
        for arm in arms:
            tally, rate = arm.tally(kind), arm.rate(kind)
            table.add_row(
                label,
                arm.name,
                f"{rate:.0f}",
                f"{rate / clients:.0f}",
                milliseconds(tally.percentile_s(50)),
                milliseconds(tally.percentile_s(99)),
                str(tally.rejected),
                str(tally.failed),
                style="bold" if arm.name == WITH else "",
            )
            label = ""
        table.add_section()
    return table


def bars_of(arms: list[Arm]) -> Group:
    """The rates and the waits of both halves as bars, as wide as there is room."""
    return Group(
        Text("answers/s", "bold"),
        _bars(arms, Arm.rate, "{:,.0f}"),
        Text(),
        Text("half of the answers took at most, ms", "bold"),
        _bars(arms, lambda arm, kind: 1000 * (arm.tally(kind).percentile_s(50) or 0.0), "{:,.1f}"),
        Text(),
    )


def _bars(arms: list[Arm], value_of: Callable[[Arm, ClientKind], float], number: str) -> Table:
    """A bar for each kind of client in each half; the longest fills the line."""
    table = Table(box=None, show_header=False, expand=True, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    table.add_column(justify="right", no_wrap=True)
    most = max((value_of(arm, kind) for arm in arms for kind in KINDS), default=0.0)
    for kind in KINDS:
        for arm in arms:
            value = value_of(arm, kind)
            table.add_row(
                kind.name if arm is arms[0] else "",
                arm.name,
                Bar(value, most, STYLES[arm.name]),
                number.format(value),
            )
    return table


def described(kind: ClientKind) -> str:
    """Who the clients of a kind are."""
    clients = len(kind.users)
    requests = "request" if kind.in_flight == 1 else "requests"
    noun = "client" if clients == 1 else "clients"
    return f"{kind.name}: {clients} {noun}, {kind.in_flight} {requests} in flight each."


def milliseconds(duration_s: float | None) -> str:
    """A latency as the table shows it."""
    return "-" if duration_s is None else f"{duration_s * 1000:.1f}"


def summary(arms: list[Arm], *, is_whole: bool) -> str:
    """What the numbers mean: what a modest client gains, and what the greedy one pays."""
    by_name = {arm.name: arm.tally(MODEST).percentile_s(50) for arm in arms}
    without, limited = by_name.get(WITHOUT), by_name.get(WITH)
    if without is None or limited is None:
        reason = "no modest client got an answer in both" if is_whole else "interrupted"
        return f"Nothing to compare: {reason}."
    gain = (
        f"Half of a modest client's requests took at most {milliseconds(without)} ms without flow"
        f" control, and {milliseconds(limited)} ms with it."
    )
    sentences = [gain, price(*arms)]
    if not is_whole:
        sentences.append("(Interrupted.)")
    return "\n".join(sentences)


def price(without: Arm, limited: Arm) -> str:
    """What the greedy client pays for that."""
    before, after = without.rate(GREEDY), limited.rate(GREEDY)
    got = (
        f"The greedy client got {before:,.0f} answers/s without flow control, and {after:,.0f}"
        " with it: it pays"
    )
    costs = []
    if after < before * (1 - A_LITTLE):
        costs.append(f"{1 - after / before:.0%} of its throughput")
    if rejected := limited.tally(GREEDY).rejected:
        costs.append(counted(rejected, "rejected request"))
    if costs:
        return f"{got} with {' and '.join(costs)}."
    return f"{got} nothing{', as a server that is not overloaded does more' * (after > before)}."
