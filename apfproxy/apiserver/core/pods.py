"""Pods: defaults, what the server adds and keeps, validation, and rows of tables.

Fields that are kept as they come are not judged.

Sources: Kubernetes API reference, "Pod"; Kubernetes documentation, "Taints and Tolerations", "Pod
Priority and Preemption", "Pod Scheduling Readiness", "Pod Lifecycle" (termination), "Pod Quality of
Service Classes", "Pod update and replacement"; the reference grammar of the OCI distribution
specification (names of images); the printers of kube-apiserver, and the cases that it refuses.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from apfproxy.apiserver import metadata
from apfproxy.apiserver.core.structs import CORE
from apfproxy.apiserver.kind import Kind, Rules, Version, between, by_path, complete, one_of
from apfproxy.apiserver.metadata import find_condition, is_true, validate_core_update
from apfproxy.apiserver.schema.quantity import parse
from apfproxy.apiserver.tables import AGE, NAME, NONE, Column, age, age_of, wide
from apfproxy.objects import field_errors
from apfproxy.objects.field_errors import FieldError, checked, forbidden, invalid, repeated
from apfproxy.objects.names import check_dns_label, check_dns_subdomain, check_qualified_name
from apfproxy.objects.validation import validate_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.apiserver.kind import Rule
    from apfproxy.objects.types import Object

LONGEST_NAME = 255
"""Characters of an image's name, registry included; Kubernetes' limit, too."""
LONGEST_IMAGE = 1_000
"""Longer ones have no valid name, tag and digest."""

DOMAIN_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
DOMAIN = rf"(?:{DOMAIN_LABEL}(?:\.{DOMAIN_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
COMPONENT = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
TAG = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
DIGEST = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
IMAGE = re.compile(rf"((?:{DOMAIN}/)?{COMPONENT}(?:/{COMPONENT})*)(?::({TAG}))?(?:@({DIGEST}))?")
IDENTIFIER = re.compile("[a-f0-9]{64}")
"""An image's own digest, which is no name."""

TOLERATED_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
LEAVE = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
"""How long pods stay on a node that is not ready or not reachable, unless they say otherwise."""
PRIORITIES = {"": 0, "system-cluster-critical": 2 * 10**9, "system-node-critical": 2 * 10**9 + 1000}
PREEMPTION_POLICY = "PreemptLowerPriority"
COMPUTE = ("cpu", "memory")

ENDED = frozenset({"Failed", "Succeeded"})
ROW_CONDITIONS = {
    phase: (
        {"type": "Completed", "status": "True", "reason": phase, "message": f"The pod {told}."},
    )
    for phase, told in (("Succeeded", "has completed successfully"), ("Failed", "failed"))
}
GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "lastTransitionTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}

KEPT = ("deletionTimestamp", "ownerReferences")
CONTAINER_FIELDS = ("containers", "initContainers")
SPEC_DEFAULTS: dict[str, Any] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
LARGEST_INT32 = 2**31 - 1
FIELDS = CORE["Container"].by_name | CORE["PodSpec"].by_name
is_subdomain: Rule = partial(checked, check=check_dns_subdomain)
check_spec = by_path(
    {
        "restartPolicy": one_of(*FIELDS["restartPolicy"].enum),
        "dnsPolicy": one_of(*FIELDS["dnsPolicy"].enum),
        "preemptionPolicy": one_of("Never", PREEMPTION_POLICY),
        "nodeSelector": lambda field, labels: validate_labels(labels, field),
        "serviceAccountName": is_subdomain,
        "nodeName": is_subdomain,
        "priorityClassName": is_subdomain,
        "activeDeadlineSeconds": between(1, LARGEST_INT32),
    }
)
CHOICES = ("terminationMessagePolicy", "imagePullPolicy", "restartPolicy")
check_container = by_path({name: one_of(*FIELDS[name].enum) for name in CHOICES})
check_new_deadline = between(0, LARGEST_INT32)
SYSTEM_CONDITIONS = frozenset({"Initialized", "PodScheduled", "Ready"})

UPDATABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only"
    " additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set"
    " to 1 if it was previously negative)"
)


def containers_of(spec: Object, field: str = "containers") -> list[dict[str, Any]]:
    """Return the containers in a field of a pod's specification, which may be null."""
    return spec.get(field) or []


def _set_pod_defaults(obj: Object) -> None:
    """Complete a pod; what a container only limits, it requests."""
    spec: dict[str, Any] = obj["spec"]
    set_pod_spec_defaults(spec)
    for container in _all_containers(spec):
        resources = container["resources"]
        if "limits" in resources:
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    spec.setdefault("enableServiceLinks", True)
    # The one address and the list of all agree: the list counts if it begins with the address.
    status = obj["status"]
    addresses, address = status.get("podIPs", []), status.get("podIP")
    if address and (not addresses or addresses[0]["ip"] != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses:
        status["podIP"] = addresses[0]["ip"]


def set_pod_spec_defaults(spec: dict[str, Any]) -> None:
    for container in _all_containers(spec):
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        if "imagePullPolicy" not in container:
            container["imagePullPolicy"] = pull_policy(container.get("image", ""))
        for port in container.get("ports", ()):
            port.setdefault("protocol", "TCP")
    complete(spec, SPEC_DEFAULTS)
    # The older name of the field is read where the newer one is not set, and always written.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _all_containers(spec: Object) -> list[dict[str, Any]]:
    return [*containers_of(spec), *containers_of(spec, "initContainers")]


@lru_cache(maxsize=1024)
def pull_policy(image: str) -> str:
    """Return the default policy: always for the tag `latest`, which a bare name has, too."""
    match = IMAGE.fullmatch(image) if len(image) <= LONGEST_IMAGE else None
    if match is None or len(match[1]) > LONGEST_NAME or IDENTIFIER.fullmatch(image):
        return "IfNotPresent"
    _, tag, digest = match.groups()
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"


def qos_class(spec: Object) -> str:
    """Tell how late a pod is ended when its node runs out of a resource."""
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    are_all_limited = True
    for container in _all_containers(spec):
        _add_compute(requests, container["resources"].get("requests", {}))
        count = _add_compute(limits, container["resources"].get("limits", {}))
        are_all_limited = are_all_limited and count == len(COMPUTE)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if are_all_limited and requests == limits else "Burstable"


def _add_compute(sums: dict[str, int], amounts: dict[str, str]) -> int:
    """Add amounts of CPU and memory that are more than nothing to sums, and return how many."""
    found = {name: parse(amounts[name]).nano for name in COMPUTE if name in amounts}
    added = {name: sums.get(name, 0) + amount for name, amount in found.items() if amount > 0}
    sums.update(added)
    return len(added)


def admit_create(obj: Object) -> str:
    """Add what admission does, tolerations and a priority, or say why the pod is not created."""
    spec: dict[str, Any] = obj["spec"]
    class_name = spec.get("priorityClassName", "")
    priority = PRIORITIES.get(class_name)
    if priority is None:
        return f"no PriorityClass with name {class_name} was found"
    for field, what, value in (
        ("priority", "integer value of priority", priority),
        ("preemptionPolicy", "string value of PreemptionPolicy", PREEMPTION_POLICY),
    ):
        if spec.setdefault(field, value) != value:
            return (
                f"the {what} ({spec[field]}) must not be provided in pod spec; priority admission"
                f" controller computed {value} from the given PriorityClass name"
            )
    _add_tolerations(spec)
    return ""


def _add_tolerations(spec: Object) -> None:
    for key in TOLERATED_TAINTS:
        is_tolerated = any(
            each.get("key", "") in {"", key} and each.get("effect", "") in {"", "NoExecute"}
            for each in spec.get("tolerations", ())
        )
        if not is_tolerated:
            spec["tolerations"] = [*spec.get("tolerations", ()), {"key": key, **LEAVE}]


def _prepare_create(obj: Object) -> None:
    obj["metadata"]["generation"] = 1
    conditions = {}
    if obj["spec"].get("schedulingGates"):
        now = obj["metadata"].get("creationTimestamp")
        conditions["conditions"] = [{**GATED, "lastTransitionTime": now}]
    obj["status"] = {"phase": "Pending", **conditions, "qosClass": qos_class(obj["spec"])}


def _prepare_update(new: Object, old: Object) -> None:
    """Keep the status and what admission added; count the generation up if the spec differs."""
    spec, old_spec = new["spec"], old["spec"]
    for field in ("priority", "preemptionPolicy"):
        if field in old_spec:
            spec.setdefault(field, old_spec[field])
    _add_tolerations(spec)
    new["status"] = old["status"]
    metadata.count_generation(new, old)


def _prepare_status(new: Object, old: Object) -> None:
    """Keep the specification, and who owns the pod; the class of service stays if not given."""
    new["spec"] = old["spec"]
    for field in ("generation", *KEPT):
        metadata.copy_field(field, new["metadata"], old["metadata"])
    if not new["status"].get("qosClass") and old["status"].get("qosClass"):
        new["status"]["qosClass"] = old["status"]["qosClass"]


def grace_s(obj: Object, asked_s: int | None) -> int:
    """Give a deleted pod seconds to end: none if it runs nowhere, or runs no more."""
    spec = obj["spec"]
    seconds = spec.get("terminationGracePeriodSeconds", 0) if asked_s is None else asked_s
    if not spec.get("nodeName") or obj["status"].get("phase") in ENDED:
        return 0
    return seconds if seconds >= 0 else 1


def _warnings(new: Object, old: Object | None) -> list[str]:
    if not (wrong := old is None and check_dns_label(new["metadata"]["name"])):
        return []
    surprise = "this is used in the Pod's hostname, which can result in surprising behavior"
    return [f"metadata.name: {surprise}; a DNS label is recommended: [{' '.join(wrong)}]"]


def _summary(obj: Object) -> tuple[int, str, list[Object]]:
    """Find how many containers are ready, what the status column shows, whose restarts count."""
    spec, status = obj["spec"], obj["status"]
    reason: str = status.get("reason") or status.get("phase", "")
    if (find_condition(status, "PodScheduled") or {}).get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    ready, counted, is_initializing = 0, [], False
    for index, container in enumerate(status.get("initContainerStatuses", ())):
        counted.append(container)
        state = container["state"]
        if state.get("terminated", {}).get("exitCode") == 0:
            continue
        if container["name"] in _sidecars(spec) and container.get("started"):
            ready += container["ready"]
            continue
        count = len(containers_of(spec, "initContainers"))
        reason, is_initializing = f"Init:{_init_reason(state) or f'{index}/{count}'}", True
        break
    if is_initializing and not is_true(status, "Initialized"):
        return ready, reason, counted
    names, started = _sidecars(spec), status.get("initContainerStatuses", ())
    sidecars = [each for each in started if each["name"] in names]
    running, reason = _containers(status, reason)
    return ready + running, reason, [*sidecars, *status.get("containerStatuses", ())]


def _sidecars(spec: Object) -> list[str]:
    containers = containers_of(spec, "initContainers")
    return [each["name"] for each in containers if each.get("restartPolicy") == "Always"]


def _init_reason(state: Object) -> str:
    if "terminated" in state:
        return _end_of(state["terminated"])
    waiting: str = state.get("waiting", {}).get("reason", "")
    return "" if waiting == "PodInitializing" else waiting


def _containers(status: Object, reason: str) -> tuple[int, str]:
    """Find how many run and are ready, and what the first other waits for or ended with."""
    running = 0
    for container in reversed(status.get("containerStatuses", ())):
        state = container["state"]
        if state.get("waiting", {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif "terminated" in state:
            reason = _end_of(state["terminated"])
        elif container["ready"] and "running" in state:
            running += 1
    if reason == "Completed" and running:
        reason = "Running" if is_true(status, "Ready") else "NotReady"
    return running, reason


def _end_of(ended: dict[str, Any]) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended['exitCode']}"


def _pod_cells(obj: Object, now_s: float) -> Sequence[object]:
    spec, status = obj["spec"], obj["status"]
    ready, reason, counted = _summary(obj)
    if "deletionTimestamp" in obj["metadata"]:
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in ENDED:
            reason = "Terminating"
    restarts = sum(each["restartCount"] for each in counted)
    ends = [each["lastState"].get("terminated", {}).get("finishedAt") or "" for each in counted]
    last = max(ends, default="")
    addresses = status.get("podIPs") or [{"ip": NONE}]
    gates = [is_true(status, gate["conditionType"]) for gate in spec.get("readinessGates", ())]
    return (
        obj["metadata"]["name"],
        f"{ready}/{len(containers_of(spec)) + len(_sidecars(spec))}",
        reason,
        f"{restarts} ({age(last, now_s)} ago)" if restarts and last else str(restarts),
        age_of(obj, now_s),
        addresses[0]["ip"],
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{sum(gates)}/{len(gates)}" if gates else NONE,
    )


def _pod_fields(obj: Object) -> dict[str, str]:
    """Give field selectors their values; `status.podIPs` may be named, but has none."""
    spec, status = obj["spec"], obj["status"]
    return {
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.host": spec.get("nodeName", ""),  # its old name
        "spec.restartPolicy": spec.get("restartPolicy", ""),
        "spec.schedulerName": spec.get("schedulerName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
        "status.phase": status.get("phase", ""),
        "status.podIP": status.get("podIP", ""),
        "status.podIPs": "",
        "status.nominatedNodeName": status.get("nominatedNodeName", ""),
    }


def _validate(obj: Object) -> list[FieldError]:
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
    errors = metadata.validate_stored(obj["metadata"], is_namespaced=True)
    errors += _validate_containers(spec) + check_spec(spec, "spec.")
    for index, gate in enumerate(spec.get("readinessGates", ())):
        field = f"spec.readinessGates[{index}].conditionType"
        errors += checked(field, gate["conditionType"], check_qualified_name)
    names = [gate["name"] for gate in spec.get("schedulingGates", ())]
    for index, name in enumerate(names):
        errors += checked(f"spec.schedulingGates[{index}]", name, check_qualified_name)
    return errors + repeated(names, "spec.schedulingGates")


def _validate_containers(spec: Object) -> list[FieldError]:
    errors = [] if containers_of(spec) else [field_errors.required("spec.containers")]
    names: set[str] = set()
    for field in CONTAINER_FIELDS:
        for index, container in enumerate(containers_of(spec, field)):
            at, name = f"spec.{field}[{index}]", container["name"]
            errors += field_errors.checked_name(f"{at}.name", name, check_dns_label)
            errors += _validate_image(container, at)
            errors += check_container(container, f"{at}.")
            if name in names:
                errors.append(field_errors.duplicate(f"{at}.name", name))
            names.add(name)
    return errors


def _validate_image(container: dict[str, Any], path: str) -> list[FieldError]:
    def check(image: str) -> list[str]:
        is_stripped = image == image.strip()
        return [] if is_stripped else ["must not have leading or trailing whitespace"]

    return field_errors.checked_name(f"{path}.image", container.get("image", ""), check)


def _validate_update(new: Object, old: Object) -> list[FieldError]:
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
        wrong = check_new_deadline("spec.activeDeadlineSeconds", now)
        if not wrong and before is not None and before < now:
            detail = "must be less than or equal to previous value"
            wrong = [invalid("spec.activeDeadlineSeconds", now, detail)]
        if wrong:
            return errors + wrong  # Kubernetes looks no further.
    elif before is not None:
        detail = "must not update from a positive integer to nil value"
        errors.append(invalid("spec.activeDeadlineSeconds", None, detail))
    errors += _validate_added_tolerations(spec, was)
    gates = [gate["name"] for gate in was.get("schedulingGates", ())]
    detail = "only deletion is allowed, but found new scheduling gate"
    errors += [
        forbidden(f"spec.schedulingGates[{index}].name", f"{detail} '{gate['name']}'")
        for index, gate in enumerate(spec.get("schedulingGates", ()))
        if gate["name"] not in gates
    ]
    return errors + _validate_rest(spec, was)


def _validate_added_tolerations(spec: Object, was: Object) -> list[FieldError]:
    now = [_without(each, "tolerationSeconds") for each in spec.get("tolerations", ())]
    if all(_without(old, "tolerationSeconds") in now for old in was.get("tolerations", ())):
        return []
    detail = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden("spec.tolerations", detail)]


def _without(obj: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {name: value for name, value in obj.items() if name not in fields}


def _validate_rest(spec: Object, was: Object) -> list[FieldError]:
    """Find changes to anything else; a pod that is not scheduled may become more choosy."""
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


def _validate_status(new: Object, old: Object) -> list[FieldError]:
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
        detail = metadata.IMMUTABLE_DETAIL
        errors.append(invalid("status.qosClass", status.get("qosClass", ""), detail))
    return errors


POD = Kind(
    "",
    "Pod",
    (Version("v1", CORE["Pod"], _set_pod_defaults),),
    Rules(
        admit_create=admit_create,
        prepare_create=_prepare_create,
        prepare_update=_prepare_update,
        validate=_validate,
        validate_update=_validate_update,
        prepare_status=_prepare_status,
        validate_status=_validate_status,
        grace_s=grace_s,
        warnings=_warnings,
        reset_status_fields=(("spec",), *(("metadata", name) for name in KEPT)),
    ),
    columns=(
        NAME,
        Column("Ready", "", "How many containers are ready, and how many there are."),
        Column("Status", "", "Phase of the pod, or what its containers wait for or ended with."),
        Column("Restarts", "", "How often containers were restarted, and when the last time."),
        AGE,
        wide("IP", "", "Address of the pod."),
        wide("Node", "", "Node that the pod is assigned to."),
        wide("Nominated Node", "", "Node where room is being made for it."),
        wide("Readiness Gates", "", "How many of its readiness gates are true."),
    ),
    row=_pod_cells,
    row_conditions=lambda obj: ROW_CONDITIONS.get(obj["status"].get("phase", ""), ()),
    selectable_fields=tuple(_pod_fields({"spec": {}, "status": {}})),
    selectable_values=_pod_fields,
    short_names=("po",),
    categories=("all",),
    answers_deleted=True,
    storage_hash="xPOwRZ+Yhw8=",
)
