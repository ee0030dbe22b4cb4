"""What is wrong with pods.

Source: Kubernetes API reference, "Pod"; the cases that kube-apiserver refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.api.core.checks import (
    LARGEST_INT32,
    check_ip,
    check_search_domain,
    named,
    number_in,
    one_of,
)
from apfproxy.api.core.container_validation import Surroundings, validate_containers
from apfproxy.api.core.pod_schema import DNS_POLICIES, PREEMPTION_POLICIES, RESTART_POLICIES
from apfproxy.api.core.resource_validation import validate_pod_resources, validate_resources
from apfproxy.api.core.resources import containers_of
from apfproxy.api.core.scheduling_validation import (
    validate_affinity,
    validate_spreading,
    validate_tolerations,
)
from apfproxy.api.core.security_validation import validate_os, validate_pod_security
from apfproxy.api.core.volume_validation import validate_volumes
from apfproxy.api.field_errors import FieldError, checked, duplicate, forbidden, invalid, required
from apfproxy.api.metadata import validate_labels, validate_metadata
from apfproxy.api.names import (
    check_dns_label,
    check_dns_subdomain,
    check_qualified_name,
)

if TYPE_CHECKING:
    from apfproxy.api.kind import Object

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
"""On pods that stand for one that a node runs by itself."""
COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
"""Which pods go first; a number of 32 bits."""

MOST_NAME_SERVERS = 3
MOST_SEARCHES = 32
LONGEST_SEARCHES = 2048

SUBDOMAIN_FIELDS = ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName")
LABEL_FIELDS = ("hostname", "subdomain")


def validate_pod(obj: Object) -> list[FieldError]:
    """All errors of a new pod."""
    errors = validate_any_pod(obj)
    spec = obj["spec"]
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden("spec.nodeName", detail))
    return errors


def validate_any_pod(obj: Object) -> list[FieldError]:
    """All errors of a pod, whether new or not."""
    spec = obj["spec"]
    errors = validate_metadata(obj["metadata"], is_namespaced=True)
    errors += validate_annotations(obj)
    errors += validate_spec(spec, obj["metadata"].get("name", ""), "spec")
    if not spec.get("serviceAccountName"):
        errors += [
            forbidden(
                f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken",
                "must not be specified when serviceAccountName is not set",
            )
            for index, volume in enumerate(spec.get("volumes", ()))
            for number, source in enumerate(volume.get("projected", {}).get("sources") or ())
            if "serviceAccountToken" in source
        ]
    return errors


def validate_annotations(obj: Object) -> list[FieldError]:
    """All errors of annotations that mean something to Kubernetes."""
    annotations = obj["metadata"].get("annotations", {})
    errors: list[FieldError] = []
    if MIRROR_ANNOTATION in annotations and not obj["spec"].get("nodeName"):
        field = f"metadata.annotations[{MIRROR_ANNOTATION}]"
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(field, annotations[MIRROR_ANNOTATION], detail))
    cost = annotations.get(COST_ANNOTATION)
    if cost is not None and not is_int32(cost):
        field = f"metadata.annotations[{COST_ANNOTATION}]"
        errors.append(invalid(field, cost, "must be a 32bit integer"))
    return errors


def is_int32(text: str) -> bool:
    """Whether a text is a decimal number of 32 bits, without a plus sign or leading zeros."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or (text[0] == "0" and text != "0"):
        return False
    significant = digits.lstrip("0") or "0"
    if len(significant) > len(str(LARGEST_INT32)):
        return False
    return int(significant) <= LARGEST_INT32 + text.startswith("-")


def validate_spec(spec: Object, pod_name: str, path: str) -> list[FieldError]:
    """All errors of a pod's specification.

    Args:
        spec: With defaults.
        pod_name: "" if it is not known.
        path: Of the specification.
    """
    volumes, errors = validate_volumes(spec.get("volumes", ()), pod_name, f"{path}.volumes")
    claims = spec.get("resourceClaims", ())
    errors += validate_resource_claims(claims, f"{path}.resourceClaims")
    around = Surroundings(
        spec,
        volumes,
        frozenset(claim.get("name", "") for claim in claims),
        spec["terminationGracePeriodSeconds"],
    )
    errors += validate_containers(around, path)
    errors += validate_pod_resources(spec, f"{path}.resources")
    if spec.get("hostNetwork"):
        errors += validate_host_ports(spec, f"{path}.containers")
    errors += one_of(spec, "restartPolicy", path, RESTART_POLICIES, is_required=True)
    errors += one_of(spec, "dnsPolicy", path, DNS_POLICIES, is_required=True)
    errors += validate_labels(spec.get("nodeSelector", {}), f"{path}.nodeSelector")
    errors += validate_pod_security(spec, f"{path}.securityContext")
    if "affinity" in spec:
        errors += validate_affinity(spec["affinity"], f"{path}.affinity")
    errors += validate_dns(spec, f"{path}.dnsConfig")
    errors += validate_gates(spec, path)
    constraints = spec.get("topologySpreadConstraints", ())
    errors += validate_spreading(constraints, f"{path}.topologySpreadConstraints")
    errors += validate_host_users(spec, path)
    errors += validate_scalars(spec, path)
    errors += validate_tolerations(spec.get("tolerations", ()), f"{path}.tolerations")
    errors += validate_host_aliases(spec.get("hostAliases", ()), f"{path}.hostAliases")
    if "overhead" in spec:
        errors += validate_resources({"limits": spec["overhead"]}, f"{path}.overhead")
    return errors + validate_os(spec, path)


def validate_scalars(spec: Object, path: str) -> list[FieldError]:
    """All errors of fields that stand for themselves."""
    errors: list[FieldError] = []
    for name in SUBDOMAIN_FIELDS:
        if name in spec:
            errors += checked(f"{path}.{name}", spec[name], check_dns_subdomain)
    for name in LABEL_FIELDS:
        if name in spec:
            errors += checked(f"{path}.{name}", spec[name], check_dns_label)
    if "activeDeadlineSeconds" in spec:
        field = f"{path}.activeDeadlineSeconds"
        errors += number_in(field, spec["activeDeadlineSeconds"], 1, LARGEST_INT32)
    return errors + one_of(spec, "preemptionPolicy", path, PREEMPTION_POLICIES)


def validate_host_ports(spec: Object, path: str) -> list[FieldError]:
    """The errors of ports that are mapped although there is nothing to map."""
    return [
        invalid(
            f"{path}[{index}].ports[{number}].hostPort",
            port.get("hostPort", 0),
            "must match `containerPort` when `hostNetwork` is true",
        )
        for index, container in enumerate(containers_of(spec))
        for number, port in enumerate(container.get("ports", ()))
        if port.get("hostPort", 0) != port["containerPort"]
    ]


def validate_host_users(spec: Object, path: str) -> list[FieldError]:
    """The errors of what a pod with user ids of its own may not share with the node."""
    if spec.get("hostUsers") is not False:
        return []
    # Kubernetes writes two of the names so.
    names = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
    return [
        forbidden(f"{path}.{shown}", "when `pod.Spec.HostUsers` is false")
        for name, shown in names
        if spec.get(name)
    ]


def validate_resource_claims(
    claims: list[dict[str, Any]] | tuple[()], path: str
) -> list[FieldError]:
    """All errors of the claims that a pod uses."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    sources = ("resourceClaimName", "resourceClaimTemplateName")
    for index, claim in enumerate(claims):
        at = f"{path}[{index}]"
        name = claim.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{at}.name", name))
        else:
            errors += named(claim, "name", at, check_dns_label)
        if name:
            seen.add(name)
        given = [source for source in sources if source in claim]
        if len(given) > 1:
            detail = (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            )
            errors.append(invalid(at, claim, detail))
        elif not given:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(at, claim, detail))
        for source in given:
            errors += checked(f"{at}.{source}", claim[source], check_dns_subdomain)
    return errors


def validate_gates(spec: Object, path: str) -> list[FieldError]:
    """All errors of what readiness and scheduling wait for."""
    errors: list[FieldError] = []
    for index, gate in enumerate(spec.get("readinessGates", ())):
        field = f"{path}.readinessGates[{index}].conditionType"
        errors += checked(field, gate.get("conditionType", ""), check_qualified_name)
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates", ())):
        field, name = f"{path}.schedulingGates[{index}]", gate.get("name", "")
        errors += checked(field, name, check_qualified_name)
        if name in seen:
            errors.append(duplicate(field, name))
        seen.add(name)
    return errors


def validate_dns(spec: Object, path: str) -> list[FieldError]:
    """All errors of how a pod resolves names."""
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{path}.nameservers", detail)]
    if config is None:
        return []
    errors: list[FieldError] = []
    servers, searches = config.get("nameservers", []), config.get("searches", [])
    if len(servers) > MOST_NAME_SERVERS:
        detail = f"must not have more than {MOST_NAME_SERVERS} nameservers"
        errors.append(invalid(f"{path}.nameservers", servers, detail))
    for index, server in enumerate(servers):
        errors += checked(f"{path}.nameservers[{index}]", server, check_ip)
    if len(searches) > MOST_SEARCHES:
        detail = f"must not have more than {MOST_SEARCHES} search paths"
        errors.append(invalid(f"{path}.searches", searches, detail))
    if len(" ".join(searches).encode()) > LONGEST_SEARCHES:
        rule = f"must not have more than {LONGEST_SEARCHES} characters"
        detail = f"{rule} (including spaces) in the search list"
        errors.append(invalid(f"{path}.searches", searches, detail))
    for index, search in enumerate(searches):
        if search != ".":
            name = search.removesuffix(".")
            errors += checked(f"{path}.searches[{index}]", name, check_search_domain)
    errors += [
        required(f"{path}.options[{index}]", "must not be empty")
        for index, option in enumerate(config.get("options", ()))
        if not option.get("name")
    ]
    return errors


def validate_host_aliases(aliases: list[dict[str, Any]] | tuple[()], path: str) -> list[FieldError]:
    """All errors of lines of the hosts file."""
    errors: list[FieldError] = []
    for index, alias in enumerate(aliases):
        at = f"{path}[{index}]"
        errors += checked(f"{at}.ip", alias.get("ip", ""), check_ip)
        for number, name in enumerate(alias.get("hostnames", ())):
            errors += checked(f"{at}.hostnames[{number}]", name, check_dns_subdomain)
    return errors
