"""Objects are in force as they last were valid."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.flowcontrol import PRIORITY_LEVEL_CONFIGURATION
from apfproxy.apiserver.kinds import FLOW_CONTROL_KINDS
from apfproxy.apiserver.registry import DeleteOptions
from apfproxy.apiserver.store.store import Store
from apfproxy.base.errors import OperatorError
from apfproxy.base.tasks import spawn
from apfproxy.flowcontrol.controller import Controller
from apfproxy.objects.additions import UNTIL
from apfproxy.objects.decode import Problem
from apfproxy.objects.go_text import rfc3339
from apfproxy.objects.reading import read_object, with_type
from apfproxy.objects.types import (
    GROUP,
    FlowControlObject,
    FlowSchema,
    FlowSchemaSpec,
    ObjectMeta,
    PriorityLevelConfigurationReference,
)
from apfproxy.sources import in_force
from apfproxy.sources.in_force import InForce
from apfproxy.sources.stored_objects import StoredObjects
from tests.apiserver.controllers.scene import Scene
from tests.sources.test_object_files import Loads
from tests.support.clocks import Clock, VirtualClock
from tests.support.clocks import until as until_is
from tests.support.objects import level

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.objects.types import FlowControlObject
    from apfproxy.sources.in_force import Prepared


START_S = 1_795_869_000.0
OWN = {"apfproxy.io/request-rate": "5"}
PROBLEM = Problem("here", ("broken",), None, "FlowSchema", "bad")


def take(in_force: InForce, read: Iterable[FlowControlObject | Problem]) -> None:
    in_force.put(in_force.prepare(read))


def schema(name: str, level: str = "exempt", **fields: object) -> FlowSchema:
    spec = FlowSchemaSpec(
        priority_level_configuration=PriorityLevelConfigurationReference(name=level),
        matching_precedence=7,
    )
    return FlowSchema(metadata=ObjectMeta(name=name, **fields), spec=spec)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("second", "generations", "loads"),
    [
        pytest.param([schema("a")], 0, [(0, 0)], id="the-same"),
        pytest.param([schema("a", annotations={"b": "c"})], 0, [(0, 0)], id="annotation"),
        pytest.param([schema("a", annotations=OWN)], 1, [(0, 0), (0, 0)], id="own-annotation"),
        pytest.param([schema("a", uid="u")], 1, [(0, 0), (0, 0)], id="made-again"),
        pytest.param([schema("b")], 1, [(0, 0), (0, 0)], id="another"),
        pytest.param([schema("a"), PROBLEM], 0, [(0, 0), (1, 0)], id="problem"),
        pytest.param([schema("b"), PROBLEM], 1, [(0, 0), (1, 0)], id="problem-and-another"),
        pytest.param([schema("a", "none")], 1, [(0, 0), (0, 1)], id="dangling"),
    ],
)
def test_take(
    second: list[FlowControlObject | Problem], generations: int, loads: list[tuple[int, int]]
) -> None:
    """A change that means nothing to requests makes no configuration; problems are told."""
    controller, observer = Controller(VirtualClock(), 100, 0), Loads()
    in_force = InForce("here", controller, observer)
    take(in_force, [schema("a")])
    before = controller.generation
    take(in_force, second)
    take(in_force, second)

    assert generations == controller.generation - before
    assert loads == observer.outcomes
    assert sum(PROBLEM is each for each in second) == len(in_force.problems)


def test_dangling_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    in_force = InForce("here", Controller(VirtualClock(), 100, 0))
    for other in ("a", "b", "c"):
        take(in_force, [schema("lost", "none"), schema(other)])
    take(in_force, [schema("a")])
    take(in_force, [schema("lost", "none")])

    assert 2 == caplog.text.count("'lost'")


def until(name: str, end_s: float) -> FlowSchema:
    return schema(name, annotations={UNTIL: rfc3339(end_s)})


async def test_objects_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Objects end at their time, if the clock is set, too; errors of others stay."""
    caplog.set_level(logging.INFO)
    now = Clock(START_S)
    monkeypatch.setattr(time, "time", now)
    monkeypatch.setattr(in_force, "LOOK_S", 0.001)
    controller, observer = Controller(VirtualClock(), 100, 0), Loads()
    objects = InForce("here", controller, observer, is_whole=True)
    take(objects, [until("a", START_S + 1), until("b", START_S + 1000), until("c", START_S - 1)])
    take(objects, [PROBLEM])
    looks: list[None] = []
    ending = spawn(objects.end_in_time(lambda: looks.append(None)), name="ending")

    def found() -> list[str]:
        return sorted(controller.in_force.flow_schemas.keys() - {"catch-all", "exempt"})

    assert ["a", "b"] == found()
    now.now_s += 1
    await until_is(lambda: ["b"] == found())
    take(objects, [until("d", START_S + 2), schema("e")])
    now.now_s += 1
    await until_is(lambda: ["e"] == found())
    now.now_s -= 1
    await until_is(lambda: ["d", "e"] == found())
    now.now_s += 1
    await until_is(lambda: ["e"] == found())
    take(objects, [schema("e")])
    now.now_s -= 1
    looks.clear()
    await until_is(lambda: len(looks) == 2)
    assert ["e"] == found()
    ending.cancel()
    assert [(0, 0), (1, 0), (1, 0), *[(0, 0)] * 4] == observer.outcomes
    assert [1, 2] == [caplog.text.count(f"FlowSchema {each} has ended") for each in "ad"]


async def test_what_came_meanwhile_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects that are put in force while others are about to end are not taken back."""
    now = Clock(START_S)
    monkeypatch.setattr(time, "time", now)
    controller = Controller(VirtualClock(), 100, 0)
    objects = InForce("here", controller)
    take(objects, [until("a", START_S + 1)])
    prepare, calls = objects.prepare, []

    def late(read: Iterable[FlowControlObject | Problem]) -> Prepared:
        calls.append(1)
        prepared = prepare(read)
        if len(calls) == 1:
            take(objects, [until("a", START_S + 1), schema("b")])
        return prepared

    monkeypatch.setattr(objects, "prepare", late)
    now.now_s += 1
    ending = spawn(objects.end_in_time(lambda: None), name="ending")
    await until_is(lambda: len(calls) > 1)
    ending.cancel()

    assert {"b"} == controller.in_force.flow_schemas.keys() - {"catch-all", "exempt"}


def typed_level(name: str) -> FlowControlObject:
    found = read_object(with_type(level(name), "PriorityLevelConfiguration", f"{GROUP}/v1"))
    assert not isinstance(found, list)
    return found


def test_invalid_later() -> None:
    """An object that is no longer valid stays as it was, and hinders no other, until it is gone."""
    controller = Controller(VirtualClock(), 100, 0)
    in_force = InForce("here", controller)
    bad = Problem("here", ("broken",), None, "PriorityLevelConfiguration", "bad")
    found = []
    for read in (
        [typed_level("bad"), typed_level("a")],
        [bad, typed_level("b")],
        [bad, typed_level("c")],
        [typed_level("c")],
    ):
        take(in_force, read)
        found.append(sorted(controller.levels.keys() - {"catch-all", "exempt"}))

    assert [["a", "bad"], ["b", "bad"], ["bad", "c"], ["c"]] == found


def test_invalid_from_the_first() -> None:
    """An object that never was valid is left out; the others and the mandatory ones are there."""
    controller = Controller(VirtualClock(), 100, 0)
    take(InForce("here", controller), [PROBLEM, typed_level("a")])

    assert {"a", "catch-all", "exempt"} == set(controller.levels)


async def test_only_the_commit_is_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects are read and checked in a thread: thousands of them take their time."""
    seen: list[tuple[str, bool]] = []
    here = threading.current_thread()
    for name in ("digest", "commit"):
        act = getattr(Controller, name)

        def record(own: Controller, given: Any, name: str = name, act: Any = act) -> Any:  # noqa: ANN401
            seen.append((name, threading.current_thread() is here))
            return act(own, given)

        monkeypatch.setattr(Controller, name, record)
    controller = Controller(VirtualClock(), 100, 0)
    seen.clear()
    wire = with_type(level("mine"), "PriorityLevelConfiguration", f"{GROUP}/v1")
    await InForce("here", controller).load([("PriorityLevelConfiguration", "mine", wire)])

    assert [("digest", False), ("commit", True)] == seen
    assert "mine" in controller.levels


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
    await until_is(lambda: "level-49" in source.controller.levels)
    await source.scene.registry.delete(PRIORITY_LEVEL_CONFIGURATION, "", "level-7", DeleteOptions())
    await until_is(lambda: "level-7" not in source.controller.levels)
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
    await until_is(lambda: "level-99" in source.controller.levels)
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
    await until_is(lambda: "a" in source.controller.levels)
    watching.cancel()

    assert {"a", "exempt", "catch-all"} == set(source.controller.levels)
