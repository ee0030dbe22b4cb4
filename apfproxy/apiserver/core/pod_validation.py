"""What is wrong with pods, and with changes to them; what they keep as it comes is not judged.

Sources: Kubernetes API reference, "Pod"; Kubernetes documentation, "Pod update and replacement";
the cases that kube-apiserver refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.core.structs import CORE
from apfproxy.apiserver.metadata import validate_core_update, validate_stored
from apfproxy.objects.field_errors import (
    FieldError,
    checked,
    checked_name,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    repeated,
    required,
)
from apfproxy.objects.names import check_dns_label, check_dns_subdomain, check_qualified_name
from apfproxy.objects.validation import validate_labels

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

LARGEST_INT32 = 2**31 - 1

CONTAINER_FIELDS = ("containers", "initContainers")
SUBDOMAIN_FIELDS = ("serviceAccountName", "nodeName", "priorityClassName")
RESTART_POLICIES = CORE["PodSpec"].by_name["restartPolicy"].enum
SPEC_CHOICES = {
    "restartPolicy": RESTART_POLICIES,
    "dnsPolicy": CORE["PodSpec"].by_name["dnsPolicy"].enum,
    "preemptionPolicy": ("Never", "PreemptLowerPriority"),
}
CONTAINER_CHOICES = {
    "terminationMessagePolicy": CORE["Container"].by_name["terminationMessagePolicy"].enum,
    "imagePullPolicy": CORE["Container"].by_name["imagePullPolicy"].enum,
    "restartPolicy": RESTART_POLICIES,
}
"""The values that fields may have."""
SYSTEM_CONDITIONS = frozenset({"Initialized", "PodScheduled", "Ready"})

UPDATABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only"
    " additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set"
    " to 1 if it was previously negative)"
)


def containers_of(spec: Object, field: str = "containers") -> list[dict[str, Any]]:
    """The containers in a field of a pod's specification, which may be null."""
    return spec.get(field) or []


def validate_pod(obj: Object) -> list[FieldError]:
    """All errors of a new pod."""
    errors = _validate_any_pod(obj)
    spec = obj["spec"]
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden("spec.nodeName", detail))
    return errors


def _validate_any_pod(obj: Object) -> list[FieldError]:
    spec = obj["spec"]
    errors = validate_stored(obj["metadata"], is_namespaced=True)
    errors += _validate_containers(spec)
    errors += _validate_choices(spec, "spec", SPEC_CHOICES)
    errors += validate_labels(spec.get("nodeSelector", {}), "spec.nodeSelector")
    for name in SUBDOMAIN_FIELDS:
        if name in spec:
            errors += checked(f"spec.{name}", spec[name], check_dns_subdomain)
    if "activeDeadlineSeconds" in spec:
        errors += _validate_deadline(spec["activeDeadlineSeconds"], 1)
    return errors + _validate_gates(spec)


def _validate_choices(
    obj: Object, path: str, choices: dict[str, tuple[str, ...]]
) -> list[FieldError]:
    return [
        not_supported(f"{path}.{name}", obj[name], allowed)
        for name, allowed in choices.items()
        if obj.get(name) is not None and obj[name] not in allowed
    ]


def _validate_deadline(value: int, lowest: int) -> list[FieldError]:
    if lowest <= value <= LARGEST_INT32:
        return []
    detail = f"must be between {lowest} and {LARGEST_INT32}, inclusive"
    return [invalid("spec.activeDeadlineSeconds", value, detail)]


def _validate_containers(spec: Object) -> list[FieldError]:
    """All errors of a pod's containers: there has to be one, and their names are unique."""
    errors = [] if containers_of(spec) else [required("spec.containers")]
    names: set[str] = set()
    for field in CONTAINER_FIELDS:
        for index, container in enumerate(containers_of(spec, field)):
            at, name = f"spec.{field}[{index}]", container["name"]
            errors += checked_name(f"{at}.name", name, check_dns_label)
            errors += _validate_image(container, at)
            errors += _validate_choices(container, at, CONTAINER_CHOICES)
            if name in names:
                errors.append(duplicate(f"{at}.name", name))
            names.add(name)
    return errors


def _validate_image(container: dict[str, Any], path: str) -> list[FieldError]:
    image = container.get("image", "")
    if not image:
        return [required(f"{path}.image")]
    if image != image.strip():
        detail = "must not have leading or trailing whitespace"
        return [invalid(f"{path}.image", image, detail)]
    return []


def _validate_gates(spec: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, gate in enumerate(spec.get("readinessGates", ())):
        field = f"spec.readinessGates[{index}].conditionType"
        errors += checked(field, gate["conditionType"], check_qualified_name)
    names = [gate["name"] for gate in spec.get("schedulingGates", ())]
    for index, name in enumerate(names):
        errors += checked(f"spec.schedulingGates[{index}]", name, check_qualified_name)
    return errors + repeated(names, "spec.schedulingGates")


def validate_pod_update(new: Object, old: Object) -> list[FieldError]:
    """All errors of a pod that replaces another."""
    errors = validate_core_update(new["metadata"], old["metadata"])
    errors += _validate_any_pod(new)
    spec, was = new["spec"], old["spec"]
    for field in CONTAINER_FIELDS:
        containers = containers_of(spec, field)
        if len(containers) != len(containers_of(was, field)):
            detail = "pod updates may not add or remove containers"
            errors.append(forbidden(f"spec.{field}", detail))
            return errors
        # Once more: Kubernetes looks at images twice at an update.
        for index, container in enumerate(containers):
            errors += _validate_image(container, f"spec.{field}[{index}]")
    now, before = (each.get("activeDeadlineSeconds") for each in (spec, was))
    if now is not None:
        wrong = _validate_deadline(now, 0)
        if not wrong and before is not None and before < now:
            detail = "must be less than or equal to previous value"
            wrong = [invalid("spec.activeDeadlineSeconds", now, detail)]
        if wrong:
            return errors + wrong  # Kubernetes looks no further.
    elif before is not None:
        detail = "must not update from a positive integer to nil value"
        errors.append(invalid("spec.activeDeadlineSeconds", None, detail))
    errors += _validate_added_tolerations(spec, was)
    gates = {gate["name"] for gate in was.get("schedulingGates", ())}
    errors += [
        forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for index, gate in enumerate(spec.get("schedulingGates", ()))
        if gate["name"] not in gates
    ]
    return errors + _validate_rest(spec, was)


def _validate_added_tolerations(spec: Object, was: Object) -> list[FieldError]:
    """The error of tolerations, which may be added only, or change their seconds."""
    now = [_without(each, "tolerationSeconds") for each in spec.get("tolerations", ())]
    if all(_without(old, "tolerationSeconds") in now for old in was.get("tolerations", ())):
        return []
    detail = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden("spec.tolerations", detail)]


def _without(obj: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {name: value for name, value in obj.items() if name not in fields}


def _validate_rest(spec: Object, was: Object) -> list[FieldError]:
    """The errors of changes to anything that may not change.

    A pod that waits to be scheduled may become more choosy about its node.
    """
    errors: list[FieldError] = []
    free = ["activeDeadlineSeconds", "tolerations", "schedulingGates"]
    grace_s, was_s = (one.get("terminationGracePeriodSeconds", 0) for one in (spec, was))
    if was_s < 0 and grace_s == 1:
        free.append("terminationGracePeriodSeconds")
    if was.get("schedulingGates"):
        free += ["nodeSelector", "affinity"]
        selector, old_selector = spec.get("nodeSelector", {}), was.get("nodeSelector", {})
        if not selector.items() >= old_selector.items():
            rule = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            errors.append(invalid("spec.nodeSelector", selector, rule))
    rest, old_rest = _without(spec, *free), _without(was, *free)
    for field in CONTAINER_FIELDS:
        for one in (rest, old_rest):
            one[field] = [_without(container, "image") for container in containers_of(one, field)]
    if rest != old_rest:
        errors.append(forbidden("spec", UPDATABLE))
    return errors


def validate_pod_status(new: Object, old: Object) -> list[FieldError]:
    """All errors of a pod whose status is replaced."""
    errors = validate_core_update(new["metadata"], old["metadata"])
    status, was = new["status"], old["status"]
    for index, condition in enumerate(status.get("conditions", ())):
        if condition["type"] not in SYSTEM_CONDITIONS:
            field = f"status.conditions[{index}].Type"
            errors += checked(field, condition["type"], check_qualified_name)
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != was.get("nominatedNodeName"):
        errors += checked("status.nominatedNodeName", nominated, check_dns_subdomain)
    if status.get("qosClass", "") != was.get("qosClass", ""):
        detail = "field is immutable"
        errors.append(invalid("status.qosClass", status.get("qosClass", ""), detail))
    return errors
