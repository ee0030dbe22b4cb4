"""All pages of the admin listener, in one application of aiohttp."""

from __future__ import annotations

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
from apfproxy.admin.several_clusters import Pages, SeveralClusters
from apfproxy.admin.upstream_state import upstream_state
from apfproxy.app.object_source import source_text
from apfproxy.app.raw_request import request_of_line
from apfproxy.app.settings_checks import one_flow, tells_apart, verifies_users
from apfproxy.app.web_runner import WebRunner
from apfproxy.flowcontrol.level_summary import summarize_levels
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.proxy.request import preset_of
from apfproxy.request.attributes import ANONYMOUS, User
from apfproxy.settings import OBSERVE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiohttp import web

    from apfproxy.admin.live_history import LiveHistory
    from apfproxy.admin.metrics import MetricsPage
    from apfproxy.app.admin_listener import AdminParts
    from apfproxy.app.cluster import Cluster
    from apfproxy.app.places import Places
    from apfproxy.fleet.view import FleetView
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.level_summary import LevelsSummary
    from apfproxy.upstream.health import UpstreamHealth

SHUTDOWN_S = 1.0
"""For a scrape that is under way; the listener closes last, when there is nothing more to see."""


def admin_runner(
    parts: AdminParts, metrics: MetricsPage, history: LiveHistory | None, places: Places
) -> WebRunner:
    """Put the pages together; `history` is that of the only cluster."""
    only = parts.clusters.only
    if only is None:
        overview = Overview(lambda: places_of(parts), time.monotonic_ns)
        several = SeveralClusters(
            lambda: places_of(parts), lambda served: pages_of(parts, served.cluster), overview
        )
        app = build_clusters_app(several, metrics, parts.health)
    else:
        app = build_admin_app(
            only.controller,
            metrics,
            parts.health,
            partial(wall_offset_ns, parts),
            parts.api_routes,
            live_inputs(parts, only, history),
            lambda: parts.observation.top_flows(only.served),
            explain_page_of(only),
            partial(summary_of, only),
            lambda: endpoint_views(only.upstream, only.served.pool),
            partial(fleet_of, only),
        )
    return WebRunner(app, places, parts.access, shutdown_s=SHUTDOWN_S)


def wall_offset_ns(parts: AdminParts) -> int:
    """Nanoseconds since 1970 less the process's clock."""
    return time.time_ns() - parts.clock.now_ns()


def live_inputs(parts: AdminParts, cluster: Cluster, history: LiveHistory | None) -> LiveInputs:
    """What the live page of a cluster shows."""
    return LiveInputs(
        enforcement=lambda: cluster.settings.flow_control.enforcement,
        events=parts.events,
        top_flows=lambda: parts.observation.flows(cluster.served),
        history=history,
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
    if user is ANONYMOUS and tells_apart(cluster.settings.authentication.unverified):
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
    live = LivePage(cluster.controller, live_inputs(parts, cluster, None))
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
