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
    checked_name,
    forbidden,
    invalid,
    too_long,
)
from apfproxy.objects.names import (
    check_dns_label,
    check_dns_subdomain,
    check_label_value,
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

    Managed fields, which only a server keeps, and bare finalizers are not checked.
    """
    errors: list[FieldError] = []
    prefix, name = metadata.get("generateName", ""), metadata.get("name", "")
    if prefix:
        # The reference takes the last two characters for one `a`, if a dash is at the end.  The
        # generated name is checked as well, so nothing slips through.
        judged = prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        errors += [invalid(f"{FIELD}.generateName", prefix, wrong) for wrong in check_name(judged)]
    detail = "name or generateName is required"
    errors += checked_name(f"{FIELD}.name", name, check_name, detail)
    namespace = metadata.get("namespace", "")
    if is_namespaced:
        errors += checked_name(f"{FIELD}.namespace", namespace, check_dns_label)
    elif namespace:
        errors.append(forbidden(f"{FIELD}.namespace", "not allowed on this type"))
    generation = metadata.get("generation", 0)
    if generation < 0:
        errors.append(invalid(f"{FIELD}.generation", generation, NOT_NEGATIVE))
    errors += validate_collections(metadata)
    finalizers, field = metadata.get("finalizers", ()), f"{FIELD}.finalizers"
    for finalizer in finalizers:
        errors += checked(field, finalizer, check_qualified_name)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid(field, finalizers, detail))
    return errors


def validate_collections(metadata: Object) -> list[FieldError]:
    """Find the errors in labels, annotations and owner references."""
    errors = validate_labels(metadata.get("labels", {}), f"{FIELD}.labels")
    annotations, field = metadata.get("annotations", {}), f"{FIELD}.annotations"
    for key in annotations:
        errors += [invalid(field, key, wrong) for wrong in check_qualified_name(key.lower())]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > LARGEST_ANNOTATIONS_BYTES:
        errors.append(too_long(field, LARGEST_ANNOTATIONS_BYTES))
    owners = metadata.get("ownerReferences", ())
    return errors + _validate_owner_references(owners, f"{FIELD}.ownerReferences")


def validate_labels(labels: dict[str, str], field: str) -> list[FieldError]:
    """Find the errors in keys and values of labels."""
    errors = []
    for key, value in labels.items():
        errors += checked(field, key, check_qualified_name)
        errors += checked(field, value, check_label_value)
    return errors


def _validate_owner_references(owners: Sequence[Object], field: str) -> list[FieldError]:
    errors = []
    controllers: list[str] = []
    for owner in owners:
        api_version, kind = owner["apiVersion"], owner["kind"]
        group, _, version = api_version.rpartition("/")
        if not version or "/" in group:
            errors.append(invalid(f"{field}.apiVersion", api_version, "version must not be empty"))
        errors += [
            invalid(f"{field}.{name}", "", "must not be empty")
            for name in ("kind", "name", "uid")
            if not owner[name]
        ]
        if (api_version.removeprefix("/"), kind) == ("v1", "Event"):
            detail = "/v1, Kind=Event is disallowed from being an owner"
            errors.append(invalid(field, owner, detail))
        if owner.get("controller"):
            controllers.append(f"{kind}/{owner['name']}")
    for second in controllers[1:]:
        found = f'Found "true" in references for {controllers[0]} and {second}'
        detail = f"Only one reference can have Controller set to true. {found}"
        errors.append(invalid(field, owners, detail))
    return errors


def validate_bare_finalizers(metadata: Object) -> list[FieldError]:
    """Find finalizers without a domain that are not Kubernetes' own."""
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"{FIELD}.finalizers[{index}]", finalizer, detail)
        for index, finalizer in enumerate(metadata.get("finalizers", ()))
        if "/" not in finalizer and finalizer not in UNQUALIFIED_FINALIZERS
    ]


def drop_repeated_owners(metadata: Object) -> list[str]:
    """Remove owner references that equal an earlier one; returns a warning if there were any."""
    kept: dict[bytes, Object] = {}
    repeated: list[str] = []
    for owner in metadata.get("ownerReferences", ()):
        key = msgspec.json.encode(owner, order="sorted")
        if key in kept:
            repeated.append(owner["uid"])
        else:
            kept[key] = owner
    if not repeated:
        return []
    metadata["ownerReferences"] = list(kept.values())
    return [REPEATED_OWNERS.format(uids=", ".join(repeated))]
