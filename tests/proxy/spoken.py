"""Clients of the bench that speak HTTP/1.1 or HTTP/2, moved by the same text."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from apfproxy.proxy.http1_connection import Http1Connection
from apfproxy.settings import DownstreamSettings, Http2Settings
from tests.end_to_end.http2_peer import HTTP2
from tests.http2_translation import Translation
from tests.proxy.fakes import FakeTransport

if TYPE_CHECKING:
    import asyncio

    from tests.proxy.fakes import Bench

BOTH_SPOKEN = DownstreamSettings(http2=Http2Settings(is_cleartext=True))
"""For a bench with clients of either protocol."""


class Http2Transport(FakeTransport):
    def __init__(self, bench: Bench) -> None:
        super().__init__(bench.loop)
        self._translation = Translation()

    def feed(self, data: bytes) -> None:
        self._translation.request(data)
        super().feed(self._translation.output())

    def take(self) -> bytes:
        self._translation.answer(super().take())
        return self._translation.taken() or b""


def client_of(bench: Bench, protocol: str, tls: object = None) -> FakeTransport:
    if protocol != HTTP2:
        return bench.client(tls=tls)
    transport = Http2Transport(bench)
    transport.tls = tls
    connection = Http1Connection(bench.listener, bench.router)
    transport.connect(cast("asyncio.BufferedProtocol", connection))
    return transport
