"""Metadata that every Kubernetes object carries, and its validation.

The rules are those of `metav1.ObjectMeta` for objects without a namespace.
Sources: Kubernetes API conventions, "Metadata"; Kubernetes documentation, "Object Names and IDs",
"Labels and Selectors", "Annotations", "Owners and Dependents", "Finalizers".
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

import msgspec

from apfproxy.api.field_errors import (
    NOT_NEGATIVE,
    FieldError,
    checked,
    forbidden,
    invalid,
    required,
    too_long,
)
from apfproxy.api.names import (
    check_dns_subdomain,
    check_label_value,
    check_name_prefix,
    check_qualified_name,
    generated_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

LARGEST_ANNOTATIONS_BYTES = 256 * 1024
"""Bytes of all annotations of an object together, keys and values: Kubernetes' limit."""

UNQUALIFIED_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
"""The only finalizers that need no domain prefix."""

UID = re.compile(r"[\x21-\x7e]{0,253}")
"""Stricter than Kubernetes, which has only UIDs that it made: others become part of answers' heads,
and one with a line break would become header fields."""

UID_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://flowcontrol.apiserver.k8s.io/apfproxy")
"""Fixed, so that an object without a uid gets the same one in every process."""


class OwnerReference(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Names an object that this one belongs to."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The part of `metav1.ObjectMeta` that apfproxy reads or keeps; other fields are dropped."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class SystemFields(msgspec.Struct, frozen=True):
    """What a server adds to the metadata of an object that it creates."""

    uid: str
    creation_timestamp: str
    name_suffix: str
    """Follows `generateName` in a generated name: five characters in Kubernetes."""


def stable_uid(kind: str, metadata: ObjectMeta) -> str:
    """The object's uid, or if no server has given it one, a UUID made of its kind and name."""
    return metadata.uid or str(uuid.uuid5(UID_NAMESPACE, f"{kind}/{metadata.name}"))


def as_created(metadata: ObjectMeta, fields: SystemFields) -> ObjectMeta:
    """The metadata as a server has it just after creation, its own fields set."""
    name = metadata.name
    if not name and metadata.generate_name:
        name = generated_name(metadata.generate_name, fields.name_suffix)
    return msgspec.structs.replace(
        metadata,
        name=name,
        uid=fields.uid,
        creation_timestamp=fields.creation_timestamp,
        generation=1,
    )


def canonical(metadata: ObjectMeta) -> ObjectMeta:
    """The metadata of an object that has no namespace, without repeated owner references."""
    return msgspec.structs.replace(
        metadata,
        namespace="",
        owner_references=tuple(dict.fromkeys(metadata.owner_references)),
    )


def validate_object_meta(metadata: ObjectMeta, field: str = "metadata") -> list[FieldError]:
    """What is wrong with the metadata of an object that belongs to no namespace.

    Args:
        metadata: After name generation, if there is any.
        field: Path of the metadata in its object.

    Returns:
        All errors; labels, annotations and owner references are reported at their collection.
    """
    errors = []
    if metadata.generate_name:
        errors += checked(f"{field}.generateName", metadata.generate_name, check_name_prefix)
    if metadata.name:
        errors += checked(f"{field}.name", metadata.name, check_dns_subdomain)
    else:
        errors.append(required(f"{field}.name", "name or generateName is required"))
    if metadata.namespace:
        errors.append(forbidden(f"{field}.namespace", "not allowed on this type"))
    if UID.fullmatch(metadata.uid) is None:
        errors.append(
            invalid(
                f"{field}.uid",
                metadata.uid,
                "must be at most 253 visible ASCII characters, as header fields of answers have it;"
                " leave it out for one that is made of the object's kind and name",
            )
        )
    if metadata.generation < 0:
        errors.append(invalid(f"{field}.generation", metadata.generation, NOT_NEGATIVE))
    errors += validate_labels(metadata.labels, f"{field}.labels")
    errors += validate_annotations(metadata.annotations, f"{field}.annotations")
    errors += validate_owner_references(metadata.owner_references, f"{field}.ownerReferences")
    errors += validate_finalizers(metadata.finalizers, f"{field}.finalizers")
    errors += validate_bare_finalizers(metadata.finalizers, f"{field}.finalizers")
    return errors


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


def validate_owner_references(owners: tuple[OwnerReference, ...], field: str) -> list[FieldError]:
    """What is wrong with owner references, one by one and together."""
    errors = []
    controllers: list[str] = []
    for owner in owners:
        group, _, version = owner.api_version.rpartition("/")
        if not version or "/" in group:
            detail = "version must not be empty"
            errors.append(invalid(f"{field}.apiVersion", owner.api_version, detail))
        errors += [
            invalid(f"{field}.{name}", "", "must not be empty")
            for name, value in (("kind", owner.kind), ("name", owner.name), ("uid", owner.uid))
            if not value
        ]
        if (owner.api_version.removeprefix("/"), owner.kind) == ("v1", "Event"):
            errors.append(
                invalid(field, owner, "/v1, Kind=Event is disallowed from being an owner")
            )
        if owner.controller:
            controllers.append(f"{owner.kind}/{owner.name}")
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


def validate_finalizers(finalizers: tuple[str, ...], field: str) -> list[FieldError]:
    """What is wrong with finalizers, one by one and together.

    Args:
        finalizers: In order.
        field: Path of the list.
    """
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
