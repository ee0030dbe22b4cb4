"""A proxy that follows the objects of a Kubernetes API: through restarts, cuts and losses."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from msgspec import structs

from apfproxy.app.process import ProxyProcess
from apfproxy.flowcontrol.controller import Controller
from apfproxy.objects.reading import read_object, with_type
from apfproxy.settings import FlowControlSettings, KubernetesSettings
from apfproxy.sources.object_files import effective_objects
from loadtest.faulty_link import Ending, FaultyLink
from tests.end_to_end.api_servers import api_server, restarted, url_of
from tests.end_to_end.programs import free_port
from tests.end_to_end.slices_api import kubeconfig
from tests.support.clocks import VirtualClock, until
from tests.support.objects import level
from tests.support.processes import settings_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from apfproxy.flowcontrol.controller import Digest
    from tests.end_to_end.api_servers import Restarted

API_VERSION = "flowcontrol.apiserver.k8s.io/v1"
KINDS = {"prioritylevelconfigurations": "PriorityLevelConfiguration", "flowschemas": "FlowSchema"}
MANDATORY = {"exempt", "catch-all"}
CHANGES = 400
NAMES = 20
"""For each kind, so that an object is made, changed and deleted several times."""
LANES = 4
"""Writers at the same time, each of its own names."""

InForce = dict[tuple[str, str], tuple[str, object]]
"""Kind and name to uid and specification."""


def path_of(resource: str, name: str = "") -> str:
    return f"/apis/{API_VERSION}/{resource}{name and '/'}{name}"


def schema(name: str, level_name: str, precedence: int) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "matchingPrecedence": precedence,
            "priorityLevelConfiguration": {"name": level_name},
            "rules": [
                {
                    "subjects": [{"kind": "User", "user": {"name": name}}],
                    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                }
            ],
        },
    }


class Writer:
    """Makes, changes and deletes objects of an API at random."""

    def __init__(self, session: aiohttp.ClientSession, url: str, chance: random.Random) -> None:
        self._session = session
        self._url = url
        self._chance = chance
        self.done = 0

    async def change(self, count: int) -> None:
        end = self.done + count
        async with asyncio.TaskGroup() as group:
            for lane in range(LANES):
                group.create_task(self._change_until(end, lane))

    async def _change_until(self, end: int, lane: int) -> None:
        while self.done < end:
            resource = self._chance.choice(list(KINDS))
            name = f"own-{self._chance.randrange(lane, NAMES, LANES)}"
            if self._chance.random() < 0.3:
                is_done = await self._send("DELETE", path_of(resource, name), None)
            else:
                is_done = await self._write(resource, self._drawn(resource, name))
            self.done += is_done

    def _drawn(self, resource: str, name: str) -> dict[str, Any]:
        number = self._chance.randrange(2, 1000)
        if resource == "flowschemas":
            # Of a few there is no such level.
            return schema(name, f"own-{self._chance.randrange(NAMES + 4)}", number)
        return level(name, number)

    async def _write(self, resource: str, obj: dict[str, Any]) -> bool:
        path = path_of(resource, obj["metadata"]["name"])
        is_there = await self._send("PATCH", path, {"spec": obj["spec"]})
        return is_there or await self._send("POST", path_of(resource), obj)

    async def _send(self, method: str, path: str, body: object) -> bool:
        head = {
            "Content-Type": f"application/{'merge-patch+' if method == 'PATCH' else ''}json",
        }
        data = None if body is None else json.dumps(body)
        async with self._session.request(
            method, self._url + path, data=data, headers=head
        ) as response:
            assert response.status in {200, 201, 404}, await response.text()
            return response.status != 404


async def objects_of(session: aiohttp.ClientSession, url: str) -> InForce:
    objects = []
    for resource, kind in KINDS.items():
        async with session.get(url + path_of(resource)) as response:
            items = (await response.json())["items"]
        for item in items:
            found = read_object(with_type(item, kind, API_VERSION))
            assert not isinstance(found, list)
            objects.append(found)
    controller = Controller(VirtualClock(), 600, 0)
    return in_force(controller.digest(effective_objects(objects, with_suggested=False)))


def in_force(digest: Digest) -> InForce:
    both = (("level", digest.priority_levels), ("schema", digest.flow_schemas))
    return {
        (kind, name): (each.metadata.uid, each.spec)
        for kind, objects in both
        for name, each in objects.items()
    }


class Watched:
    """Sees each configuration that a controller is given."""

    def __init__(self, controller: Controller, patch: pytest.MonkeyPatch) -> None:
        self.current: InForce = {}
        self.lacking: list[int] = []
        self._changed = asyncio.Event()
        self._commit = Controller.commit
        self._controller = controller
        # As a method of this one it would not get the controller.
        patch.setattr(Controller, "commit", lambda own, digest: self._take(own, digest))  # noqa: PLW0108

    def _take(self, controller: Controller, digest: Digest) -> None:
        self._commit(controller, digest)
        if controller is not self._controller:
            return  # a test's own
        self.current = in_force(digest)
        wanted = {(kind, name) for kind in ("level", "schema") for name in MANDATORY}
        if not wanted <= self.current.keys() or not self._controller.levels.keys() >= MANDATORY:
            self.lacking.append(self._controller.generation)
        self._changed.set()

    async def until(self, condition: Callable[[InForce], bool]) -> None:
        while not condition(self.current):
            self._changed.clear()
            await self._changed.wait()


@asynccontextmanager
async def following(path: str, **changes: Any) -> AsyncIterator[ProxyProcess]:  # noqa: ANN401
    kubernetes = KubernetesSettings(is_enabled=True, kubeconfig=path)
    settings = FlowControlSettings(kubernetes=structs.replace(kubernetes, **changes))
    process = ProxyProcess(settings_for(1, settings))
    try:
        yield process
    finally:
        await process.stop()


async def restart(server: Restarted, number: signal.Signals) -> None:
    await asyncio.to_thread(server.end, number)
    await asyncio.to_thread(server.start)


@pytest.mark.parametrize("is_kept", [True, False], ids=["objects-survive", "objects-are-lost"])
async def test_many_changes(
    is_kept: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Through restarts and cut connections the objects of the API are what is in force."""
    chance = random.Random(f"many {is_kept}")  # noqa: S311
    # One that ends its watches in order, and then comes back with other objects at the same
    # versions, is no Kubernetes API: nothing would tell.
    signals = [signal.SIGKILL, signal.SIGTERM] if is_kept else [signal.SIGKILL]
    with restarted(tmp_path / "api.db", free_port(), is_kept=is_kept) as server:
        await asyncio.to_thread(server.start)
        link = FaultyLink(server.port, chance)
        await link.listen()
        url = url_of(server.port)
        async with (
            following(kubeconfig(tmp_path, url_of(link.port))) as process,
            # Connections to a server that restarts are not to be used again.
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
        ):
            watched = Watched(process.cluster.controller, monkeypatch)
            await process.start()
            writer = Writer(session, url, chance)
            for number in range(CHANGES // 50):
                await writer.change(50)
                if number % 4 == 3:
                    await restart(server, chance.choice(signals))
                elif number % 2:
                    link.strike(chance.choice([Ending.RESET, Ending.CLOSE]))
            expected = await objects_of(session, url)
            await watched.until(lambda current: current == expected)
        link.stop()

    assert expected == watched.current
    assert CHANGES <= writer.done
    assert not watched.lacking
    assert link.accepted > 2


async def test_readyz_says_when_the_api_is_away(tmp_path: Path) -> None:
    """While the API is away its last objects stay in force; readyz says so."""
    async with api_server() as port:
        link = FaultyLink(port, random.Random(1))  # noqa: S311
        await link.listen()
        async with following(kubeconfig(tmp_path, url_of(link.port))) as process:
            await process.start()
            before = process.health.problem("kubernetes")
            levels = set(process.cluster.controller.levels)
            link.refuse()
            link.strike(Ending.RESET)
            # Only what happens there can tell: nothing reports it.
            await until(lambda: process.health.problem("kubernetes") is not None)
            problem = process.health.problem("kubernetes") or ""
            is_ready = process.health.page("readyz", verbose=False).is_healthy
            after = set(process.cluster.controller.levels)
        link.stop()

    assert before is None
    assert "the last known objects are in force" in problem
    assert is_ready
    assert levels == after
