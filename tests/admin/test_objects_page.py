"""`/debug/objects`, asked for over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from apfproxy.admin.objects_page import PATH, objects_route
from apfproxy.flowcontrol.level_summary import NamedObject, named_objects
from tests.admin.scene import Scene

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    Client = TestClient[web.Request, web.Application]

JSON = {"Accept": "application/json"}


@pytest.fixture
def scene() -> Scene:
    """The mandatory objects."""
    return Scene(())


@pytest.fixture
async def client(scene: Scene) -> AsyncIterator[Client]:
    """Asks for the page."""
    app = web.Application()
    app.add_routes([objects_route(scene.controller)])
    async with TestClient(TestServer(app)) as asking:
        yield asking


async def test_json(client: Client, scene: Scene) -> None:
    """All objects, as records."""
    response = await client.get(PATH, headers=JSON)

    assert list(named_objects(scene.controller)) == msgspec.convert(
        await response.json(), list[NamedObject]
    )


async def test_text(client: Client, scene: Scene) -> None:
    """A table for people."""
    uid = scene.controller.levels["exempt"].uid
    lines = (await (await client.get(PATH)).text()).splitlines()

    assert ["Kind,", "Name,", "UID,", "What"] == lines[0].split()
    assert lines[2].split()[:3] == ["PriorityLevelConfiguration,", "exempt,", f"{uid},"]
    assert 5 == len(lines)


@pytest.mark.parametrize(("uid", "names"), [("exempt", ["exempt"]), ("", [])])
async def test_one(client: Client, scene: Scene, uid: str, names: list[str]) -> None:
    """The object of a UID alone; an unknown UID has none."""
    level = scene.controller.levels.get(uid)
    response = await client.get(PATH, params={"uid": level.uid if level else "x"}, headers=JSON)

    assert names == [each["name"] for each in await response.json()]
