"""A proxy whose objects are in a store: kubectl changes them, and requests follow."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace

from apfproxy.app.process import ProxyProcess
from apfproxy.settings import Address, FlowControlSettings
from tests.end_to_end import manifests
from tests.end_to_end.kubectl import Kubectl, find_kubectl, minor_version
from tests.end_to_end.scene import on_uvloop
from tests.support.processes import settings_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LEVEL = {
    "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
    "kind": "PriorityLevelConfiguration",
    "metadata": {"name": "mine"},
    "spec": {
        "type": "Limited",
        "limited": {"nominalConcurrencyShares": 30, "limitResponse": {"type": "Reject"}},
    },
}
SCHEMA = {
    "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
    "kind": "FlowSchema",
    "metadata": {"name": "mine"},
    "spec": {
        "matchingPrecedence": 3,
        "priorityLevelConfiguration": {"name": "mine"},
        "rules": [
            {
                "subjects": [{"kind": "Group", "group": {"name": "*"}}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["/mine"]}],
            }
        ],
    },
}
SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
LEVELS = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
PATHS = (LEVELS, SCHEMAS)
MATCHED = "X-Kubernetes-PF-FlowSchema-UID"
TOKEN = "0123456789abcdef0123456789abcdef"  # noqa: S105  of tests
ANYWHERE = Address(host="0.0.0.0", port=0)  # noqa: S104  for a moment, without anything to read
YAML = yaml.safe_dump_all([LEVEL, SCHEMA])


class Proxied:
    """A proxy with a store, and clients of both its listeners."""

    def __init__(self, process: ProxyProcess, session: aiohttp.ClientSession) -> None:
        self.process = process
        self._session = session

    @property
    def admin(self) -> str:
        """The URL of the admin listener."""
        return f"http://127.0.0.1:{self.process.admin_port}"

    async def matched(self) -> str:
        """The uid of the FlowSchema that a request to `/mine` is classified by."""
        url = f"http://127.0.0.1:{self.process.port}/mine"
        async with self._session.get(url) as response:
            return response.headers[MATCHED]

    async def until_matched_by(self, uid: str) -> None:
        """Wait until a FlowSchema classifies such a request: a change is soon in force."""
        while await self.matched() != uid:
            pass

    async def send(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """A request to the admin listener: its status and body."""
        async with self._session.request(
            method, self.admin + path, json=body, headers=headers
        ) as response:
            return response.status, await response.json()


@asynccontextmanager
async def proxied(
    tmp_path: Path, *, admin: Address | None = None, token: str | None = None
) -> AsyncIterator[Proxied]:
    """A proxy whose objects are in a store in a directory."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as origin, aiohttp.ClientSession() as session:
        store = FlowControlSettings(store=str(tmp_path / "objects.db"))
        settings = settings_for(origin.port or 0, store)
        settings = replace(settings, admin=admin or settings.admin, admin_token_file=token)
        process = ProxyProcess(settings)
        await process.start()
        try:
            yield Proxied(process, session)
        finally:
            await process.stop()


@on_uvloop
async def test_kubectl_changes_what_is_in_force(tmp_path: Path) -> None:
    """What kubectl applied comes into force, and so does what it changed and deleted."""
    program = find_kubectl()
    (tmp_path / "objects.yaml").write_text(YAML)
    async with proxied(tmp_path) as proxy:
        minor = await asyncio.to_thread(minor_version, program, tmp_path)
        kubectl = Kubectl(program, minor, proxy.admin, tmp_path, tmp_path)
        before = await proxy.matched()
        created = await asyncio.to_thread(kubectl, "apply", "-f", "objects.yaml")
        uid = (await asyncio.to_thread(kubectl.read, f"{SCHEMAS}/mine"))["metadata"]["uid"]
        await proxy.until_matched_by(uid)
        patch = '{"spec":{"priorityLevelConfiguration":{"name":"gone"}}}'
        await asyncio.to_thread(kubectl, "patch", "flowschema", "mine", "--type=merge", "-p", patch)
        await proxy.until_matched_by(before)
        shown = await asyncio.to_thread(kubectl, "get", "flowschemas", "mine")
        await asyncio.to_thread(kubectl, "delete", "prioritylevelconfiguration", "mine")
        while "mine" in proxy.process.cluster.controller.levels:
            await proxy.matched()

    assert 2 == created.count(" created\n")
    assert before != uid
    assert shown.rstrip().endswith("True")


@on_uvloop
async def test_kubectl_applies_a_list(tmp_path: Path) -> None:
    """A List, as kubectl writes it of several objects, is taken, and taken again."""
    program = find_kubectl()
    listed = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [LEVEL, SCHEMA]}
    (tmp_path / "list.yaml").write_text(yaml.safe_dump(listed))
    async with proxied(tmp_path) as proxy:
        minor = await asyncio.to_thread(minor_version, program, tmp_path)
        kubectl = Kubectl(program, minor, proxy.admin, tmp_path, tmp_path)
        created = await asyncio.to_thread(kubectl, "apply", "-f", "list.yaml")
        again = await asyncio.to_thread(kubectl, "apply", "-f", "list.yaml")
        shown = [await asyncio.to_thread(kubectl.read, f"{path}/mine") for path in PATHS]
        back = await asyncio.to_thread(kubectl, "apply", "-f", "-", stdin=manifests.listed(*shown))

    assert 2 == created.count(" created\n")
    assert 2 == again.count(" unchanged\n")
    assert 2 == back.count("/mine ")


async def test_mandatory_objects_are_always_there(tmp_path: Path) -> None:
    """A mandatory object that is deleted comes back, and was in force all the time."""
    async with proxied(tmp_path) as proxy:
        status, _ = await proxy.send("DELETE", f"{SCHEMAS}/catch-all")
        watched, _ = await proxy.send("GET", f"{SCHEMAS}?limit=1")
        for _ in range(1000):
            found, _ = await proxy.send("GET", f"{SCHEMAS}/catch-all")
            if found == 200:
                break

    assert (200, 200, 200) == (status, watched, found)
    assert "catch-all" in proxy.process.cluster.controller.levels


@on_uvloop
async def test_restart(tmp_path: Path) -> None:
    """The objects are in force again after a restart, with the same uids."""
    async with proxied(tmp_path) as proxy:
        await proxy.send("POST", LEVELS, LEVEL)
        _, schema = await proxy.send("POST", SCHEMAS, SCHEMA)
    async with proxied(tmp_path) as proxy:
        matched = await proxy.matched()

    assert schema["metadata"]["uid"] == matched


async def test_discovery(tmp_path: Path) -> None:
    """The flow control group is there for clients to find, and nothing else."""
    async with proxied(tmp_path) as proxy:
        _, groups = await proxy.send("GET", "/apis")
        _, version = await proxy.send("GET", "/version")
        status, _ = await proxy.send("GET", "/api/v1/pods")
        _, index = await proxy.send("GET", "/", headers={"Accept": "application/json"})

    assert ["flowcontrol.apiserver.k8s.io"] == [each["name"] for each in groups["groups"]]
    assert "1" == version["major"]
    assert 404 == status
    assert {"/apis", "/metrics"} < set(index["paths"])


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, (401, "Unauthorized")),
        ({"Authorization": "Bearer wrong"}, (401, "Unauthorized")),
        ({"Authorization": f"Bearer {TOKEN}"}, (201, None)),
    ],
)
async def test_token(
    tmp_path: Path, headers: dict[str, str], expected: tuple[int, str | None]
) -> None:
    """With a token file writing takes its token, from anywhere; reading takes none."""
    (tmp_path / "token").write_text(TOKEN + "\n")
    async with proxied(tmp_path, admin=ANYWHERE, token=str(tmp_path / "token")) as proxy:
        status, body = await proxy.send("POST", LEVELS, LEVEL, headers)
        read, _ = await proxy.send("GET", LEVELS)

    assert expected == (status, body.get("reason"))
    assert 200 == read


async def test_token_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A new token counts from the next write on; none is ever logged."""
    path = tmp_path / "token"
    path.write_text(TOKEN)
    statuses = []
    async with proxied(tmp_path, token=str(path)) as proxy:
        for shown in (TOKEN, TOKEN[::-1]):
            path.write_text(TOKEN[::-1])
            headers = {"Authorization": f"Bearer {shown}"}
            status, _ = await proxy.send("POST", LEVELS, LEVEL, headers)
            statuses.append(status)

    assert [401, 201] == statuses
    assert TOKEN not in caplog.text
    assert TOKEN[::-1] not in caplog.text


async def test_kubectl_without_token(tmp_path: Path) -> None:
    """Kubectl understands that it has to show a token; without TLS it sends none."""
    program = find_kubectl()
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "objects.yaml").write_text(YAML)
    async with proxied(tmp_path, token=str(tmp_path / "token")) as proxy:
        minor = await asyncio.to_thread(minor_version, program, tmp_path)
        kubectl = Kubectl(program, minor, proxy.admin, tmp_path, tmp_path)
        refused = await asyncio.to_thread(kubectl.fail, "create", "-f", "objects.yaml")
        shown = await asyncio.to_thread(kubectl, "get", "flowschemas")

    assert "You must be logged in to the server" in refused
    assert "catch-all" in shown


async def test_not_on_loopback(tmp_path: Path) -> None:
    """Without a token file nobody writes over a listener that others can reach."""
    async with proxied(tmp_path, admin=ANYWHERE) as proxy:
        status, body = await proxy.send("POST", LEVELS, LEVEL)
        read, _ = await proxy.send("GET", LEVELS)

    assert (403, "Forbidden", 200) == (status, body["reason"], read)
    assert "--admin-token-file" in body["message"]


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example:8081"}]
)
async def test_web_pages(tmp_path: Path, headers: dict[str, str]) -> None:
    """On loopback a web page does not write, by whatever name it reaches the listener."""
    async with proxied(tmp_path) as proxy:
        status, body = await proxy.send("POST", LEVELS, LEVEL, headers)

    assert (403, "Forbidden") == (status, body["reason"])
