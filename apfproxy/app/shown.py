"""The pages, and the parent, are shown a process by its state, and by replies to questions."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.admin.explain_page import NOT_ENFORCED, TOLD_APART, explained
from apfproxy.admin.gathering import ClusterParts, ProcessParts, ServingParts
from apfproxy.admin.questions import Asked
from apfproxy.admin.raw_request import request_of_line
from apfproxy.admin.sources import OwnStates
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.proxy.request import preset_of
from apfproxy.request.attributes import ANONYMOUS, User
from apfproxy.settings import FULL, OBSERVE
from apfproxy.settings.contradictions import one_flow, verifies_users
from apfproxy.sources.object_source import source_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apfproxy.admin.observation import Observation
    from apfproxy.admin.state import AdminState
    from apfproxy.app.cluster import Cluster
    from apfproxy.app.clusters import Clusters
    from apfproxy.base.clock import Clock
    from apfproxy.base.events import ConfigurationEvents
    from apfproxy.base.faults import Faults
    from apfproxy.base.health_checks import HealthRegistry
    from apfproxy.base.sockets import DescriptorWatch
    from apfproxy.flowcontrol.explanation import Explanation
    from apfproxy.proxy.counters import ListenerCounters
    from apfproxy.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Showing:
    """A process.

    Attributes:
        settings: Gives those in force.
        started_s: When the process began, in seconds since 1970.
        admin: Gives the connections of its admin listener; None for none.
    """

    settings: Callable[[], Settings]
    clock: Clock
    clusters: Clusters
    counters: ListenerCounters
    observation: Observation
    health: HealthRegistry
    faults: Faults
    descriptors: DescriptorWatch
    events: ConfigurationEvents
    started_s: float
    admin: Callable[[], AdminState | None]


def own_states(shown: Showing) -> OwnStates:
    """The source of a process's state."""
    return OwnStates(lambda: process_parts(shown), lambda name: asked(shown, name))


def process_parts(shown: Showing) -> ProcessParts:
    """A process as it is now."""
    observation = shown.observation
    return ProcessParts(
        started_s=shown.started_s,
        health=shown.health,
        faults=shown.faults,
        clusters=clusters_of(shown),
        has_several=shown.clusters.only is None,
        is_full=shown.settings().metrics == FULL,
        listener=shown.counters,
        events=shown.events,
        shortages=shown.descriptors.shortages,
        access_log=observation.access_log,
        left_out=observation.log_budget.left_out,
        traces=observation.traces,
        admin=shown.admin(),
    )


def clusters_of(shown: Showing) -> Iterator[ClusterParts]:
    """All clusters that the settings name."""
    for member in shown.clusters.members:
        wanted, cluster = member.wanted, member.cluster
        yield ClusterParts(
            name=wanted.name,
            where=", ".join((*wanted.hosts, *filter(None, (wanted.path_prefix,)))),
            problem=member.problem if wanted.name else "",
            serving=None if cluster is None else serving_parts(cluster, shown.observation),
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


def asked(shown: Showing, name: str) -> Asked | None:
    """The cluster that a question is about; None if there is none of the name."""
    cluster = next((each for each in shown.clusters if each.name == name), None)
    if cluster is None:
        return None
    return Asked(
        controller=cluster.controller,
        wall_offset_ns=time.time_ns() - shown.clock.now_ns(),
        top_flows=shown.observation.top_flows(cluster.served),
        explain=lambda query: explanation(cluster, query),
    )


def explanation(cluster: Cluster, query: str) -> Explanation:
    """What would happen to a request of a cluster; ValueError if the query makes no sense."""
    return explained(
        query,
        cluster.controller,
        cluster.costs,
        lambda method, target: request_of_line(method, target, cluster.settings),
        preset_of(cluster.settings),
        lambda user: notes(cluster, user),
    )


def notes(cluster: Cluster, user: User) -> Iterator[str]:
    """What is to be known of a cluster beside what becomes of a user's request."""
    if cluster.settings.flow_control.enforcement == OBSERVE:
        yield NOT_ENFORCED
    if user is ANONYMOUS and cluster.settings.authentication.unverified.is_any:
        yield TOLD_APART
