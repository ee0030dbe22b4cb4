"""Cases of hostile HTTP that need limits, TLS or time; each test is named by the id of its case."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import aiohttp

from apfproxy.proxy.counters import HandshakeFailure, Refusal
from apfproxy.settings import Address, DownstreamTlsSettings, LimitSettings
from tests.conformance import vectors
from tests.conformance.hostile.script import expanded
from tests.end_to_end.peer import begin
from tests.end_to_end.scene import GET, OK, Setup, on_uvloop, running
from tests.support.certificates import Authority
from tests.support.clocks import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.peer import Peer

CASES: dict[str, Any] = {case["id"]: case for case in vectors.load("hostile_http")}
CLIENT_HELLO_START = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


@on_uvloop
async def test_li_09(tmp_path: Path) -> None:
    """A TLS handshake that stalls counts as a connection, is cut in time, and is counted back."""
    certificate, key = Authority("ca").issue("server", usage="server").write(tmp_path, "server")
    tls = DownstreamTlsSettings(certificate_file=certificate, key_file=key, handshake_timeout_s=0.1)
    async with running(Setup().with_downstream(tls=tls)) as scene:
        listener = scene.process.cluster.counters.listener
        client = await scene.ask(CLIENT_HELLO_START)
        await until(lambda: listener.connections_open == 1)
        assert await client.is_at_end()

        assert 1 == listener.handshake_failures[HandshakeFailure.TIMEOUT]
        await until(lambda: scene.process.server.connection_count == 0)
        assert 0 == listener.connections_open
    assert 10.0 == DownstreamTlsSettings().handshake_timeout_s


@on_uvloop
async def test_li_13() -> None:
    """A connection over a limit is told so and closed; those within it go on."""
    limits = LimitSettings(max_connections=20, max_connections_per_address=10)
    async with running(Setup().with_downstream(limits=limits)) as scene:
        scene.upstream.answer_with(lambda arrival: arrival.peer.send(OK))
        clients: list[Peer] = []
        server = scene.process.server

        async def fill(source: str, limit: bytes) -> None:
            clients.extend([await scene.connect(source=source) for _ in range(10)])
            await until(lambda: server.connection_count == len(clients))
            for _ in range(50):
                extra = await scene.connect(source=source)
                answer = await extra.read_answer()
                assert (503, True) == (answer.status, limit in answer.body)
                assert await extra.is_at_end()

        await fill("127.0.0.1", b"maxConnectionsPerAddress")
        await fill("127.0.0.3", b"maxConnections")
        refused = scene.process.cluster.counters.listener.connections_refused
        assert (50, 50) == (refused[Refusal.CONNECTIONS_OF_ADDRESS], refused[Refusal.CONNECTIONS])
        for each in clients:
            await each.send(GET)
            assert 200 == (await each.read_answer()).status
        clients[0].close()
        await until(lambda: server.connection_count < len(clients))
        assert 200 == (await (await scene.ask(GET)).read_answer()).status


@on_uvloop
async def test_li_17() -> None:
    """Whatever is asked for, and by what program, there are no more metrics than before."""
    text = expanded(CASES["LI-17"]["raw"]).partition("{{")[0]
    requests = text.encode("latin-1").split(b"\r\n\r\n")[:1000]
    setup = replace(Setup(), admin=Address(host="127.0.0.1", port=0))
    async with running(setup) as scene, aiohttp.ClientSession() as session:
        scene.upstream.answer_with(lambda arrival: arrival.peer.send(OK))
        client = await scene.connect()
        found = []
        for some in (requests[:10], requests[10:]):
            sending = begin(client.send(b"".join(each + b"\r\n\r\n" for each in some)))
            for _ in some:
                assert 200 == (await client.read_answer()).status
            await sending
            await until(lambda: scene.process.cluster.upstream.state == "up")
            url = f"http://127.0.0.1:{scene.process.admin_port}/metrics"
            async with session.get(url) as page:
                found.append(set(re.findall(r"(?m)^(apf\w+(?:\{.*\})?) ", await page.text())))

        assert found[0] == found[1]
        assert len(found[0]) > 100
