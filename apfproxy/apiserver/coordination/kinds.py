"""Leases, by which replicas of a program elect the one that leads.

Source: Kubernetes 1.36, `api/coordination/v1/generated.proto` and
`pkg/apis/coordination/validation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.kind import Column, Kind, Rules, Version
from apfproxy.apiserver.plain import AGE, NAME, checks, named_cells
from apfproxy.apiserver.schema.shared_structs import object_struct
from apfproxy.apiserver.schema.types import Scalar, Struct, pointer
from apfproxy.objects.field_errors import NOT_NEGATIVE, invalid

if TYPE_CHECKING:
    from apfproxy.objects.field_errors import FieldError
    from apfproxy.objects.types import Object

PACKAGE = "io.k8s.api.coordination.v1"

LEASE_SPEC = Struct(
    "LeaseSpec",
    (
        pointer("holderIdentity", Scalar.STRING, "Who holds the lease.", number=1),
        pointer("leaseDurationSeconds", Scalar.INT32, "How long it is valid.", number=2),
        pointer("acquireTime", Scalar.MICRO_TIME, "When the holder got it.", number=3),
        pointer("renewTime", Scalar.MICRO_TIME, "When the holder renewed it last.", number=4),
        pointer("leaseTransitions", Scalar.INT32, "How often the holder has changed.", number=5),
        pointer("strategy", Scalar.STRING, "How the holder is chosen.", number=6),
        pointer("preferredHolder", Scalar.STRING, "Who is to hold it next.", number=7),
    ),
    PACKAGE,
    "Who holds the lease, and for how long.",
)


def check_lease(obj: Object) -> list[FieldError]:
    """What is wrong with the numbers of a lease."""
    spec, errors = obj["spec"], []
    if (duration := spec.get("leaseDurationSeconds", 1)) <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if (transitions := spec.get("leaseTransitions", 0)) < 0:
        errors.append(invalid("spec.leaseTransitions", transitions, NOT_NEGATIVE))
    return errors


VALIDATE, VALIDATE_UPDATE = checks(check=check_lease)

LEASE = Kind(
    group="coordination.k8s.io",
    name="Lease",
    plural="leases",
    singular="lease",
    is_namespaced=True,
    versions=(
        Version("v1", object_struct("Lease", PACKAGE, LEASE_SPEC, None, "A claim with an end.")),
    ),
    rules=Rules(
        validate=VALIDATE,
        validate_update=VALIDATE_UPDATE,
        allows_unconditional_update=False,
        is_created_by_update=True,
        reset_fields=(),
    ),
    columns=(NAME, Column("Holder", "string", "Who holds it."), AGE),
    cells=named_cells(lambda obj: (obj["spec"].get("holderIdentity", ""),)),
    has_status=False,
    storage_hash="gqkMMb/YqFM=",
)
