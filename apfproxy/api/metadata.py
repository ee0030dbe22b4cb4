"""Metadata of stored objects, as JSON has it: its rules, and what an update may not change.

Sources: Kubernetes API conventions, "Metadata"; the rules of apimachinery's `ValidateObjectMeta`
and `ValidateObjectMetaUpdate`, and of apiserver's `BeforeUpdate`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from apfproxy.api.field_errors import NOT_NEGATIVE, checked, forbidden, invalid, required
from apfproxy.api.meta import (
    OwnerReference,
    validate_annotations,
    validate_bare_finalizers,
    validate_finalizers,
    validate_labels,
    validate_owner_references,
)
from apfproxy.api.names import (
    check_dns_label,
    check_dns_subdomain,
    check_name_prefix,
    check_path_segment,
)
from apfproxy.api.ownership.entries import validate_managed_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.api.field_errors import FieldError
    from apfproxy.api.kind import Object

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
    """What is wrong with the metadata of an object that is to be created.

    Args:
        metadata: After name generation, if there is any.
        is_namespaced: Whether objects of the kind belong to a namespace.
        check_name: From `names`.
        allows_bare_finalizers: Whether finalizers may be of any name without a domain.
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
    return errors + validate_common(metadata, allows_bare_finalizers=allows_bare_finalizers)


def validate_common(metadata: Object, *, allows_bare_finalizers: bool = False) -> list[FieldError]:
    """What is wrong with the fields that follow the same rules in all objects at any time."""
    errors: list[FieldError] = []
    generation = metadata.get("generation", 0)
    if generation < 0:
        errors.append(invalid(f"{FIELD}.generation", generation, NOT_NEGATIVE))
    errors += validate_collections(metadata)
    if finalizers := metadata.get("finalizers"):
        errors += validate_finalizers(tuple(finalizers), f"{FIELD}.finalizers")
    errors += validate_entries(metadata)
    if not allows_bare_finalizers:
        errors += validate_bare_finalizers(metadata.get("finalizers", ()), f"{FIELD}.finalizers")
    return errors


def validate_collections(metadata: Object) -> list[FieldError]:
    """What is wrong with labels, annotations and owner references."""
    errors: list[FieldError] = []
    if labels := metadata.get("labels"):
        errors += validate_labels(labels, f"{FIELD}.labels")
    if annotations := metadata.get("annotations"):
        errors += validate_annotations(annotations, f"{FIELD}.annotations")
    if owners := metadata.get("ownerReferences"):
        read = msgspec.convert(owners, tuple[OwnerReference, ...])
        errors += validate_owner_references(read, f"{FIELD}.ownerReferences")
    return errors


def validate_entries(metadata: Object) -> list[FieldError]:
    """What is wrong with who owns which fields."""
    entries = metadata.get("managedFields")
    return validate_managed_fields(entries, f"{FIELD}.managedFields") if entries else []


def validate_any_update(new: Object, old: Object, *, is_namespaced: bool) -> list[FieldError]:
    """What is wrong with metadata that replaces old metadata, of objects of any kind.

    Kinds have rules of their own beside these, which may find the same again: Kubernetes tells it
    as often as it finds it.

    Args:
        new: Metadata after `carry_over` and with its generation.
        old: Metadata; its name and namespace are right.
        is_namespaced: Whether objects of the kind belong to a namespace.
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
    return errors + validate_collections(new) + validate_entries(new)


def validate_core_update(new: Object, old: Object) -> list[FieldError]:
    """What kinds of the core, and those like them, find wrong with changes to metadata."""
    errors = validate_changes(new, old)
    return errors + validate_bare_finalizers(new.get("finalizers", ()), f"{FIELD}.finalizers")


def carry_over(new: Object, old: Object) -> None:
    """Give new metadata what an update may leave out and what it may not change.

    Args:
        new: Metadata; changed in place.  If it names a resource version, that is the old one's.
        old: Metadata.
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
    """Remove owner references that equal an earlier one.

    Args:
        metadata: Changed in place.

    Returns:
        A warning for the client, if there were any.
    """
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
    """Let an object's metadata be as it was, but for `managedFields`: writes to a subresource.

    Args:
        new: The whole object; changed in place.
        old: The whole object.
    """
    managed = new["metadata"].get("managedFields")
    metadata = dict(old["metadata"])
    metadata.pop("managedFields", None)
    if managed:
        metadata["managedFields"] = managed
    new["metadata"] = metadata


def count_generation(new: Object, old: Object) -> None:
    """Set the generation: the old one, or the next if the specification differs.

    Args:
        new: The whole object; changed in place.
        old: The whole object.
    """
    generation = old["metadata"].get("generation", 0)
    if new.get("spec") != old.get("spec"):
        generation += 1
    if generation:
        new["metadata"]["generation"] = generation
    else:
        new["metadata"].pop("generation", None)
