"""Sentences about a server limit that is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.admin.amounts import counted, duration_text, number_text

if TYPE_CHECKING:
    from apfproxy.flowcontrol.limit_view import LimitView

SETTING = "flowControl.autoLimit"


def limit_text(view: LimitView, unix_s: float) -> str:
    """Say which limit was found, or would have been, since when and why."""
    last = view.decisions[-1] if view.decisions else None
    if view.is_observing:
        return chosen_text(view)
    seats = counted(view.limit, "seat")
    if not view.is_leading:
        return f"the limit is found by another proxy that shares it: {seats} now"
    if last is None:
        return f"the limit is {seats}, where the search begins ({SETTING}.initial)"
    known = view.found is not None and view.found != view.limit
    knee = f" ({number_text(view.found or 0)} best so far)" if known else ""
    ago = duration_text(max(0.0, unix_s - last.time))
    return f"the limit finds itself: {seats}{knee}, {view.state}; set {ago} ago: {last.reason}"


def chosen_text(view: LimitView) -> str:
    """Say which limit would have been chosen where flow control only observes."""
    begins = f"the settings begin with {number_text(view.initial)} ({SETTING}.initial)"
    if view.chosen is None:
        return f"too little was asked for yet to choose a limit; {begins}"
    seen = [each.concurrency for each in view.curve]
    of = f", of the {seen[0]:.0f} to {seen[-1]:.0f} that were in use" if seen else ""
    return f"{counted(view.chosen, 'seat')} would have been chosen{of}; {begins}"
