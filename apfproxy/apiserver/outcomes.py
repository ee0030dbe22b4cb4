"""The results of writes, as functions of the stored object and of what a client sent.

They touch nothing else, so a thread can compute them (see `large_writes`).

Source: apiserver's `registry/rest/{create,update}.go`, `endpoints/handlers/patch.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from apfproxy.apiserver.errors import bad_request, invalid, unknown_error
from apfproxy.apiserver.identity import check_identity, check_unchanged, place
from apfproxy.apiserver.metadata import carry_over, validate_any_update
from apfproxy.apiserver.ownership.applied import AppliedTypeError, shown_kind
from apfproxy.apiserver.ownership.managed import (
    AppliedObjectError,
    Writer,
    apply,
    copied,
    keep_times,
    update_managed,
)
from apfproxy.apiserver.schema.reading import MismatchError, canonical, read
from apfproxy.objects.validation import drop_repeated_owners

if TYPE_CHECKING:
    from apfproxy.apiserver.kind import Kind, Version
    from apfproxy.apiserver.store.entries import Entry
    from apfproxy.objects.types import Object

STATUS = "status"
FINALIZE = "finalize"

Warn = Callable[[Iterable[str]], None]
"""Adds warnings to the answer."""


@dataclass(frozen=True, slots=True)
class Write:
    """Who writes what, in which form and when.

    Attributes:
        version: In whose form the client wrote it.
        manager: Field manager.
        time: Now, as objects have it.
        subresource: `status`, `finalize` or "".
        warn: Gets what the client is to be warned of.
    """

    kind: Kind
    version: Version
    manager: str
    time: str
    subresource: str
    warn: Warn


@dataclass(frozen=True, slots=True)
class Replacement:
    """The old and the new object, in the storage version; gone if no finalizer holds it."""

    old: Object
    new: Object
    is_gone: bool
    is_change: bool


def prepare_creation(write: Write, obj: Object) -> Object:
    """The object to create, in the storage version; `obj`, canonical with defaults, is changed."""
    write.warn(drop_repeated_owners(obj["metadata"]))
    drop_server_fields(obj["metadata"])
    record_owner(write, None, obj)
    return as_stored(write, obj)


def complete_creation(kind: Kind, obj: Object, warn: Warn) -> None:
    """Complete an object that has its metadata, and validate it; StatusError 422."""
    metadata = obj["metadata"]
    kind.rules.stamp(obj, metadata["creationTimestamp"])
    kind.rules.prepare_create(obj)
    if errors := kind.rules.validate(obj):
        raise invalid(kind.group, kind.name, metadata.get("name", ""), errors)
    warn(kind.rules.warnings(obj, None))


def updated(write: Write, entry: Entry, change: Callable[[Object], Object]) -> Replacement:
    """The result of a change, which gets the object in the form of the write's version.

    Raises:
        StatusError: It may not become that, or is not the one that the client means.
    """
    kind, version = write.kind, write.version
    live = in_version(kind, version, entry)
    new = change(in_version(kind, version, entry))
    set_type(new, kind, version)
    write.warn(drop_repeated_owners(new["metadata"]))
    record_owner(write, live, new)
    return replaced(write, entry, new)


def applied(
    write: Write, entry: Entry | None, place_: tuple[str, str], patch: Object, *, force: bool
) -> Object | Replacement:
    """The result of an applied configuration on an object, or on none, at a namespace and name.

    Raises:
        StatusError: It may not become that.
        OwnershipConflicts: Other managers own fields with other values, and `force` is not set.
    """
    kind, version = write.kind, write.version
    patch = copied(patch)  # what comes of it may share parts with it
    set_type(patch, kind, version)
    try:
        live = in_version(kind, version, entry) if entry else None
        merged = apply(writer_of(write), live, patch, force=force)
        new = read(version.schema, merged).obj
    except AppliedObjectError as error:
        raise bad_request(str(error)) from error
    except AppliedTypeError as error:
        raise unknown_error(str(error)) from error
    except MismatchError as error:
        shown = shown_kind(patch["apiVersion"], patch["kind"])
        own_namespace = patch.get("metadata", {}).get("namespace", "")
        raise unknown_error(
            f"failed to convert new object ({own_namespace}/{place_[1]}; {shown}) to proper"
            f" version: unable to convert unstructured object to {shown}: {error.restored}"
        ) from error
    check_identity(new, *place_)
    version.set_defaults(new)
    new = canonical(version.schema, new)
    write.warn(drop_repeated_owners(new["metadata"]))
    return as_stored(write, new) if entry is None else replaced(write, entry, new)


def record_owner(write: Write, live: Object | None, new: Object) -> None:
    """Record which fields of the new object the writer owns."""
    update_managed(writer_of(write), live, new)


def writer_of(write: Write) -> Writer:
    """Who writes, for the account of who owns which fields."""
    kind, rules = write.kind, write.kind.rules
    return Writer(
        write.manager,
        write.version.schema,
        kind.api_version(write.version.name),
        write.time,
        write.subresource,
        rules.reset_status_fields if write.subresource == STATUS else rules.reset_fields,
        frozenset(kind.api_version(version.name) for version in kind.versions),
    )


def drop_server_fields(metadata: Object) -> None:
    """Remove what a client cannot set from a new object's metadata."""
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        metadata.pop(field, None)


def as_stored(write: Write, obj: Object) -> Object:
    """An object in the storage version."""
    obj = write.version.to_storage(obj)
    set_type(obj, write.kind, write.kind.storage)
    return obj


def replaced(write: Write, entry: Entry, new: Object) -> Replacement:
    """The result of replacing the stored object by a new one, whose owners are recorded.

    Raises:
        StatusError: It is not valid there, or not the one that the client means.
    """
    kind, rules, subresource = write.kind, write.kind.rules, write.subresource
    new = as_stored(write, new)
    old = decoded(kind, entry)
    metadata = new["metadata"]
    check_identity(new, entry.namespace, entry.name)
    place(metadata, entry.namespace)
    check_unchanged(kind, entry, metadata)
    metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
    carry_over(metadata, old["metadata"])
    validate = rules.validate_update
    if subresource == STATUS:
        rules.prepare_status(new, old)
        validate = rules.validate_status
    elif subresource == FINALIZE:
        assert rules.prepare_finalize is not None, "only kinds that have it get here"
        rules.prepare_finalize(new, old)
    else:
        rules.stamp(new, write.time)
        rules.prepare_update(new, old)
    keep_times(new, old)
    errors = validate_any_update(metadata, old["metadata"], is_namespaced=kind.is_namespaced)
    errors += validate(new, old)
    if errors:
        raise invalid(kind.group, kind.name, entry.name, errors)
    if not subresource:
        write.warn(rules.warnings(new, old))
    metadata = old["metadata"]
    is_gone = (
        "deletionTimestamp" in metadata
        and not metadata.get("deletionGracePeriodSeconds")
        and not rules.is_held(new)
    )
    return Replacement(old, new, is_gone, new != old)


def decoded(kind: Kind, entry: Entry) -> Object:
    """The object of an entry, in the storage version; a copy of its own for each caller."""
    api_version = kind.api_version(kind.storage.name)
    return {"kind": kind.name, "apiVersion": api_version, **msgspec.json.decode(entry.data)}


def in_version(kind: Kind, version: Version, entry: Entry) -> Object:
    """The object of an entry, in a version's form."""
    obj = version.from_storage(decoded(kind, entry))
    set_type(obj, kind, version)
    return obj


def set_type(obj: Object, kind: Kind, version: Version) -> None:
    """Give the object the kind and version that it has the form of."""
    obj["kind"] = kind.name
    obj["apiVersion"] = kind.api_version(version.name)
