"""The kinds of objects that are served, and leases, by which replicas elect the one that leads.

Source: Kubernetes 1.36, `api/coordination/v1/generated.proto` and
`pkg/apis/coordination/validation`.
"""

from __future__ import annotations

from apfproxy.apiserver.apps import CONTROLLERS
from apfproxy.apiserver.core.cluster import CONFIG_MAP, NAMESPACE, NODE, SECRET, SERVICE_ACCOUNT
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.events import EVENT_OF_CORE, EVENT_OF_EVENTS
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION
from apfproxy.apiserver.kind import (
    Kind,
    Rules,
    Version,
    by_path,
    not_negative,
    positive,
    with_checks,
)
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.resource import RESOURCE_SLICE
from apfproxy.apiserver.reviews import REVIEWS
from apfproxy.apiserver.schema.shared_structs import SHARED
from apfproxy.apiserver.schema.types import structs
from apfproxy.apiserver.tables import AGE, NAME, Column

LEASE_STRUCTS = structs(
    "io.k8s.api.coordination.v1",
    """
Lease +object: A claim with an end.
LeaseSpec: Who holds the lease, and for how long.
  1 holderIdentity        *string     Who holds the lease.
  2 leaseDurationSeconds  *int32      How long it is valid.
  3 acquireTime           *microtime  When the holder got it.
  4 renewTime             *microtime  When the holder renewed it last.
  5 leaseTransitions      *int32      How often the holder has changed.
  6 strategy              *string     How the holder is chosen.
  7 preferredHolder       *string     Who is to hold it next.
""",
    SHARED,
)

LEASE = Kind(
    "coordination.k8s.io",
    "Lease",
    (Version("v1", LEASE_STRUCTS["Lease"]),),
    with_checks(
        Rules(allows_unconditional_update=False, is_created_by_update=True),
        by_path({"spec.leaseDurationSeconds": positive, "spec.leaseTransitions": not_negative}),
    ),
    columns=(NAME, Column("Holder", "spec.holderIdentity", "Who holds it."), AGE),
    storage_hash="gqkMMb/YqFM=",
)

FLOW_CONTROL_KINDS: tuple[Kind, ...] = (FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION)
"""Holds what a proxy keeps its own configuration in."""

KINDS: tuple[Kind, ...] = (
    NAMESPACE,
    POD,
    CONFIG_MAP,
    SECRET,
    SERVICE_ACCOUNT,
    NODE,
    EVENT_OF_CORE,
    *CONTROLLERS,
    EVENT_OF_EVENTS,
    *REVIEWS,
    POD_DISRUPTION_BUDGET,
    LEASE,
    RESOURCE_SLICE,
    *FLOW_CONTROL_KINDS,
)
"""All that there are, groups in the order in which Kubernetes tells them."""
