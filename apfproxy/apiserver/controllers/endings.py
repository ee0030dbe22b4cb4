"""Ends what is being deleted: namespaces and their contents, pods, dependents of deleted objects.

In a cluster a pod's kubelet ends it as soon as its containers have stopped.  Here no containers
run, so a pod takes its whole grace period.  Dependents go unless they are to be orphaned:

1. An object is deleted when none of the owners that it names exists any more.
2. An owner that is deleted in the foreground stays, by a finalizer, until those of its dependents
   are gone that block it; all of them are deleted if they have no owner that stays.
3. An owner whose dependents are to be orphaned stays, by a finalizer, until none names it.
4. A dependent with owners that stay loses its references to the others.
5. An owner of a kind that is not served counts as one that stays.

Only objects that name owners are remembered; for others a change costs two searches in their bytes
and one for their uid.

Source: Kubernetes documentation, "Garbage Collection", "Owners and Dependents"; Kubernetes,
`pkg/controller/{garbagecollector,namespace/deletion}`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

import msgspec

from apfproxy.apiserver.controllers.runner import (
    LONGEST_PAUSE_S,
    MOST_CHARACTERS,
    Controller,
    is_not_found,
    let_others,
)
from apfproxy.apiserver.core.cluster import KUBERNETES_FINALIZER, NAMESPACE
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.errors import StatusError, unknown_error
from apfproxy.apiserver.metadata import FALSE, TRUE, set_condition
from apfproxy.apiserver.outcomes import decoded
from apfproxy.apiserver.registry import FOREGROUND, ORPHAN, DeleteOptions, entry_metadata
from apfproxy.apiserver.store.entries import ChangeType
from apfproxy.objects.go_text import parse_time, rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from apfproxy.apiserver.controllers.runner import Key
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Registry
    from apfproxy.apiserver.store.entries import Change, Entry
    from apfproxy.objects.types import Object

OPTIONS = DeleteOptions(propagation="Background")
ENDING = "deletionTimestamp"
MARK = b'"deletionTimestamp"'
OWNED = b'"ownerReferences"'
"""In the JSON of each object that has the field, and of hardly any other."""

TURN_BYTES = 512 * 1024
"""JSON of objects that is looked at before other tasks run: about 2 ms of work."""
OBJECT_BYTES = 1024  # the assumed weight of an object beside its JSON
DELETION_BYTES = TURN_BYTES // 20  # the assumed weight of a deletion
STATUS_WEIGHT = 20
"""Reading a namespace and writing its status costs so many times as much as seeing its bytes."""
PAUSE_S = 0.1
BYTES_PER_S = 20_000_000
"""The least pause between looks at one namespace; and how much they look at on average, which is a
tenth or less of what they could.  Kubernetes pauses for seconds, and longer each time."""
MOST_TOLD = 50
"""Items of a message; Kubernetes has no limit, but a finalizer may be 317 characters long."""

FINE = {
    "NamespaceDeletionDiscoveryFailure": (
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": (
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}
"""Conditions of a namespace that is being deleted, with reason and message if nothing is wrong; the
first two are never wrong here."""


class Remains:
    """Counts what is left in a namespace."""

    def __init__(self) -> None:
        self.objects: Counter[str] = Counter()  # by resource, with a dot and its group
        self.finalizers: Counter[str] = Counter()
        self.failures: list[str] = []  # why objects could not be deleted
        self.seen_bytes = 0  # how much was looked at to find out

    def conditions(self) -> list[Object]:
        wrong = {}
        if self.failures:
            told = f"Failed to delete all resource types, {len(self.failures)} remaining: "
            told += _listed(self.failures)
            wrong["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", told)
        if self.objects:
            told = "Some resources are remaining: " + _instances(self.objects, "has")
            wrong["NamespaceContentRemaining"] = ("SomeResourcesRemain", told)
        if self.finalizers:
            told = "Some content in the namespace has finalizers remaining: "
            told += _instances(self.finalizers, "in")
            wrong["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", told)
        return [
            {
                "type": type_,
                "status": TRUE if type_ in wrong else FALSE,
                "reason": reason,
                "message": message,
            }
            for type_, (reason, message) in {**FINE, **wrong}.items()
        ]


def _listed(names: Collection[str], text_of: Callable[[str], str] = str) -> str:
    """The texts of the first names in order, and how many more there are."""
    first = nsmallest(MOST_TOLD, names)
    texts = [text_of(name) for name in first]
    if len(names) > len(first):
        texts.append(f"and {len(names) - len(first)} more")
    return ", ".join(texts)


def _instances(counts: Counter[str], verb: str) -> str:
    return _listed(counts, lambda name: f"{name} {verb} {counts[name]} resource instances")


class Namespaces(Controller):
    name = "namespace"

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self._contents = tuple(kind for kind in registry.stored_kinds if kind.is_namespaced)
        self.kinds = (NAMESPACE, *self._contents)
        self._due_s: dict[str, float] = {}

    def notice(self, kind: Kind, change: Change) -> Iterable[Key]:
        entry, is_gone = change.entry, change.type is ChangeType.DELETED
        if kind is NAMESPACE:
            if is_gone:
                self._due_s.pop(entry.name, None)
            return [(entry.name,)] if not is_gone and MARK in entry.data else ()
        namespace = self._head(NAMESPACE, "", entry.namespace) if is_gone else None
        return [(entry.namespace,)] if namespace is not None and MARK in namespace.data else ()

    def due_s(self, key: Key) -> float:
        """At once if the namespace is empty, so that it ends with its last object."""
        (name,) = key
        due_s = self._due_s.get(name, 0.0)
        is_soon = due_s <= self._registry.clock() + LONGEST_PAUSE_S  # else the clock went back
        return due_s if due_s and is_soon and not self._is_empty(name) else 0.0

    def _is_empty(self, name: str) -> bool:
        store = self._registry.store
        return not any(store.collection(kind.collection).count(name) for kind in self._contents)

    async def look(self, key: Key) -> None:
        (name,) = key
        entry = self._head(NAMESPACE, "", name)
        if entry is None or MARK not in entry.data:
            return
        namespace = decoded(NAMESPACE, entry)
        is_held = KUBERNETES_FINALIZER in namespace["spec"].get("finalizers", ())
        if ENDING not in namespace["metadata"] or not is_held:
            return
        remains = await self._empty(name)
        now_s = self._registry.clock()
        if remains.objects:
            seen_bytes = remains.seen_bytes + STATUS_WEIGHT * len(entry.data)
            pause_s = min(max(PAUSE_S, seen_bytes / BYTES_PER_S), LONGEST_PAUSE_S)
            self._due_s[name] = now_s + pause_s
        now = rfc3339(now_s)

        def reported(namespace: Object) -> Object:
            for each in remains.conditions():
                set_condition(namespace["status"], each, now)
            return namespace

        problem = None
        try:
            await self._update(NAMESPACE, ("", name), reported, "status")
        except StatusError as error:
            if is_not_found(error):
                raise
            problem = error
        if not remains.objects:
            await self._update(NAMESPACE, ("", name), _finalized, "finalize")
        if remains.failures:
            raise unknown_error(f"namespace {name}: {_listed(remains.failures)}")
        if problem is not None:
            raise problem

    async def _empty(self, name: str) -> Remains:
        remains = Remains()
        turn_bytes = 0
        for kind in self._contents:
            for entry in self._registry.store.heads(kind.collection, name):
                metadata = metadata_of(entry)
                is_ending = bool(metadata.deletion_time)
                cost = OBJECT_BYTES + len(entry.data) + (0 if is_ending else DELETION_BYTES)
                remains.seen_bytes += cost
                turn_bytes += cost
                if turn_bytes >= TURN_BYTES:
                    turn_bytes = 0
                    await asyncio.sleep(0)
                if not is_ending:
                    try:
                        if (await self._registry.delete(kind, name, entry.name, OPTIONS)).is_gone:
                            continue
                    except StatusError as error:
                        if is_not_found(error):
                            continue
                        remains.failures.append(error.message[:MOST_CHARACTERS])
                remains.objects[f"{kind.plural}.{kind.group}"] += 1
                remains.finalizers.update(metadata.finalizers)
        return remains


def _finalized(namespace: Object) -> Object:
    finalizers = namespace["spec"].get("finalizers", ())
    others = [each for each in finalizers if each != KUBERNETES_FINALIZER]
    namespace["spec"] = {"finalizers": others} if others else {}
    return namespace


class PodTermination(Controller):
    name = "pod-termination"
    kinds = (POD,)

    def notice(self, _kind: Kind, change: Change) -> Iterable[Key]:
        entry = change.entry
        if change.type is ChangeType.DELETED or MARK not in entry.data:
            return ()
        return [(entry.namespace, entry.name)] if ENDING in entry_metadata(entry) else ()

    async def look(self, key: Key) -> float | None:
        namespace, name = key
        metadata = self._registry.get(POD, namespace, name)["metadata"]
        if not metadata.get("deletionGracePeriodSeconds"):
            return None  # finalizers hold it, or it is not being deleted at all
        deadline_s = parse_time(metadata[ENDING])
        if deadline_s > self._registry.clock():
            return deadline_s
        options = DeleteOptions(grace_period_s=0, uid=metadata["uid"])
        await self._registry.delete(POD, namespace, name, options)
        return None


class Reference(msgspec.Struct, frozen=True):
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    name: str = ""
    uid: str = ""
    is_blocking: bool | None = msgspec.field(name="blockOwnerDeletion", default=None)


class Metadata(msgspec.Struct):
    owners: tuple[Reference, ...] = msgspec.field(name="ownerReferences", default=())
    finalizers: tuple[str, ...] = ()
    deletion_time: str = msgspec.field(name="deletionTimestamp", default="")

    def ends_by(self, finalizer: str) -> bool:
        return bool(self.deletion_time) and finalizer in self.finalizers


class OnlyMetadata(msgspec.Struct):
    metadata: Metadata


DECODER = msgspec.json.Decoder(OnlyMetadata)


def metadata_of(entry: Entry) -> Metadata:
    return DECODER.decode(entry.data).metadata


@dataclass(slots=True)
class Dependents:
    """The objects that name a uid as an owner, in order, and those that block its deletion."""

    keys: dict[Key, None] = field(default_factory=dict)
    blocking: set[Key] = field(default_factory=set)


NO_DEPENDENTS = Dependents()


class GarbageCollector(Controller):
    name = "garbage-collector"

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self.kinds = registry.stored_kinds
        self._kinds = {kind.collection: kind for kind in registry.stored_kinds}
        self._owner_kinds = {
            (kind.api_version(version.name), kind.name): kind
            for kind in registry.stored_kinds  # no review has a uid
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
        if OWNED not in entry.data and MARK not in entry.data:
            return self._note_owners(key, ()) if key in self._owners else ()
        metadata = metadata_of(entry)
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
        metadata = metadata_of(entry)
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
                if not metadata_of(owner).ends_by(FOREGROUND):
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
    for owner in metadata.get("ownerReferences", ()):
        if owner.get("blockOwnerDeletion"):
            owner["blockOwnerDeletion"] = False
