"""The servers behind as `apfproxy top` shows them, where there are several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from apfproxy.admin.amounts import duration_text
from apfproxy.cli.live_text import alarm, line, name_text, new_table, number, rate
from apfproxy.cli.terminal_text import shown

if TYPE_CHECKING:
    from rich.console import RenderableType

    from apfproxy.cli.live_client import Endpoint
    from apfproxy.cli.live_view import View

ENOUGH_FOR_ALL = 72
"""Columns below which what can be done without is left out."""
ENOUGH_FOR_REASONS = 110

STYLES = {"up": "green", "ejected": "bold red", "failing": "bold red"}


def endpoint_table(view: View, most: int | None, width: int) -> RenderableType:
    """A line for each, those that get no requests first; `most` is without the heading."""
    upstream = view.state.upstream
    endpoints = view.endpoints()
    if upstream is None or not endpoints:
        text = "None has such a name." if view.part else "There is but one."
        return Group(Text("SERVERS BEHIND", "bold"), line(text, "dim"))
    with_all, with_reasons = width >= ENOUGH_FOR_ALL, width >= ENOUGH_FOR_REASONS
    made = new_table()
    made.add_column("SERVERS BEHIND", ratio=1, no_wrap=True, overflow="ellipsis")
    made.add_column("STATE", no_wrap=True)
    names = ["SHARE"] if with_all else []
    names += ["SEATS", "FLIGHT", "ANS/S", "FAIL/S"]
    names += ["P99"] if with_all else []
    for name in names:
        made.add_column(name, justify="right", no_wrap=True)
    if with_reasons:
        made.add_column("WHY", ratio=1, no_wrap=True, overflow="ellipsis")
    # A line of its own says what is left out.
    kept = endpoints if most is None or len(endpoints) <= most else endpoints[: max(1, most - 1)]
    for each in kept:
        made.add_row(
            name_text(each.url),
            state_text(each, view.state.time),
            *((f"{each.share:.0%}",) if with_all else ()),
            number(each.seats),
            number(each.in_flight),
            rate(sum(each.answers_per_second.values())),
            alarm(each.errors_per_second),
            *(("-" if each.p99 is None else duration_text(each.p99),) if with_all else ()),
            *((line(shown(each.problem or "")),) if with_reasons else ()),
        )
    hidden = max(upstream.endpoint_count, len(endpoints)) - len(kept)
    return Group(made, line(f"and {hidden} more", "dim")) if hidden > 0 else made


def state_text(endpoint: Endpoint, unix_s: float) -> Text:
    """Its state, how long it has lasted if it is a bad one, and how far it has started."""
    if endpoint.state == "up" and endpoint.ramp < 1:
        return line(f"starting {endpoint.ramp:.0%}", "green")
    text = line(shown(endpoint.state), STYLES.get(endpoint.state, ""))
    if endpoint.state != "up" and endpoint.since is not None:
        text.append(f" {duration_text(max(0.0, unix_s - endpoint.since))}")
    return text
