"""The first lines of `apfproxy top`: what is wrong in words, the sums, and the server behind."""

from __future__ import annotations

import textwrap
import time
from typing import TYPE_CHECKING

from apfproxy.admin.amounts import duration_text
from apfproxy.cli.live_fleet import fleet_line
from apfproxy.cli.live_text import line, number, rate
from apfproxy.cli.terminal_text import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from apfproxy.cli.live_client import Sentence, Upstream
    from apfproxy.cli.live_view import View

SEVERITIES = {"error": "bold red", "warning": "bold yellow", "note": "", "ok": "bold green"}
LONGEST_SENTENCE = 400
MOST_LINES = 2
"""Of the first sentence; the others have one each."""
MOST_SENTENCES = 4
ENOUGH_FOR_ALL_SENTENCES = 30
"""Lines of a terminal that are enough for more than the first two sentences."""

STATES = {"up": "green", "failing": "bold red"}


def head(view: View, width: int) -> list[Text]:
    """All lines above the first table."""
    state = view.state
    at = time.strftime("%H:%M:%S", time.localtime(state.time))
    title = line()
    title.append("apfproxy ", "bold")
    title.append(f"{view.url}  generation {state.configuration.generation}  {at}")
    lines = [*sentences(view, width), title, sums(view)]
    if state.upstream is not None:
        servers = server_line(state.upstream, state.time)
        if view.has_several_servers and view.height is not None:
            servers.append("  e shows each", "dim")
        lines.append(servers)
    if state.fleet is not None:
        lines.append(fleet_line(state.fleet))
    return lines


def sentences(view: View, width: int) -> list[Text]:
    """What is wrong, worst first; that the proxy is away before all else."""
    return sentences_of(view.state.verdict, view.problem, view.silent_s, view.height, width)


def sentences_of(
    verdict: Sequence[Sentence],
    problem: str | None,
    silent_s: float,
    height: int | None,
    width: int,
) -> list[Text]:
    """The same, of whatever is looked at."""
    found = [(each.severity, each.text) for each in verdict]
    if problem is not None:
        text = f"Nothing new for {silent_s:.0f} s, still trying: {problem}"
        found.insert(0, ("error", text))
    is_high = height is None or height >= ENOUGH_FOR_ALL_SENTENCES
    lines = []
    for place, (severity, text) in enumerate(found[: MOST_SENTENCES if is_high else 2]):
        cut = shown(text[:LONGEST_SENTENCE])
        most = MOST_LINES if place == 0 else 1
        wrapped = textwrap.wrap(cut, max(width, 10), max_lines=most, placeholder=" …")
        style = SEVERITIES.get(severity, "")
        lines += [line(each, style) for each in wrapped]
    return lines


def sums(view: View) -> Text:
    """Of all levels: seats and requests now, and requests a second."""
    state, levels = view.state, view.state.levels
    text = line()
    used = sum(level.seats_in_use for level in levels)
    text.append(f"{used} of {state.seats} seats in use", "bold")
    text.append(f"  {number(sum(level.waiting for level in levels))} waiting")
    text.append(f"  {rate(sum(level.served_per_second for level in levels))}/s served")
    is_observing = state.enforcement == "observe"
    rejected = "would be rejected" if is_observing else "rejected"
    for what, value in (
        ("failed", sum(level.failed_per_second for level in levels)),
        (rejected, sum(level.rejected_per_second for level in levels)),
    ):
        if value or what == rejected:
            is_bad = value and not is_observing
            text.append(f"  {rate(value)}/s {what}", "bold red" if is_bad else "")
    text.append(f"  {number(sum(level.executing for level in levels))} executing")
    return text


def server_line(upstream: Upstream, unix_s: float) -> Text:
    """How the servers behind are."""
    text = line()
    several = upstream.endpoint_count > 1
    text.append("servers behind " if several else "server behind ")
    if several and upstream.healthy_count:
        is_whole = upstream.healthy_count == upstream.endpoint_count
        up = f"{upstream.healthy_count} of {upstream.endpoint_count} up"
        text.append(up, "green" if is_whole else "bold yellow")
    else:
        text.append(upstream.state, STATES.get(upstream.state, ""))
    if upstream.state == "failing":
        if upstream.since is not None:
            text.append(f" for {duration_text(max(0.0, unix_s - upstream.since))}", "bold red")
        if upstream.problem:
            text.append(f": {shown(upstream.problem)}", "bold red")
    answers = upstream.answers_per_second
    if total := sum(answers.values()):
        text.append(f"  {rate(total)} answers/s")
        if errors := answers.get("5xx", 0.0):
            text.append(f"  {rate(errors)}/s are 5xx", "bold red")
    if upstream.failures_per_second:
        text.append(f"  {rate(upstream.failures_per_second)}/s without answer", "bold red")
    for name, value in (("p50", upstream.p50), ("p99", upstream.p99)):
        if value is not None:
            text.append(f"  {name} {duration_text(value)}")
    if not several:
        text.append(f"  {shown(upstream.address)}")
    return text
