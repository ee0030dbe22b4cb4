"""What may change in a pod, and what its status may say.

Source: Kubernetes documentation, "Pod update and replacement"; the cases that kube-apiserver
refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.api.core.checks import LARGEST_INT32, check_ip, number_in
from apfproxy.api.core.pod_validation import (
    MIRROR_ANNOTATION,
    validate_annotations,
    validate_any_pod,
)
from apfproxy.api.core.resources import containers_of
from apfproxy.api.core.scheduling_validation import NEEDED, validate_tolerations
from apfproxy.api.field_errors import FieldError, checked, duplicate, forbidden, invalid, required
from apfproxy.api.metadata import validate_core_update
from apfproxy.api.names import check_dns_subdomain, check_qualified_name

if TYPE_CHECKING:
    from apfproxy.api.kind import Object

APP_ARMOR_PREFIX = "container.apparmor.security.beta.kubernetes.io/"
SYSTEM_CONDITIONS = frozenset({"Initialized", "PodScheduled", "Ready"})
MOST_ADDRESSES = 2
"""One of each IP family."""

UPDATABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only"
    " additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set"
    " to 1 if it was previously negative)"
)


def validate_pod_update(new: Object, old: Object) -> list[FieldError]:
    """All errors of a pod that replaces another."""
    errors = validate_core_update(new["metadata"], old["metadata"])
    errors += validate_any_pod(new)
    errors += validate_annotation_updates(new, old)
    spec, was = new["spec"], old["spec"]
    for field in ("containers", "initContainers"):
        if len(containers_of(spec, field)) != len(containers_of(was, field)):
            detail = "pod updates may not add or remove containers"
            errors.append(forbidden(f"spec.{field}", detail))
            return errors
        errors += validate_images(spec, field)
    deadline_errors, is_over = validate_deadline(spec, was)
    errors += deadline_errors
    if is_over:
        return errors
    errors += validate_added_tolerations(spec, was)
    gates = {gate["name"] for gate in was.get("schedulingGates", ())}
    errors += [
        forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for index, gate in enumerate(spec.get("schedulingGates", ()))
        if gate["name"] not in gates
    ]
    return errors + validate_rest(spec, was)


def validate_annotation_updates(new: Object, old: Object) -> list[FieldError]:
    """All errors of annotations that may not change, and of those that mean something."""
    now = new["metadata"].get("annotations", {})
    before = old["metadata"].get("annotations", {})
    errors: list[FieldError] = []
    for key in before.keys() | now.keys():
        if now.get(key) == before.get(key):
            continue
        change = "remove or update" if key in before else "add"
        field = f"metadata.annotations[{key}]"
        if key.startswith(APP_ARMOR_PREFIX):
            errors.append(forbidden(field, f"may not {change} AppArmor annotations"))
        elif key == MIRROR_ANNOTATION:
            errors.append(forbidden(field, f"may not {change} mirror pod annotation"))
    return errors + validate_annotations(new)


def validate_images(spec: Object, field: str) -> list[FieldError]:
    """The errors of images, once more: Kubernetes looks at them twice at an update."""
    errors: list[FieldError] = []
    for index, container in enumerate(containers_of(spec, field)):
        image = container.get("image", "")
        at = f"spec.{field}[{index}].image"
        if not image:
            errors.append(required(at))
        if image != image.strip():
            errors.append(invalid(at, image, "must not have leading or trailing whitespace"))
    return errors


def validate_deadline(spec: Object, was: Object) -> tuple[list[FieldError], bool]:
    """The errors of a deadline, which may only come earlier; and whether to look no further."""
    field = "spec.activeDeadlineSeconds"
    now, before = spec.get("activeDeadlineSeconds"), was.get("activeDeadlineSeconds")
    if now is None:
        if before is None:
            return [], False
        detail = "must not update from a positive integer to nil value"
        return [invalid(field, None, detail)], False
    errors = number_in(field, now, 0, LARGEST_INT32)
    if not errors and before is not None and before < now:
        errors = [invalid(field, now, "must be less than or equal to previous value")]
    return errors, bool(errors)


def validate_added_tolerations(spec: Object, was: Object) -> list[FieldError]:
    """All errors of tolerations, which may be added only, or change their seconds."""
    path = "spec.tolerations"
    tolerations = spec.get("tolerations", ())
    now = [without(toleration, "tolerationSeconds") for toleration in tolerations]
    if any(without(old, "tolerationSeconds") not in now for old in was.get("tolerations", ())):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        return [forbidden(path, detail)]
    return validate_tolerations(tolerations, path)


def without(obj: dict[str, Any], *fields: str) -> dict[str, Any]:
    """The object without some fields."""
    return {name: value for name, value in obj.items() if name not in fields}


def validate_rest(spec: Object, was: Object) -> list[FieldError]:
    """The errors of changes to anything that may not change."""
    if spec == was:
        return []
    errors: list[FieldError] = []
    free = ["activeDeadlineSeconds", "tolerations", "schedulingGates"]
    grace_s, was_s = (one.get("terminationGracePeriodSeconds", 0) for one in (spec, was))
    if was_s < 0 and grace_s == 1:
        free.append("terminationGracePeriodSeconds")
    rest, old_rest = without(spec, *free), without(was, *free)
    for field in ("containers", "initContainers"):
        for one in (rest, old_rest):
            one[field] = [without(container, "image") for container in containers_of(one, field)]
    if was.get("schedulingGates"):
        selector, old_selector = rest.pop("nodeSelector", {}), old_rest.pop("nodeSelector", {})
        if not selector.items() >= old_selector.items():
            rule = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            errors.append(invalid("spec.nodeSelector", selector, rule))
        errors += validate_affinity_change(rest, old_rest)
    if rest != old_rest:
        errors.append(forbidden("spec", UPDATABLE))
    return errors


def validate_affinity_change(rest: dict[str, Any], old_rest: dict[str, Any]) -> list[FieldError]:
    """The errors of a gated pod's affinity to nodes, which may become narrower.

    Args:
        rest: What is compared of the new specification; what was judged is taken out.
        old_rest: As `rest`, of the old specification.
    """
    nodes, old_nodes = (one.get("affinity", {}).get("nodeAffinity", {}) for one in (rest, old_rest))
    if nodes == old_nodes:
        return []
    for one in (rest, old_rest):
        one["affinity"] = without(one.get("affinity", {}), "nodeAffinity")
    terms, old_terms = (
        one.get(NEEDED, {}).get("nodeSelectorTerms") or [] for one in (nodes, old_nodes)
    )
    if not old_terms:
        return []
    path = f"spec.affinity.nodeAffinity.{NEEDED}.nodeSelectorTerms"
    if len(terms) != len(old_terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(path, terms, detail)]
    return [
        invalid(f"{path}[{index}]", term, "only additions are allowed (no mutations or deletions)")
        for index, (term, old_term) in enumerate(zip(terms, old_terms, strict=True))
        if not is_narrower(term, old_term)
    ]


def is_narrower(term: dict[str, Any], old_term: dict[str, Any]) -> bool:
    """Whether a term only has further requirements; one without any selects nothing at all."""
    if not old_term:
        return not term
    return all(
        term.get(field, [])[: len(old_term.get(field, []))] == old_term.get(field, [])
        for field in ("matchExpressions", "matchFields")
    )


def validate_pod_status(new: Object, old: Object) -> list[FieldError]:
    """All errors of a pod whose status is replaced."""
    errors = validate_core_update(new["metadata"], old["metadata"])
    errors += validate_annotation_updates(new, old)
    status, was = new["status"], old["status"]
    for index, condition in enumerate(status.get("conditions", ())):
        if condition["type"] not in SYSTEM_CONDITIONS:
            field = f"status.conditions[{index}].Type"
            errors += checked(field, condition["type"], check_qualified_name)
        errors += validate_generation(condition, f"status.conditions[{index}]")
    nominated = status.get("nominatedNodeName", "")
    if nominated and nominated != was.get("nominatedNodeName"):
        errors += checked("status.nominatedNodeName", nominated, check_dns_subdomain)
    errors += validate_generation(status, "status")
    if status.get("qosClass", "") != was.get("qosClass", ""):
        detail = "field is immutable"
        errors.append(invalid("status.qosClass", status.get("qosClass", ""), detail))
    errors += validate_transitions(new, old)
    errors += validate_claim_statuses(new)
    errors += validate_addresses(status.get("podIPs", []), "status.podIPs")
    hosts = status.get("hostIPs", [])
    if hosts and hosts[0]["ip"] != status.get("hostIP", ""):
        detail = "must be equal to `hostIP`"
        errors.append(invalid("status.hostIPs[0].ip", hosts[0]["ip"], detail))
    return errors + validate_addresses(hosts, "status.hostIPs")


def validate_generation(obj: Object, path: str) -> list[FieldError]:
    """The error of something that is told of a generation that cannot be."""
    generation = obj.get("observedGeneration", 0)
    if generation >= 0:
        return []
    return [invalid(f"{path}.observedGeneration", generation, "must be a non-negative integer")]


def validate_transitions(new: Object, old: Object) -> list[FieldError]:
    """The errors of containers that have ended for good and are said to run again."""
    policy = old["spec"].get("restartPolicy", "")
    sidecars = {
        container["name"]
        for container in containers_of(old["spec"], "initContainers")
        if container.get("restartPolicy") == "Always"
    }
    errors: list[FieldError] = []
    for field, applied, restarting in (
        ("containerStatuses", policy, set[str]()),
        ("initContainerStatuses", policy, sidecars),
        ("ephemeralContainerStatuses", "Never", set[str]()),
    ):
        if applied == "Always":
            continue
        going = {
            status["name"]
            for status in new["status"].get(field, ())
            if "terminated" not in status["state"]
        }
        for index, status in enumerate(old["status"].get(field, ())):
            ended = status["state"].get("terminated")
            if ended is None or status["name"] in restarting:
                continue
            if ended["exitCode"] != 0 and applied == "OnFailure":
                continue
            if status["name"] in going:
                detail = "may not be transitioned to non-terminated state"
                errors.append(forbidden(f"status.{field}[{index}].state", detail))
    return errors


def validate_claim_statuses(new: Object) -> list[FieldError]:
    """All errors of claims that were made for the pod."""
    claims = {claim["name"] for claim in new["spec"].get("resourceClaims", ())}
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, status in enumerate(new["status"].get("resourceClaimStatuses", ())):
        field, name = f"status.resourceClaimStatuses[{index}].name", status["name"]
        if name not in claims:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(invalid(field, name, detail))
        if name in seen:
            errors.append(duplicate(field, name))
        seen.add(name)
        if "resourceClaimName" in status:
            errors += checked(field, status["resourceClaimName"], check_dns_subdomain)
    return errors


def validate_addresses(items: list[dict[str, Any]], path: str) -> list[FieldError]:
    """All errors of the addresses of a pod or of its node."""
    errors: list[FieldError] = []
    for index, item in enumerate(items):
        errors += checked(f"{path}[{index}]", item["ip"], check_ip)
    if errors or len(items) <= 1:
        return errors
    families = {":" in item["ip"] for item in items}
    if len(items) > MOST_ADDRESSES or len(families) != MOST_ADDRESSES:
        detail = "may specify no more than one IP for each IP family"
        errors.append(invalid(path, items, detail))
    seen: set[str] = set()
    for index, item in enumerate(items):
        if item["ip"] in seen:
            errors.append(duplicate(f"{path}[{index}]", item))
        seen.add(item["ip"])
    return errors
