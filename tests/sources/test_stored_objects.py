"""The objects of a store as the configuration."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.flowcontrol import PRIORITY_LEVEL_CONFIGURATION
from apfproxy.apiserver.kinds import FLOW_CONTROL_KINDS
from apfproxy.apiserver.registry import DeleteOptions
from apfproxy.apiserver.store.store import Store
from apfproxy.base.errors import OperatorError
from apfproxy.base.tasks import spawn
from apfproxy.flowcontrol.controller import Controller
from apfproxy.sources import in_force
from apfproxy.sources.in_force import InForce
from apfproxy.sources.stored_objects import StoredObjects
from tests.apiserver.controllers.scene import Scene
from tests.sources.test_files import Loads
from tests.support.clocks import VirtualClock, until
from tests.support.objects import level

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.objects.decode import Problem
    from apfproxy.objects.types import FlowControlObject
    from apfproxy.sources.in_force import Prepared


class Source:
    def __init__(self) -> None:
        self.scene = Scene(FLOW_CONTROL_KINDS)
        self.controller = Controller(VirtualClock(), 100, 0)
        self.loads = Loads()
        self.pauses = 0
        self.stored = StoredObjects(
            self.scene.store, "the store", self.controller, on_load=self.loads, sleep=self._pause
        )

    async def _pause(self, _duration_s: float) -> None:
        self.pauses += 1
        await asyncio.sleep(0)

    def spoil(self) -> None:
        metadata = {"name": "bad", "uid": "u"}
        bad: dict[str, Any] = {"metadata": metadata, "spec": {"type": "Odd"}}
        self.scene.store.put(PRIORITY_LEVEL_CONFIGURATION.resource, bad, {})


async def test_spoilt_at_first() -> None:
    source = Source()
    source.spoil()

    with pytest.raises(OperatorError, match='the store: PriorityLevelConfiguration "bad"'):
        source.stored.load_first()


async def test_follows() -> None:
    source = Source()
    source.stored.load_first()
    watching = spawn(source.stored.watch(lambda: None), name="watching")
    await asyncio.sleep(0)
    for number in range(50):
        await source.scene.create(PRIORITY_LEVEL_CONFIGURATION, level(f"level-{number}"))
    await until(lambda: "level-49" in source.controller.levels)
    await source.scene.registry.delete(PRIORITY_LEVEL_CONFIGURATION, "", "level-7", DeleteOptions())
    await until(lambda: "level-7" not in source.controller.levels)
    await source.scene.store.close()
    await watching

    assert 2 + 49 == len(source.controller.levels)
    assert 10 > source.pauses


async def test_follows_after_too_much() -> None:
    """A source that was left behind by the window of changes catches up."""
    source = Source()
    source.scene.store = Store(window=8)
    source.scene.registry.store = source.scene.store
    stored = StoredObjects(source.scene.store, "x", source.controller)
    stored.load_first()
    watching = spawn(stored.watch(lambda: None), name="watching")
    await asyncio.sleep(0)
    for number in range(100):
        await source.scene.create(PRIORITY_LEVEL_CONFIGURATION, level(f"level-{number}"))
    await until(lambda: "level-99" in source.controller.levels)
    watching.cancel()

    assert 102 == len(source.controller.levels)


async def test_what_cannot_be_taken_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects that an error of the program kept out come into force without a further change."""
    source = Source()
    source.stored.load_first()
    prepare, calls = InForce.prepare, []

    def fail_once(self: InForce, read: Iterable[FlowControlObject | Problem]) -> Prepared:
        calls.append(1)
        if len(calls) == 1:
            raise ZeroDivisionError("a bug")
        return prepare(self, read)

    monkeypatch.setattr(InForce, "prepare", fail_once)
    monkeypatch.setattr(in_force, "RETRY_S", 0.0)
    await source.scene.create(PRIORITY_LEVEL_CONFIGURATION, level("a"))
    watching = spawn(source.stored.watch(lambda: None), name="watching")
    await until(lambda: "a" in source.controller.levels)
    watching.cancel()

    assert {"a", "exempt", "catch-all"} == set(source.controller.levels)
