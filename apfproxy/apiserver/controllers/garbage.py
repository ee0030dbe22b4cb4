"""Deletes the dependents of deleted objects, unless they are to be orphaned.

1. An object is deleted when none of the owners that it names exists any more.
2. An owner that is deleted in the foreground stays, by a finalizer, until those of its dependents
   are gone that block it; all of them are deleted if they have no owner that stays.
3. An owner whose dependents are to be orphaned stays, by a finalizer, until none names it.
4. A dependent with owners that stay loses its references to the others.
5. An owner of a kind that is not served counts as one that stays.

Only objects that name owners are remembered; for others a change costs two searches in their bytes
and one for their uid.

Source: Kubernetes documentation, "Garbage Collection", "Owners and Dependents"; Kubernetes,
`pkg/controller/garbagecollector`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from apfproxy.apiserver.controllers.runner import is_not_found
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.registry import FOREGROUND, ORPHAN, DeleteOptions, WriteOptions
from apfproxy.apiserver.store.entries import ChangeType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.apiserver.controllers.queue import Key
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Registry
    from apfproxy.apiserver.store.entries import Change, Entry
    from apfproxy.objects.types import Object

MANAGER = "kube-controller-manager"
WRITES_IN_A_ROW = 50
"""Dependents orphaned before other tasks run, since a store in memory never waits."""

OWNED = b'"ownerReferences"'
ENDING = b'"deletionTimestamp"'
"""In the JSON of each object that has the field, and of hardly any other."""


class Reference(msgspec.Struct, frozen=True):
    """A reference to an owner."""

    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    name: str = ""
    uid: str = ""
    is_blocking: bool | None = msgspec.field(name="blockOwnerDeletion", default=None)


class Metadata(msgspec.Struct):
    """What this controller reads of an object's metadata."""

    owners: tuple[Reference, ...] = msgspec.field(name="ownerReferences", default=())
    finalizers: tuple[str, ...] = ()
    deletion_time: str = msgspec.field(name="deletionTimestamp", default="")

    @property
    def is_waiting(self) -> bool:
        """Whether the object is deleted as soon as its dependents are gone."""
        return bool(self.deletion_time) and FOREGROUND in self.finalizers

    @property
    def is_orphaning(self) -> bool:
        """Whether the object is deleted as soon as no dependent names it."""
        return bool(self.deletion_time) and ORPHAN in self.finalizers


class OnlyMetadata(msgspec.Struct):
    """An object of which only the metadata is read."""

    metadata: Metadata


DECODER = msgspec.json.Decoder(OnlyMetadata)


def metadata_of(entry: Entry) -> Metadata:
    """What this controller reads of an entry."""
    return DECODER.decode(entry.data).metadata


@dataclass(slots=True)
class Dependents:
    """The objects that name a uid as an owner, and those that block its deletion."""

    keys: dict[Key, None]
    blocking: set[Key]


class GarbageCollector:
    """Deletes objects whose owners are gone."""

    name = "garbage-collector"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.kinds = registry.stored_kinds
        self._kinds = {kind.collection: kind for kind in registry.stored_kinds}
        self._owner_kinds = {
            (kind.api_version(version.name), kind.name): kind
            for kind in registry.kinds
            for version in kind.versions
        }
        self._owners: dict[Key, tuple[Reference, ...]] = {}
        self._dependents: dict[str, Dependents] = {}
        self._waiting: dict[str, Key] = {}

    def __repr__(self) -> str:
        return f"<GarbageCollector, {len(self._owners)} dependents, {len(self._waiting)} waiting>"

    def notice(self, _kind: Kind, change: Change) -> Iterable[Key]:
        """Note dependents and waiting owners."""
        entry = change.entry
        if change.type is ChangeType.DELETED:
            return self._lose(entry)
        is_owned, is_ending = OWNED in entry.data, ENDING in entry.data
        key = (entry.resource, entry.namespace, entry.name)
        if not is_owned and not is_ending:
            return self._note_owners(key, ()) if key in self._owners else ()
        metadata = metadata_of(entry)
        concerned = self._note_owners(key, metadata.owners)
        if metadata.is_orphaning:
            concerned.append(key)
        if metadata.is_waiting and entry.uid not in self._waiting:
            self._waiting[entry.uid] = key
            dependents = self._dependents.get(entry.uid)
            concerned += dependents.keys if dependents else ()
            concerned.append(key)
        return concerned

    def _lose(self, entry: Entry) -> list[Key]:
        """Note that an object is gone; gives its dependents, and owners that wait no more."""
        key = (entry.resource, entry.namespace, entry.name)
        self._waiting.pop(entry.uid, None)
        concerned = self._note_owners(key, ()) if key in self._owners else []
        dependents = self._dependents.get(entry.uid)
        return [*concerned, *dependents.keys] if dependents else concerned

    def _note_owners(self, key: Key, owners: tuple[Reference, ...]) -> list[Key]:
        """Note what owners an object names.

        Returns:
            The object, if it names others than before, and owners that wait for nobody now.
        """
        former = self._owners.get(key, ())
        if former == owners:
            return []
        for uid in {owner.uid for owner in former}:
            dependents = self._dependents[uid]
            dependents.keys.pop(key, None)
            dependents.blocking.discard(key)
            if not dependents.keys:
                del self._dependents[uid]
        for owner in owners:
            dependents = self._dependents.setdefault(owner.uid, Dependents({}, set()))
            dependents.keys[key] = None
            if owner.is_blocking:
                dependents.blocking.add(key)
        if owners:
            self._owners[key] = owners
        else:
            self._owners.pop(key, None)
        unblocked = [
            self._waiting[uid]
            for uid in dict.fromkeys(owner.uid for owner in former)
            if uid in self._waiting and not self._is_blocked(uid)
        ]
        return [key, *unblocked] if owners else unblocked

    def _is_blocked(self, uid: str) -> bool:
        dependents = self._dependents.get(uid)
        return dependents is not None and bool(dependents.blocking)

    async def look(self, key: Key) -> None:
        """Delete an object if no owner keeps it, or take the next step towards it."""
        resource, namespace, name = key
        kind = self._kinds[resource]
        entry = self._registry.store.head(resource, namespace, name)
        if entry is None:
            return
        metadata = metadata_of(entry)
        if metadata.is_orphaning:
            await self._orphan_dependents(kind, entry)
        elif metadata.is_waiting:
            if not self._is_blocked(entry.uid):
                await self._remove_finalizer(kind, entry, FOREGROUND)
        elif not metadata.deletion_time and metadata.owners:
            await self._judge(kind, entry, metadata)

    async def _judge(self, kind: Kind, entry: Entry, metadata: Metadata) -> None:
        """Delete an object if no owner keeps it; otherwise remove references to absent owners."""
        has_solid = False
        is_awaited = False
        forgotten: set[str] = set()
        for reference in metadata.owners:
            owner_kind = self._owner_kinds.get((reference.api_version, reference.kind))
            if owner_kind is None or (owner_kind.is_namespaced and not entry.namespace):
                has_solid = True
                continue
            owner = self._owner(owner_kind, entry, reference)
            if owner is not None and not metadata_of(owner).is_waiting:
                has_solid = True
                continue
            is_awaited = is_awaited or owner is not None
            forgotten.add(reference.uid)
        if not has_solid:
            await self._delete(kind, entry, metadata, is_awaited=is_awaited)
        elif forgotten:
            await self._rewrite(kind, entry, without(forgotten))

    def _owner(self, kind: Kind, dependent: Entry, reference: Reference) -> Entry | None:
        """The owner that a reference means, None if it is gone."""
        namespace = dependent.namespace if kind.is_namespaced else ""
        entry = self._registry.store.head(kind.collection, namespace, reference.name)
        return entry if entry is not None and entry.uid == reference.uid else None

    async def _delete(
        self, kind: Kind, entry: Entry, metadata: Metadata, *, is_awaited: bool
    ) -> None:
        """Delete an object; if an owner waits, after what depends on it."""
        dependents = self._dependents.get(entry.uid)
        if is_awaited and dependents:
            if any(self._is_waiting(key) for key in dependents.keys):
                # A cycle of owners would wait for ever.
                await self._rewrite(kind, entry, unblocked)
            propagation = "Foreground"
        elif ORPHAN in metadata.finalizers:
            propagation = "Orphan"
        else:
            propagation = "Foreground" if FOREGROUND in metadata.finalizers else "Background"
        options = DeleteOptions(uid=entry.uid, propagation=propagation, manager=MANAGER)
        await self._registry.delete(kind, entry.namespace, entry.name, options)

    def _is_waiting(self, key: Key) -> bool:
        entry = self._registry.store.head(*key)
        return entry is not None and entry.uid in self._waiting

    async def _orphan_dependents(self, kind: Kind, owner: Entry) -> None:
        """Remove all references to the owner, then its finalizer."""
        dependents = self._dependents.get(owner.uid)
        for number, key in enumerate(list(dependents.keys) if dependents else (), 1):
            resource, namespace, name = key
            entry = self._registry.store.head(resource, namespace, name)
            if entry is not None and OWNED in entry.data:
                await self._rewrite(self._kinds[resource], entry, without({owner.uid}))
            if number % WRITES_IN_A_ROW == 0:
                await asyncio.sleep(0)
        await self._remove_finalizer(kind, owner, ORPHAN)

    async def _remove_finalizer(self, kind: Kind, entry: Entry, finalizer: str) -> None:
        def changed(metadata: Object) -> None:
            metadata["finalizers"] = [
                each for each in metadata.get("finalizers", ()) if each != finalizer
            ]
            if not metadata["finalizers"]:
                del metadata["finalizers"]

        await self._rewrite(kind, entry, changed)

    async def _rewrite(self, kind: Kind, entry: Entry, change: Callable[[Object], None]) -> None:
        """Change the metadata of an object, unless it is gone."""

        def changed(obj: Object) -> Object:
            # Another object may have the name by now: then the update is refused and retried.
            obj["metadata"]["uid"] = entry.uid
            change(obj["metadata"])
            return obj

        try:
            await self._registry.update(
                kind, entry.namespace, entry.name, changed, WriteOptions(MANAGER)
            )
        except StatusError as error:
            if not is_not_found(error):
                raise


def without(uids: set[str]) -> Callable[[Object], None]:
    """A change that removes the owners of these uids."""

    def changed(metadata: Object) -> None:
        owners = [
            owner for owner in metadata.get("ownerReferences", ()) if owner["uid"] not in uids
        ]
        if owners:
            metadata["ownerReferences"] = owners
        else:
            metadata.pop("ownerReferences", None)

    return changed


def unblocked(metadata: Object) -> None:
    """Let the object block no owner."""
    for owner in metadata.get("ownerReferences", ()):
        if owner.get("blockOwnerDeletion"):
            owner["blockOwnerDeletion"] = False
