"""Clients behind load balancers of TCP, which say by the PROXY protocol who they are."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from apfproxy.proxy.counters import ProxyHeaderFailure, Refusal
from apfproxy.settings import (
    AccessLogSettings,
    AuthenticationSettings,
    DownstreamTlsSettings,
    Http2Settings,
    LimitSettings,
    UnverifiedSettings,
)
from tests.end_to_end.programs import haproxy_of_tcp, installed
from tests.end_to_end.scene import GET, OK, Scene, Setup, on_uvloop, running
from tests.support.certificates import Authority
from tests.support.clocks import until

if TYPE_CHECKING:
    from pathlib import Path

CLIENT, BALANCER, STRANGER = "127.0.0.77", "127.0.0.1", "127.0.0.88"
HEADER = b"PROXY TCP4 192.0.2.7 10.0.0.1 1 2\r\n"
V2_LOCAL = b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
PROTOCOLS = ("--http1.1", "--http2-prior-knowledge")
PROTOCOLS_OF_TLS = ("--http1.1", "--http2")


def behind(**limits: int) -> Setup:
    setup = Setup(
        authentication=AuthenticationSettings(unverified=UnverifiedSettings(is_by_address=True))
    )
    return setup.with_downstream(
        trusted_proxies=(ipaddress.ip_network(BALANCER),),
        proxy_protocol=True,
        http2=Http2Settings(is_cleartext=True),
        limits=LimitSettings(**({"max_connections": 300} | limits)),
    )


@pytest.mark.parametrize(
    ("options", "is_tls"),
    [
        ("send-proxy", False),
        ("send-proxy-v2", True),
        ("send-proxy-v2 proxy-v2-options crc32c,unique-id", False),
    ],
)
@on_uvloop
async def test_haproxy(tmp_path: Path, options: str, is_tls: bool) -> None:
    """The client's address is in the log, in X-Forwarded-For, and names the client."""
    log = tmp_path / "access.log"
    setup = replace(behind(), access_log=AccessLogSettings(path=str(log)))
    if is_tls:
        certificate, key = Authority("a").issue("s", usage="server").write(tmp_path, "server")
        tls = DownstreamTlsSettings(certificate_file=certificate, key_file=key)
        setup = setup.with_downstream(tls=tls)
    async with running(setup) as scene:
        with haproxy_of_tcp(tmp_path, scene.process.port or 0, options) as port:
            for protocol in PROTOCOLS_OF_TLS if is_tls else PROTOCOLS:
                url = f"{'https' if is_tls else 'http'}://127.0.0.1:{port}/x"
                curl = await asyncio.create_subprocess_exec(
                    *(installed("curl"), "-sk", protocol, "--interface", CLIENT, url),
                    stdout=asyncio.subprocess.PIPE,
                )
                arrival = await scene.upstream.next_request()
                await arrival.peer.send(OK)
                body, _ = await curl.communicate()

                assert b"ok" == body
                assert [CLIENT.encode()] == arrival.request.values(b"x-forwarded-for")
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(CLIENT, f"address:{CLIENT}")] * 2 == [
        (each["client"], each["flow"]) for each in records
    ]


def failures(scene: Scene) -> dict[str, int]:
    counts = scene.process.counters.proxy_header_failures
    return {reason.value: count for reason, count in counts.items() if count}


@pytest.mark.parametrize(
    ("sent", "source", "reason"),
    [
        pytest.param(GET, BALANCER, ProxyHeaderFailure.MALFORMED, id="missing"),
        pytest.param(HEADER + GET, STRANGER, ProxyHeaderFailure.UNTRUSTED, id="untrusted"),
        pytest.param(HEADER[:9], BALANCER, ProxyHeaderFailure.TIMEOUT, id="late"),
    ],
)
@on_uvloop
async def test_connections_that_are_closed(
    caplog: pytest.LogCaptureFixture, sent: bytes, source: str, reason: ProxyHeaderFailure
) -> None:
    """No request is read; it is counted, and logged once.  One that says nothing is no news."""
    setup = behind().with_downstream(head_timeout_s=0.2) if reason == "timeout" else behind()
    async with running(setup) as scene:
        clients = [await scene.connect_socket(source=source) for _ in range(3)]
        for client in clients:
            await client.send(sent)
        for client in clients:
            assert await client.is_at_end()
        assert {reason.value: 3} == failures(scene)
        assert 0 == scene.process.counters.connections_accepted
        (await scene.connect_socket()).close()
        await until(lambda: failures(scene).get("closed"))
    [line] = [each for each in caplog.messages if "PROXY" in each or "proxyProtocol" in each]
    assert f"a connection of {source} is closed" in line


@on_uvloop
async def test_limits() -> None:
    """Bounds of an address are each client's; that of all counts connections without a header.

    The balancer's own health check has the address that it comes from.
    """
    async with running(behind(max_connections_per_address=1)) as scene:
        for begin, address in (
            (HEADER, b"192.0.2.7"),
            (HEADER.replace(b"192.0.2.7", b"192.0.2.8"), b"192.0.2.8"),
            (V2_LOCAL, BALANCER.encode()),
        ):
            client = await scene.connect_socket()
            await client.send(begin + GET)
            arrival = await scene.upstream.next_request()
            await arrival.peer.send(OK)
            assert [address] == arrival.request.values(b"x-forwarded-for")
        client = await scene.connect_socket()
        await client.send(HEADER + GET)
        refused = await client.read_answer()
        assert 503 == refused.status
        assert b"this address has 1 connections" in refused.body
    async with running(behind(max_connections=16)) as scene:
        waiting = [await scene.connect_socket() for _ in range(16)]
        await until(lambda: scene.process.server.connection_count == 16)
        with contextlib.suppress(ConnectionResetError):  # it may be that early
            one_more = await scene.connect_socket()
            assert await one_more.is_at_end()
        assert 1 == scene.process.counters.connections_refused[Refusal.CONNECTIONS]
        for client in waiting[:-1]:
            client.close()
        await until(lambda: scene.process.server.connection_count == 1)
        # The end of the process ends the last one, whatever it waits for.
