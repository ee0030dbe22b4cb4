"""Structure and rules of namespaces.

A namespace ends in two steps: what is in it is removed, then the finalizers in its specification
are, and with the last of them the namespace itself.

Sources: Kubernetes documentation, "Namespaces"; the cases that kube-apiserver refuses;
`api/core/v1/generated.proto` of Kubernetes 1.36 for the numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.ages import age
from apfproxy.apiserver.core.structs import PACKAGE, STRING, STRINGS, keyed, struct, time_field
from apfproxy.apiserver.kind import Column
from apfproxy.apiserver.metadata import copy_field, validate_core_update, validate_stored
from apfproxy.apiserver.schema.shared_structs import object_struct
from apfproxy.apiserver.schema.types import Field, required
from apfproxy.objects.field_errors import FieldError, checked, invalid
from apfproxy.objects.names import check_dns_label, check_qualified_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.objects.types import Object

NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that every namespace has: its name."""
KUBERNETES_FINALIZER = "kubernetes"
"""In every namespace's specification until what is in it is removed."""
STANDARD_FINALIZERS = frozenset({KUBERNETES_FINALIZER, "foregroundDeletion", "orphan"})
ACTIVE, TERMINATING = "Active", "Terminating"
IMMORTAL_NAMESPACES = frozenset({"default", "kube-public", "kube-system"})
"""Namespaces that cannot be deleted."""

NAMESPACE_CONDITION = struct(
    "NamespaceCondition",
    "One aspect of how the end of a namespace is going.",
    required("type", STRING, "Which aspect.", number=1),
    required("status", STRING, "True, False or Unknown.", number=2),
    time_field("lastTransitionTime", "When the status changed last.", number=4),
    Field("reason", STRING, "Why, in one word.", number=5),
    Field("message", STRING, "Why, for people.", number=6),
)

NAMESPACE_SPEC = struct(
    "NamespaceSpec",
    "What has to happen before a namespace is gone.",
    Field("finalizers", STRINGS, "Who still has something to remove from it.", number=1),
)

NAMESPACE_STATUS = struct(
    "NamespaceStatus",
    "How a namespace is doing.",
    Field("phase", STRING, "Active or Terminating.", enum=("Active", "Terminating"), number=1),
    Field("conditions", keyed(NAMESPACE_CONDITION, "type"), "What keeps it from ending.", number=2),
)

NAMESPACE_OBJECT = object_struct(
    "Namespace", PACKAGE, NAMESPACE_SPEC, NAMESPACE_STATUS, "A scope for names and rights."
)

NAMESPACE_COLUMNS = (
    Column("Name", "string", "Unique within the cluster.", format="name"),
    Column("Status", "string", "Whether it is there to stay."),
    Column("Age", "string", "Time since the server created the object."),
)


def set_defaults(obj: Object) -> None:
    """Complete a namespace: it has its name as a label, and a phase."""
    set_name_label(obj["metadata"])
    obj["status"].setdefault("phase", ACTIVE)


def set_name_label(metadata: Object) -> None:
    """Set the label that is the namespace's name, if it has one yet."""
    if metadata.get("name"):
        metadata["labels"] = {**metadata.get("labels", {}), NAME_LABEL: metadata["name"]}


def prepare_create(obj: Object) -> None:
    """Start active, with Kubernetes' finalizer and the name as a label."""
    # Again, as the name may have been generated since the defaults were set.
    set_name_label(obj["metadata"])
    finalizers = obj["spec"].get("finalizers", [])
    if KUBERNETES_FINALIZER not in finalizers:
        obj["spec"]["finalizers"] = [*finalizers, KUBERNETES_FINALIZER]
    obj["status"] = {"phase": ACTIVE}


def prepare_update(new: Object, old: Object) -> None:
    """Keep finalizers and status."""
    copy_field("finalizers", new["spec"], old["spec"])
    new["status"] = old["status"]


def prepare_finalize(new: Object, old: Object) -> None:
    """Keep the status."""
    new["status"] = old["status"]


def is_held(obj: Object) -> bool:
    """Whether a deleted namespace has to stay."""
    return bool(obj["spec"].get("finalizers") or obj["metadata"].get("finalizers"))


def mark_deleted(obj: Object) -> None:
    """Show that the namespace is about to end."""
    obj["status"] = {**obj["status"], "phase": TERMINATING}
    # Its end is not for a time to decide.
    obj["metadata"].pop("deletionGracePeriodSeconds", None)


def objection(obj: Object) -> str:
    """Why a namespace may not be deleted; "" if it may."""
    is_immortal = obj["metadata"]["name"] in IMMORTAL_NAMESPACES
    return "this namespace may not be deleted" if is_immortal else ""


def validate(obj: Object) -> list[FieldError]:
    """All errors of a new namespace."""
    errors = validate_stored(obj["metadata"], is_namespaced=False, check_name=check_dns_label)
    for name in obj["spec"].get("finalizers", ()):
        errors += checked("spec.finalizers", name, check_qualified_name)
        if "/" not in name and name not in STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid("spec.finalizers", name, detail))
    return errors


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """All errors of a namespace that replaces another."""
    return [*validate(new), *validate_core_update(new["metadata"], old["metadata"])]


def validate_status(new: Object, old: Object) -> list[FieldError]:
    """All errors of a namespace whose status is replaced: the phase says whether it is deleted."""
    errors = validate_core_update(new["metadata"], old["metadata"])
    phase = new["status"].get("phase", "")
    is_deleted = "deletionTimestamp" in new["metadata"]
    expected, state = (TERMINATING, "not empty") if is_deleted else (ACTIVE, "empty")
    if phase != expected:
        detail = f"may only be '{expected}' if `deletionTimestamp` is {state}"
        errors.append(invalid("status.Phase", phase, detail))
    return errors


def cells(obj: Object, now_s: float) -> Sequence[object]:
    """The cells of a namespace's row."""
    metadata, phase = obj["metadata"], obj["status"].get("phase", "")
    return metadata["name"], phase, age(metadata.get("creationTimestamp"), now_s)
