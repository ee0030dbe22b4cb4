"""Cases of hostile HTTP that need limits, TLS, time or what a process shows of itself.

Each test is named by the id of its case; what it sends is the case's own where one connection can
send it.
"""

from __future__ import annotations

import asyncio
import io
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from apfproxy.admin.gathering import (
    ClusterParts,
    ProcessParts,
    ServingParts,
    gathered,
)
from apfproxy.admin.metric_table import TABLE
from apfproxy.admin.metrics import page
from apfproxy.admin.state import LoadsState
from apfproxy.app.log import DATE_FORMAT, FORMAT, OneLineFormatter
from apfproxy.proxy.counters import HandshakeFailure, Refusal
from apfproxy.settings import DownstreamTlsSettings, LimitSettings
from loadtest.certificates import Authority
from tests.conformance import vectors
from tests.conformance.hostile.script import expanded
from tests.end_to_end.peer import begin
from tests.end_to_end.scene import GET, OK, Scene, Setup, on_uvloop, running
from tests.support.clocks import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.upstream import Arrival

CASES: dict[str, Any] = {case["id"]: case for case in vectors.load("hostile_http")}
CLIENT_HELLO_START = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


def raw(case: str) -> bytes:
    """What a case sends, without its steps."""
    text = expanded(CASES[case]["raw"]).partition("{{")[0]
    return text.encode("latin-1")


def with_limits(**limits: Any) -> Setup:  # noqa: ANN401  settings by their names
    """A scene with limits."""
    setup = Setup()
    return replace(
        setup, downstream=structs.replace(setup.downstream, limits=LimitSettings(**limits))
    )


async def answer_ok(arrival: Arrival) -> None:
    """Answer at the upstream."""
    await arrival.peer.send(OK)


@on_uvloop
async def test_li_09(tmp_path: Path) -> None:
    """A TLS handshake that stalls counts as a connection, is cut in time, and is counted back."""
    certificate, key = Authority("ca").issue("server", usage="server").write(tmp_path, "server")
    setup = Setup()
    tls = DownstreamTlsSettings(certificate_file=certificate, key_file=key, handshake_timeout_s=0.1)
    async with running(
        replace(setup, downstream=structs.replace(setup.downstream, tls=tls))
    ) as scene:
        counters = scene.process.cluster.counters
        client = await scene.ask(CLIENT_HELLO_START)
        await until(lambda: counters.listener.connections_open == 1)
        assert await client.is_at_end()

        assert 1 == counters.listener.handshake_failures[HandshakeFailure.TIMEOUT]
        await until(lambda: scene.process.server.connection_count == 0)
        assert 0 == counters.listener.connections_open


def test_li_09_default() -> None:
    """The time is that of the case."""
    assert 10.0 == DownstreamTlsSettings().handshake_timeout_s


@on_uvloop
async def test_li_12() -> None:
    """Requests sent ahead are done one after the other, and answered in their order."""
    sent = raw("LI-12")
    number = sent.count(b"\r\n\r\n")
    async with running() as scene:
        under_way = most = arrived = 0

        async def answer(arrival: Arrival) -> None:
            nonlocal under_way, most, arrived
            under_way += 1
            most = max(most, under_way)
            arrived += 1
            body = b"%d" % arrived
            under_way -= 1
            await arrival.peer.send(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
            )

        scene.upstream.answer_with(answer)
        client = await scene.connect()
        sending = begin(client.send(sent))
        answers = [(await client.read_answer()).body for _ in range(number)]
        await sending

        assert [b"%d" % each for each in range(1, number + 1)] == answers
        assert (1, 1) == (most, len(scene.upstream.peers))


@on_uvloop
async def test_li_12_with_a_limit() -> None:
    """One more than may be sent ahead is refused, behind the answers to those before."""
    async with running(with_limits(max_pipelined_requests=100)) as scene:
        scene.upstream.answer_with(answer_ok)
        client = await scene.connect()
        sending = begin(client.send(raw("LI-12")))
        codes = [(await client.read_answer()).status for _ in range(101)]
        assert [200] * 100 + [400] == codes
        assert await client.is_at_end()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


@on_uvloop
async def test_li_13() -> None:
    """A connection over the limit is told so and closed; those within it go on."""
    async with running(with_limits(max_connections=20)) as scene:
        scene.upstream.answer_with(answer_ok)
        clients = [await scene.connect() for _ in range(20)]
        await until(lambda: scene.process.server.connection_count == len(clients))
        extra = [await scene.connect() for _ in range(100)]
        for each in extra:
            answer = await each.read_answer()
            assert (503, True) == (answer.status, b"maxConnections" in answer.body)
            assert await each.is_at_end()

        refused = scene.process.cluster.counters.listener.connections_refused
        assert (len(extra), 20) == (
            refused[Refusal.CONNECTIONS],
            scene.process.server.connection_count,
        )
        for each in clients:
            await each.send(GET)
            assert 200 == (await each.read_answer()).status
        clients[0].close()
        await until(lambda: scene.process.server.connection_count < len(clients))
        assert 200 == (await (await scene.ask(GET)).read_answer()).status


@on_uvloop
async def test_li_13_of_one_address() -> None:
    """Others are served when an address has all the connections that it may have."""
    async with running(with_limits(max_connections_per_address=3)) as scene:
        scene.upstream.answer_with(answer_ok)
        for _ in range(3):
            await (await scene.ask(GET)).read_answer()
        refused = await (await scene.connect()).read_answer()
        other = await (await scene.ask(GET, source="127.0.0.3")).read_answer()

        assert (503, True) == (refused.status, b"maxConnectionsPerAddress" in refused.body)
        assert 200 == other.status


def series_of(scene: Scene) -> set[bytes]:
    """The names and labels of all samples on the metrics page."""
    cluster = scene.process.cluster
    serving = ServingParts(
        controller=cluster.controller,
        kinds=cluster.kinds,
        loads=LoadsState(),
        counters=cluster.counters,
        pool=cluster.served.pool,
        upstream=cluster.upstream,
        authentications=cluster.identities.authenticator.counters,
    )
    parts = ProcessParts(
        started_s=1.0,
        health=(),
        clusters=[ClusterParts(serving=serving)],
        is_full=True,
        listener=cluster.counters.listener,
    )
    *_, state = gathered(parts)
    text = b"".join(page(TABLE, {"": state}))
    return {line.rpartition(b" ")[0] for line in text.splitlines() if line[:1] != b"#"}


@on_uvloop
async def test_li_17() -> None:
    """Whatever is asked for, and by what program, there are no more metrics than before."""
    requests = raw("LI-17").split(b"\r\n\r\n")[:1000]
    async with running() as scene:
        scene.upstream.answer_with(answer_ok)
        client = await scene.connect()
        found = []
        for some in (requests[:10], requests[10:]):
            sending = begin(client.send(b"".join(each + b"\r\n\r\n" for each in some)))
            for _ in some:
                assert 200 == (await client.read_answer()).status
            await sending
            await until(lambda: scene.process.cluster.upstream.state == "up")
            found.append(series_of(scene))

        assert found[0] == found[1]


@on_uvloop
async def test_li_18() -> None:
    """What a client sends breaks no line of the log, at any level."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(OneLineFormatter(FORMAT, DATE_FORMAT))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        async with running() as scene:
            scene.upstream.answer_with(answer_ok)
            client = await scene.ask(raw("LI-18"))
            await client.read_answer()
            logging.getLogger("apfproxy").debug("refused: %s", raw("LI-18").decode("latin-1"))
    finally:
        root.setLevel(level)
        root.removeHandler(handler)

    lines = stream.getvalue().splitlines()
    assert [] == [line for line in lines if not line[:4].isdigit()]
    assert "\x1b" not in stream.getvalue()
