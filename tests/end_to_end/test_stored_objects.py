"""A proxy whose objects are in a store: kubectl changes them, and requests follow."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from msgspec.structs import replace

from apfproxy.app.process import ProxyProcess
from apfproxy.settings import Address, FlowControlSettings
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
        return f"http://127.0.0.1:{self.process.admin_port}"

    async def matched(self) -> str:
        url = f"http://127.0.0.1:{self.process.port}/mine"
        async with self._session.get(url) as response:
            return response.headers[MATCHED]

    async def until_matched_by(self, uid: str) -> None:
        while await self.matched() != uid:
            pass

    async def send(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        async with self._session.request(
            method, self.admin + path, json=body, headers=headers
        ) as response:
            return response.status, await response.json()


@asynccontextmanager
async def proxied(
    tmp_path: Path, *, admin: Address | None = None, token: str | None = None
) -> AsyncIterator[Proxied]:

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


async def test_token(tmp_path: Path) -> None:
    """With a token file writing takes its token, from anywhere, as kubectl understands."""
    program = find_kubectl()
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "objects.yaml").write_text(YAML)
    async with proxied(tmp_path, admin=ANYWHERE, token=str(tmp_path / "token")) as proxy:
        minor = await asyncio.to_thread(minor_version, program, tmp_path)
        kubectl = Kubectl(program, minor, proxy.admin, tmp_path, tmp_path)
        refused = await asyncio.to_thread(kubectl.fail, "create", "-f", "objects.yaml")
        shown = await asyncio.to_thread(kubectl, "get", "flowschemas")
        statuses = [
            (await proxy.send("POST", LEVELS, LEVEL, {"Authorization": f"Bearer {token}"}))[0]
            for token in (TOKEN[::-1], TOKEN)
        ]

    assert [401, 201] == statuses
    assert "You must be logged in to the server" in refused
    assert "catch-all" in shown


async def test_not_on_loopback(tmp_path: Path) -> None:
    """Without a token file no one writes over a listener that others can reach."""
    async with proxied(tmp_path, admin=ANYWHERE) as proxy:
        status, body = await proxy.send("POST", LEVELS, LEVEL)
        read, _ = await proxy.send("GET", LEVELS)

    assert (403, "Forbidden", 200) == (status, body["reason"], read)
    assert "--admin-token-file" in body["message"]
