"""A registry of all kinds, and controllers that are driven step by step."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.controllers.runner import Queue, look_at
from apfproxy.apiserver.core.cluster import NAMESPACE
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.errors import conflict
from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.outcomes import WriteOptions
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.registry import DeleteOptions, Registry, completed
from apfproxy.apiserver.store.entries import Change, ChangeType
from apfproxy.apiserver.store.store import Store

if TYPE_CHECKING:
    from apfproxy.apiserver.controllers.runner import Controller
    from apfproxy.apiserver.kind import Kind
    from apfproxy.objects.types import Object

TESTER = WriteOptions("tester")
NOW_S = 1_000_000_000.0
NOW = "2001-09-09T01:46:40Z"


class Scene:
    """A registry whose time moves only when a test moves it."""

    def __init__(self, kinds: tuple[Kind, ...] = KINDS) -> None:
        self.now_s = NOW_S
        self.store = Store()
        self.registry = Registry(kinds, self.store, lambda: self.now_s, random.Random(1))  # noqa: S311  uids of tests

    async def create(self, kind: Kind, raw: Object, namespace: str = "") -> Object:
        obj = completed(kind, raw)
        return (await self.registry.create(kind, namespace, obj, TESTER)).obj

    async def change(
        self, kind: Kind, name: str, changes: Object, namespace: str = "", subresource: str = ""
    ) -> Object:
        options = WriteOptions("tester", subresource=subresource)
        written = await self.registry.update(
            kind, namespace, name, lambda obj: {**obj, **changes}, options
        )
        return written.obj

    async def delete(self, kind: Kind, name: str, namespace: str = "") -> None:
        await self.registry.delete(kind, namespace, name, DeleteOptions())

    def names(self, kind: Kind, namespace: str | None = None) -> list[str]:
        return [obj["metadata"]["name"] for obj in self.registry.objects(kind, namespace)]

    async def namespace(self, name: str = "default") -> None:
        await self.create(NAMESPACE, {"metadata": {"name": name}})

    async def pod(self, name: str, *, ready: str = "True", **metadata: Any) -> Object:  # noqa: ANN401  JSON
        labels = {"labels": {"app": "web"}}
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
        raw = {"metadata": {"name": name, **labels, **metadata}, "spec": spec}
        pod = await self.create(POD, raw, "default")
        condition = {
            "type": "Ready",
            "status": ready,
            "lastProbeTime": None,
            "lastTransitionTime": None,
        }
        status = {**pod["status"], "phase": "Running", "conditions": [condition]}
        return await self.change(POD, name, {"status": status}, "default", "status")

    async def budget(self, name: str, **spec: Any) -> Object:  # noqa: ANN401  JSON
        raw = {"metadata": {"name": name}, "spec": {"selector": {}, **spec}}
        return await self.create(POD_DISRUPTION_BUDGET, raw, "default")


class Driver:
    """Drives one controller as a runner does, but only when asked to."""

    def __init__(self, controller: Controller, scene: Scene) -> None:
        self.controller = controller
        self.scene = scene
        self.queue = Queue()
        self.looks = 0
        self.watchers = []
        for kind in controller.kinds:
            collection = scene.store.collection(kind.resource)
            self.watchers.append((kind, collection.watch(scene.store.resource_version)))
            for entry in collection.snapshot():
                self.note(kind, Change(entry.resource_version, ChangeType.ADDED, entry, None))

    def note(self, kind: Kind, change: Change) -> None:
        for key in self.controller.notice(kind, change):
            self.queue.add(key, self.scene.now_s)

    async def look(self, *key: str) -> float | None:
        return await look_at(self.controller, key)

    async def settle(self) -> None:
        while True:
            for kind, watcher in self.watchers:
                for change in watcher.read(1000):
                    self.note(kind, change)
            key = self.queue.take(self.scene.now_s)
            if key is None:
                return
            due_s = self.controller.due_s(key)
            if due_s > self.scene.now_s:
                self.queue.add(key, due_s)
                continue
            again_s = await self.look(*key)
            self.looks += 1
            if again_s is not None:
                self.queue.add(key, again_s)


async def refuse(*_args: object, **_more: object) -> None:
    raise conflict("", "things", "t", "not today")
