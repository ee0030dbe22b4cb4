"""The fleet that shares the seats, as `apfproxy top` tells it in a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.admin.amounts import duration_text
from apfproxy.cli.live_text import line, number
from apfproxy.cli.terminal_text import shown

if TYPE_CHECKING:
    from rich.text import Text

    from apfproxy.cli.live_client import Fleet

STYLES = {"held": "green", "joining": "", "expired": "bold yellow", "partitioned": "bold yellow"}
"""Of the states of a member."""


def fleet_line(fleet: Fleet) -> Text:
    """How many members there are, what they use of what they claim, and how this one stands."""
    text = line()
    text.append("workers " if fleet.is_of_workers else "fleet ")
    well = fleet.member_count - fleet.silent_count
    if fleet.silent_count:
        text.append(f"{number(well)} of {number(fleet.member_count)} seen", "bold yellow")
    else:
        text.append(f"{number(well)} seen", "green" if fleet.state == "held" else "")
    is_over = fleet.claims > fleet.limit
    text.append(
        f"  {number(fleet.used)} in use, {number(fleet.claims)} claimed of {number(fleet.limit)}",
        "bold red" if is_over else "",
    )
    text.append(f"  here {number(fleet.in_force)} ")
    text.append(shown(fleet.state), STYLES.get(fleet.state, ""))
    if fleet.problem:
        lasting = "" if fleet.age is None else f" for {duration_text(fleet.age)}"
        text.append(f"  not written{lasting}: {shown(fleet.problem)}", "bold yellow")
    elif fleet.unlike_count:
        text.append(f"  {number(fleet.unlike_count)} unlike", "bold yellow")
    return text
