"""Tests of apfproxy.flowcontrol.estimate_source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.flowcontrol.explanation import estimate_source
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.flowcontrol.passage import takes_seats
from apfproxy.flowcontrol.work_estimate import ObjectStats
from apfproxy.request.attributes import parse_attributes, plain_attributes

if TYPE_CHECKING:
    from apfproxy.request.attributes import RequestAttributes

PODS = b"/api/v1/namespaces/x/pods"
POD = PODS + b"/p"


class Known(LearnedCosts):
    """What is known of costs."""

    def __init__(self, stats: ObjectStats | None = None, watches: int = 0) -> None:
        super().__init__(lambda: 0)
        self.stats = stats
        self.watches = watches

    def object_stats(self, attributes: RequestAttributes) -> ObjectStats | None:
        """The same for all."""
        del attributes
        return self.stats

    def watch_count(self, attributes: RequestAttributes) -> int:
        """The same for all."""
        del attributes
        return self.watches


@pytest.mark.parametrize(
    ("method", "target", "known", "max_seats", "expected"),
    [
        pytest.param("GET", POD, Known(), 9, "'get'", id="get"),
        pytest.param("GET", b"/healthz", Known(), 0, "'get'", id="no-resource"),
        pytest.param(
            "GET",
            PODS + b"?watch=1&resourceVersion=7",
            Known(),
            9,
            "a watch that begins without the objects",
            id="watch",
        ),
        pytest.param("GET", PODS, Known(), 9, "nothing is known", id="unknown"),
        pytest.param("GET", PODS + b"?limit=x", Known(), 9, "cannot be decoded", id="undecodable"),
        pytest.param(
            "GET",
            PODS,
            Known(ObjectStats(500, 1000)),
            9,
            "500 objects of 1000 bytes are known; a seat for each 100 kB of those that are read at"
            " once, 9 at most here",
            id="known",
        ),
        pytest.param(
            "GET",
            PODS,
            Known(ObjectStats(1, 1000)),
            9,
            "1 object of 1000 bytes is known;",
            id="one",
        ),
        pytest.param(
            "GET", PODS, Known(ObjectStats(5, 10)), 0, "that are read at once", id="no-limit"
        ),
        pytest.param("DELETE", POD, Known(watches=9), 9, "here it is 9", id="few-watches"),
        pytest.param("PUT", POD, Known(watches=40), 3, "40 watches are told", id="many-watches"),
        pytest.param(
            "POST",
            b"/api/v1/namespaces/x/serviceaccounts/a/token",
            Known(watches=40),
            3,
            "a write that no watch is told of",
            id="no-event",
        ),
    ],
)
def test_source(method: str, target: bytes, known: Known, max_seats: int, expected: str) -> None:
    """Each way to an estimate is told with the numbers that it took."""
    assert expected in estimate_source(parse_attributes(method, target), known, max_seats)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(PODS, True, id="list"),
        pytest.param(PODS + b"?watch=1", True, id="watch"),
        pytest.param(POD + b"/log", False, id="log"),
        pytest.param(b"/debug/pprof/heap", False, id="profile"),
    ],
)
def test_takes_seats(target: bytes, expected: bool) -> None:
    """What lasts as long as its client likes takes no seats, but for the start of a WATCH."""
    assert expected == takes_seats(parse_attributes("GET", target))


def test_plain_apis() -> None:
    """Requests of an API that is not Kubernetes cost the same, each."""
    said = estimate_source(plain_attributes("GET", PODS), Known(ObjectStats(500, 1000)), 9)

    assert "takes one seat (preset: http)" in said
