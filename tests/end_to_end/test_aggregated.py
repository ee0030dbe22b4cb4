"""The proxy in the pod of metrics-server: its settings in a process; its manifests."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from loadtest.processes import ROOT
from tests.config.pods import of_kind, rendered
from tests.end_to_end.programs import free_port
from tests.end_to_end.served import command
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.e2e

FILES = ROOT / "config" / "kubernetes" / "metrics-server"
NAME = "metrics-server.kube-system.svc"
COMPONENTS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: metrics-server, namespace: kube-system}
spec:
  template:
    spec:
      containers:
      - {name: metrics-server, image: metrics-server, args: [--secure-port=10250]}
---
apiVersion: v1
kind: Service
metadata: {name: metrics-server, namespace: kube-system}
spec: {ports: [{name: https, port: 443, targetPort: https}]}
"""


class Certificates(NamedTuple):
    """Holds what is signed where, as paths."""

    folder: Path
    front_proxy: tuple[str, str]
    """Holds what kube-apiserver shows to the servers behind it."""


def certificates(folder: Path) -> Certificates:
    own, cluster = Authority("metrics-server-sidecar"), Authority("front-proxy")
    own.write(folder)
    cluster.write(folder, "front")
    own.issue("metrics-server", usage="server", hosts=[NAME]).write(folder, "server")
    own.issue("apfproxy").write(folder, "client")
    return Certificates(folder, cluster.issue("front-proxy-client").write(folder, "apiserver"))


@asynccontextmanager
async def metrics_server(folder: Path) -> AsyncIterator[int]:
    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        has_shown_one = bool(request.transport.get_extra_info("peercert"))
        names = {
            name: request.headers.getall(name, []) for name in ("X-Remote-User", "X-Remote-Group")
        }
        return web.json_response(names if has_shown_one else {})

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.crt"))
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    context.verify_mode = ssl.CERT_OPTIONAL
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    server = TestServer(app)
    await server.start_server(ssl=context)
    yield server.port or 0
    await server.close()


async def users(port: int, ca: Path, certificate: tuple[str, str] | None) -> object:
    context = ssl.create_default_context(cafile=str(ca))
    if certificate is not None:
        context.load_cert_chain(*certificate)
    headers = {"X-Remote-User": "alice", "X-Remote-Group": "devs"}
    url = f"https://127.0.0.1:{port}/apis/metrics.k8s.io/v1beta1/nodes"
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.get(url, headers=headers, server_hostname=NAME) as answer,
    ):
        return await answer.json()


async def test_users(tmp_path: Path) -> None:
    """Whom kube-apiserver names, the server behind sees; no one else can name anybody."""
    found, port = certificates(tmp_path), free_port()
    async with metrics_server(tmp_path) as behind:
        text = (FILES / "apfproxy.yaml").read_text()
        text = text.replace("/front-proxy/ca.crt", f"{tmp_path}/front.crt")
        for old, new in (
            ("/tls/", f"{tmp_path}/"),
            ("0.0.0.0:8443", f"127.0.0.1:{port}"),
            ("127.0.0.1:10250", f"127.0.0.1:{behind}"),
            ("0.0.0.0:8081", "127.0.0.1:0"),
        ):
            text = text.replace(old, new)
        (tmp_path / "apfproxy.yaml").write_text(text)
        with command("serve", "--settings", str(tmp_path / "apfproxy.yaml")) as served:
            await asyncio.to_thread(served.line, "listens on")
            ca = tmp_path / "ca.crt"
            named = await users(port, ca, found.front_proxy)
            forged = await users(port, ca, None)

    assert {
        "X-Remote-User": ["alice"],
        "X-Remote-Group": ["devs", "system:authenticated"],
    } == named
    assert {
        "X-Remote-User": ["system:anonymous"],
        "X-Remote-Group": ["system:unauthenticated"],
    } == forged


def test_manifests(tmp_path: Path) -> None:
    """Kustomize makes a pod of both, and leads the Service to the proxy."""
    (tmp_path / "components.yaml").write_text(COMPONENTS)
    shutil.copytree(FILES, tmp_path, dirs_exist_ok=True)
    made = rendered(tmp_path)

    containers = of_kind(made, "Deployment")["spec"]["template"]["spec"]["containers"]
    arguments = {each["name"]: each["args"] for each in containers}
    assert {"metrics-server", "apfproxy"} == arguments.keys()
    assert "--requestheader-client-ca-file=/tls/ca.crt" in arguments["metrics-server"]
    assert 8443 == of_kind(made, "Service")["spec"]["ports"][0]["targetPort"]
