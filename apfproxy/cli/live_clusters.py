"""Several clusters as `apfproxy top` shows them: a line each, those with problems first."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from apfproxy.admin.amounts import duration_text
from apfproxy.cli.live_head import SEVERITIES, sentences_of
from apfproxy.cli.live_text import alarm, line, name_text, new_table, number, rate
from apfproxy.cli.terminal_text import shown

if TYPE_CHECKING:
    from rich.console import RenderableType

    from apfproxy.cli.live_client import ClusterLine, ClustersState

ENOUGH_FOR_REASONS = 76
"""Columns below which what is wrong with a cluster is left out."""
HINT = "apfproxy top --cluster NAME shows one"


@dataclass(frozen=True, slots=True)
class ClustersView:
    """What is shown, and how; see `View`."""

    url: str
    state: ClustersState
    problem: str | None = None
    silent_s: float = 0.0
    height: int | None = None
    part: str = ""
    is_typing: bool = False

    def clusters(self) -> list[ClusterLine]:
        """Those that are shown, in their order."""
        part = self.part.lower()
        return [each for each in self.state.clusters if part in each.name.lower()]


def render_clusters(view: ClustersView, width: int) -> RenderableType:
    """Everything, from the top of the screen to its last line."""
    state, clusters = view.state, view.clusters()
    at = time.strftime("%H:%M:%S", time.localtime(state.time))
    title = line()
    title.append("apfproxy ", "bold")
    title.append(f"{view.url}  {at}  {HINT}")
    top = [*sentences_of(state.verdict, view.problem, view.silent_s, view.height, width), title]
    foot = [] if view.height is None else [keys(view)]
    # A blank line and the heading; one more says what is left out.
    left = None if view.height is None else view.height - len(top) - len(foot) - 2
    kept = clusters if left is None or len(clusters) <= left else clusters[: max(1, left - 1)]
    parts: list[RenderableType] = [*top, Text()]
    if kept:
        parts.append(table(kept, width))
    else:
        parts.append(line("No cluster has such a name.", "dim"))
    if len(kept) < len(clusters):
        parts.append(line(f"and {len(clusters) - len(kept)} more", "dim"))
    return Group(*parts, *foot)


def table(clusters: list[ClusterLine], width: int) -> RenderableType:
    """A line for each cluster."""
    made = new_table()
    made.add_column("CLUSTER", no_wrap=True, overflow="ellipsis", max_width=max(12, width // 4))
    made.add_column("STATE", no_wrap=True)
    for name in ("SERVERS", "SEATS", "WAIT", "SERV/S", "FAIL/S", "REJ/S", "P99"):
        made.add_column(name, justify="right", no_wrap=True)
    with_reasons = width >= ENOUGH_FOR_REASONS
    made.add_column("PROBLEM" if with_reasons else "", ratio=1, no_wrap=True, overflow="ellipsis")
    for each in clusters:
        style = SEVERITIES.get(each.severity, "")
        made.add_row(
            name_text(each.name),
            line(shown(each.state), style),
            f"{each.healthy_count}/{each.endpoint_count}",
            f"{number(each.seats_in_use)}/{number(each.server_concurrency_limit)}",
            Text(number(each.waiting), "yellow" if each.waiting else ""),
            rate(each.served_per_second),
            alarm(each.failed_per_second),
            alarm(each.rejected_per_second),
            "-" if each.p99 is None else duration_text(each.p99),
            line(shown(each.problem) if with_reasons else ""),
        )
    return made


def keys(view: ClustersView) -> Text:
    """The last line: the keys, or the part of a name that is being typed."""
    if view.is_typing:
        return line(f"only names with: {shown(view.part)}_   Enter keeps it, Esc clears it", "bold")
    text = line("q quit  / find", "dim")
    if view.part:
        text.append(f"  only {shown(view.part)}", "bold yellow")
    return text
