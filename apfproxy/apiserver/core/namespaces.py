"""Namespaces and their rules.

A namespace ends in two steps: what is in it is removed, then the finalizers in its specification
are, and with the last of them the namespace itself.

Sources: Kubernetes documentation, "Namespaces"; the cases that kube-apiserver refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.core.structs import CORE
from apfproxy.apiserver.kind import Kind, Rules, Version
from apfproxy.apiserver.metadata import (
    copy_field,
    keep_spec,
    validate_core_update,
    validate_stored,
)
from apfproxy.apiserver.tables import AGE, NAME_IN_CLUSTER, Column
from apfproxy.objects.field_errors import FieldError, checked, invalid
from apfproxy.objects.names import check_dns_label, check_qualified_name

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that every namespace has: its name."""
KUBERNETES_FINALIZER = "kubernetes"
"""In every namespace's specification until what is in it is removed."""
STANDARD_FINALIZERS = frozenset({KUBERNETES_FINALIZER, "foregroundDeletion", "orphan"})
ACTIVE, TERMINATING = "Active", "Terminating"
IMMORTAL_NAMESPACES = frozenset({"default", "kube-public", "kube-system"})
IMMORTAL = "this namespace may not be deleted"


def _set_defaults(obj: Object) -> None:
    """Complete a namespace: it has its name as a label, and a phase."""
    _set_name_label(obj["metadata"])
    obj["status"].setdefault("phase", ACTIVE)


def _set_name_label(metadata: Object) -> None:
    if metadata.get("name"):
        metadata["labels"] = {**metadata.get("labels", {}), NAME_LABEL: metadata["name"]}


def _prepare_create(obj: Object) -> None:
    """Start active, with Kubernetes' finalizer and the name as a label."""
    # Again, as the name may have been generated since the defaults were set.
    _set_name_label(obj["metadata"])
    finalizers = obj["spec"].get("finalizers", [])
    if KUBERNETES_FINALIZER not in finalizers:
        obj["spec"]["finalizers"] = [*finalizers, KUBERNETES_FINALIZER]
    obj["status"] = {"phase": ACTIVE}


def _prepare_update(new: Object, old: Object) -> None:
    copy_field("finalizers", new["spec"], old["spec"])
    copy_field("status", new, old)


def _is_held(obj: Object) -> bool:
    return bool(obj["spec"].get("finalizers") or obj["metadata"].get("finalizers"))


def _mark_deleted(obj: Object) -> None:
    """Show that the namespace is about to end."""
    obj["status"] = {**obj["status"], "phase": TERMINATING}
    # Its end is not for a time to decide.
    obj["metadata"].pop("deletionGracePeriodSeconds", None)


def _validate(obj: Object) -> list[FieldError]:
    """All errors of a new namespace."""
    errors = validate_stored(obj["metadata"], is_namespaced=False, check_name=check_dns_label)
    for name in obj["spec"].get("finalizers", ()):
        errors += checked("spec.finalizers", name, check_qualified_name)
        if "/" not in name and name not in STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid("spec.finalizers", name, detail))
    return errors


def _validate_status(new: Object, old: Object) -> list[FieldError]:
    """All errors of a namespace whose status is replaced: the phase says whether it is deleted."""
    errors = validate_core_update(new["metadata"], old["metadata"])
    phase = new["status"].get("phase", "")
    is_deleted = "deletionTimestamp" in new["metadata"]
    expected, state = (TERMINATING, "not empty") if is_deleted else (ACTIVE, "empty")
    if phase != expected:
        detail = f"may only be '{expected}' if `deletionTimestamp` is {state}"
        errors.append(invalid("status.Phase", phase, detail))
    return errors


NAMESPACE = Kind(
    "",
    "Namespace",
    (Version("v1", CORE["Namespace"], _set_defaults),),
    Rules(
        prepare_create=_prepare_create,
        prepare_update=_prepare_update,
        validate=_validate,
        validate_update=lambda new, old: [
            *_validate(new),
            *validate_core_update(new["metadata"], old["metadata"]),
        ],
        prepare_status=keep_spec,
        validate_status=_validate_status,
        prepare_finalize=lambda new, old: copy_field("status", new, old),
        is_held=_is_held,
        mark_deleted=_mark_deleted,
        objection=lambda obj: IMMORTAL if obj["metadata"]["name"] in IMMORTAL_NAMESPACES else "",
    ),
    columns=(
        NAME_IN_CLUSTER,
        Column("Status", "status.phase", "Whether it is there to stay."),
        AGE,
    ),
    is_namespaced=False,
    selectable_fields=("status.phase",),
    short_names=("ns",),
    storage_hash="Q3oi5N2YM8M=",
)
