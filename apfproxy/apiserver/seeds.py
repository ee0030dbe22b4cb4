"""Objects to begin load tests with: slices of devices, pods with their nodes and their budgets.

They are created as clients create them, so they are valid and have owners.  Names contain numbers,
so a server with a store creates only the missing ones.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from apfproxy.apiserver.core.cluster import NAMESPACE, NODE
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.outcomes import WriteOptions
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.registry import completed
from apfproxy.apiserver.resource import RESOURCE_SLICE
from apfproxy.apiserver.schema.reading import canonical
from apfproxy.objects.go_text import rfc3339

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Registry
    from apfproxy.objects.types import Object

OPTIONS = WriteOptions("apfproxy-seed")
STATUS_OPTIONS = WriteOptions("apfproxy-seed", subresource="status")
BATCH = 100
"""So many objects share a commit, after which other tasks run: with 500 they waited for seconds."""
PODS_PER_NAMESPACE = 100
READY_SHARE = 0.9
PODS_PER_NODE = 100
DRIVER = "gpu.example.com"
DEVICES_PER_SLICE = 3


@dataclass(frozen=True, slots=True)
class SeedCounts:
    """The numbers of objects that there are to be; slices have about 1 KiB each."""

    slices: int = 0
    pods: int = 0
    budgets: int = 0

    @property
    def namespaces(self) -> int:
        return max(min(self.budgets, 1), math.ceil(self.pods / PODS_PER_NAMESPACE))

    @property
    def nodes(self) -> int:
        return math.ceil(self.pods / PODS_PER_NODE)

    @property
    def applications(self) -> int:
        return max(1, math.ceil(self.budgets / max(1, self.namespaces)))


class Seeder:
    def __init__(self, registry: Registry, chance: random.Random) -> None:
        self._registry = registry
        self._chance = chance

    async def seed(
        self, counts: SeedCounts, on_progress: Callable[[int], None] = lambda _done: None
    ) -> int:
        """Create the missing objects; returns how many.

        After each batch `on_progress` is called with the number of objects that are there.
        StatusError if the registry refuses one, StoreError if the disk does.
        """
        made = done = 0
        for some in (
            (self._create(NAMESPACE, "", f"load-{n}", dict) for n in range(counts.namespaces)),
            (self._create(NODE, "", f"node-{n:05}", _node) for n in range(counts.nodes)),
            (self._slice(f"node-{n:05}") for n in range(counts.slices)),
            (self._budget(n, counts) for n in range(counts.budgets)),
            (self._pod(n, counts) for n in range(counts.pods)),
        ):
            while batch := list(islice(some, BATCH)):
                made += sum(await asyncio.gather(*batch))
                done += len(batch)
                on_progress(done)
        return made

    async def _create(
        self, kind: Kind, namespace: str, name: str, make: Callable[[], Object]
    ) -> bool:
        if self._registry.store.head(kind.collection, namespace, name) is not None:
            return False
        raw = make()
        obj = completed(kind, {**raw, "metadata": {"name": name, **raw.get("metadata", {})}})
        await self._registry.create(kind, namespace, obj, OPTIONS)
        return True

    async def _slice(self, node: str) -> bool:
        make = partial(_slice_of, node, self._chance)
        return await self._create(RESOURCE_SLICE, "", f"{node}-{DRIVER}", make)

    async def _budget(self, number: int, counts: SeedCounts) -> bool:
        index, namespace = divmod(number, counts.namespaces)
        name = f"app-{index}"
        # A number: a percentage counts only pods that have a controller.
        available = max(1, counts.pods // (counts.namespaces * counts.applications * 2))
        raw = {"spec": {"minAvailable": available, "selector": {"matchLabels": {"app": name}}}}
        return await self._create(POD_DISRUPTION_BUDGET, f"load-{namespace}", name, raw.copy)

    async def _pod(self, number: int, counts: SeedCounts) -> bool:
        index, namespace = divmod(number, counts.namespaces)
        app = f"app-{index % counts.applications}"
        place = f"load-{namespace}", f"{app}-{index:05}"
        is_ready = self._chance.random() < READY_SHARE
        make = partial(_pod_of, app, f"node-{number // PODS_PER_NODE:05}")
        if not await self._create(POD, *place, make):
            return False
        if is_ready:
            make_ready = partial(_ready, rfc3339(self._registry.clock()))
            await self._registry.update(POD, *place, make_ready, STATUS_OPTIONS)
        return True


def _slice_of(node: str, chance: random.Random) -> Object:
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "index": {"int": index},
                "uuid": {"string": f"GPU-{chance.getrandbits(64):016x}"},
                "model": {"string": chance.choice(("A-100", "H-200", "L-40"))},
                "driverVersion": {"version": "550.54.15"},
            },
            "capacity": {"memory": {"value": chance.choice(("40Gi", "80Gi", "141Gi"))}},
        }
        for index in range(DEVICES_PER_SLICE)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"labels": {"zone": f"zone-{chance.randrange(3)}"}},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices},
    }


def _pod_of(app: str, node: str) -> Object:
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    image = f"registry.example.com/{app}:1.0"
    spec = {"containers": [{"name": "main", "image": image, "resources": resources}]}
    return {"metadata": {"labels": {"app": app}}, "spec": {"nodeName": node, **spec}}


def _node() -> Object:
    return {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def _ready(now: str, pod: Object) -> Object:
    """Give a pod the least status that shows it as ready: each byte counts with 100 000 pods."""
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": now}
    container = {"name": "main", "ready": True, "state": {"running": {"startedAt": now}}}
    reported = {"phase": "Running", "startTime": now, "conditions": [condition]}
    status = {**pod["status"], **reported, "containerStatuses": [container]}
    return canonical(POD.storage.schema, {**pod, "status": status})
