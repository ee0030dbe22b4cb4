"""Metrics of each of several servers behind, all named `apfproxy_endpoint*`.

The first `MAX_ENDPOINTS` of them have series of their own, all others one together.  Where there is
but one server, what `apfproxy_upstream_*` says is all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.admin.endpoint_state import MAX_ENDPOINTS, OUT, UP
from apfproxy.admin.families import (
    NS_PER_S,
    HistogramFamily,
    bound_texts,
    by_label,
    counter,
    gauge,
)
from apfproxy.admin.proxy_metrics import PREFIX, coarser
from apfproxy.flowcontrol.meters import DURATION_BOUNDS_S
from apfproxy.upstream.counters import UpstreamCounters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client.core import Metric

    from apfproxy.admin.endpoint_state import EndpointView
    from apfproxy.admin.families import Labels

OTHER = "other"
"""The label of all those without series of their own."""

STATES = ("unknown", UP, "ejected", "failing", "draining")
JUDGED = frozenset({UP, *OUT})
"""Those of an endpoint that should be well."""


class EndpointMetrics:
    """Makes the families; `views` gives the endpoints that there are, `is_full` as elsewhere."""

    def __init__(
        self,
        views: Callable[[], Sequence[EndpointView]],
        is_full: Callable[[], bool],
    ) -> None:
        self._views = views
        self._is_full = is_full
        self._bounds = bound_texts(DURATION_BOUNDS_S)

    def collect(self) -> Iterator[Metric]:
        """All families, as of now; each is there, if without series."""
        views = self._views()
        states = [view.state for view in views]
        yield gauge(
            PREFIX + "endpoints",
            "Servers behind, by how they are",
            by_label("state", {state: states.count(state) for state in STATES}),
        )
        groups = grouped(views) if len(views) > 1 else {}
        yield gauge(
            PREFIX + "endpoint_up",
            "Whether a server behind is well and gets requests (1) or not (0)",
            [
                ({"endpoint": name}, state == UP)
                for name, group in groups.items()
                if name != OTHER and (state := group[0].state) in JUDGED
            ],
        )
        yield gauge(
            PREFIX + "endpoint_seats",
            "Seats of the requests that a server behind works on",
            [
                ({"endpoint": name}, sum(view.endpoint.seats for view in group))
                for name, group in groups.items()
            ],
        )
        yield gauge(
            PREFIX + "endpoint_connections",
            "Connections to a server behind that are open, by whether a request uses them",
            [sample for each in groups.items() for sample in connections(*each)],
        )
        yield counter(
            PREFIX + "endpoint_ejections_total",
            "How often a server behind got no more requests since too many failed in a row",
            [
                (
                    {"endpoint": name},
                    sum(view.ejections for view in group),
                )
                for name, group in groups.items()
            ],
        )
        yield from self._counted(
            {name: counted(group) for name, group in groups.items()}, is_full=self._is_full()
        )

    def _counted(
        self, groups: Mapping[str, UpstreamCounters], *, is_full: bool
    ) -> Iterator[Metric]:
        """What requests counted; without what never happened unless all is wanted."""
        for name, help_text, label, values in (
            (
                "endpoint_answers_total",
                "Final answers of a server behind, by class of their status code",
                "class",
                {name: counters.responses_by_class() for name, counters in groups.items()},
            ),
            (
                "endpoint_failures_total",
                "Requests that a server behind did not answer, and answers cut short, by how",
                "reason",
                {name: counters.failures for name, counters in groups.items()},
            ),
        ):
            yield counter(
                PREFIX + name,
                help_text,
                [
                    ({"endpoint": endpoint, label: str(key)}, number)
                    for endpoint, numbers in values.items()
                    for key, number in numbers.items()
                    if number or is_full
                ],
            )
        head = HistogramFamily(
            PREFIX + "endpoint_response_head_seconds",
            "Time from a request sent to the head of the answer of a server behind",
            self._bounds,
        )
        for endpoint, counters in groups.items():
            if is_full or counters.answers:
                head_ns = counters.head_ns
                head.add({"endpoint": endpoint}, coarser(head_ns), head_ns.sum / NS_PER_S)
        yield head.metric


def grouped(views: Sequence[EndpointView]) -> dict[str, list[EndpointView]]:
    """The endpoints by label: each by itself, but the last ones together if they are too many.

    One that is drained may have come back meanwhile, and then follows its successor.
    """
    found: dict[str, list[EndpointView]] = {}
    for place, view in enumerate(views):
        name = view.endpoint.url if place < MAX_ENDPOINTS else OTHER
        found.setdefault(name, []).append(view)
    return found


def connections(name: str, group: Sequence[EndpointView]) -> Iterator[tuple[Labels, float]]:
    """The connections of a group, in use and idle."""
    idle = sum(len(view.endpoint.idle) for view in group)
    opened = sum(len(view.endpoint.open) for view in group)
    yield {"endpoint": name, "state": "active"}, opened - idle
    yield {"endpoint": name, "state": "idle"}, idle


def counted(group: Sequence[EndpointView]) -> UpstreamCounters:
    """What those of a group did, together."""
    found = UpstreamCounters()
    for view in group:
        found.add(view.endpoint.counters)
    return found
