"""The results of writes, as functions of the stored object and of what a client sent.

They touch nothing else, so that `compute` can have large ones made in a thread: to validate the
largest object and to update the owners of its fields takes up to a second, in which other requests
must go on.

Source: apiserver's `registry/rest/{create,delete,meta,update}.go`,
`endpoints/handlers/{patch,update}.go`, `storage/api_object_versioner.go`.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from apfproxy.apiserver.errors import bad_request, conflict, invalid, unknown_error
from apfproxy.apiserver.go_values import parse_uint64
from apfproxy.apiserver.metadata import carry_over, validate_any_update
from apfproxy.apiserver.ownership.managed import (
    Writer,
    apply,
    copied,
    keep_times,
    shown_kind,
    update_managed,
)
from apfproxy.apiserver.schema.reading import MismatchError, canonical, read
from apfproxy.objects.field_errors import invalid as invalid_field
from apfproxy.objects.validation import drop_repeated_owners

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.apiserver.kind import Kind, Version
    from apfproxy.apiserver.store.entries import Entry
    from apfproxy.objects.types import Object

Made = TypeVar("Made")
Warn = Callable[[Iterable[str]], None]
"""Adds warnings to the response."""

WARN = "Warn"
LARGE_BYTES = 32 * 1024
"""Size of what a client sends, or of the stored object; such a write takes about 5 ms."""

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
OTHER_NAMESPACE = (
    "the namespace of the provided object does not match the namespace sent on the request"
)


class Replacement(NamedTuple):
    """The old and the new object, in the storage version; gone if no finalizer holds it."""

    old: Object
    new: Object
    is_gone: bool
    is_change: bool


def ignore(_warnings: Iterable[str]) -> None:
    """Drop warnings."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The writer, and how it writes.

    Attributes:
        manager: Field manager, as `managedFields` names it.
        is_dry_run: Whether to respond as usual but store nothing.
        version: That the written object has the form of; None for the storage version.
        subresource: `status`, `finalize` or "".
        sent_bytes: Of usual objects which take as long as what the client sent.
        warn: Gets what the client is to be warned of, even if the write fails then; a thread may
            call it.
        field_validation: `Strict`, `Warn` or `Ignore`: what becomes of unknown fields.
        force: Whether an applied configuration takes fields from others.
    """

    manager: str
    is_dry_run: bool = False
    version: Version | None = None
    subresource: str = ""
    sent_bytes: int = 0
    warn: Warn = ignore
    field_validation: str = WARN
    force: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """A write, and the results that it has; the time is now, as objects have it."""

    kind: Kind
    options: WriteOptions
    time: str

    @property
    def version(self) -> Version:
        return self.options.version or self.kind.storage

    def created(self, obj: Object) -> Object:
        """The object to create, in the storage version; `obj`, canonical with defaults, changes."""
        self.options.warn(drop_repeated_owners(obj["metadata"]))
        drop_server_fields(obj["metadata"])
        update_managed(self._writer(), None, obj)
        return self._as_stored(obj)

    def updated(self, entry: Entry, change: Callable[[Object], Object]) -> Replacement:
        """The result of a change, which gets the object in the form of the write's version.

        StatusError if it may not become that, or is not the one that the client means.
        """
        kind, version = self.kind, self.version
        live = in_version(kind, version, entry)
        new = change(in_version(kind, version, entry))
        _set_type(new, kind, version)
        self.options.warn(drop_repeated_owners(new["metadata"]))
        update_managed(self._writer(), live, new)
        return self._replacement(entry, new)

    def applied(
        self, entry: Entry | None, namespace: str, name: str, patch: Object
    ) -> Object | Replacement:
        """The result of an applied configuration on an object, or on none.

        Raises:
            StatusError: It may not become that, or other managers own fields with other values,
                and `options.force` is not set.
        """
        kind, version = self.kind, self.version
        patch = copied(patch)  # what comes of it may share parts with it
        _set_type(patch, kind, version)
        try:
            live = in_version(kind, version, entry) if entry else None
            merged = apply(self._writer(), live, patch, force=self.options.force)
            new = read(version.schema, merged).obj
        except MismatchError as error:
            shown = shown_kind(patch["apiVersion"], patch["kind"])
            own_namespace = (patch.get("metadata") or {}).get("namespace", "")
            raise unknown_error(
                f"failed to convert new object ({own_namespace}/{name}; {shown}) to proper"
                f" version: unable to convert unstructured object to {shown}: {error.restored}"
            ) from error
        check_identity(new, namespace, name)
        version.set_defaults(new)
        new = canonical(version.schema, new)
        self.options.warn(drop_repeated_owners(new["metadata"]))
        return self._as_stored(new) if entry is None else self._replacement(entry, new)

    def _writer(self) -> Writer:
        kind, options = self.kind, self.options
        is_status, rules = options.subresource == "status", kind.rules
        return Writer(
            options.manager,
            self.version.schema,
            kind.api_version(self.version.name),
            self.time,
            options.subresource,
            rules.reset_status_fields if is_status else rules.reset_fields,
            frozenset(kind.api_version(version.name) for version in kind.versions),
        )

    def _as_stored(self, obj: Object) -> Object:
        obj = self.version.to_storage(obj)
        _set_type(obj, self.kind, self.kind.storage)
        return obj

    def _replacement(self, entry: Entry, new: Object) -> Replacement:
        """The result of replacing the stored object by a new one, whose owners are recorded."""
        kind, rules = self.kind, self.kind.rules
        new = self._as_stored(new)
        old = decoded(kind, entry)
        metadata = new["metadata"]
        check_identity(new, entry.namespace, entry.name)
        place(metadata, entry.namespace)
        _check_unchanged(kind, entry, metadata)
        metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
        carry_over(metadata, old["metadata"])
        validate = rules.validate_update
        if self.options.subresource == "status":
            rules.prepare_status(new, old)
            validate = rules.validate_status
        elif self.options.subresource == "finalize":
            assert rules.prepare_finalize is not None, "only kinds that have it get here"
            rules.prepare_finalize(new, old)
        else:
            rules.stamp(new, self.time)
            rules.prepare_update(new, old)
        keep_times(new, old)
        errors = validate_any_update(metadata, old["metadata"], is_namespaced=kind.is_namespaced)
        errors += validate(new, old)
        if errors:
            raise invalid(kind.group, kind.name, entry.name, errors)
        if not self.options.subresource:
            self.options.warn(rules.warnings(new, old))
        metadata = old["metadata"]
        is_ended = "deletionTimestamp" in metadata and not metadata.get(
            "deletionGracePeriodSeconds"
        )
        return Replacement(old, new, is_ended and not rules.is_held(new), new != old)


def complete_creation(kind: Kind, obj: Object, warn: Warn) -> None:
    """Complete an object that has its metadata, and validate it; StatusError 422."""
    metadata = obj["metadata"]
    kind.rules.stamp(obj, metadata["creationTimestamp"])
    kind.rules.prepare_create(obj)
    if errors := kind.rules.validate(obj):
        raise invalid(kind.group, kind.name, metadata.get("name", ""), errors)
    warn(kind.rules.warnings(obj, None))


def drop_server_fields(metadata: Object) -> None:
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        metadata.pop(field, None)


def decoded(kind: Kind, entry: Entry) -> Object:
    """The object of an entry, in the storage version; a copy of its own for each caller."""
    api_version = kind.api_version(kind.storage.name)
    return {"kind": kind.name, "apiVersion": api_version, **msgspec.json.decode(entry.data)}


def in_version(kind: Kind, version: Version, entry: Entry) -> Object:
    obj = version.from_storage(decoded(kind, entry))
    _set_type(obj, kind, version)
    return obj


def _set_type(obj: Object, kind: Kind, version: Version) -> None:
    obj["kind"] = kind.name
    obj["apiVersion"] = kind.api_version(version.name)


def place(metadata: Object, namespace: str) -> None:
    """Put an object into the namespace of the request; StatusError if it names another one."""
    own = metadata.get("namespace", "")
    if own and namespace and own != namespace:
        raise bad_request(OTHER_NAMESPACE)
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def check_identity(obj: Object, namespace: str, name: str) -> None:
    """Raise 400 unless an object has the name, and no other namespace than, the request's path."""
    metadata = obj.get("metadata", {})
    own = metadata.get("name", "")
    if not own:
        raise bad_request(
            f"the name of the object ({name} based on URL) was undeterminable:"
            " name must be provided"
        )
    if own != name:
        raise bad_request(
            f"the name of the object ({own}) does not match the name on the URL ({name})"
        )
    own = metadata.get("namespace", "")
    if namespace and own and own != namespace:
        raise bad_request(OTHER_NAMESPACE)


def check_uid(kind: Kind, namespace: str, name: str, own: str | None, uid: str) -> None:
    """Raise 409 if a client means an object of another uid, "" for any; None for no object."""
    if not uid or uid == own:
        return
    if own is None:
        reason = (
            f"uid mismatch: the provided object specified uid {uid},"
            " and no existing object was found"
        )
    else:
        key = "/".join(filter(None, (kind.plural, namespace, name)))
        reason = (
            f"StorageError: invalid object, Code: 4, Key: /{key},"
            " ResourceVersion: 0, AdditionalErrorMsg: Precondition failed:"
            f" UID in precondition: {uid}, UID in object meta: {own}"
        )
    raise conflict(kind.group, kind.plural, name, reason)


def _check_unchanged(kind: Kind, entry: Entry, metadata: Object) -> None:
    text = metadata.get("resourceVersion", "")
    try:
        version = parse_uint64(text) if text else 0
    except ValueError as error:
        raise unknown_error(str(error)) from error
    if version == 0:
        if not kind.rules.allows_unconditional_update:
            wrong = invalid_field("metadata.resourceVersion", 0, "must be specified for an update")
            # The plural where others have the kind is Kubernetes' own slip.
            raise invalid(kind.group, kind.plural, entry.name, [wrong])
    elif version != entry.resource_version:
        raise conflict(kind.group, kind.plural, entry.name, MODIFIED)


def is_version(text: str) -> bool:
    try:
        return parse_uint64(text) > 0
    except ValueError:
        return False


def check_preconditions(
    kind: Kind, entry: Entry, uid: str | None, resource_version: str | None
) -> None:
    """Raise 409 unless the object to be deleted has these; None for any."""
    version = str(entry.resource_version)
    for what, wanted, own, fate in (
        ("UID", uid, entry.uid, "deleted and then recreated"),
        ("ResourceVersion", resource_version, version, "modified"),
    ):
        if wanted is None or wanted == own:
            continue
        if kind.rules.prepare_finalize is not None:
            # Of what ends in steps Kubernetes says it in other words.
            reason = (
                f"Precondition failed: {what} in precondition: {wanted},"
                f" {what} in object meta: {own}"
            )
            raise conflict(kind.group, kind.plural, entry.name, reason)
        reason = (
            f"the {what} in the precondition ({wanted}) does not match the {what} in record"
            f" ({own}). The object might have been {fate}"
        )
        raise conflict(kind.group, kind.name, entry.name, reason)


class CollectorPause:
    """Turns the garbage collector off while any thread asks for it.

    Python's code yields to other threads, the collector does not: it would visit hundreds of
    thousands of new objects again and again, 10 to 50 ms each time.  They are short-lived trees,
    which need no collector.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._is_ours = False  # whether the collector was on before

    @contextmanager
    def hold(self) -> Iterator[None]:
        with self._lock:
            self._holders += 1
            if self._holders == 1:
                self._is_ours = gc.isenabled()
                gc.disable()
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if self._holders == 0 and self._is_ours:
                    gc.enable()


COLLECTOR_PAUSE = CollectorPause()


async def compute(size: int, work: Callable[[], Made]) -> Made:
    """The result of a function: computed in a thread for a large write, at once for a small one.

    The function must not touch anything that others change.
    """
    return work() if size < LARGE_BYTES else await asyncio.to_thread(COLLECTOR_PAUSE.hold()(work))
