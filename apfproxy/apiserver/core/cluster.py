"""Namespaces, nodes and what pods are configured with; the rules of node selectors.

A namespace ends in two steps: what is in it is removed, then the finalizers in its specification
are, and with the last of them the namespace itself.

Sources: Kubernetes 1.36, `pkg/apis/core/validation`, `pkg/printers/internalversion`; Kubernetes
documentation, "Namespaces"; Kubernetes API reference, "NodeSelector"; the cases that kube-apiserver
refuses.
"""

from __future__ import annotations

from base64 import b64encode
from functools import partial
from typing import TYPE_CHECKING, Any

from apfproxy.apiserver import metadata
from apfproxy.apiserver.core.structs import CORE
from apfproxy.apiserver.kind import Kind, Rules, Version, complete, with_checks
from apfproxy.apiserver.metadata import copy_field, keep_spec, validate_core_update
from apfproxy.apiserver.selectors import WRONG_OPERATOR, validate_expression, validate_words
from apfproxy.apiserver.tables import AGE, NAME, NAME_IN_CLUSTER, NONE, UNKNOWN, Column, wide
from apfproxy.objects.field_errors import FieldError, checked, forbidden, invalid, required
from apfproxy.objects.names import check_dns_label, check_dns_subdomain, check_qualified_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.apiserver.tables import Cell
    from apfproxy.objects.types import Object

NAME_LABEL = "kubernetes.io/metadata.name"
KUBERNETES_FINALIZER = "kubernetes"
"""In every namespace's specification until what is in it is removed."""
STANDARD_FINALIZERS = frozenset({KUBERNETES_FINALIZER, "foregroundDeletion", "orphan"})
ACTIVE, TERMINATING = "Active", "Terminating"
IMMORTAL_NAMESPACES = frozenset({"default", "kube-public", "kube-system"})
IMMORTAL = "this namespace may not be deleted"


def _complete_namespace(obj: Object) -> None:
    if name := obj["metadata"].get("name"):
        obj["metadata"]["labels"] = {**obj["metadata"].get("labels", {}), NAME_LABEL: name}
    obj["status"].setdefault("phase", ACTIVE)


def _start_namespace(obj: Object) -> None:
    # Again, as the name may have been generated since the defaults were set.
    _complete_namespace(obj)
    finalizers = obj["spec"].get("finalizers", [])
    if KUBERNETES_FINALIZER not in finalizers:
        obj["spec"]["finalizers"] = [*finalizers, KUBERNETES_FINALIZER]
    obj["status"] = {"phase": ACTIVE}


keep_old_status = partial(copy_field, "status")


def _keep_namespace(new: Object, old: Object) -> None:
    copy_field("finalizers", new["spec"], old["spec"])
    keep_old_status(new, old)


def _end_namespace(obj: Object) -> None:
    obj["status"] = {**obj["status"], "phase": TERMINATING}
    # Its end is not for a time to decide.
    obj["metadata"].pop("deletionGracePeriodSeconds", None)


def _validate_namespace(obj: Object) -> list[FieldError]:
    errors = metadata.validate_stored(
        obj["metadata"], is_namespaced=False, check_name=check_dns_label
    )
    for name in obj["spec"].get("finalizers", ()):
        errors += checked("spec.finalizers", name, check_qualified_name)
        if "/" not in name and name not in STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid("spec.finalizers", name, detail))
    return errors


def _validate_phase(new: Object, old: Object) -> list[FieldError]:
    errors = validate_core_update(new["metadata"], old["metadata"])
    is_deleted = "deletionTimestamp" in new["metadata"]
    expected, state = (TERMINATING, "not empty") if is_deleted else (ACTIVE, "empty")
    if (phase := new["status"].get("phase", "")) != expected:
        detail = f"may only be '{expected}' if `deletionTimestamp` is {state}"
        errors.append(invalid("status.Phase", phase, detail))
    return errors


PHASE = Column("Status", "status.phase", "Whether it is there to stay.")
NAMESPACE = Kind(
    "",
    "Namespace",
    (Version("v1", CORE["Namespace"], _complete_namespace),),
    Rules(
        prepare_create=_start_namespace,
        prepare_update=_keep_namespace,
        validate=_validate_namespace,
        validate_update=lambda new, old: [
            *_validate_namespace(new),
            *validate_core_update(new["metadata"], old["metadata"]),
        ],
        prepare_status=keep_spec,
        validate_status=_validate_phase,
        prepare_finalize=keep_old_status,
        is_held=lambda obj: any(obj[part].get("finalizers") for part in ("spec", "metadata")),
        mark_deleted=_end_namespace,
        objection=lambda obj: IMMORTAL if obj["metadata"]["name"] in IMMORTAL_NAMESPACES else "",
    ),
    columns=(NAME_IN_CLUSTER, PHASE, AGE),
    is_namespaced=False,
    selectable_fields=("status.phase",),
    short_names=("ns",),
    storage_hash="Q3oi5N2YM8M=",
)

IS_IMMUTABLE = "field is immutable when `immutable` is set"


def _changes_of_fixed(new: Object, old: Object, fields: Sequence[str]) -> list[FieldError]:
    changed = [field for field in ("immutable", *fields) if new.get(field) != old.get(field)]
    return [forbidden(field, IS_IMMUTABLE) for field in changed] if old.get("immutable") else []


def _changes_of_secret(new: Object, old: Object) -> list[FieldError]:
    type_ = new["type"]
    errors = [] if type_ == old["type"] else [invalid("type", type_, metadata.IMMUTABLE_DETAIL)]
    return errors + _changes_of_fixed(new, old, ["data"])


def _complete_secret(obj: Object) -> None:
    complete(obj, {"type": "Opaque"})
    if texts := obj.pop("stringData", None):
        encoded = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def _entries_of(obj: Object, _now_s: float) -> int:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


DATA = Column("Data", _entries_of, "How many entries it has.")
CONFIG_MAP = Kind(
    "",
    "ConfigMap",
    (Version("v1", CORE["ConfigMap"]),),
    with_checks(Rules(), check_change=partial(_changes_of_fixed, fields=("data", "binaryData"))),
    columns=(NAME, DATA, AGE),
    short_names=("cm",),
    storage_hash="qFsyl6wFWjQ=",
)

SECRET = Kind(
    "",
    "Secret",
    (Version("v1", CORE["Secret"], _complete_secret),),
    with_checks(Rules(), check_change=_changes_of_secret),
    columns=(NAME, Column("Type", "type", "What the data is for."), DATA, AGE),
    selectable_fields=("type",),
    storage_hash="S6u1pOWzb84=",
)

SERVICE_ACCOUNT = Kind(
    "",
    "ServiceAccount",
    (Version("v1", CORE["ServiceAccount"]),),
    with_checks(Rules()),
    columns=(NAME, AGE),
    short_names=("sa",),
    answers_deleted=True,
    storage_hash="pbx9ZvyFpBE=",
)

ROLE_PREFIX = "node-role.kubernetes.io/"
ROLE_LABEL = "kubernetes.io/role"
"""Labels that say what a node is for: in the key behind the prefix, or in the value."""


def _complete_node(obj: Object) -> None:
    spec, status = obj["spec"], obj["status"]
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))
    if "podCIDR" in spec:
        spec.setdefault("podCIDRs", [spec["podCIDR"]])


def _state_of(obj: Object, _now_s: float) -> str:
    ready = metadata.find_condition(obj["status"], "Ready")
    state = "Unknown"
    if ready is not None:
        state = "Ready" if ready["status"] == "True" else "NotReady"
    return f"{state},SchedulingDisabled" if obj["spec"].get("unschedulable") else state


def _roles(obj: Object, _now_s: float) -> str:
    labels = obj["metadata"].get("labels", {})
    found = {label.removeprefix(ROLE_PREFIX) for label in labels if label.startswith(ROLE_PREFIX)}
    return ",".join(sorted((found | {labels.get(ROLE_LABEL, "")}) - {""})) or NONE


def _address_of(type_: str) -> Cell:
    return lambda obj, _now_s: next(
        (each["address"] for each in obj["status"].get("addresses", ()) if each["type"] == type_),
        NONE,
    )


def _kernel(obj: Object, _now_s: float) -> str:
    info = obj["status"]["nodeInfo"]
    shown: str = info["kernelVersion"] or UNKNOWN
    return f"{shown} ({info['architecture']})" if info["architecture"] else shown


def _info(name: str) -> Cell:
    return lambda obj, _now_s: obj["status"]["nodeInfo"][name] or UNKNOWN


NODE = Kind(
    "",
    "Node",
    (Version("v1", CORE["Node"], _complete_node),),
    with_checks(
        Rules(prepare_update=keep_old_status, prepare_status=keep_spec), is_namespaced=False
    ),
    columns=(
        NAME,
        Column("Status", _state_of, "Whether it is ready, and takes pods."),
        Column("Roles", _roles, "What it is for."),
        AGE,
        Column("Version", "status.nodeInfo.kubeletVersion", "Of its kubelet."),
        wide("Internal-IP", _address_of("InternalIP"), "Its address within the cluster."),
        wide("External-IP", _address_of("ExternalIP"), "Its address outside."),
        wide("OS-Image", _info("osImage"), "Its operating system."),
        wide("Kernel-Version", _kernel, "Its kernel."),
        wide("Container-Runtime", _info("containerRuntimeVersion"), "What runs its containers."),
    ),
    is_namespaced=False,
    selectable_fields=("spec.unschedulable",),
    short_names=("no",),
    storage_hash="XwShjMxG9Fs=",
)


def validate_node_selector(node_selector: Object, path: str) -> list[FieldError]:
    path = f"{path}.nodeSelectorTerms"
    terms = node_selector.get("nodeSelectorTerms")
    if not terms:
        return [required(path, "must have at least one node selector term")]
    checks = {"matchExpressions": _label_requirement, "matchFields": _field_requirement}
    return [
        error
        for index, term in enumerate(terms)
        for field, check in checks.items()
        for number, one in enumerate(term.get(field, ()))
        for error in check(one, f"{path}[{index}].{field}[{number}]")
    ]


def _label_requirement(requirement: dict[str, Any], path: str) -> list[FieldError]:
    if requirement.get("operator") not in {"Gt", "Lt"}:
        return validate_expression(requirement, path)
    detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
    is_single = len(requirement.get("values") or ()) == 1
    errors = [] if is_single else [required(f"{path}.values", detail)]
    return errors + validate_words(requirement, path)


def _field_requirement(requirement: dict[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator not in {"In", "NotIn"}:
        errors.append(invalid(f"{path}.operator", operator, WRONG_OPERATOR))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", detail))
    if (key := requirement.get("key", "")) != "metadata.name":
        return [*errors, invalid(f"{path}.key", key, "not a valid field selector key")]
    for index, value in enumerate(values):
        errors += checked(f"{path}.values[{index}]", value, check_dns_subdomain)
    return errors
