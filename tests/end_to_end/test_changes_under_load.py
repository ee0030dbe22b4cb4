"""Changes of the configuration, and the end of the process, while many requests are under way."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import DownstreamTlsSettings, DrainSettings
from loadtest.certificates import Authority
from tests.end_to_end.crowd import Crowd
from tests.end_to_end.peer import WAIT_S, Peer, begin
from tests.end_to_end.scene import GET, NARROW, OK, Setup, objects_of, on_uvloop, running
from tests.support.clocks import until

if TYPE_CHECKING:
    from pathlib import Path

REQUESTS = 20_000
BEFORE_DRAIN = 2_500
CLIENTS = 100
PODS = b"/api/v1/namespaces/default/pods/"
ROOMY = NARROW.replace("queueLengthLimit: 2", "queueLengthLimit: 1000")
QUEUES = "{queues: 1, handSize: 1, queueLengthLimit: 1000}"
CONFIGURATIONS = [
    objects_of(text, suggested=suggested)
    for text, suggested in (
        (ROOMY, False),
        (ROOMY.replace("narrow", "other").replace("everybody", "others"), True),
        (ROOMY.replace(QUEUES, "{queues: 64, handSize: 8, queueLengthLimit: 1000}"), True),
        (ROOMY.replace("nominalConcurrencyShares: 1000", "nominalConcurrencyShares: 3"), False),
        ("", True),
    )
]


@on_uvloop
async def test_reload_under_load() -> None:
    """Levels and schemas come, change and go under load, and no request is lost."""
    reloads = 0

    def reload(answered: int) -> None:
        nonlocal reloads
        if answered % 50 == 0:
            reloads += 1
            scene.configure(CONFIGURATIONS[reloads % len(CONFIGURATIONS)])
            if reloads % 10 == 0:
                scene.process.cluster.controller.adjust_limits()

    crowd = Crowd(REQUESTS, PODS, reload)
    async with (
        crowd.upstream() as port,
        running(Setup(objects=ROOMY, seats=20), upstream_port=port) as scene,
    ):
        await crowd.run(scene.process.port, CLIENTS)
        waited = sum(
            level.queue_set.dispatched_total
            for level in scene.process.cluster.controller.levels.values()
        )
        await until(lambda: not scene.process.server.connection_count)

    expected = {b"%d" % number for number in range(REQUESTS)}
    assert (REQUESTS // 50, {}, []) == (reloads, crowd.others, crowd.unanswered)
    assert {number: number for number in expected} == crowd.answered
    assert dict.fromkeys(expected, 1) == crowd.seen
    assert waited > 0


@on_uvloop
async def test_drain_under_load() -> None:
    """Drains answer every request that was sent on a connection, and send none of them twice."""
    asked = 0
    for path in itertools.cycle((PODS, b"/healthz/")):
        if asked >= REQUESTS:
            break
        asked += await drain_once(path)


@on_uvloop
async def test_drain_under_load_with_tls(tmp_path: Path) -> None:
    """A request that the client could send is answered over TLS, too."""
    setup, tls = secured(tmp_path, Authority("site"))
    assert await drain_once(PODS, setup, tls) >= BEFORE_DRAIN


@on_uvloop
async def test_new_certificates_under_load(tmp_path: Path) -> None:
    """Each change is for connections that come then, and nothing is lost by it."""
    authority = Authority("site")
    setup, tls = secured(tmp_path, authority)
    renewals = 0

    def renew(answered: int) -> None:
        nonlocal renewals
        if answered % 250 == 0:
            renewals += 1
            authority.issue("server", usage="server").write(tmp_path, "server")
            server_tls = scene.process.cluster.identities.server_tls
            assert server_tls is not None
            server_tls.load()
            scene.process.cluster.served.forget_authentications()

    async def come(answered: int) -> None:
        await until(lambda: len(crowd.answered) >= answered)
        await crowd.run(scene.process.port, 10, tls)

    crowd = Crowd(2 * BEFORE_DRAIN, PODS, renew)
    async with crowd.upstream() as port, running(setup, upstream_port=port) as scene:
        await asyncio.gather(*(come(0), come(500), come(1000), come(2000), come(3000)))
        counters = scene.process.cluster.counters
        await until(lambda: not scene.process.server.connection_count)

    expected = {b"%d" % number for number in range(2 * BEFORE_DRAIN)}
    assert (2 * BEFORE_DRAIN // 250, {}, []) == (renewals, crowd.others, crowd.unanswered)
    assert {number: number for number in expected} == crowd.answered
    assert dict.fromkeys(expected, 1) == crowd.seen
    assert (50, 0) == (counters.listener.connections_accepted, counters.listener.connections_open)
    assert {0} == set(counters.listener.handshake_failures.values())


def secured(folder: Path, authority: Authority) -> tuple[Setup, ssl.SSLContext]:
    """A proxy with TLS, and what its clients verify it with."""
    certificate, key = authority.issue("server", usage="server").write(folder, "server")
    tls = DownstreamTlsSettings(certificate_file=certificate, key_file=key)
    setup = Setup(objects=ROOMY, seats=20).with_downstream(tls=tls)
    return setup, ssl.create_default_context(cadata=authority.pem.decode())


async def drain_once(
    path: bytes,
    setup: Setup = Setup(objects=ROOMY, seats=20),  # noqa: B008  frozen
    tls: ssl.SSLContext | None = None,
) -> int:
    """Drain a proxy in the middle of many requests: how many were asked."""
    draining: list[asyncio.Task[None]] = []

    def drain(answered: int) -> None:
        if answered == BEFORE_DRAIN:
            draining.append(begin(scene.process.server.drain()))

    crowd = Crowd(2 * BEFORE_DRAIN, path, drain)
    async with crowd.upstream() as port, running(setup, upstream_port=port) as scene:
        await crowd.run(scene.process.port, CLIENTS, tls)
        async with asyncio.timeout(WAIT_S):
            await draining[0]
        counters = scene.process.cluster.counters

    assert [] == crowd.unanswered
    assert counters.listener.bytes_from_clients == sum(map(len, map(crowd.request, crowd.answered)))
    assert {} == crowd.others
    assert {200: len(crowd.answered)} == counters.requests_by_status
    assert {number: number for number in crowd.seen} == crowd.answered
    assert {1} == set(crowd.seen.values())
    assert crowd.asked == len(crowd.answered)
    assert BEFORE_DRAIN <= len(crowd.answered) < 2 * BEFORE_DRAIN
    return crowd.asked


@on_uvloop
async def test_listening_goes_on_for_the_shutdown_delay() -> None:
    """New connections are served as ever while the load balancers have not heard of the end."""
    setup = Setup(drain=DrainSettings(timeout_s=WAIT_S, shutdown_delay_s=0.1))
    async with running(setup) as scene:
        port = scene.process.port
        draining = begin(scene.process.drain())
        await asyncio.sleep(0)
        client = await scene.ask(GET)
        await (await scene.upstream.next_request()).peer.send(OK)
        answer = await client.read_answer()

        assert (200, None) == (answer.status, answer.value(b"connection"))
        assert await client.is_at_end()
        async with asyncio.timeout(WAIT_S):
            await draining
        with pytest.raises(ConnectionRefusedError):
            await Peer.connect(port)
