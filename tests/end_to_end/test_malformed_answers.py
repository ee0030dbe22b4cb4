"""Servers whose answers are malformed: 502 at once, which says what is wrong."""

from __future__ import annotations

import logging

import pytest

from tests.end_to_end.scene import GET, Setup, on_uvloop, over_both_protocols, running

ANSWERS = {
    "bare-lf": (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 'OK" ends in LF, not in CR LF'),
    "bare-lf-later": (b"HTTP/1.1 200 OK\r\nDate: x\n\r\n", 'Date" ends in LF, not in CR LF'),
    "two-lengths": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
        "it has two Content-Length fields, 2 and 2",
    ),
    "no-colon": (b"HTTP/1.1 200 OK\r\nDate x\r\n\r\n", "header line 1 has no colon"),
    "other-protocol": (b"220 mail.test ready\r\n", "220 mai"),
    "http2": (b"\0\0\0\4\0\0\0\0\0", "the server speaks HTTP/2 only"),
}


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("preset", ["http", "kubernetes"])
@over_both_protocols
@on_uvloop
async def test_says_what_is_wrong(name: str, preset: str, caplog: pytest.LogCaptureFixture) -> None:
    """Though the server sends no more and keeps the connection; the log says it once."""
    answer, problem = ANSWERS[name]
    caplog.set_level(logging.WARNING)
    async with running(Setup(preset=preset)) as scene:
        for _ in range(3):
            client = await scene.ask(GET)
            await (await scene.upstream.next_request()).peer.send(answer)
            got = await client.read_answer()

            assert 502 == got.status
            assert problem in got.body.decode()
    lines = [each.getMessage() for each in caplog.records if "cannot be passed on" in each.msg]
    assert 1 == len(lines)
    assert problem in lines[0]
