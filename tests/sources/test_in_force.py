"""Objects are in force as they last were valid."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.flowcontrol.controller import Controller
from apfproxy.objects.decode import Problem
from apfproxy.objects.reading import read_object, with_type
from apfproxy.objects.types import (
    GROUP,
    FlowControlObject,
    FlowSchema,
    FlowSchemaSpec,
    ObjectMeta,
    PriorityLevelConfigurationReference,
)
from apfproxy.sources.in_force import InForce
from tests.sources.test_files import Loads
from tests.support.clocks import VirtualClock
from tests.support.objects import level as level_wire

if TYPE_CHECKING:
    from collections.abc import Iterable


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
        pytest.param(
            [schema("a", annotations={"apfproxy.io/request-rate": "5"})],
            1,
            [(0, 0), (0, 0)],
            id="own-annotation",
        ),
        pytest.param([schema("a", uid="u")], 1, [(0, 0), (0, 0)], id="made-anew"),
        pytest.param([schema("b")], 1, [(0, 0), (0, 0)], id="another"),
        pytest.param([schema("a"), PROBLEM], 0, [(0, 0), (1, 0)], id="problem"),
        pytest.param([schema("b"), PROBLEM], 1, [(0, 0), (1, 0)], id="problem-and-another"),
        pytest.param([schema("a", "none")], 1, [(0, 0), (0, 1)], id="dangling"),
    ],
)
def test_take(
    second: list[FlowControlObject | Problem], generations: int, loads: list[tuple[int, int]]
) -> None:
    """What changes nothing for requests makes no new configuration, but problems are told."""
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


def level(name: str) -> FlowControlObject:
    found = read_object(with_type(level_wire(name), "PriorityLevelConfiguration", f"{GROUP}/v1"))
    assert not isinstance(found, list)
    return found


def test_invalid_later() -> None:
    """An object that is no longer valid stays as it was, and hinders no other, until it is gone."""
    controller = Controller(VirtualClock(), 100, 0)
    in_force = InForce("here", controller)
    bad = Problem("here", ("broken",), None, "PriorityLevelConfiguration", "bad")
    found = []
    for read in ([level("bad"), level("a")], [bad, level("b")], [bad, level("c")], [level("c")]):
        take(in_force, read)
        found.append(sorted(controller.levels.keys() - {"catch-all", "exempt"}))

    assert [["a", "bad"], ["b", "bad"], ["bad", "c"], ["c"]] == found


def test_invalid_from_the_first() -> None:
    """An object that never was valid is left out; the others and the mandatory ones are there."""
    controller = Controller(VirtualClock(), 100, 0)
    take(InForce("here", controller), [PROBLEM, level("a")])

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
    wire = with_type(level_wire("mine"), "PriorityLevelConfiguration", f"{GROUP}/v1")
    await InForce("here", controller).load([("PriorityLevelConfiguration", "mine", wire)])

    assert [("digest", False), ("commit", True)] == seen
    assert "mine" in controller.levels
