"""What is wrong with requests and limits.

Source: Kubernetes documentation, "Resource Management for Pods and Containers"; the cases that
kube-apiserver refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.api.core.resources import (
    COMPUTE,
    HUGE_PAGES,
    containers_of,
    is_huge_pages,
    is_native,
    is_overcommit_allowed,
    total,
)
from apfproxy.api.field_errors import (
    NOT_NEGATIVE,
    FieldError,
    Reason,
    checked,
    duplicate,
    forbidden,
    invalid,
    required,
)
from apfproxy.api.names import check_qualified_name
from apfproxy.api.quantity import NANO, QuantityError, parse

if TYPE_CHECKING:
    from apfproxy.api.kind import Object

CONTAINER_RESOURCES = frozenset({*COMPUTE, "ephemeral-storage"})
QUOTA_RESOURCES = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
        "storage",
    }
)
"""Names without a domain that are known, but not as what a container can have."""


def validate_resources(
    resources: Object, path: str, claims: frozenset[str] = frozenset()
) -> list[FieldError]:
    """All errors of a container's resources.

    Args:
        resources: Of the container.
        path: Of them.
        claims: Names of the pod's claims.
    """
    if not resources:
        return []
    errors: list[FieldError] = []
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for name, text in limits.items():
        errors += validate_amount(name, text, f"{path}.limits[{name}]")
    for name, text in requests.items():
        errors += validate_amount(name, text, f"{path}.requests[{name}]")
        errors += validate_request(name, text, limits.get(name), path)
    names = limits.keys() | requests.keys()
    if any(map(is_huge_pages, names)) and not names & set(COMPUTE):
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    errors += validate_claims(resources, f"{path}.claims", claims)
    return errors


def validate_request(name: str, text: str, limit: str | None, path: str) -> list[FieldError]:
    """The error of a request that does not go with its limit."""
    if limit is None:
        if is_overcommit_allowed(name):
            return []
        detail = "Limit must be set for non overcommitable resources"
        return [required(f"{path}.limits", detail)]
    request_nano, limit_nano = parse(text).nano, parse(limit).nano
    if request_nano != limit_nano and not is_overcommit_allowed(name):
        return [invalid(f"{path}.requests", text, f"must be equal to {name} limit of {limit}")]
    if request_nano > limit_nano:
        detail = f"must be less than or equal to {name} limit of {limit}"
        return [invalid(f"{path}.requests", text, detail)]
    return []


def validate_amount(name: str, text: str, field: str) -> list[FieldError]:
    """All errors of the name of a resource and of its amount."""
    errors = validate_name(name, field)
    nano = parse(text).nano
    if nano < 0:
        errors.append(invalid(field, text, NOT_NEGATIVE))
    if not is_native(name) and nano % NANO:
        errors.append(invalid(field, text, "must be an integer"))
    if is_huge_pages(name):
        errors += validate_huge_pages(name, text, field)
    return errors


def validate_huge_pages(name: str, text: str, field: str) -> list[FieldError]:
    """The error of an amount that is no number of whole huge pages."""
    size = name.removeprefix(HUGE_PAGES)
    try:
        page = parse(size)
    except QuantityError as error:
        return [invalid(field, text, str(error))]
    if page.is_zero or not parse(text).is_multiple_of(page):
        return [invalid(field, text, f"{text} is not positive integer multiple of {size}")]
    return []


def validate_name(name: str, field: str) -> list[FieldError]:
    """The errors of the name of a resource."""
    errors = checked(field, name, check_qualified_name)
    if errors:
        return errors
    if "/" not in name:
        if name in CONTAINER_RESOURCES or is_huge_pages(name):
            return []
        is_known = name in QUOTA_RESOURCES or name.startswith(("requests.", "limits."))
        detail = (
            "must be a standard resource for containers"
            if is_known
            else "must be a standard resource type or fully qualified"
        )
        return [invalid(field, name, detail)]
    is_extended = not name.startswith("requests.") and not check_qualified_name(f"requests.{name}")
    if is_native(name) or is_extended:
        return []
    return [invalid(field, name, "doesn't follow extended resource name standard")]


def validate_claims(resources: Object, path: str, claims: frozenset[str]) -> list[FieldError]:
    """All errors of the claims that a container uses."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, claim in enumerate(resources.get("claims", ())):
        field, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            errors.append(required(field))
            continue
        key = f"{name}/{claim['request']}" if claim.get("request") else name
        if name in seen or key in seen:
            errors.append(duplicate(field, name if name in seen else key))
        seen.add(key)
        if name not in claims:
            detail = "must be one of the names in pod.spec.resourceClaims"
            errors.append(FieldError(field, Reason.NOT_FOUND, detail, name))
    return errors


def validate_pod_resources(spec: Object, path: str) -> list[FieldError]:
    """All errors of the resources of a pod as a whole.

    Args:
        spec: Of the pod.
        path: Of its resources.
    """
    resources = spec.get("resources")
    if resources is None:
        return []
    errors: list[FieldError] = []
    if resources.get("claims"):
        detail = "claims cannot be set for Resources at pod-level"
        errors.append(forbidden(f"{path}.claims", detail))
    amounts = {name: resources[name] for name in ("limits", "requests") if name in resources}
    for which, by_name in amounts.items():
        for name in by_name:
            if name not in COMPUTE and not is_huge_pages(name):
                field = f"{path}.{which}[{name}]"
                errors.append(invalid(field, name, "must be a standard resource for pods"))
    errors += validate_resources(amounts, path)
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    for name, amount in total(spec, "requests").items():
        asked = requests.get(name)
        if asked is not None and amount > parse(asked):
            detail = f"must be greater than or equal to aggregate container requests of {amount}"
            errors.append(invalid(f"{path}.requests[{name}]", asked, detail))
    for index, container in enumerate(containers_of(spec)):
        for name, text in container["resources"].get("limits", {}).items():
            if name in limits and parse(text).nano > parse(limits[name]).nano:
                field = f"{path}.containers[{index}][{name}].limits"
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                errors.append(invalid(field, text, detail))
    return errors
