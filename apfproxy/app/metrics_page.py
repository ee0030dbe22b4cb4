"""The proxy's metrics: all families in one page."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from apfproxy.admin.authentication_metrics import authentication_families
from apfproxy.admin.endpoint_state import endpoint_views
from apfproxy.admin.families import NO_LABELS, counter
from apfproxy.admin.fleet_metrics import fleet_families
from apfproxy.admin.listener_metrics import listener_families, unrouted_families
from apfproxy.admin.metrics import ClusterParts, MetricsPage
from apfproxy.admin.object_metrics import object_families
from apfproxy.admin.process_metrics import (
    access_log_families,
    admin_families,
    certificate_families,
    fault_families,
    health_families,
    token_families,
    trace_families,
    upstream_families,
)
from apfproxy.admin.proxy_metrics import PREFIX
from apfproxy.settings import FULL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from apfproxy.admin.metrics import Families
    from apfproxy.admin.places import Places
    from apfproxy.app.admin_app import AdminParts
    from apfproxy.app.cluster import Cluster
    from apfproxy.base.sockets import DescriptorWatch


def metrics_page(parts: AdminParts, places: Places) -> MetricsPage:
    """Put the page together."""
    return MetricsPage(
        lambda: {each.name: cluster_parts(each) for each in parts.clusters},
        (*_families(parts), partial(admin_families, places, parts.access.refused)),
        is_full=lambda: parts.settings().metrics == FULL,
    )


def cluster_parts(cluster: Cluster) -> ClusterParts:
    """What the page has of a cluster."""
    pool = cluster.served.pool
    return ClusterParts(
        clock=cluster.clock,
        controller=cluster.controller,
        kind_meter=cluster.kinds,
        counters=cluster.counters,
        pool=pool,
        config_status=cluster.config_status,
        endpoints=lambda: endpoint_views(cluster.upstream, pool),
        others=(
            partial(object_families, cluster.controller),
            partial(of_identities, cluster),
            partial(upstream_families, cluster.upstream),
            lambda: certificate_families(cluster.identities.expiries(), time.time()),
            lambda: token_families(cluster.own_tokens()),
            *fleet_parts(cluster),
        ),
    )


def fleet_parts(cluster: Cluster) -> Iterator[Families]:
    """Those of the fleet that shares the seats, if there is one: of all clusters, or of none."""
    if cluster.membership is not None:
        yield partial(fleet_families, cluster.membership.view)


def _families(parts: AdminParts) -> Iterator[Families]:
    yield partial(listener_families, parts.counters)
    if parts.clusters.only is None:
        yield partial(unrouted_families, parts.counters)
    yield partial(of_access_log, parts)
    yield partial(of_traces, parts)
    yield partial(health_families, parts.health)
    yield partial(descriptor_families, parts.descriptors)
    yield partial(fault_families, parts.faults)


def of_identities(cluster: Cluster) -> Iterator[Metric]:
    """Those of the identities in force."""
    identities = cluster.identities
    return authentication_families(identities.authenticator.counters, identities.review_apis)


def of_access_log(parts: AdminParts) -> Iterator[Metric]:
    """Those of the access log in force, if there is one."""
    access_log, left_out = parts.observation.access_log, parts.observation.log_budget.left_out
    return iter(()) if access_log is None else access_log_families(access_log, left_out)


def of_traces(parts: AdminParts) -> Iterator[Metric]:
    """Those of the traces on their way to the collector in force, if there is one."""
    traces = parts.observation.traces
    return iter(()) if traces is None else trace_families(traces)


def descriptor_families(watch: DescriptorWatch) -> Iterator[Metric]:
    """The metric of missing file descriptors."""
    yield counter(
        f"{PREFIX}descriptor_shortages_total",
        "Seconds in which the process had no file descriptor left for a connection",
        [(NO_LABELS, watch.shortages)],
    )
