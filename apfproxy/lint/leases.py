"""Levels of the renewals of important leases, and other requests at these levels.

Sample requests are classified as in the proxy: renewals of the leases that elect controllers and of
those that show that a node is healthy; requests of pods, people and strangers; and other requests
of the holders of the leases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.flowcontrol.classifier import Classifier
from apfproxy.lint.findings import CROWDED_LEASE, SELF_CROWDED_LEASE, Finding, FindingKind
from apfproxy.lint.identities import ACCOUNTS_GROUP
from apfproxy.request.attributes import (
    ANONYMOUS,
    AUTHENTICATED_GROUP,
    RequestAttributes,
    User,
    parse_attributes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from apfproxy.objects.types import FlowSchema, PriorityLevelConfiguration

KUBE_SYSTEM = "kube-system"


def account(namespace: str, name: str) -> User:
    """A service account as its token tells it."""
    groups = (ACCOUNTS_GROUP, f"{ACCOUNTS_GROUP}:{namespace}", AUTHENTICATED_GROUP)
    return User(f"system:serviceaccount:{namespace}:{name}", groups)


def lease(namespace: str, name: str) -> RequestAttributes:
    """The renewal of a lease."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
    return parse_attributes("PUT", path.encode())


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease: what messages call it, as whom it asks, and the lease's renewal."""

    title: str
    user: User
    renewal: RequestAttributes


LIST_OF_PODS = parse_attributes("GET", b"/api/v1/pods")
"""Another request of every holder."""

HOLDERS = (
    Holder(
        "kube-controller-manager",
        User("system:kube-controller-manager", (AUTHENTICATED_GROUP,)),
        lease(KUBE_SYSTEM, "kube-controller-manager"),
    ),
    Holder(
        "kube-scheduler",
        User("system:kube-scheduler", (AUTHENTICATED_GROUP,)),
        lease(KUBE_SYSTEM, "kube-scheduler"),
    ),
    Holder(
        "controllers in kube-system",
        account(KUBE_SYSTEM, "cloud-controller-manager"),
        lease(KUBE_SYSTEM, "cloud-controller-manager"),
    ),
    Holder(
        "nodes",
        User("system:node:node-1", ("system:nodes", AUTHENTICATED_GROUP)),
        lease("kube-node-lease", "node-1"),
    ),
)

POD = account("default", "default")
CROWD = (
    ("pods", POD, parse_attributes("GET", b"/api/v1/namespaces/default/configmaps")),
    ("pods that elect leaders", POD, lease("default", "operator")),
    ("people", User("alice@example.com", (AUTHENTICATED_GROUP,)), LIST_OF_PODS),
    ("strangers", ANONYMOUS, LIST_OF_PODS),
)
"""Other clients: title, user and a request."""


def lease_findings(
    flow_schemas: Sequence[FlowSchema], levels: Mapping[str, PriorityLevelConfiguration]
) -> Iterator[Finding]:
    """FlowSchemas in force that send leases where they can be crowded out; all have levels."""
    classifier = Classifier(flow_schemas)
    crowd: dict[str, list[str]] = {}
    for title, user, request in CROWD:
        schema = classifier.classify(user, request)
        if schema is not None:
            crowd.setdefault(level_of(schema), []).append(title)
    found: dict[tuple[FindingKind, str, str], list[str]] = {}
    for holder in HOLDERS:
        schema = classifier.classify(holder.user, holder.renewal)
        if schema is None or levels[level_of(schema)].spec.limited is None:
            continue
        level = level_of(schema)
        own = classifier.classify(holder.user, LIST_OF_PODS)
        if level in crowd:
            key = CROWDED_LEASE, schema.metadata.name, level
        elif own is not None and level_of(own) == level:
            key = SELF_CROWDED_LEASE, schema.metadata.name, level
        else:
            continue
        found.setdefault(key, []).append(holder.title)
    for (kind, name, level), titles in found.items():
        others = "all else that they ask"
        if kind is CROWDED_LEASE:
            others = f"what {', '.join(crowd[level])} ask"
        message = f'leases of {", ".join(titles)} share level "{level}" with {others}'
        yield Finding(kind, "FlowSchema", name, "spec.priorityLevelConfiguration.name", message)


def level_of(schema: FlowSchema) -> str:
    """The name of the level that a FlowSchema sends requests to."""
    return schema.spec.priority_level_configuration.name
