"""Leases, by which replicas of a program elect the one that leads.

Source: Kubernetes 1.36, `api/coordination/v1/generated.proto` and
`pkg/apis/coordination/validation`.
"""

from __future__ import annotations

from apfproxy.apiserver.kind import (
    Kind,
    Rules,
    Version,
    by_path,
    not_negative,
    positive,
    with_checks,
)
from apfproxy.apiserver.schema.language import structs
from apfproxy.apiserver.schema.shared_structs import SHARED
from apfproxy.apiserver.tables import AGE, NAME, Column

STRUCTS = structs(
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
    (Version("v1", STRUCTS["Lease"]),),
    with_checks(
        Rules(allows_unconditional_update=False, is_created_by_update=True),
        by_path({"spec.leaseDurationSeconds": positive, "spec.leaseTransitions": not_negative}),
    ),
    columns=(NAME, Column("Holder", "spec.holderIdentity", "Who holds it."), AGE),
    storage_hash="gqkMMb/YqFM=",
)
