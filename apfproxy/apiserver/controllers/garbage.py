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

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from apfproxy.apiserver.controllers.runner import Controller, is_not_found, let_others
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.registry import FOREGROUND, ORPHAN, DeleteOptions
from apfproxy.apiserver.store.entries import ChangeType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.apiserver.controllers.runner import Key
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Registry
    from apfproxy.apiserver.store.entries import Change, Entry
    from apfproxy.objects.types import Object

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
    """The metadata of an object, as far as they matter here."""

    owners: tuple[Reference, ...] = msgspec.field(name="ownerReferences", default=())
    finalizers: tuple[str, ...] = ()
    deletion_time: str = msgspec.field(name="deletionTimestamp", default="")

    def ends_by(self, finalizer: str) -> bool:
        """Whether it is deleted as soon as its dependents are done with, and so the finalizer."""
        return bool(self.deletion_time) and finalizer in self.finalizers


class OnlyMetadata(msgspec.Struct):
    """An object of which only the metadata is read."""

    metadata: Metadata


DECODER = msgspec.json.Decoder(OnlyMetadata)


def _metadata_of(entry: Entry) -> Metadata:
    return DECODER.decode(entry.data).metadata


@dataclass(slots=True)
class Dependents:
    """The objects that name a uid as an owner, in order, and those that block its deletion."""

    keys: dict[Key, None] = field(default_factory=dict)
    blocking: set[Key] = field(default_factory=set)


NO_DEPENDENTS = Dependents()


class GarbageCollector(Controller):
    """Deletes objects whose owners are gone."""

    name = "garbage-collector"

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self.kinds = registry.stored_kinds
        self._kinds = {kind.collection: kind for kind in registry.stored_kinds}
        self._owner_kinds = {
            (kind.api_version(version.name), kind.name): kind
            for kind in registry.kinds
            for version in kind.versions
        }
        self._owners: dict[Key, tuple[Reference, ...]] = {}
        self._dependents: defaultdict[str, Dependents] = defaultdict(Dependents)
        self._waiting: dict[str, Key] = {}

    def __repr__(self) -> str:
        return f"<GarbageCollector, {len(self._owners)} dependents, {len(self._waiting)} waiting>"

    def notice(self, _kind: Kind, change: Change) -> Iterable[Key]:
        entry = change.entry
        key = (entry.resource, entry.namespace, entry.name)
        if change.type is ChangeType.DELETED:
            self._waiting.pop(entry.uid, None)
            concerned = self._note_owners(key, ()) if key in self._owners else []
            return [*concerned, *self._dependents_of(entry.uid).keys]
        if OWNED not in entry.data and ENDING not in entry.data:
            return self._note_owners(key, ()) if key in self._owners else ()
        metadata = _metadata_of(entry)
        concerned = self._note_owners(key, metadata.owners)
        if metadata.ends_by(ORPHAN):
            concerned.append(key)
        if metadata.ends_by(FOREGROUND) and entry.uid not in self._waiting:
            self._waiting[entry.uid] = key
            concerned += [*self._dependents_of(entry.uid).keys, key]
        return concerned

    def _note_owners(self, key: Key, owners: tuple[Reference, ...]) -> list[Key]:
        """Note what owners an object names.

        Returns:
            The object, if it names others than before, and owners that wait for none now.
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
            dependents = self._dependents[owner.uid]
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
            if uid in self._waiting and not self._dependents_of(uid).blocking
        ]
        return [key, *unblocked] if owners else unblocked

    def _dependents_of(self, uid: str) -> Dependents:
        return self._dependents.get(uid, NO_DEPENDENTS)

    async def look(self, key: Key) -> None:
        kind = self._kinds[key[0]]
        entry = self._registry.store.head(*key)
        if entry is None:
            return
        metadata = _metadata_of(entry)
        if metadata.ends_by(ORPHAN):
            await self._orphan_dependents(kind, entry)
        elif metadata.ends_by(FOREGROUND):
            if not self._dependents_of(entry.uid).blocking:
                await self._rewrite(kind, entry, _without_finalizer(FOREGROUND))
        elif not metadata.deletion_time and metadata.owners:
            await self._judge(kind, entry, metadata)

    async def _judge(self, kind: Kind, entry: Entry, metadata: Metadata) -> None:
        """Delete an object if no owner keeps it; otherwise remove references to absent owners."""
        has_solid = is_awaited = False
        forgotten: set[str] = set()
        for reference in metadata.owners:
            owner_kind = self._owner_kinds.get((reference.api_version, reference.kind))
            if owner_kind is None or (owner_kind.is_namespaced and not entry.namespace):
                has_solid = True
                continue
            namespace = entry.namespace if owner_kind.is_namespaced else ""
            owner = self._head(owner_kind, namespace, reference.name)
            if owner is not None and owner.uid == reference.uid:
                if not _metadata_of(owner).ends_by(FOREGROUND):
                    has_solid = True
                    continue
                is_awaited = True
            forgotten.add(reference.uid)
        if not has_solid:
            await self._remove(kind, entry, metadata, is_awaited=is_awaited)
        elif forgotten:
            await self._rewrite(kind, entry, _without_owners(forgotten))

    async def _remove(
        self, kind: Kind, entry: Entry, metadata: Metadata, *, is_awaited: bool
    ) -> None:
        """Delete an object; if an owner waits, after what depends on it."""
        keys = self._dependents_of(entry.uid).keys
        if is_awaited and keys:
            dependents = (self._registry.store.head(*key) for key in keys)
            if any(each is not None and each.uid in self._waiting for each in dependents):
                # A cycle of owners would wait for ever.
                await self._rewrite(kind, entry, _unblocked)
            propagation = "Foreground"
        elif ORPHAN in metadata.finalizers:
            propagation = "Orphan"
        else:
            propagation = "Foreground" if FOREGROUND in metadata.finalizers else "Background"
        options = DeleteOptions(uid=entry.uid, propagation=propagation)
        await self._registry.delete(kind, entry.namespace, entry.name, options)

    async def _orphan_dependents(self, kind: Kind, owner: Entry) -> None:
        """Remove all references to the owner, then its finalizer."""
        for number, key in enumerate(list(self._dependents_of(owner.uid).keys), 1):
            entry = self._registry.store.head(*key)
            if entry is not None and OWNED in entry.data:
                await self._rewrite(self._kinds[key[0]], entry, _without_owners({owner.uid}))
            await let_others(number)
        await self._rewrite(kind, owner, _without_finalizer(ORPHAN))

    async def _rewrite(self, kind: Kind, entry: Entry, change: Callable[[Object], None]) -> None:
        """Change the metadata of an object, unless it is gone."""

        def changed(obj: Object) -> Object:
            # Another object may have the name by now: then the update is refused and retried.
            obj["metadata"]["uid"] = entry.uid
            change(obj["metadata"])
            return obj

        try:
            await self._update(kind, (entry.namespace, entry.name), changed)
        except StatusError as error:
            if not is_not_found(error):
                raise


def _without(field_name: str, is_dropped: Callable[[Any], bool]) -> Callable[[Object], None]:
    """A change that removes items of a list, and the list once it is empty."""

    def changed(metadata: Object) -> None:
        left = [each for each in metadata.get(field_name, ()) if not is_dropped(each)]
        if left:
            metadata[field_name] = left
        else:
            metadata.pop(field_name, None)

    return changed


def _without_finalizer(finalizer: str) -> Callable[[Object], None]:
    return _without("finalizers", lambda each: each == finalizer)


def _without_owners(uids: set[str]) -> Callable[[Object], None]:
    return _without("ownerReferences", lambda owner: owner["uid"] in uids)


def _unblocked(metadata: Object) -> None:
    """Let the object block no owner."""
    for owner in metadata.get("ownerReferences", ()):
        if owner.get("blockOwnerDeletion"):
            owner["blockOwnerDeletion"] = False
