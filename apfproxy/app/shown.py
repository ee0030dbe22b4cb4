"""A cluster as the pages, and the parent, are shown it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.admin.explain_page import NOT_ENFORCED, TOLD_APART, explained
from apfproxy.admin.gathering import ServingParts, cluster_state
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.request.attributes import ANONYMOUS, User
from apfproxy.settings import OBSERVE
from apfproxy.settings.contradictions import one_flow, verifies_users
from apfproxy.sources.object_source import source_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.admin.observation import Observation
    from apfproxy.admin.state import ClusterState
    from apfproxy.app.cluster import Cluster
    from apfproxy.app.clusters import Member
    from apfproxy.flowcontrol.explanation import Explanation


def shown_cluster(member: Member, observation: Observation, *, is_full: bool) -> ClusterState:
    """A cluster as the settings name it, and as it is now."""
    wanted, cluster = member.wanted, member.cluster
    return cluster_state(
        None if cluster is None else serving_parts(cluster, observation),
        name=wanted.name,
        where=", ".join((*wanted.hosts, *filter(None, (wanted.path_prefix,)))),
        problem=member.problem if wanted.name else "",
        is_full=is_full,
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


def explanation(cluster: Cluster, query: str) -> Explanation:
    """Say what would happen to a request of a cluster; ValueError if the query makes no sense."""
    return explained(
        query,
        cluster.controller,
        cluster.costs,
        cluster.settings,
        lambda user: notes(cluster, user),
    )


def notes(cluster: Cluster, user: User) -> Iterator[str]:
    """Return what is to be known of a cluster beside what becomes of a user's request."""
    if cluster.settings.flow_control.enforcement == OBSERVE:
        yield NOT_ENFORCED
    if user is ANONYMOUS and cluster.settings.authentication.unverified.is_any:
        yield TOLD_APART
