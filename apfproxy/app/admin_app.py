"""The admin listener of a proxy: all pages in one application of aiohttp."""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from apfproxy.admin.admin import build_admin_app, build_clusters_app, cluster_routes
from apfproxy.admin.endpoint_state import endpoint_views
from apfproxy.admin.explain_page import NOT_ENFORCED, TOLD_APART, explain_route
from apfproxy.admin.live_page import LivePage
from apfproxy.admin.live_state import LiveInputs
from apfproxy.admin.overview import Overview, Place
from apfproxy.admin.raw_request import request_of_line
from apfproxy.admin.several_clusters import Pages, SeveralClusters
from apfproxy.admin.upstream_state import upstream_state
from apfproxy.admin.web import WebListener
from apfproxy.flowcontrol.level_summary import summarize_levels
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.proxy.request import preset_of
from apfproxy.request.attributes import ANONYMOUS, User
from apfproxy.settings import OBSERVE
from apfproxy.settings.contradictions import one_flow, verifies_users
from apfproxy.sources.object_source import source_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aiohttp import web

    from apfproxy.admin.access import AdminAccess
    from apfproxy.admin.metrics import ScrapedPage
    from apfproxy.admin.observation import Observation
    from apfproxy.admin.places import Places
    from apfproxy.app.cluster import Cluster
    from apfproxy.app.clusters import Clusters
    from apfproxy.base.clock import Clock
    from apfproxy.base.events import ConfigurationEvents
    from apfproxy.base.faults import Faults
    from apfproxy.base.health_checks import HealthRegistry
    from apfproxy.base.sockets import DescriptorWatch
    from apfproxy.fleet.view import FleetView
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.level_summary import LevelsSummary
    from apfproxy.proxy.counters import ListenerCounters
    from apfproxy.settings import Settings
    from apfproxy.upstream.health import UpstreamHealth

log = logging.getLogger(__name__)

SHUTDOWN_S = 1.0
"""For a scrape that is under way; the listener closes last, when there is nothing more to see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminParts:
    """What the pages show; `settings` gives those in force.

    `started_s` is when the process began, in seconds since 1970.
    """

    settings: Callable[[], Settings]
    access: AdminAccess
    clock: Clock
    clusters: Clusters
    counters: ListenerCounters
    observation: Observation
    health: HealthRegistry
    faults: Faults
    descriptors: DescriptorWatch
    events: ConfigurationEvents
    api_routes: tuple[web.RouteDef, ...]
    started_s: float


class AdminListener(WebListener):
    """The listener, with the application of all pages."""

    def __init__(self, parts: AdminParts, places: Places) -> None:
        self._parts = parts
        self._metrics: ScrapedPage | None = None
        super().__init__(self._application(), places, parts.access, shutdown_s=SHUTDOWN_S)

    def _application(self) -> web.Application:
        parts, only = self._parts, self._parts.clusters.only
        if only is None:
            overview = Overview(lambda: places_of(parts), time.monotonic_ns)
            several = SeveralClusters(
                lambda: places_of(parts), lambda served: pages_of(parts, served.cluster), overview
            )
            return build_clusters_app(several, self.metrics, parts.health)
        return build_admin_app(
            only.controller,
            self.metrics,
            parts.health,
            partial(wall_offset_ns, parts),
            parts.api_routes,
            live_inputs(parts, only),
            lambda: parts.observation.top_flows(only.served),
            explain_page_of(only),
            partial(summary_of, only),
            lambda: endpoint_views(only.upstream, only.served.pool),
            partial(fleet_of, only),
        )

    async def metrics(self) -> ScrapedPage:
        """Import the metrics, in a thread, and make their page at the first scrape."""
        if self._metrics is None:
            module = await asyncio.to_thread(importlib.import_module, "apfproxy.app.metrics_page")
            self._metrics = module.metrics_page(self._parts, self.places)
        return self._metrics

    async def leave_counts(self, path: str) -> None:
        """Leave in a file what was counted, for who reads it at the end of the process."""
        page = await self.metrics()
        from apfproxy.app.last_counts import leave_counts  # noqa: PLC0415 - with the metrics

        try:
            leave_counts(path, page)
        except OSError as error:
            log.warning(
                "what was counted since the last scrape is lost: %s", error.strerror or error
            )


def wall_offset_ns(parts: AdminParts) -> int:
    """Nanoseconds since 1970 less the process's clock."""
    return time.time_ns() - parts.clock.now_ns()


def live_inputs(parts: AdminParts, cluster: Cluster) -> LiveInputs:
    """What the live page of a cluster shows."""
    return LiveInputs(
        enforcement=lambda: cluster.settings.flow_control.enforcement,
        events=parts.events,
        top_flows=lambda: parts.observation.flows(cluster.served),
        health=parts.health,
        counters=cluster.counters,
        started_s=parts.started_s,
        source=lambda: source_text(cluster.settings.flow_control),
        upstream=lambda: upstream_state(
            cluster.upstream, cluster.served.pool, cluster.settings.flow_control.per_endpoint
        ),
        cluster=cluster.name,
        fleet=partial(fleet_of, cluster),
        client_problems=partial(client_problems, cluster),
    )


def client_problems(cluster: Cluster) -> Iterator[str]:
    """Why the clients of a cluster are not told apart as they could be."""
    names = cluster.identities.names
    return filter(None, (one_flow(cluster.settings), names.problem() if names else ""))


def fleet_of(cluster: Cluster) -> FleetView | None:
    """Who shares the seats of a cluster; None if nobody does."""
    return None if cluster.membership is None else cluster.membership.view()


def summary_of(cluster: Cluster) -> LevelsSummary:
    """How the seats of a cluster are divided."""
    settings, membership = cluster.settings, cluster.membership
    summary = summarize_levels(
        cluster.controller,
        knows_users=verifies_users(settings),
        is_plain=PRESETS[settings.preset].is_plain,
    )
    if membership is None:
        return summary
    ledger = membership.ledger
    return msgspec.structs.replace(
        summary, shared_limit=ledger.limit, members=1 + len(ledger.others)
    )


def explain_notes(cluster: Cluster, user: User) -> Iterator[str]:
    """What is to be known of a cluster beside what becomes of a user's request."""
    if cluster.settings.flow_control.enforcement == OBSERVE:
        yield NOT_ENFORCED
    if user is ANONYMOUS and cluster.settings.authentication.unverified.is_any:
        yield TOLD_APART


def explain_page_of(cluster: Cluster) -> web.RouteDef:
    """What would happen to a request of a cluster."""
    return explain_route(
        cluster.controller,
        cluster.costs,
        lambda method, target: request_of_line(method, target, cluster.settings),
        lambda user: tuple(explain_notes(cluster, user)),
        lambda: preset_of(cluster.settings),
    )


# Several clusters.


@dataclass(frozen=True, slots=True)
class Served:
    """A cluster that serves, for the overview."""

    cluster: Cluster

    @property
    def controller(self) -> Controller:
        """Its flow control."""
        return self.cluster.controller

    @property
    def upstream(self) -> UpstreamHealth:
        """What is known of its servers."""
        return self.cluster.upstream

    @property
    def is_observing(self) -> bool:
        """Whether its flow control only observes."""
        return self.cluster.settings.flow_control.enforcement == OBSERVE

    @property
    def fleet_problem(self) -> str:
        """Why its part of a shared limit is not up to date; "" if it is, or nothing is shared."""
        membership = self.cluster.membership
        return "" if membership is None else membership.problem() or ""


def places_of(parts: AdminParts) -> Iterator[Place]:
    """All clusters that the settings name."""
    for member in parts.clusters.members:
        wanted, cluster = member.wanted, member.cluster
        where = ", ".join((*wanted.hosts, *filter(None, (wanted.path_prefix,))))
        serving = None if cluster is None else Served(cluster)
        yield Place(wanted.name, where, serving, member.problem)


def pages_of(parts: AdminParts, cluster: Cluster) -> Pages:
    """The pages of one of several clusters."""
    live = LivePage(cluster.controller, live_inputs(parts, cluster))
    _, routes = cluster_routes(
        cluster.controller,
        partial(wall_offset_ns, parts),
        lambda: parts.observation.top_flows(cluster.served),
        explain_page_of(cluster),
        partial(summary_of, cluster),
        lambda: endpoint_views(cluster.upstream, cluster.served.pool),
        partial(fleet_of, cluster),
    )
    return Pages(live, {each.path: each.handler for each in (*routes, *live.routes())})
