"""The kinds of the group `policy` that are stored.

Source: Kubernetes, `pkg/registry/policy/poddisruptionbudget` and `pkg/printers/internalversion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.ages import age
from apfproxy.apiserver.kind import Column, Kind, Rules, Version
from apfproxy.apiserver.metadata import keep_spec, keep_status
from apfproxy.apiserver.policy.schema import BUDGET, STATUS_NUMBERS
from apfproxy.apiserver.policy.validation import (
    AMOUNTS,
    validate_budget,
    validate_budget_status,
    validate_budget_update,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.objects.types import Object

GROUP = "policy"


def prepare_create(obj: Object) -> None:
    """Start at generation 1, without a status."""
    obj["status"] = dict.fromkeys(STATUS_NUMBERS, 0)
    obj["metadata"]["generation"] = 1


def cells(obj: Object, now_s: float) -> Sequence[object]:
    """The cells of a budget's row."""
    metadata = obj["metadata"]
    return (
        metadata["name"],
        *(str(obj["spec"].get(name, "N/A")) for name in AMOUNTS),
        obj["status"]["disruptionsAllowed"],
        age(metadata.get("creationTimestamp"), now_s),
    )


POD_DISRUPTION_BUDGET = Kind(
    group=GROUP,
    name="PodDisruptionBudget",
    plural="poddisruptionbudgets",
    singular="poddisruptionbudget",
    is_namespaced=True,
    versions=(Version("v1", BUDGET),),
    rules=Rules(
        prepare_create=prepare_create,
        prepare_update=keep_status,
        validate=validate_budget,
        validate_update=validate_budget_update,
        prepare_status=keep_spec,
        validate_status=validate_budget_status,
        allows_unconditional_update=False,
    ),
    columns=(
        Column("Name", "string", "Unique within the namespace.", format="name"),
        Column("Min Available", "string", "How many pods have to be available."),
        Column("Max Unavailable", "string", "How many pods may be unavailable."),
        Column("Allowed Disruptions", "integer", "How many pods may be disrupted now."),
        Column("Age", "string", "Time since the server created the object."),
    ),
    cells=cells,
    short_names=("pdb",),
    storage_hash="EVWiDmWqyJw=",
)
