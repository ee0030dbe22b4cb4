"""Tests of `apfproxy.apiserver.controllers.control`."""

from __future__ import annotations

import asyncio

import pytest

from apfproxy.apiserver.controllers.control import (
    CONTROLLERS,
    OWN,
    Controllers,
    parse_controllers,
)
from apfproxy.apiserver.flowcontrol.kinds import FLOW_SCHEMA
from apfproxy.apiserver.kinds import FLOW_CONTROL_KINDS
from tests.apiserver.controllers.scene import Scene
from tests.end_to_end.peer import WAIT_S

ALL = frozenset(CONTROLLERS)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], ALL),
        (["*"], ALL),
        (["-disruption"], OWN),
        (["-disruption", "-bootstrap"], OWN - {"bootstrap"}),
        (["*", "-disruption", "-namespace"], ALL - {"disruption", "namespace"}),
        (["*,-disruption"], ALL - {"disruption"}),
        (["disruption"], {*OWN, "disruption"}),
        (["disruption", "-namespace"], {*OWN, "disruption"}),
        (["*", "disruption"], ALL),
        (["-*"], set()),
        (["-*", "namespace"], {"namespace"}),
        ([" ", ""], ALL),
    ],
)
def test_lists(texts: list[str], expected: set[str]) -> None:
    """A list without a star turns on what it names, and what the server does itself."""
    assert expected == parse_controllers(texts)


def test_unknown_names() -> None:
    """The error says which there are."""
    with pytest.raises(ValueError, match=r"no controller 'x', 'y'.*out of bootstrap, disruption"):
        parse_controllers(["-y", "x"])


def test_contradictions() -> None:
    """Nobody can mean both."""
    with pytest.raises(ValueError, match="'disruption' is turned on and off"):
        parse_controllers(["disruption", "-disruption"])


async def test_everything_is_there_at_the_start() -> None:
    """The objects that always are; their statuses follow."""
    scene = Scene()
    controllers = Controllers(scene.registry, ALL)
    watcher = scene.store.collection(FLOW_SCHEMA.resource).watch(scene.store.resource_version)
    await controllers.start()
    names = scene.names(FLOW_SCHEMA)
    assert "exempt" in names
    changes = 0
    async with asyncio.timeout(WAIT_S):
        while changes < 2 * len(names) and await watcher.wait():
            changes += len(watcher.read(100))

    schemas = scene.registry.objects(FLOW_SCHEMA)
    await controllers.stop()
    await controllers.stop()
    assert {"Found"} == {schema["status"]["conditions"][0]["reason"] for schema in schemas}


async def test_only_what_is_served() -> None:
    """A controller needs all kinds that it watches."""
    scene = Scene(FLOW_CONTROL_KINDS)
    controllers = Controllers(scene.registry, ALL)
    await controllers.start()
    running = {task.get_name() for task in asyncio.all_tasks()}
    await controllers.stop()

    assert {
        "controller bootstrap",
        "controller flow-schema-status",
        "controller garbage-collector",
    } == {name for name in running if name.startswith("controller ")}


async def test_none() -> None:
    """With none nothing happens."""
    scene = Scene()
    controllers = Controllers(scene.registry, frozenset())
    await controllers.start()
    await controllers.stop()

    assert [] == scene.names(FLOW_SCHEMA)
