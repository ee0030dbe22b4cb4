"""Operations on stored objects, by kind: what handlers, controllers and seeds call.

A decision (does the object exist, is it valid, is it unchanged) and the hand-over of its result to
the store are one synchronous step, so nothing changes in between; only the commit is awaited.

The result of a large write is computed in a thread, one write at a time, and handed over if the
object is still the one that it was computed from.  Otherwise it is computed again, as
`GuaranteedUpdate` of apiserver's etcd3 store does.

Source: apiserver's `registry/generic/registry/store.go`, `registry/rest/{create,update,delete}.go`.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from apfproxy.apiserver import outcomes
from apfproxy.apiserver.errors import already_exists, forbidden, not_found, unknown_error
from apfproxy.apiserver.kind import no_grace
from apfproxy.apiserver.metadata import SUFFIX_LENGTH, generated_name
from apfproxy.apiserver.outcomes import LARGE_BYTES, Replacement, WriteOptions, compute, decoded
from apfproxy.apiserver.schema.reading import canonical
from apfproxy.apiserver.store.entries import ObjectTooLargeError
from apfproxy.objects.go_text import parse_time, rfc3339

if TYPE_CHECKING:
    import random
    from asyncio import Future
    from collections.abc import Callable, Iterable
    from contextlib import AbstractAsyncContextManager

    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.store.entries import Entry
    from apfproxy.apiserver.store.store import Store
    from apfproxy.objects.types import Object

NAMESPACES = "namespaces"
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
FINALIZERS = {"Orphan": ORPHAN, "Foreground": FOREGROUND}
SUFFIX_CHARACTERS, NAME_ATTEMPTS = "bcdfghjklmnpqrstvwxz2456789", 8
"""Generated names have no vowels and no look-alikes; so many are tried before a 409."""


class MetadataPart(msgspec.Struct):
    metadata: dict[str, Any]


metadata_decoder = msgspec.json.Decoder(MetadataPart)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete.

    Attributes:
        uid, resource_version: The object must have them; None for any.
        propagation: `Background`, `Foreground`, `Orphan`, or "" for the kind's default.
        is_cascading: Whether the client said so in the old way, `orphanDependents: false`.
    """

    is_dry_run: bool = False
    grace_period_s: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation: str = ""
    is_cascading: bool = False


class Written(NamedTuple):
    """The result of a write, in the storage version, with `kind` and `apiVersion`."""

    obj: Object
    is_created: bool = False
    is_gone: bool = False


class Registry:
    """All objects of some kinds in one store; the clock gives seconds since 1970."""

    def __init__(
        self, kinds: Iterable[Kind], store: Store, clock: Callable[[], float], chance: random.Random
    ) -> None:
        self.kinds = tuple(kinds)
        self.stored_kinds = tuple(kind for kind in self.kinds if kind.has_collection)
        self.store = store
        self.clock = clock
        self._chance = chance
        self._large_write = asyncio.Lock()
        self._has_namespaces = any(kind.resource == NAMESPACES for kind in self.kinds)

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """The newest state of an object, in the storage version; StatusError 404."""
        entry = self.store.head(kind.collection, namespace, name)
        return decoded(kind, self._required(kind, name, entry))

    def objects(self, kind: Kind, namespace: str | None = None) -> list[Object]:
        entries = self.store.collection(kind.collection).snapshot(namespace)
        return [decoded(kind, entry) for entry in entries]

    async def create(
        self,
        kind: Kind,
        namespace: str,
        obj: Object,
        options: WriteOptions,
        *,
        is_update: bool = False,
    ) -> Written:
        """Add an object, which is canonical and has defaults, and is changed; or StatusError."""
        size = options.sent_bytes
        async with self._turn(size):
            made = await compute(size, partial(self._write(kind, options).created, obj))
            return await self._create(kind, namespace, made, options, is_update=is_update)

    async def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Callable[[Object], Object],
        options: WriteOptions,
        *,
        uid: str = "",
    ) -> Written:
        """Replace an object by what `change` makes of it, if it has the uid; "" for any.

        `change` gets the object in the form of the options' version, may change it, and returns the
        new one, canonical and with defaults.  For a large one a thread calls it, and again if the
        object has changed meanwhile.  StatusError if it may not become that.
        """

        def make(entry: Entry | None) -> Replacement:
            there = self._required(kind, name, entry)
            outcomes.check_uid(kind, namespace, name, there.uid, uid)
            return self._write(kind, options).updated(there, change)

        return await self._computed(kind, namespace, name, make, options)

    async def apply(
        self, kind: Kind, namespace: str, name: str, patch: Object, options: WriteOptions
    ) -> Written:
        """Make an object have the fields that `options.manager` wants to own; create it if need be.

        StatusError if it may not become that, or if others own fields and no force is asked for.
        """

        def make(entry: Entry | None) -> Object | Replacement:
            if entry is None:
                if options.subresource:
                    raise not_found(kind.group, kind.plural, name)
                metadata = patch.get("metadata")
                uid = metadata.get("uid", "") if isinstance(metadata, dict) else ""
                if isinstance(uid, str):  # else it is refused for its type
                    outcomes.check_uid(kind, namespace, name, None, uid)
            return self._write(kind, options).applied(entry, namespace, name, patch)

        return await self._computed(kind, namespace, name, make, options)

    async def delete(
        self, kind: Kind, namespace: str, name: str, options: DeleteOptions
    ) -> Written:
        """Delete an object, at once or as soon as nothing holds it; or StatusError."""
        make = partial(self._ending, kind, name, options)
        return await self._computed(kind, namespace, name, make, options)

    async def _computed(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        make: Callable[[Entry | None], Object | Replacement],
        options: WriteOptions | DeleteOptions,
    ) -> Written:
        """Store what comes of the newest state of an object, while it is the newest."""
        head = partial(self.store.head, kind.collection, namespace, name)
        sent = options.sent_bytes if isinstance(options, WriteOptions) else 0
        size = max(sent, len(entry.data) if (entry := head()) else 0)
        async with self._turn(size):
            while True:
                entry = head()
                made = await compute(size, partial(make, entry))
                if head() is not entry:
                    continue
                if isinstance(made, Replacement):
                    return await self._replace(kind, made, options)
                assert isinstance(options, WriteOptions), "deletions create nothing"
                return await self._create(kind, namespace, made, options, is_update=True)

    def _turn(self, size: int) -> AbstractAsyncContextManager[None]:
        """Wait until no other large write is under way; one of fewer bytes does not wait."""
        return self._large_write if size >= LARGE_BYTES else nullcontext()

    def _ending(
        self, kind: Kind, name: str, options: DeleteOptions, entry: Entry | None
    ) -> Replacement:
        entry = self._required(kind, name, entry)
        old, obj = decoded(kind, entry), decoded(kind, entry)
        if objection := kind.rules.objection(obj):
            raise forbidden(kind.group, kind.plural, entry.name, objection)
        outcomes.check_preconditions(kind, entry, options.uid, options.resource_version)
        is_graceful = self._give_grace(kind, obj, options)
        if is_graceful is None:
            return Replacement(old, obj, is_gone=False, is_change=False)
        metadata = obj["metadata"]
        _set_propagation(kind, metadata, options.propagation)
        is_held = kind.rules.is_held(obj)
        is_gone = not is_held and not (is_graceful and metadata["deletionGracePeriodSeconds"])
        if not is_graceful and is_held:
            self._mark_held(kind, obj)
        elif not is_graceful:
            obj = decoded(kind, entry)
        return Replacement(old, obj, is_gone, is_change=obj != old)

    def _write(self, kind: Kind, options: WriteOptions) -> outcomes.Write:
        return outcomes.Write(kind, options, rfc3339(self.clock()))

    def _required(self, kind: Kind, name: str, entry: Entry | None) -> Entry:
        if entry is None:
            raise not_found(kind.group, kind.plural, name)
        return entry

    async def _create(
        self, kind: Kind, namespace: str, obj: Object, options: WriteOptions, *, is_update: bool
    ) -> Written:
        metadata = obj["metadata"]
        outcomes.place(metadata, namespace)
        self._check_namespace(kind, metadata)
        if objection := kind.rules.admit_create(obj):
            # Names are generated after admission.
            name = metadata.get("name") or metadata.get("generateName") or "Unknown"
            raise forbidden(kind.group, kind.plural, name, objection)
        outcomes.drop_server_fields(metadata)
        metadata["uid"] = str(uuid.UUID(int=self._chance.getrandbits(128), version=4))
        metadata["creationTimestamp"] = rfc3339(self.clock())
        prefix = "" if metadata.get("name") else metadata.get("generateName", "")
        if prefix:
            metadata["name"] = self._new_name(kind, namespace, prefix)
        name = metadata.get("name", "")
        complete = partial(outcomes.complete_creation, kind, obj, options.warn)
        await compute(options.sent_bytes, complete)
        if options.sent_bytes >= LARGE_BYTES:
            self._check_namespace(kind, metadata)  # the namespace may be gone meanwhile
        taken = self.store.head(kind.collection, namespace, name)
        has_version = outcomes.is_version(metadata.get("resourceVersion", ""))
        if has_version and not is_update and not options.is_dry_run:
            raise unknown_error("resourceVersion should not be set on objects to be created")
        if taken is not None:
            is_generated = bool(metadata.get("generateName"))
            error = already_exists(kind.group, kind.plural, name, is_generated=is_generated)
            if "deletionTimestamp" in entry_metadata(taken):
                error.message = f"object is being deleted: {error.message}"
            raise error
        if not options.is_dry_run:
            await asyncio.shield(self._put(kind, obj))
        return Written(obj, is_created=True)

    async def _replace(
        self, kind: Kind, made: Replacement, options: WriteOptions | DeleteOptions
    ) -> Written:
        # Watchers see a graceful deletion begin even if its grace period is 0; but not the last
        # change of an update by which an object goes.
        is_deletion, stored = isinstance(options, DeleteOptions), None
        if made.is_change and not options.is_dry_run and (is_deletion or not made.is_gone):
            stored = self._put(kind, made.new)
        if made.is_gone and not options.is_dry_run:
            last = made.new if is_deletion else made.old
            stored = self.store.delete(kind.collection, last, kind.selectable(last))
        if stored is not None:
            await asyncio.shield(stored)
        return Written(made.new, is_gone=made.is_gone)

    def _check_namespace(self, kind: Kind, metadata: Object) -> None:
        if not (self._has_namespaces and kind.is_namespaced):
            return
        namespace = metadata.get("namespace", "")
        entry = self.store.head(NAMESPACES, "", namespace)
        if entry is None:
            raise not_found("", NAMESPACES, namespace)
        if "deletionTimestamp" in entry_metadata(entry):
            told = f"namespace {namespace}"
            why = f"unable to create new content in {told} because it is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": f"{told} is being terminated"}
            cause["field"] = "metadata.namespace"
            raise forbidden(kind.group, kind.plural, metadata.get("name", ""), why, [cause])

    def _new_name(self, kind: Kind, namespace: str, prefix: str) -> str:
        for _ in range(NAME_ATTEMPTS):
            suffix = "".join(self._chance.choices(SUFFIX_CHARACTERS, k=SUFFIX_LENGTH))
            name = generated_name(prefix, suffix)
            if self.store.head(kind.collection, namespace, name) is None:
                break
        return name

    def _give_grace(self, kind: Kind, obj: Object, options: DeleteOptions) -> bool | None:
        """Begin the grace period of an object or shorten it, and tell whether it has one.

        None if its deletion began before and nothing is left to do.
        """
        rules, metadata = kind.rules, obj["metadata"]
        is_ending = "deletionTimestamp" in metadata
        if rules.grace_s is no_grace:
            is_for_its_finalizer = rules.prepare_finalize is not None and rules.is_held(obj)
            return None if is_ending and is_for_its_finalizer else False
        if not is_ending:
            _set_end(metadata, self.clock(), rules.grace_s(obj, options.grace_period_s))
            _begin_to_end(kind, obj)
            return True
        current_s = metadata.get("deletionGracePeriodSeconds", 0)
        if current_s == 0:
            return False
        if options.grace_period_s is None or options.grace_period_s >= current_s:
            return None
        began_s = parse_time(metadata["deletionTimestamp"]) - _as_duration(current_s)
        _set_end(metadata, began_s, options.grace_period_s)
        return True

    def _mark_held(self, kind: Kind, obj: Object) -> None:
        """Mark an object that finalizers hold for deletion as soon as none does."""
        metadata, now = obj["metadata"], self.clock()
        is_ending = "deletionTimestamp" in metadata
        if not is_ending or parse_time(metadata["deletionTimestamp"]) > now:
            _set_end(metadata, now, 0)
        metadata["deletionGracePeriodSeconds"] = 0
        if not is_ending:
            _begin_to_end(kind, obj)

    def _put(self, kind: Kind, obj: Object) -> Future[Entry]:
        try:
            return self.store.put(kind.collection, obj, kind.selectable(obj))
        except ObjectTooLargeError as error:
            # etcd's message, which Kubernetes passes on; clients look for these words.
            raise unknown_error("etcdserver: request is too large") from error


def completed(kind: Kind, raw: Object) -> Object:
    """An object in the canonical form of the storage version, with defaults."""
    version = kind.storage
    obj = canonical(version.schema, raw)
    version.set_defaults(obj)
    return canonical(version.schema, obj)


def entry_metadata(entry: Entry) -> dict[str, Any]:
    return metadata_decoder.decode(entry.data).metadata


def _set_end(metadata: Object, since_s: float, grace_s: int) -> None:
    metadata["deletionTimestamp"] = rfc3339(since_s + _as_duration(grace_s))
    metadata["deletionGracePeriodSeconds"] = grace_s


def _as_duration(seconds: int) -> int:
    """The seconds that Kubernetes counts: in 64 bits of nanoseconds, which 293 years overflow."""
    half = 1 << 63
    return ((seconds * 10**9 + half) % (2 * half) - half) // 10**9


def _begin_to_end(kind: Kind, obj: Object) -> None:
    if obj["metadata"].get("generation"):
        obj["metadata"]["generation"] += 1
    kind.rules.mark_deleted(obj)


def _set_propagation(kind: Kind, metadata: Object, propagation: str) -> None:
    """Set the finalizers that a propagation policy needs; "" for the kind's, if none is set."""
    finalizers = metadata.get("finalizers", [])
    others = [each for each in finalizers if each not in FINALIZERS.values()]
    if not kind.rules.has_dependents:
        propagation = "Background"
    if not propagation and others == finalizers:
        propagation = kind.rules.default_propagation
    if propagation in FINALIZERS:
        others.append(FINALIZERS[propagation])
    if propagation and others:
        metadata["finalizers"] = others
    elif propagation:
        metadata.pop("finalizers", None)
