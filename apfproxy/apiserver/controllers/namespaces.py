"""Removes the contents of a namespace that is being deleted, then the namespace.

Source: Kubernetes, `pkg/controller/namespace/deletion`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from apfproxy.apiserver.controllers.runner import is_not_found
from apfproxy.apiserver.core.namespaces import KUBERNETES_FINALIZER, NAMESPACE
from apfproxy.apiserver.errors import StatusError, unknown_error
from apfproxy.apiserver.metadata import FALSE, TRUE, set_condition
from apfproxy.apiserver.registry import DeleteOptions, WriteOptions, entry_metadata
from apfproxy.apiserver.store.entries import ChangeType
from apfproxy.objects.go_text import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.apiserver.controllers.queue import Key
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Registry
    from apfproxy.apiserver.store.entries import Change
    from apfproxy.objects.types import Object

MANAGER = "kube-controller-manager"
DELETIONS_IN_A_ROW = 50
"""Deletions before other tasks run, since a store in memory never waits."""

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
    """What is left in a namespace.

    Attributes:
        objects: Resource, with a dot and its group, to number of objects.
        finalizers: Finalizer to number of objects that it holds.
        failures: Why objects could not be deleted.
    """

    def __init__(self) -> None:
        self.objects: Counter[str] = Counter()
        self.finalizers: Counter[str] = Counter()
        self.failures: list[str] = []

    def conditions(self) -> list[Object]:
        """The conditions of the namespace."""
        wrong = {}
        if self.failures:
            told = f"Failed to delete all resource types, {len(self.failures)} remaining: "
            told += ", ".join(sorted(self.failures))
            wrong["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", told)
        if self.objects:
            told = "Some resources are remaining: " + instances(self.objects, "has")
            wrong["NamespaceContentRemaining"] = ("SomeResourcesRemain", told)
        if self.finalizers:
            told = "Some content in the namespace has finalizers remaining: "
            told += instances(self.finalizers, "in")
            wrong["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", told)
        return [
            condition(type_, TRUE, *wrong[type_])
            if type_ in wrong
            else condition(type_, FALSE, *fine)
            for type_, fine in FINE.items()
        ]


def instances(counts: Counter[str], verb: str) -> str:
    """The counts as conditions tell them."""
    return ", ".join(
        f"{name} {verb} {number} resource instances" for name, number in sorted(counts.items())
    )


def condition(type_: str, status: str, reason: str, message: str) -> Object:
    """A condition, without its time."""
    return {"type": type_, "status": status, "reason": reason, "message": message}


class Namespaces:
    """Deletes the contents of namespaces, then the namespaces."""

    name = "namespace"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._contents = tuple(kind for kind in registry.stored_kinds if kind.is_namespaced)
        self.kinds = (NAMESPACE, *self._contents)
        self._ending: set[str] = set()

    def notice(self, kind: Kind, change: Change) -> Iterable[Key]:
        """Note namespaces that are being deleted, and deletions of their contents."""
        entry, is_gone = change.entry, change.type is ChangeType.DELETED
        if kind is not NAMESPACE:
            return [(entry.namespace,)] if is_gone and entry.namespace in self._ending else ()
        if is_gone or "deletionTimestamp" not in entry_metadata(entry):
            self._ending.discard(entry.name)
            return ()
        self._ending.add(entry.name)
        return [(entry.name,)]

    async def look(self, key: Key) -> None:
        """Delete the contents of a namespace; finalize it if it has none."""
        (name,) = key
        namespace = self._registry.get(NAMESPACE, "", name)
        is_held = KUBERNETES_FINALIZER in namespace["spec"].get("finalizers", ())
        if "deletionTimestamp" not in namespace["metadata"] or not is_held:
            return
        remains = await self._empty(name)
        await self._report(name, remains)
        if not remains.objects:
            await self._finalize(name)
        if remains.failures:
            raise unknown_error(f"namespace {name}: {'; '.join(remains.failures)}")

    async def _empty(self, name: str) -> Remains:
        """Delete everything in a namespace."""
        remains = Remains()
        deletions = 0
        for kind in self._contents:
            resource = f"{kind.plural}.{kind.group}"
            for entry in self._registry.store.heads(kind.collection, name):
                metadata = entry_metadata(entry)
                if "deletionTimestamp" not in metadata:
                    deletions += 1
                    if deletions % DELETIONS_IN_A_ROW == 0:
                        await asyncio.sleep(0)
                    options = DeleteOptions(propagation="Background", manager=MANAGER)
                    try:
                        written = await self._registry.delete(kind, name, entry.name, options)
                    except StatusError as error:
                        if is_not_found(error):
                            continue
                        remains.failures.append(error.message)
                    else:
                        if written.is_gone:
                            continue
                remains.objects[resource] += 1
                remains.finalizers.update(metadata.get("finalizers", ()))
        return remains

    async def _report(self, name: str, remains: Remains) -> None:
        """Write what is left into the namespace's status."""
        now = rfc3339(self._registry.clock())

        def reported(namespace: Object) -> Object:
            for each in remains.conditions():
                set_condition(namespace["status"], each, now)
            return namespace

        options = WriteOptions(MANAGER, subresource="status")
        await self._registry.update(NAMESPACE, "", name, reported, options)

    async def _finalize(self, name: str) -> None:
        """Remove the finalizer that waits for the contents."""

        def finalized(namespace: Object) -> Object:
            others = [
                finalizer
                for finalizer in namespace["spec"].get("finalizers", ())
                if finalizer != KUBERNETES_FINALIZER
            ]
            namespace["spec"] = {"finalizers": others} if others else {}
            return namespace

        options = WriteOptions(MANAGER, subresource="finalize")
        await self._registry.update(NAMESPACE, "", name, finalized, options)
