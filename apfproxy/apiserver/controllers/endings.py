"""Ends what is being deleted: namespaces, after their contents, and pods, after their grace period.

In a cluster a pod's kubelet ends it as soon as its containers have stopped.  Here no containers
run, so a pod takes its whole grace period.

Source: Kubernetes, `pkg/controller/namespace/deletion`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from apfproxy.apiserver.controllers.runner import Controller, is_not_found, let_others
from apfproxy.apiserver.core.cluster import KUBERNETES_FINALIZER, NAMESPACE
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.errors import StatusError, unknown_error
from apfproxy.apiserver.metadata import FALSE, TRUE, set_condition
from apfproxy.apiserver.registry import DeleteOptions, entry_metadata
from apfproxy.apiserver.store.entries import ChangeType
from apfproxy.objects.go_text import parse_time, rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.apiserver.controllers.runner import Key
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Registry
    from apfproxy.apiserver.store.entries import Change
    from apfproxy.objects.types import Object

OPTIONS = DeleteOptions(propagation="Background")
ENDING = "deletionTimestamp"
MARK = b'"deletionTimestamp"'
"""In the JSON of each object that is being deleted, and of hardly any other."""

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
        wrong = {}
        if self.failures:
            told = f"Failed to delete all resource types, {len(self.failures)} remaining: "
            told += ", ".join(sorted(self.failures))
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


def _instances(counts: Counter[str], verb: str) -> str:
    return ", ".join(
        f"{name} {verb} {number} resource instances" for name, number in sorted(counts.items())
    )


class Namespaces(Controller):
    """Deletes the contents of namespaces, then the namespaces."""

    name = "namespace"

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self._contents = tuple(kind for kind in registry.stored_kinds if kind.is_namespaced)
        self.kinds = (NAMESPACE, *self._contents)

    def notice(self, kind: Kind, change: Change) -> Iterable[Key]:
        entry, is_gone = change.entry, change.type is ChangeType.DELETED
        if kind is NAMESPACE:
            return [(entry.name,)] if not is_gone and MARK in entry.data else ()
        namespace = self._head(NAMESPACE, "", entry.namespace) if is_gone else None
        return [(entry.namespace,)] if namespace is not None and MARK in namespace.data else ()

    async def look(self, key: Key) -> None:
        (name,) = key
        namespace = self._registry.get(NAMESPACE, "", name)
        is_held = KUBERNETES_FINALIZER in namespace["spec"].get("finalizers", ())
        if ENDING not in namespace["metadata"] or not is_held:
            return
        remains = await self._empty(name)
        now = rfc3339(self._registry.clock())

        def reported(namespace: Object) -> Object:
            for each in remains.conditions():
                set_condition(namespace["status"], each, now)
            return namespace

        await self._update(NAMESPACE, ("", name), reported, "status")
        if not remains.objects:
            await self._update(NAMESPACE, ("", name), _finalized, "finalize")
        if remains.failures:
            raise unknown_error(f"namespace {name}: {'; '.join(remains.failures)}")

    async def _empty(self, name: str) -> Remains:
        remains = Remains()
        deletions = 0
        for kind in self._contents:
            for entry in self._registry.store.heads(kind.collection, name):
                metadata = entry_metadata(entry)
                if ENDING not in metadata:
                    deletions += 1
                    await let_others(deletions)
                    try:
                        if (await self._registry.delete(kind, name, entry.name, OPTIONS)).is_gone:
                            continue
                    except StatusError as error:
                        if is_not_found(error):
                            continue
                        remains.failures.append(error.message)
                remains.objects[f"{kind.plural}.{kind.group}"] += 1
                remains.finalizers.update(metadata.get("finalizers", ()))
        return remains


def _finalized(namespace: Object) -> Object:
    """The namespace without the finalizer that waits for the contents."""
    finalizers = namespace["spec"].get("finalizers", ())
    others = [each for each in finalizers if each != KUBERNETES_FINALIZER]
    namespace["spec"] = {"finalizers": others} if others else {}
    return namespace


class PodTermination(Controller):
    """Ends pods at the time that their `deletionTimestamp` names."""

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
