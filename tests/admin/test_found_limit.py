"""Sentences about a server limit that is found."""

from __future__ import annotations

import pytest

from apfproxy.admin.found_limit import limit_text
from apfproxy.flowcontrol.limit_view import CurvePoint, DecisionView, LimitView

SET = "set 12 s ago: requests wait"
CURVE = tuple(CurvePoint(concurrency, 1.0, 0.0, 0) for concurrency in (12.4, 84.0, 120.7))
INITIAL = "(flowControl.autoLimit.initial)"
BEGINS = f"the settings begin with 600 {INITIAL}"
MORE = DecisionView(988.0, 84, "more", "requests wait")


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (LimitView(1), f"the limit is 1 seat, where the search begins {INITIAL}"),
        (
            LimitView(84, "holding", 84, decisions=(MORE,)),
            f"the limit finds itself: 84 seats, holding; {SET}",
        ),
        (
            LimitView(84, "probing", 70, decisions=(MORE,)),
            f"the limit finds itself: 84 seats (70 best so far), probing; {SET}",
        ),
        (
            LimitView(84, is_leading=False, decisions=(MORE,)),
            "the limit is found by another proxy that shares it: 84 seats now",
        ),
        (
            LimitView(84, is_observing=True, initial=600, decisions=(MORE,)),
            f"84 seats would have been chosen; {BEGINS}",
        ),
        (
            LimitView(100, found=84, is_observing=True, initial=600, curve=CURVE),
            f"84 seats would have been chosen, of the 12 to 121 that were in use; {BEGINS}",
        ),
        (
            LimitView(600, is_observing=True, initial=600),
            f"too little was asked for yet to choose a limit; {BEGINS}",
        ),
    ],
)
def test_limit_text(view: LimitView, expected: str) -> None:
    assert expected == limit_text(view, 1000.0)
