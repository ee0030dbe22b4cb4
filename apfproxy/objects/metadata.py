"""The rules of metadata that objects have wherever they come from.

Sources: Kubernetes API conventions, "Metadata"; Kubernetes documentation, "Labels and Selectors",
"Annotations", "Owners and Dependents", "Finalizers"; apimachinery's `ValidateObjectMeta`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from apfproxy.objects.field_errors import (
    NOT_NEGATIVE,
    checked,
    forbidden,
    invalid,
    required,
    too_long,
)
from apfproxy.objects.names import (
    check_dns_label,
    check_dns_subdomain,
    check_label_value,
    check_name_prefix,
    check_qualified_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.objects.field_errors import FieldError
    from apfproxy.objects.types import Object

FIELD = "metadata"

LARGEST_ANNOTATIONS_BYTES = 256 * 1024
"""Bytes of all annotations of an object together, keys and values: Kubernetes' limit."""

UNQUALIFIED_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
"""The only finalizers that need no domain prefix."""

REPEATED_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in"
    " 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate"
    " UID(s) observed: {uids}"
)


def validate_metadata(
    metadata: Object,
    *,
    is_namespaced: bool,
    check_name: Callable[[str], list[str]] = check_dns_subdomain,
) -> list[FieldError]:
    """Find the errors in metadata of an object to be created that has its name.

    Managed fields apart, which only a server keeps, and bare finalizers; `check_name` is from
    `names`.
    """
    errors: list[FieldError] = []
    prefix, name = metadata.get("generateName", ""), metadata.get("name", "")
    if prefix:
        wrong = check_name_prefix(prefix, check_name)
        errors += [invalid(f"{FIELD}.generateName", prefix, each) for each in wrong]
    if name:
        errors += checked(f"{FIELD}.name", name, check_name)
    else:
        errors.append(required(f"{FIELD}.name", "name or generateName is required"))
    namespace = metadata.get("namespace", "")
    if not is_namespaced:
        if namespace:
            errors.append(forbidden(f"{FIELD}.namespace", "not allowed on this type"))
    elif namespace:
        errors += checked(f"{FIELD}.namespace", namespace, check_dns_label)
    else:
        errors.append(required(f"{FIELD}.namespace"))
    generation = metadata.get("generation", 0)
    if generation < 0:
        errors.append(invalid(f"{FIELD}.generation", generation, NOT_NEGATIVE))
    errors += validate_collections(metadata)
    return errors + _validate_finalizers(metadata.get("finalizers", ()), f"{FIELD}.finalizers")


def validate_collections(metadata: Object) -> list[FieldError]:
    """Find the errors in labels, annotations and owner references."""
    errors = validate_labels(metadata.get("labels", {}), f"{FIELD}.labels")
    errors += _validate_annotations(metadata.get("annotations", {}), f"{FIELD}.annotations")
    owners = metadata.get("ownerReferences", ())
    return errors + _validate_owner_references(owners, f"{FIELD}.ownerReferences")


def validate_labels(labels: dict[str, str], field: str) -> list[FieldError]:
    """Find the errors in keys and values of labels."""
    errors = []
    for key, value in labels.items():
        errors += checked(field, key, check_qualified_name)
        errors += checked(field, value, check_label_value)
    return errors


def _validate_annotations(annotations: dict[str, str], field: str) -> list[FieldError]:
    errors = [
        invalid(field, key, wrong)
        for key in annotations
        for wrong in check_qualified_name(key.lower())
    ]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > LARGEST_ANNOTATIONS_BYTES:
        errors.append(too_long(field, LARGEST_ANNOTATIONS_BYTES))
    return errors


def _validate_owner_references(owners: Sequence[Object], field: str) -> list[FieldError]:
    errors = []
    controllers: list[str] = []
    for owner in owners:
        api_version, kind = owner["apiVersion"], owner["kind"]
        group, _, version = api_version.rpartition("/")
        if not version or "/" in group:
            detail = "version must not be empty"
            errors.append(invalid(f"{field}.apiVersion", api_version, detail))
        errors += [
            invalid(f"{field}.{name}", "", "must not be empty")
            for name in ("kind", "name", "uid")
            if not owner[name]
        ]
        if (api_version.removeprefix("/"), kind) == ("v1", "Event"):
            errors.append(
                invalid(field, owner, "/v1, Kind=Event is disallowed from being an owner")
            )
        if owner.get("controller"):
            controllers.append(f"{kind}/{owner['name']}")
    errors += [
        invalid(
            field,
            owners,
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {controllers[0]} and {second}',
        )
        for second in controllers[1:]
    ]
    return errors


def _validate_finalizers(finalizers: Sequence[str], field: str) -> list[FieldError]:
    errors = []
    for finalizer in finalizers:
        errors += checked(field, finalizer, check_qualified_name)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid(field, finalizers, detail))
    return errors


def validate_bare_finalizers(metadata: Object) -> list[FieldError]:
    """Find finalizers without a domain that are not Kubernetes' own."""
    return [
        invalid(
            f"{FIELD}.finalizers[{index}]",
            finalizer,
            "name is neither a standard finalizer name nor is it fully qualified",
        )
        for index, finalizer in enumerate(metadata.get("finalizers", ()))
        if "/" not in finalizer and finalizer not in UNQUALIFIED_FINALIZERS
    ]


def drop_repeated_owners(metadata: Object) -> list[str]:
    """Remove owner references that equal an earlier one; returns a warning if there were any."""
    owners = metadata.get("ownerReferences", ())
    first = {msgspec.json.encode(owner, order="sorted"): owner for owner in reversed(owners)}
    if len(first) == len(owners):
        return []
    kept: list[Object] = []
    repeated: list[str] = []
    for owner in owners:
        if first.pop(msgspec.json.encode(owner, order="sorted"), None) is None:
            repeated.append(owner["uid"])
        else:
            kept.append(owner)
    metadata["ownerReferences"] = kept
    return [REPEATED_OWNERS.format(uids=", ".join(repeated))]
