"""The rules of metadata, which all kinds share, and what an update may not change.

Sources: Kubernetes API conventions, "Metadata"; Kubernetes documentation, "Labels and Selectors",
"Annotations", "Owners and Dependents", "Finalizers"; apimachinery's `ValidateObjectMeta` and
`ValidateObjectMetaUpdate`; apiserver's `BeforeUpdate`.
"""

from __future__ import annotations

import json
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
    check_path_segment,
    check_qualified_name,
)
from apfproxy.objects.ownership_validation import validate_managed_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from apfproxy.objects.field_errors import FieldError
    from apfproxy.objects.schema.types import Object

IMMUTABLE = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
IMMUTABLE_DETAIL = "field is immutable"

FIELD = "metadata"
MANAGED_FIELDS = f"{FIELD}.managedFields"

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
    allows_bare_finalizers: bool = False,
) -> list[FieldError]:
    """What is wrong with the metadata, canonical, of an object to be created that has its name.

    `check_name` is from `names`; bare finalizers are of any name without a domain.
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
    finalizers = metadata.get("finalizers", ())
    errors += validate_finalizers(finalizers, f"{FIELD}.finalizers")
    errors += validate_managed_fields(metadata.get("managedFields", ()), MANAGED_FIELDS)
    if not allows_bare_finalizers:
        errors += validate_bare_finalizers(finalizers, f"{FIELD}.finalizers")
    return errors


def validate_collections(metadata: Object) -> list[FieldError]:
    """What is wrong with labels, annotations and owner references."""
    errors = validate_labels(metadata.get("labels", {}), f"{FIELD}.labels")
    errors += validate_annotations(metadata.get("annotations", {}), f"{FIELD}.annotations")
    owners = metadata.get("ownerReferences", ())
    return errors + validate_owner_references(owners, f"{FIELD}.ownerReferences")


def validate_labels(labels: dict[str, str], field: str) -> list[FieldError]:
    """What is wrong with the keys and values of labels."""
    errors = []
    for key, value in labels.items():
        errors += checked(field, key, check_qualified_name)
        errors += checked(field, value, check_label_value)
    return errors


def validate_annotations(annotations: dict[str, str], field: str) -> list[FieldError]:
    """What is wrong with annotations: their keys, in any case, and their size together."""
    errors = [
        invalid(field, key, wrong)
        for key in annotations
        for wrong in check_qualified_name(key.lower())
    ]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > LARGEST_ANNOTATIONS_BYTES:
        errors.append(too_long(field, LARGEST_ANNOTATIONS_BYTES))
    return errors


def validate_owner_references(owners: Sequence[Object], field: str) -> list[FieldError]:
    """What is wrong with owner references, one by one and together."""
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


def validate_finalizers(finalizers: Sequence[str], field: str) -> list[FieldError]:
    """What is wrong with finalizers, one by one and together."""
    errors = []
    for finalizer in finalizers:
        errors += checked(field, finalizer, check_qualified_name)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid(field, finalizers, detail))
    return errors


def validate_bare_finalizers(finalizers: Iterable[str], field: str) -> list[FieldError]:
    """What is wrong with finalizers without a domain: most kinds have only Kubernetes' own."""
    return [
        invalid(
            f"{field}[{index}]",
            finalizer,
            "name is neither a standard finalizer name nor is it fully qualified",
        )
        for index, finalizer in enumerate(finalizers)
        if "/" not in finalizer and finalizer not in UNQUALIFIED_FINALIZERS
    ]


def validate_any_update(new: Object, old: Object, *, is_namespaced: bool) -> list[FieldError]:
    """What is wrong with metadata that replaces old metadata, of objects of any kind.

    The rules of its kind may find the same errors again: Kubernetes reports them twice, too.
    """
    errors = validate_metadata(
        new,
        is_namespaced=is_namespaced,
        check_name=check_path_segment,
        allows_bare_finalizers=True,
    )
    return errors + validate_changes(new, old)


def validate_changes(new: Object, old: Object) -> list[FieldError]:
    """What is wrong with changes to metadata, and with what changes most often."""
    errors: list[FieldError] = []
    if "deletionTimestamp" in old:
        added = set(new.get("finalizers", ())) - set(old.get("finalizers", ()))
        if added:
            shown = ", ".join(json.dumps(each) for each in sorted(added))
            detail = (
                "no new finalizers can be added if the object is being deleted,"
                f" found new finalizers []string{{{shown}}}"
            )
            errors.append(forbidden(f"{FIELD}.finalizers", detail))
    if not new.get("resourceVersion"):
        detail = "must be specified for an update"
        errors.append(invalid(f"{FIELD}.resourceVersion", "", detail))
    generation = new.get("generation", 0)
    if generation < old.get("generation", 0):
        errors.append(invalid(f"{FIELD}.generation", generation, "must not be decremented"))
    errors += [
        invalid(f"{FIELD}.{name}", new.get(name), IMMUTABLE_DETAIL)
        for name in IMMUTABLE
        if new.get(name) != old.get(name)
    ]
    errors += validate_collections(new)
    return errors + validate_managed_fields(new.get("managedFields", ()), MANAGED_FIELDS)


def validate_core_update(new: Object, old: Object) -> list[FieldError]:
    """What kinds of the core, and those like them, find wrong with changes to metadata."""
    errors = validate_changes(new, old)
    return errors + validate_bare_finalizers(new.get("finalizers", ()), f"{FIELD}.finalizers")


def carry_over(new: Object, old: Object) -> None:
    """Give new metadata, in place, what an update may leave out and what it may not change.

    A resource version that it names is the old one's.
    """
    copy_field("generation", new, old)
    if not new.get("uid"):
        copy_field("uid", new, old)
    if new.get("resourceVersion") in {None, "", "0"}:
        copy_field("resourceVersion", new, old)
    if "creationTimestamp" in old:
        new["creationTimestamp"] = old["creationTimestamp"]
    if "deletionTimestamp" in old:
        new["deletionTimestamp"] = old["deletionTimestamp"]
    if "deletionGracePeriodSeconds" not in new:
        copy_field("deletionGracePeriodSeconds", new, old)


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


def copy_field(name: str, new: Object, old: Object) -> None:
    """Let a field be as it was: absent, too."""
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def keep_metadata(new: Object, old: Object) -> None:
    """Let a new object's metadata be the old one's, `managedFields` apart."""
    managed = new["metadata"].get("managedFields")
    metadata = dict(old["metadata"])
    metadata.pop("managedFields", None)
    if managed:
        metadata["managedFields"] = managed
    new["metadata"] = metadata


def keep_spec(new: Object, old: Object) -> None:
    """Let a new object's specification be the old one's."""
    new["spec"] = old["spec"]


def keep_status(new: Object, old: Object) -> None:
    """Let the status be the old one's; count the generation up if the specification differs."""
    new["status"] = old["status"]
    count_generation(new, old)


def count_generation(new: Object, old: Object) -> None:
    """Set a new object's generation: the old one, or the next if the specification differs."""
    generation = old["metadata"].get("generation", 0)
    if new.get("spec") != old.get("spec"):
        generation += 1
    if generation:
        new["metadata"]["generation"] = generation
    else:
        new["metadata"].pop("generation", None)
