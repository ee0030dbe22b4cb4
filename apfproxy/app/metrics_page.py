"""What the pages of the admin listener show of a process, as of now, and its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.admin.gathering import (
    ClusterParts,
    ProcessParts,
    ServingParts,
    admin_state,
    gathered,
)
from apfproxy.admin.metric_table import TABLE
from apfproxy.admin.metrics import ScrapedPage
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.settings import FULL
from apfproxy.settings.contradictions import one_flow, verifies_users
from apfproxy.sources.object_source import source_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.admin.observation import Observation
    from apfproxy.admin.places import Places
    from apfproxy.app.admin_app import AdminParts
    from apfproxy.app.cluster import Cluster


def metrics_page(parts: AdminParts, places: Places) -> ScrapedPage:
    """The page of all metrics."""
    return ScrapedPage(
        TABLE, lambda: ({"": state} for state in gathered(process_parts(parts, places)))
    )


def process_parts(parts: AdminParts, places: Places) -> ProcessParts:
    """A process as it is now; `places` has the connections of its admin listener."""
    observation = parts.observation
    return ProcessParts(
        started_s=parts.started_s,
        health=parts.health,
        faults=parts.faults,
        clusters=clusters_of(parts),
        has_several=parts.clusters.only is None,
        is_full=parts.settings().metrics == FULL,
        listener=parts.counters,
        events=parts.events,
        shortages=parts.descriptors.shortages,
        access_log=observation.access_log,
        left_out=observation.log_budget.left_out,
        traces=observation.traces,
        admin=admin_state(places, parts.access.refused),
    )


def clusters_of(parts: AdminParts) -> Iterator[ClusterParts]:
    """The only cluster, or all that the settings name."""
    if (only := parts.clusters.only) is not None:
        yield ClusterParts(serving=serving_parts(only, parts.observation))
        return
    for member in parts.clusters.members:
        wanted, cluster = member.wanted, member.cluster
        yield ClusterParts(
            name=wanted.name,
            where=", ".join((*wanted.hosts, *filter(None, (wanted.path_prefix,)))),
            problem=member.problem,
            serving=None if cluster is None else serving_parts(cluster, parts.observation),
        )


def serving_parts(cluster: Cluster, observation: Observation) -> ServingParts:
    """A cluster as it serves now."""
    settings, identities, membership = cluster.settings, cluster.identities, cluster.membership
    names = identities.names
    problems = one_flow(settings), names.problem() if names else ""
    return ServingParts(
        controller=cluster.controller,
        kinds=cluster.kinds,
        loads=cluster.config_status,
        counters=cluster.counters,
        pool=cluster.served.pool,
        upstream=cluster.upstream,
        authentications=identities.authenticator.counters,
        enforcement=settings.flow_control.enforcement,
        source=source_text(settings.flow_control),
        seats_per_endpoint=settings.flow_control.per_endpoint,
        client_problems=[problem for problem in problems if problem],
        knows_users=verifies_users(settings),
        is_plain=PRESETS[settings.preset].is_plain,
        fleet=None if membership is None else membership.view(),
        shared=None
        if membership is None
        else (membership.ledger.limit, 1 + len(membership.ledger.others)),
        top_flows=observation.top_flows(cluster.served),
        reviews=identities.review_apis,
        certificates=identities.expiries(),
        tokens=list(cluster.own_tokens()),
    )
