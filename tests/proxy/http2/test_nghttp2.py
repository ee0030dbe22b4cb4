"""The binding, with h2 as its client: requests, responses, broken rules, long fields."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    RstStreamFrame,
    SettingsFrame,
)

if not os.environ.get("CI"):
    pytest.importorskip("apfproxy.proxy.http2.nghttp2")
from apfproxy.proxy.http2 import nghttp2
from tests.end_to_end.http2.frames import prefixed

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
GET = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "api:6443"),
    (":path", "/api/v1/pods?limit=5"),
    ("accept", "application/json"),
]
POST = [(":method", "POST"), *GET[1:]]
WINDOW = 65536


class Pair:
    def __init__(self, **changed: int) -> None:
        values: dict[str, Any] = {
            "max_streams": 100,
            "window_bytes": WINDOW,
            "max_fields_bytes": 65536,
            "low_water_bytes": 4096,
            "connect_protocol": False,
        }
        self.session = nghttp2.Session(**{**values, **changed})
        self.client = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self.client.initiate_connection()
        assert [] == self.pump()

    def pump(self) -> list[tuple[int, int, Any, int]]:
        told = []
        while True:
            sent = self.client.data_to_send()
            if sent:
                told += self.session.receive(sent)
            output = self.session.output(1 << 20)
            told += self.session.events()
            if output:
                self.client.receive_data(output)
            if not sent and not output:
                return told

    def request(self, fields: list[tuple[str, str]], *, is_last: bool = True) -> int:
        stream_id = self.client.get_next_available_stream_id()
        self.client.send_headers(stream_id, fields, end_stream=is_last)
        return stream_id


def block(fields: list[tuple[str, str]], encoder: Encoder | None = None) -> bytes:
    return (encoder or Encoder()).encode(fields, huffman=False)


def frames_of(data: bytes) -> list[Frame]:
    frames = []
    while data:
        frame, size = Frame.parse_frame_header(memoryview(data[:9]))
        frame.parse_body(memoryview(data[9 : 9 + size]))
        frames.append(frame)
        data = data[9 + size :]
    return frames


def begun(fields: list[tuple[str, str]] = GET) -> tuple[Pair, int]:
    pair = Pair()
    stream_id = pair.request(fields)
    pair.pump()
    return pair, stream_id


def headers(stream_id: int, *, is_last: bool = True) -> HeadersFrame:
    flags = ["END_HEADERS", "END_STREAM"] if is_last else ["END_HEADERS"]
    return HeadersFrame(stream_id, b"\x20" + block(GET if is_last else POST), flags=flags)


def test_settings() -> None:
    session = nghttp2.Session(7, 1000, 2000, 4096, True)
    [settings] = frames_of(session.output(1 << 20))

    assert isinstance(settings, SettingsFrame)
    assert {3: 7, 4: 1000, 6: 2000, 8: 1, 9: 1} == settings.settings
    assert session.is_over is False
    assert 10 * WINDOW == Pair(max_streams=10).client.outbound_flow_control_window


@pytest.mark.parametrize(
    ("fields", "marks"),
    [
        ([("x", "y"), ("set-cookie", "a"), ("x-host", "b")], 0),
        ([("cookie", "a=b")], 0),
        (
            [("cookie", "a=b"), ("x", "y"), ("cookie", "c=d"), ("cookie", "e=f")],
            nghttp2.HAS_COOKIES,
        ),
        ([("content-length", "0")], nghttp2.HAS_LENGTH),
        ([("host", "api:6443"), ("content-length", "0")], nghttp2.HAS_LENGTH | nghttp2.HAS_HOST),
    ],
)
def test_marks(fields: list[tuple[str, str]], marks: int) -> None:
    pair, _ = begun([*POST, ("cookie", "x=y"), ("cookie", "z=y")])
    pair.request([*GET, *fields])

    [(_, _, head, _)] = pair.pump()
    assert marks == head[6]


def test_reset_of_an_answer() -> None:
    pair, stream_id = begun()
    pair.session.answer(stream_id, 200, b"", b"some", False)
    pair.pump()
    pair.client.reset_stream(stream_id, ErrorCodes.CANCEL)

    assert [(nghttp2.CLOSED, stream_id, None, 8)] == pair.pump()
    assert (0, 0) == (pair.session.resets, pair.session.own_resets)


def test_requests_that_are_reset_at_once() -> None:
    pair = Pair()
    gone = pair.request(POST, is_last=False)
    pair.client.send_data(gone, b"x")
    stays = pair.request(GET)
    pair.client.reset_stream(gone)

    assert [(nghttp2.REQUEST, stays)] == [each[:2] for each in pair.pump()]
    assert (2, 1) == (pair.session.requests, pair.session.resets)


def test_bound_of_fields() -> None:
    """Each field counts 32 bytes more than it has, as RFC 9113 says."""
    size = sum(len(name) + len(value) + 32 for name, value in GET)
    for bound, kind in ((size, nghttp2.REQUEST), (size - 1, nghttp2.TOO_LARGE)):
        pair = Pair(max_fields_bytes=bound)
        pair.request(GET)
        assert [kind] == [each[0] for each in pair.pump()]

    stream_id = pair.request([*POST[:3], (":path", "/")], is_last=False)
    pair.pump()
    pair.client.send_headers(stream_id, [("x-long", "v" * 1000)], end_stream=True)
    assert [(nghttp2.CLOSED, stream_id, None, ErrorCodes.ENHANCE_YOUR_CALM)] == pair.pump()
    assert 1 == pair.session.own_resets


@pytest.mark.parametrize("fails", [False, True])
def test_sessions_end_with_streams_under_way(fails: bool) -> None:
    chunk = b"x" * 100_000
    pair, stream_id = begun()
    before = sys.getrefcount(chunk)
    pair.session.answer(stream_id, 200, b"", chunk, False)
    assert before + 1 == sys.getrefcount(chunk)
    if fails:
        with pytest.raises(nghttp2.SessionError):
            pair.session.receive(b"\xff" * 9)
    del pair

    assert before == sys.getrefcount(chunk)


def written(session: nghttp2.Session) -> list[tuple[int, int]]:
    resets = [
        each for each in frames_of(session.output(1 << 20)) if isinstance(each, RstStreamFrame)
    ]
    session.events()
    return [(each.stream_id, each.error_code) for each in resets]


@pytest.mark.parametrize("references", [8, 12_000])
def test_bomb_of_hpack(references: int) -> None:
    session, encoder = session_of(), Encoder()
    bomb = block([*POST, ("x", "v" * 4000)], encoder) + b"\xbe" * references

    assert [] == session.receive(HeadersFrame(1, bomb, flags=["END_HEADERS"]).serialize())
    assert [(1, ErrorCodes.ENHANCE_YOUR_CALM)] == written(session)
    assert 1 == session.own_resets
    next_request(session, encoder, 3)


@pytest.mark.parametrize("late", [DataFrame(1, b"late"), headers(1)])
@pytest.mark.parametrize("is_answered", [False, True])
def test_a_stream_that_was_reset_here(late: Frame, is_answered: bool) -> None:
    session = session_of()
    session.receive(headers(1, is_last=False).serialize())
    if is_answered:
        session.answer(1, 413, b"", b"", True)
        written(session)
    session.reset(1, ErrorCodes.CANCEL)
    written(session)

    assert [] == session.receive(late.serialize())
    assert 3 == session.receive(headers(3).serialize())[0][1]


LONG = 80_000
MOST = 65_536
"""Bytes of a string, as it comes, that the library takes."""
FRAME_BYTES = 16_384


def in_frames(
    stream_id: int, block: bytes, flags: Sequence[str] = ("END_STREAM",), size: int = FRAME_BYTES
) -> bytes:
    parts = [block[at : at + size] for at in range(0, len(block), size)]
    frames: list[Frame] = [HeadersFrame(stream_id, parts[0], flags=flags)]
    frames += [ContinuationFrame(stream_id, part) for part in parts[1:]]
    frames[-1].flags.add("END_HEADERS")
    return b"".join(frame.serialize() for frame in frames)


def session_of(max_fields_bytes: int = 1 << 19) -> nghttp2.Session:
    session = nghttp2.Session(100, 65536, max_fields_bytes, 4096, False)
    assert [] == session.receive(PREFACE + SettingsFrame(0).serialize())
    session.output(1 << 20)
    return session


def next_request(session: nghttp2.Session, encoder: Encoder, stream_id: int) -> None:
    fields = [*GET, ("x-known", "one"), ("x-new", str(stream_id))]
    [event] = session.receive(in_frames(stream_id, encoder.encode(fields)))
    assert nghttp2.REQUEST == event[0]
    assert b"x-known: one\r\nx-new: %d\r\n" % stream_id in event[2][5]


CODED = b"\x18\xc6\x31\x8c\x63"
"""Eight times "a" in Huffman's code."""


def literal(name: bytes, value: bytes, *, is_coded: bool = False) -> bytes:
    coded = prefixed(len(value), 7, 0x80 * is_coded)
    return b"".join((b"\x40", prefixed(len(name), 7), name, coded, value))


@pytest.mark.parametrize(
    ("field", "max_fields_bytes", "step"),
    [
        ((b"x-long", b"~" * LONG), 1 << 16, 1),
        ((b"x-long", b"~" * LONG), 1 << 19, LONG * 2),
        ((b"x" * LONG, b"~" * LONG), 1 << 16, 20_000),
        ((b"x-long", CODED * (LONG // 5)), 1 << 19, 20_000),
        ((b":path", b"/" * LONG), 1 << 16, 20_000),
    ],
    ids=range(5),
)
def test_long_fields(field: tuple[bytes, bytes], max_fields_bytes: int, step: int) -> None:
    session, encoder = session_of(max_fields_bytes), Encoder()
    next_request(session, encoder, 1)
    fields = [each for each in POST if each[0].encode() != field[0]]
    pseudo = [each for each in fields if each[0].startswith(":")]
    block = encoder.encode(pseudo) + literal(*field, is_coded=CODED in field[1])
    encoder.header_table.add(field[0], field[1])
    sent = in_frames(3, block + encoder.encode(fields[len(pseudo) :]))
    told = []
    for start in range(0, len(sent), step):
        told += session.receive(sent[start : start + step])

    assert [(nghttp2.TOO_LARGE, 3, b"POST", True)] == told
    next_request(session, encoder, 5)
    next_request(session, encoder, 7)
    assert [] == written(session)


@pytest.mark.parametrize("size", [MOST, MOST + 1])
def test_bound(size: int) -> None:
    session = session_of()
    [event] = session.receive(in_frames(1, Encoder().encode([*GET, ("x", "y" * size)], False)))

    assert (nghttp2.REQUEST if size == MOST else nghttp2.TOO_LARGE) == event[0]


def test_block_without_end() -> None:
    session = session_of(1024)
    field = b"\x00\x01x\x7f\x81\x1f" + b"y" * 4096
    session.receive(HeadersFrame(1, Encoder().encode(GET)).serialize())
    parts = ContinuationFrame(1, field * 3).serialize() * 7
    with pytest.raises(nghttp2.SessionError) as raised:
        session.receive(parts)

    assert 11 == raised.value.code
