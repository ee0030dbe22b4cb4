"""Methods that few servers know: whatever is a token goes on as it came."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import AccessLogSettings
from tests.end_to_end.scene import NARROW, Setup, on_uvloop, over_both_protocols, running

if TYPE_CHECKING:
    from pathlib import Path

HOST = b"Host: a.test\r\n"


@pytest.mark.parametrize("preset", ["http", "kubernetes"])
@pytest.mark.parametrize("method", ["LIST", "UPDATE", "LABEL", "x-Made_up.1", "get", "M" * 64])
@over_both_protocols
@on_uvloop
async def test_any_token_is_a_method(method: str, preset: str, tmp_path: Path) -> None:
    """The server gets it, with its body; the access log has it, and its verb in small letters."""
    log = tmp_path / "log"
    setup = Setup(preset=preset, objects=NARROW, access_log=AccessLogSettings(path=str(log)))
    head = b"%b /v1/secret/a?x=1 HTTP/1.1\r\n" % method.encode() + HOST
    async with running(setup) as scene:
        first, answer = await scene.exchange(head + b"Content-Length: 2\r\n\r\nab")
        second, _ = await scene.exchange(head + b"\r\n")

        assert [b"%b /v1/secret/a?x=1 HTTP/1.1" % method.encode()] * 2 == [first.line, second.line]
        assert (b"ab", b"") == (first.body, second.body)
        assert (200, b"ok") == (answer.status, answer.body)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(method, method.lower(), 200)] * 2 == [
        (line["method"], line["verb"], line["status"]) for line in lines
    ]


@pytest.mark.parametrize(
    ("method", "status"),
    [
        pytest.param(b"TRACE", 405, id="trace"),
        pytest.param(b"trace", 405, id="trace-for-servers-that-fold-case"),
        pytest.param(b"head", 405, id="head-for-servers-that-fold-case"),
        pytest.param(b"M" * 65, 501, id="too-long"),
    ],
)
@over_both_protocols
@on_uvloop
async def test_methods_that_are_not_served(method: bytes, status: int) -> None:
    """What changes how an answer is framed is refused in any spelling, as is what has no end."""
    async with running(Setup(preset="http")) as scene:
        client = await scene.ask(method + b" / HTTP/1.1\r\n" + HOST + b"\r\n")

        assert status == (await client.read_answer()).status
        assert scene.upstream.is_quiet


@on_uvloop
async def test_a_method_that_comes_bit_by_bit() -> None:
    """It is judged once it is whole; what can be none any more is refused at once."""
    async with running(Setup(preset="http")) as scene:
        client = await scene.connect()
        await scene.deliver(client, b"LI", b"ST", b" /a", b" HTTP/1.1\r\n", HOST, b"\r\n")
        arrival = await scene.upstream.next_request()
        assert b"LIST /a HTTP/1.1" == arrival.request.line
        others = [await scene.ask(begin) for begin in (b"LI(", b"M" * 65, b"\x16\x03\x01")]

        assert [400, 501, 400] == [(await each.read_answer()).status for each in others]
