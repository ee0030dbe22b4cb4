"""Nodes, as far as the server reads them, and the rules of node selectors.

Sources: Kubernetes 1.36, `pkg/printers/internalversion`; Kubernetes API reference, "NodeSelector";
the cases that kube-apiserver refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.core.structs import CORE
from apfproxy.apiserver.kind import Kind, Rules, Version, with_checks
from apfproxy.apiserver.metadata import copy_field, find_condition, keep_spec
from apfproxy.apiserver.selectors import WRONG_OPERATOR, validate_expression, validate_words
from apfproxy.apiserver.tables import AGE, NAME, NONE, UNKNOWN, Column, wide
from apfproxy.objects.field_errors import FieldError, checked, invalid, required
from apfproxy.objects.names import check_dns_subdomain

if TYPE_CHECKING:
    from apfproxy.apiserver.tables import Cell
    from apfproxy.objects.types import Object

ROLE_PREFIX = "node-role.kubernetes.io/"
ROLE_LABEL = "kubernetes.io/role"
"""Labels that say what a node is for: in the key behind the prefix, or in the value."""

LISTING = frozenset({"In", "NotIn"})
COMPARING = frozenset({"Gt", "Lt"})


def _set_defaults(obj: Object) -> None:
    """Let a node offer all that it has, and name its addresses in both ways."""
    spec, status = obj["spec"], obj["status"]
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))
    if "podCIDR" in spec:
        spec.setdefault("podCIDRs", [spec["podCIDR"]])


def _state_of(obj: Object, _now_s: float) -> str:
    ready = find_condition(obj["status"], "Ready")
    state = "Unknown"
    if ready is not None:
        state = "Ready" if ready["status"] == "True" else "NotReady"
    return f"{state},SchedulingDisabled" if obj["spec"].get("unschedulable") else state


def _roles(obj: Object, _now_s: float) -> str:
    labels = obj["metadata"].get("labels", {})
    found = {label.removeprefix(ROLE_PREFIX) for label in labels if label.startswith(ROLE_PREFIX)}
    return ",".join(sorted((found | {labels.get(ROLE_LABEL, "")}) - {""})) or NONE


def _address_of(type_: str) -> Cell:
    """What shows the first address of a type."""
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
    (Version("v1", CORE["Node"], _set_defaults),),
    with_checks(
        Rules(
            prepare_update=lambda new, old: copy_field("status", new, old),
            prepare_status=keep_spec,
        ),
        is_namespaced=False,
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
    """All errors of a node selector; a term may have no requirements, and then selects nothing."""
    path = f"{path}.nodeSelectorTerms"
    terms = node_selector.get("nodeSelectorTerms")
    if not terms:
        return [required(path, "must have at least one node selector term")]
    errors: list[FieldError] = []
    for index, term in enumerate(terms):
        for number, one in enumerate(term.get("matchExpressions", ())):
            errors += _label_requirement(one, f"{path}[{index}].matchExpressions[{number}]")
        for number, one in enumerate(term.get("matchFields", ())):
            errors += _field_requirement(one, f"{path}[{index}].matchFields[{number}]")
    return errors


def _label_requirement(requirement: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a requirement of a node's labels, which may be compared as numbers, too."""
    if requirement.get("operator") not in COMPARING:
        return validate_expression(requirement, path)
    errors: list[FieldError] = []
    if len(requirement.get("values") or ()) != 1:
        detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        errors.append(required(f"{path}.values", detail))
    return errors + validate_words(requirement, path)


def _field_requirement(requirement: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a requirement of a node's fields: its name is the only one there is."""
    errors: list[FieldError] = []
    operator = requirement.get("operator", "")
    values: list[str] = requirement.get("values") or []
    if operator not in LISTING:
        errors.append(invalid(f"{path}.operator", operator, WRONG_OPERATOR))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", detail))
    key = requirement.get("key", "")
    if key != "metadata.name":
        errors.append(invalid(f"{path}.key", key, "not a valid field selector key"))
        return errors
    for index, value in enumerate(values):
        errors += checked(f"{path}.values[{index}]", value, check_dns_subdomain)
    return errors
