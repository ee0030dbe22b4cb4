"""Calls of gRPC: its clients are told why there are none; gRPC-Web goes on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import AccessLogSettings
from tests.end_to_end.http2_peer import HTTP2
from tests.end_to_end.peer import Message
from tests.end_to_end.scene import OK, Setup, on_uvloop, running

if TYPE_CHECKING:
    from pathlib import Path

CALL = (
    b"POST /greeter.Greeter/Hello HTTP/1.1\r\nHost: a.test\r\nContent-Type: %b\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n7\r\n\0\0\0\0\2\x0a\0\r\n"
)
LAST = b"0\r\n\r\n"


@pytest.mark.parametrize("end", [LAST, b""], ids=["whole", "under-way"])
@on_uvloop
async def test_calls(end: bytes, protocol: str, tmp_path: Path) -> None:
    """The response is all trailers, as clients of gRPC want it, and the log has it."""
    log = tmp_path / "log"
    setup = Setup(preset="http", access_log=AccessLogSettings(path=str(log)))
    async with running(setup) as scene:
        if protocol == HTTP2:  # gRPC speaks no HTTP/1.1
            client = await scene.ask(CALL % b"application/grpc+proto" + end)
            answer = Message(await client.read_head())
            assert 200 == answer.status
            assert b"application/grpc" == answer.value(b"content-type")
            assert b"12" == answer.value(b"grpc-status")
            said = answer.value(b"grpc-message") or b""
            assert said.startswith(b"apfproxy does not forward")
            assert None is answer.value(b"transfer-encoding")  # as it reads what has a body
            assert [] == scene.upstream.peers
        web = CALL % b"application/grpc-web+proto" + LAST
        got, answer = await scene.exchange(web, OK)
        assert (b"application/grpc-web+proto", 200) == (got.value(b"content-type"), answer.status)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert (protocol == HTTP2) == any("gRPC" in (line.get("why") or "") for line in lines)
