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
        chosen = chosen_text(view.limit, view.initial, is_known=last is not None)
        return chosen if last is None else f"{chosen}: {last.reason}"
    seats = counted(view.limit, "seat")
    if not view.is_leading:
        return f"the limit is found by another proxy that shares it: {seats} now"
    if last is None:
        return f"the limit is {seats}, where the search begins ({SETTING}.initial)"
    known = view.found is not None and view.found != view.limit
    knee = f" ({number_text(view.found or 0)} found)" if known else ""
    ago = duration_text(max(0.0, unix_s - last.time))
    return f"the limit finds itself: {seats}{knee}, {view.state}; set {ago} ago: {last.reason}"


def chosen_text(limit: int, initial: int, *, is_known: bool) -> str:
    """Say which limit would have been chosen where flow control only observes."""
    begins = f"the settings begin with {number_text(initial)} ({SETTING}.initial)"
    if not is_known:
        return f"too little was asked for yet to choose a limit; {begins}"
    return f"{counted(limit, 'seat')} would have been chosen; {begins}"
