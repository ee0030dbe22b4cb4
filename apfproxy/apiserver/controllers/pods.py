"""Ends pods whose grace period is over.

In a cluster the kubelet of the pod's node does it as soon as the containers have stopped.  Here no
containers run, so a pod takes its whole grace period.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.registry import DeleteOptions, entry_metadata
from apfproxy.apiserver.store.entries import ChangeType
from apfproxy.objects.go_text import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.apiserver.controllers.queue import Key
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Registry
    from apfproxy.apiserver.store.entries import Change

MANAGER = "kubelet"
MARK = b'"deletionTimestamp"'
"""In the JSON of each pod that is being deleted, and of hardly any other."""


class PodTermination:
    """Ends pods at the time that their `deletionTimestamp` names."""

    name = "pod-termination"
    kinds = (POD,)

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def notice(self, _kind: Kind, change: Change) -> Iterable[Key]:
        """Note pods that are being deleted."""
        entry = change.entry
        if change.type is ChangeType.DELETED or MARK not in entry.data:
            return ()
        is_ending = "deletionTimestamp" in entry_metadata(entry)
        return [(entry.namespace, entry.name)] if is_ending else ()

    async def look(self, key: Key) -> float | None:
        """End a pod if it is time."""
        namespace, name = key
        metadata = self._registry.get(POD, namespace, name)["metadata"]
        if not metadata.get("deletionGracePeriodSeconds"):
            return None  # finalizers hold it, or it is not being deleted at all
        deadline_s = parse_time(metadata["deletionTimestamp"])
        if deadline_s > self._registry.clock():
            return deadline_s
        options = DeleteOptions(grace_period_s=0, uid=metadata["uid"], manager=MANAGER)
        await self._registry.delete(POD, namespace, name, options)
        return None
