"""Calls of gRPC: its clients are told why there are none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import AccessLogSettings
from tests.end_to_end.http2_peer import HTTP2, SPOKEN, Http2Peer
from tests.end_to_end.peer import Message
from tests.end_to_end.scene import OK, Setup, on_uvloop, over_both_protocols, running

if TYPE_CHECKING:
    from pathlib import Path

CALL = (
    b"POST /greeter.Greeter/Hello HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nContent-Type: %b\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
MESSAGE = b"7\r\n\0\0\0\0\2\x0a\0\r\n"
LAST = b"0\r\n\r\n"


@pytest.mark.parametrize("preset", ["http", "kubernetes"])
@pytest.mark.parametrize("kind", [b"application/grpc", b"application/grpc+proto"])
@pytest.mark.parametrize("body", [MESSAGE + LAST, MESSAGE], ids=["whole", "under-way"])
def test_a_call_is_unimplemented(body: bytes, kind: bytes, preset: str, tmp_path: Path) -> None:
    """Its answer is all trailers, as clients of gRPC want it, and the log has it."""
    log = tmp_path / "log"

    @on_uvloop
    async def call() -> None:
        setup = Setup(preset=preset, access_log=AccessLogSettings(path=str(log)))
        async with running(setup) as scene:
            client = await scene.ask(CALL % kind + body)
            assert isinstance(client, Http2Peer)
            answer = Message(await client.read_head())

            assert 200 == answer.status
            assert b"application/grpc" == answer.value(b"content-type")
            assert b"12" == answer.value(b"grpc-status")
            assert (answer.value(b"grpc-message") or b"").startswith(b"apfproxy does not forward")
            assert None is answer.value(b"transfer-encoding")  # as it reads what has a body
            assert scene.upstream.is_quiet
            assert [] == scene.upstream.peers

    spoken = SPOKEN.set(HTTP2)
    try:
        call()
    finally:
        SPOKEN.reset(spoken)
    (line,) = log.read_text().splitlines()
    assert "gRPC" in json.loads(line)["why"]


@pytest.mark.parametrize("kind", [b"application/grpc-web", b"application/grpc-web+proto"])
@over_both_protocols
@on_uvloop
async def test_grpc_web_goes_on(kind: bytes) -> None:
    async with running(Setup(preset="http")) as scene:
        got, answer = await scene.exchange(CALL.replace(b"TE: trailers\r\n", b"") % kind + LAST, OK)

        assert kind == got.value(b"content-type")
        assert 200 == answer.status
