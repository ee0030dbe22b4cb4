"""Metrics of each of several servers behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from apfproxy.admin.endpoint_metrics import OTHER, EndpointMetrics
from apfproxy.admin.endpoint_state import MAX_ENDPOINTS
from apfproxy.upstream.counters import UpstreamFailure
from tests.admin.servers import StillWatch, view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.admin.endpoint_state import EndpointView

    Found = dict[tuple[str, ...], float]

S = 1_000_000_000


def metrics(views: Sequence[EndpointView], *, is_full: bool = False) -> dict[str, Found]:
    """Name of each sample to its labels' values, in the order of their names, to its value."""
    page = EndpointMetrics(lambda: views, lambda: is_full)
    found: dict[str, Found] = {}
    for family in page.collect():
        found[family.name.removeprefix("apfproxy_")] = {}
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            found.setdefault(sample.name.removeprefix("apfproxy_"), {})[labels] = sample.value
    return found


def test_several() -> None:
    """Each has its state, its load, and what requests counted."""
    views = [view("a"), view("b", "failing"), view("c", "unknown"), view("d", "draining")]
    counters = views[0].endpoint.counters
    counters.answers.update({200: 3, 503: 1})
    counters.fail(UpstreamFailure.CONNECT, "refused")
    counters.head_ns.observe(S)
    cast("StillWatch", views[1].watch).ejections_total = 2
    found = metrics(views)

    assert {("unknown",): 1, ("up",): 1, ("ejected",): 0, ("failing",): 1, ("draining",): 1} == (
        found["endpoints"]
    )
    assert {("a",): 1, ("b",): 0} == found["endpoint_up"]
    assert dict.fromkeys([("a",), ("b",), ("c",), ("d",)], 5) == found["endpoint_seats"]
    assert (2, 1) == (
        found["endpoint_connections"]["a", "active"],
        found["endpoint_connections"]["a", "idle"],
    )
    assert 2 == found["endpoint_ejections_total"]["b",]
    assert {("2xx", "a"): 3, ("5xx", "a"): 1} == found["endpoint_answers_total"]
    assert {("a", "connect"): 1} == found["endpoint_failures_total"]
    assert {("a",): 1} == found["endpoint_response_head_seconds_count"]


def test_full() -> None:
    """Where all is wanted, there are series of what never happened."""
    found = metrics([view("a"), view("b")], is_full=True)

    assert 10 == len(found["endpoint_answers_total"]) == len(found["endpoint_failures_total"])
    assert {("a",): 0, ("b",): 0} == found["endpoint_response_head_seconds_count"]


def test_one() -> None:
    """Of the only server there is nothing but its state; each family is there all the same."""
    found = metrics([view("a")], is_full=True)

    assert 1 == found.pop("endpoints")["up",]
    assert [{}] * len(found) == list(found.values())
    assert {name for name in metrics([view("a"), view("b")]) if "_head" not in name} >= {
        "endpoints",
        *(name for name in found if "_head" not in name),
    }


def test_very_many() -> None:
    """The last ones have series together, and no state."""
    found = metrics([view(str(place)) for place in range(MAX_ENDPOINTS + 3)])

    assert 15 == found["endpoint_seats"][OTHER,]
    assert len(found["endpoint_up"]) == MAX_ENDPOINTS
    assert len(found["endpoint_seats"]) == MAX_ENDPOINTS + 1


def test_one_that_came_back() -> None:
    """While it is drained it is already there again: both are one series."""
    found = metrics([view("a"), view("a", "draining")])

    assert {("a",): 1} == found["endpoint_up"]
    assert {("a",): 10} == found["endpoint_seats"]
