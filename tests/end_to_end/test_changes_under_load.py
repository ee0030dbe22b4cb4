"""Changes of the configuration, and the end of the process, while many requests are under way."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import DownstreamTlsSettings, DrainSettings
from tests.end_to_end.crowd import Crowd
from tests.end_to_end.peer import WAIT_S, Peer, begin
from tests.end_to_end.scene import GET, NARROW, OK, Setup, objects_of, on_uvloop, running
from tests.support.certificates import Authority
from tests.support.clocks import until

if TYPE_CHECKING:
    from pathlib import Path

REQUESTS = 6_000
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
SETUP = Setup(objects=ROOMY, seats=20)


def secured(folder: Path, authority: Authority) -> tuple[Setup, ssl.SSLContext]:
    certificate, key = authority.issue("server", usage="server").write(folder, "server")
    tls = DownstreamTlsSettings(certificate_file=certificate, key_file=key)
    return SETUP.with_downstream(tls=tls), ssl.create_default_context(cadata=authority.pem.decode())


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
    async with crowd.upstream() as port, running(SETUP, upstream_port=port) as scene:
        await crowd.run(scene.process.port, CLIENTS)
        levels = scene.process.cluster.controller.levels.values()
        assert sum(level.queue_set.dispatched_total for level in levels) > 0
        await until(lambda: not scene.process.server.connection_count)

    assert REQUESTS // 50 == reloads
    crowd.assert_all_answered_once()


@on_uvloop
async def test_new_certificates_under_load(tmp_path: Path) -> None:
    """Each change is for connections that come then, and nothing is lost by it."""
    authority = Authority("site")
    setup, tls = secured(tmp_path, authority)

    def renew(answered: int) -> None:
        if answered % 500 == 0:
            authority.issue("server", usage="server").write(tmp_path, "server")
            server_tls = scene.process.cluster.identities.server_tls
            assert server_tls is not None
            server_tls.load()
            scene.process.cluster.served.forget_authentications()

    async def come(answered: int) -> None:
        await until(lambda: len(crowd.answered) >= answered)
        await crowd.run(scene.process.port, 10, tls)

    crowd = Crowd(BEFORE_DRAIN, PODS, renew)
    async with crowd.upstream() as port, running(setup, upstream_port=port) as scene:
        await asyncio.gather(*(come(0), come(500), come(1000), come(1500)))
        listener = scene.process.cluster.counters.listener
        await until(lambda: not scene.process.server.connection_count)

    crowd.assert_all_answered_once()
    assert (40, 0) == (listener.connections_accepted, listener.connections_open)
    assert {0} == set(listener.handshake_failures.values())


@pytest.mark.parametrize("is_secured", [False, True], ids=["plain", "tls"])
@on_uvloop
async def test_drain_under_load(is_secured: bool, tmp_path: Path) -> None:
    """A drain answers every request that was sent on a connection, and sends none twice."""
    setup, tls = secured(tmp_path, Authority("site")) if is_secured else (SETUP, None)
    draining: list[asyncio.Task[None]] = []

    def drain(answered: int) -> None:
        if answered == BEFORE_DRAIN:
            draining.append(begin(scene.process.server.drain()))

    crowd = Crowd(2 * BEFORE_DRAIN, PODS, drain)
    async with crowd.upstream() as port, running(setup, upstream_port=port) as scene:
        await crowd.run(scene.process.port, CLIENTS, tls)
        async with asyncio.timeout(WAIT_S):
            await draining[0]
        counters = scene.process.cluster.counters

    assert ([], {}) == (crowd.unanswered, crowd.others)
    assert counters.listener.bytes_from_clients == sum(map(len, map(crowd.request, crowd.answered)))
    assert {200: len(crowd.answered)} == counters.responses
    assert {number: number for number in crowd.seen} == crowd.answered
    assert {1} == set(crowd.seen.values())
    assert BEFORE_DRAIN <= crowd.asked == len(crowd.answered) < 2 * BEFORE_DRAIN


@on_uvloop
async def test_listening_goes_on_for_the_shutdown_delay() -> None:
    """New connections are served while load balancers have not heard of the end."""
    setup = Setup(drain=DrainSettings(timeout_s=WAIT_S, shutdown_delay_s=0.1))
    async with running(setup) as scene:
        port = scene.process.port
        draining = begin(scene.process.drain())
        await asyncio.sleep(0)
        client = await scene.ask(GET)
        await (await scene.upstream.next_request()).peer.send(OK)
        response = await client.read_answer()

        assert (200, None) == (response.status, response.value(b"connection"))
        assert await client.is_at_end()
        async with asyncio.timeout(WAIT_S):
            await draining
        with pytest.raises(ConnectionRefusedError):
            await Peer.connect(port)
