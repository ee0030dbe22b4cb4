"""Fields that are longer than the library takes end their stream, not their connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    RstStreamFrame,
    SettingsFrame,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.proxy.http2.pair import GET, POST, PREFACE, ended, nghttp2

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """A field that enters the table; its value is of CODED if it is coded."""
    return b"".join(
        (b"\x40", _length(len(name)), name, _length(len(value), 0x80 * is_coded), value)
    )


def _length(size: int, flag: int = 0) -> bytes:
    if size < 127:
        return bytes((flag | size,))
    rest = [flag | 127]
    size -= 127
    while size >= 128:
        rest.append(128 | size % 128)
        size //= 128
    return bytes((*rest, size))


@pytest.mark.parametrize(
    ("field", "max_fields_bytes", "step"),
    [
        pytest.param((b"x-long", b"~" * LONG), 1 << 16, 1, id="byte-by-byte"),
        pytest.param((b"x-long", b"~" * LONG), 1 << 19, 20_000, id="in-some-reads"),
        pytest.param((b"x-long", b"~" * LONG), 1 << 19, LONG * 2, id="at-once"),
        pytest.param((b"x" * LONG, b"v"), 1 << 16, 20_000, id="name"),
        pytest.param((b"x" * LONG, b"~" * LONG), 1 << 16, 20_000, id="both"),
        pytest.param((b"x-long", CODED * (LONG // 5)), 1 << 19, 20_000, id="coded"),
        pytest.param((b":path", b"/" * LONG), 1 << 16, 20_000, id="path"),
    ],
)
def test_long_fields(field: tuple[bytes, bytes], max_fields_bytes: int, step: int) -> None:
    """Whatever is long, and however it comes; the requests around it are served."""
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
    assert [] == ended(session)


@pytest.mark.parametrize("size", [MOST, MOST + 1])
def test_bound(size: int) -> None:
    """It is the library's."""
    session = session_of()
    [event] = session.receive(in_frames(1, Encoder().encode([*GET, ("x", "y" * size)], False)))

    assert (nghttp2.REQUEST if size == MOST else nghttp2.TOO_LARGE) == event[0]


def test_long_field_in_trailers() -> None:
    session, encoder = session_of(), Encoder()
    session.receive(in_frames(1, encoder.encode(POST), ()))
    session.receive(in_frames(1, encoder.encode([("x-long", "y" * LONG)], False)))

    assert [RstStreamFrame] == [type(frame) for frame in ended(session)]
    assert [nghttp2.CLOSED] == [event[0] for event in session.events()]
    next_request(session, encoder, 3)


def test_padding_and_priority() -> None:
    """What else HEADERS may have makes no difference."""
    session, encoder = session_of(), Encoder()
    block = encoder.encode([*GET, ("x-long", "y" * LONG)], False)
    first = HeadersFrame(1, block[:16000], flags=("END_STREAM", "PADDED", "PRIORITY"))
    first.pad_length, first.depends_on, first.stream_weight = 200, 0, 16
    rest = in_frames(1, block[16000:])
    sent = first.serialize() + rest[:3] + b"\x09" + rest[4:]

    assert [(nghttp2.TOO_LARGE, 1, b"GET", True)] == session.receive(sent)
    next_request(session, encoder, 3)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"\0\0\x0a\1\x08\0\0\0\1\x10" + bytes(9), id="padding"),
        pytest.param(b"\0\0\0\1\x08\0\0\0\1", id="no-padding"),
        pytest.param(b"\0\0\0\1\x20\0\0\0\1", id="no-priority"),
        pytest.param(b"\0\0\1\1\0\0\0\0\0\x82", id="no-stream"),
        pytest.param(b"\0\x40\1\1\0\0\0\0\1" + bytes(0x4001), id="too-long"),
    ],
)
def test_malformed_frames(sent: bytes) -> None:
    session = session_of()
    with pytest.raises(nghttp2.SessionError):
        session.receive(sent)
    assert GoAwayFrame is type(ended(session)[0])


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b"\x00\x01x\x7f\xff\xff\xff\xff\xff\xff\x01", id="length"),
        pytest.param(b"\xff\xff\xff\xff\xff\xff\xff\x01", id="index"),
        pytest.param(b"\x80", id="no-index"),
    ],
)
def test_malformed_blocks(block: bytes) -> None:
    session = session_of()
    with pytest.raises(nghttp2.SessionError):
        session.receive(in_frames(1, block, size=1))


def test_interrupted_block() -> None:
    session = session_of()
    begun = HeadersFrame(1, Encoder().encode(GET)).serialize()
    with pytest.raises(nghttp2.SessionError):
        session.receive(begun + HeadersFrame(3, b"").serialize())


@pytest.mark.parametrize("size", [200_000, 500_000])
def test_many_fields(size: int) -> None:
    """They are no flood where they are within the bound."""
    session = session_of(1 << 19)
    fields = [*GET, *((f"x-{each}", "y" * 5000) for each in range(size // 5100))]
    [event] = session.receive(in_frames(1, Encoder().encode(fields, False)))

    assert nghttp2.REQUEST == event[0]
    assert 0 == session.continuations
    assert 1 == session.nuisances  # SETTINGS


def test_block_without_end() -> None:
    """It ends the connection once it is many times as long as it may be."""
    session = session_of(1024)
    field = b"\x00\x01x\x7f\x81\x1f" + b"y" * 4096
    session.receive(HeadersFrame(1, Encoder().encode(GET)).serialize())
    parts = ContinuationFrame(1, field * 3).serialize() * 7
    with pytest.raises(nghttp2.SessionError) as raised:
        session.receive(parts)

    assert 11 == raised.value.code


def test_unfinished_blocks() -> None:
    """How much has come of one is known."""
    session = session_of()
    block = Encoder().encode([*GET, ("x", "y" * 20_000)], False)
    sent = in_frames(1, block)
    assert 0 == session.unfinished
    session.receive(sent[:100])
    assert 91 == session.unfinished
    session.receive(sent[100 : FRAME_BYTES + 9])
    assert FRAME_BYTES == session.unfinished
    session.receive(sent[FRAME_BYTES + 9 : -1])
    assert len(block) - 1 == session.unfinished
    session.receive(sent[-1:])
    assert 0 == session.unfinished
    session.receive(in_frames(3, Encoder().encode(GET))[:-1])
    assert 0 < session.unfinished


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(st.from_regex(r"\A[a-z]{1,9}\Z"), st.text("a~", max_size=300)), max_size=9),
    st.integers(1, 60),
    st.integers(1, 80),
    st.booleans(),
)
def test_blocks_in_any_parts(
    fields: list[tuple[str, str]], size: int, step: int, is_coded: bool
) -> None:
    whole, parted = session_of(), session_of()
    encoder = Encoder()
    for stream_id in (1, 3):
        block = encoder.encode([*GET, *fields], is_coded)
        expected = whole.receive(in_frames(stream_id, block))
        sent = in_frames(stream_id, block, size=max(size, len(block) // 20 + 1))
        told = []
        for at in range(0, len(sent), step):
            told += parted.receive(sent[at : at + step])

        assert expected == told
