"""Bodies of requests, the chunked coding, and the buffer that all connections read into."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.http.chunked import (
    MAX_EXTENSION_BYTES,
    MAX_LINE_BYTES,
    MAX_TRAILER_BYTES,
    MAX_TRAILER_FIELDS,
    ChunkedDecoder,
    ChunkedError,
    encode_chunk,
    last_chunk,
)
from apfproxy.http.grammar import HeadError
from apfproxy.http.read_buffer import (
    ANSWER_READ_BYTES,
    LARGE_BYTES,
    MAX_PIECES,
    READ_BYTES,
    READS,
    WRITE_HIGH_WATER_BYTES,
    ReadBuffer,
    write_pieces,
)
from apfproxy.http.request_body import MAX_DISCARDED_BODY_BYTES, RequestBody, too_long
from tests.http.test_request_head import parse

if TYPE_CHECKING:
    from collections.abc import Iterable


def decode(pieces: list[bytes]) -> tuple[bytes, bytes, bytes, bool]:
    decoder = ChunkedDecoder()
    body = rest = b""
    for piece in pieces:
        if decoder.is_done:
            rest += piece
        else:
            part, rest = decoder.feed(memoryview(piece) if len(piece) % 2 else piece)
            body += b"".join(part)
    return body, decoder.trailers, rest, decoder.is_done


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def slices(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    return [data[a:b] for a, b in itertools.pairwise(places)]


LONGEST_EXTENSION = b";" + b"e" * (MAX_LINE_BYTES - 4)
FULL_TRAILERS = b"A: b\r\n" * MAX_TRAILER_FIELDS
LONGEST_TRAILER = b"A: " + b"b" * (MAX_TRAILER_BYTES - 3)


@pytest.mark.parametrize(
    ("data", "body", "trailers"),
    [
        (b"0\r\n\r\n", b"", b""),
        (b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", b"abc", b""),
        (b"00A\r\n0123456789\r\n00\r\n\r\n", b"0123456789", b""),
        (b'a;x="y"\r\n' + b"\r\n" * 6 + b"0;z\r\n\r\n", b"\r\n" * 5, b""),
        pytest.param(b"1" + LONGEST_EXTENSION + b"\r\na\r\n0\r\n\r\n", b"a", b"", id="long-line"),
        (b"0\r\nA: b\r\nC:\td\r\n\r\n", b"", b"A: b\r\nC:\td\r\n"),
        pytest.param(b"0\r\n" + FULL_TRAILERS + b"\r\n", b"", FULL_TRAILERS, id="most-trailers"),
        pytest.param(
            *(b"0\r\n" + LONGEST_TRAILER + b"\r\n\r\n", b"", LONGEST_TRAILER + b"\r\n"),
            id="longest",
        ),
        pytest.param(
            b"0\r\nA: b\r\nContent-Length: 3\r\nX_Remote_User: root\r\nHost: h\r\nIf-Match: x\r\n"
            b"Content_Type: t\r\nImpersonate-User: u\r\nX-Kubernetes-PF-FlowSchema-UID: u\r\n"
            b"Z: y\r\n\r\n",
            b"",
            b"A: b\r\nZ: y\r\n",
            id="fields-that-no-trailer-may-carry",
        ),
    ],
)
@pytest.mark.parametrize("behind", [b"", b"GET / HTTP/1.1\r\n"])
def test_decodes(data: bytes, body: bytes, trailers: bytes, behind: bytes) -> None:
    expected = (body, trailers, behind, True)

    assert expected == decode([data + behind])
    assert expected == decode([*bytewise(data), behind])


@pytest.mark.parametrize(
    "data",
    [
        *b"\r\n|g\r\n|0x1\r\na\r\n|+1\r\na\r\n|-1\r\na\r\n| 1\r\na\r\n|1 \r\na\r\n".split(b"|"),
        *b"1 ;x\r\na\r\n|1_0\r\na\r\n|1\na\n|1\ra\r\n|1000000000000000\r\n|1;x\0\r\n".split(b"|"),
        *b"1;x\ny\r\n|1\r\nab\r\n|1\r\na\n|1\r\na\rb|1\r\na0\r\n".split(b"|"),
        *b"0\r\nA b\r\n\r\n|0\r\nA : b\r\n\r\n|0\r\nA: b\r\n c\r\n\r\n|0\r\nA: \0\r\n\r\n".split(
            b"|"
        ),
        b"0\r\nA: b\nB: c\r\n\r\n",
        pytest.param(b"1" + LONGEST_EXTENSION + b"e\r\n", id="line-too-long"),
        (b"1" + LONGEST_EXTENSION + b"\r\na\r\n") * (1 + MAX_EXTENSION_BYTES // MAX_LINE_BYTES),
        pytest.param(b"1;" + b"e" * MAX_LINE_BYTES, id="endless-line"),
        pytest.param(b"0\r\n" + FULL_TRAILERS + b"A: b\r\n\r\n", id="too-many-trailers"),
        pytest.param(b"0\r\n" + FULL_TRAILERS + b"A: b\r\n", id="too-many-trailers-without-end"),
        pytest.param(b"0\r\n" + LONGEST_TRAILER + b"b\r\n\r\n", id="trailers-too-long"),
        pytest.param(b"0\r\n" + LONGEST_TRAILER + b"bcde", id="endless-trailers"),
    ],
)
def test_refuses(data: bytes) -> None:
    with pytest.raises(ChunkedError):
        decode([data])
    with pytest.raises(ChunkedError):
        decode(bytewise(data))


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=5),
    trailers=st.sampled_from([b"", b"A: b\r\n", b"A: b\r\nC: d\r\n"]),
    behind=st.binary(max_size=10),
    cuts=st.lists(st.integers(0, 300), max_size=8),
)
def test_round_trip(chunks: list[bytes], trailers: bytes, behind: bytes, cuts: list[int]) -> None:
    coded = b"".join(b"".join(encode_chunk([chunk], len(chunk))) for chunk in chunks)
    data = coded + last_chunk(trailers) + behind
    expected = (b"".join(chunks), trailers, behind, True)

    assert expected == decode(slices(data, cuts))


SIZED = b"Content-Length: 4\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"1;x=y\r\nb\r\n03\r\nody\r\n0\r\nClaim: 1\r\nA: 1\r\n\r\n"


def body_of(lines: bytes, max_bytes: int = 4) -> RequestBody:
    head = parse(b"POST /a HTTP/1.1\r\nHost: h\r\n" + lines + b"\r\n")
    return RequestBody(head, max_bytes, lambda name: name == b"claim")


@pytest.mark.parametrize(
    ("lines", "data", "whole", "in_bytes"),
    [
        (SIZED, b"body", b"body", b"body"),
        (
            *(CHUNKED, CHUNKS, b"4\r\nbody\r\n0\r\nA: 1\r\n\r\n"),
            b"1\r\nb\r\n1\r\no\r\n1\r\nd\r\n1\r\ny\r\n0\r\nA: 1\r\n\r\n",
        ),
    ],
    ids=["sized", "chunked"],
)
def test_taken(lines: bytes, data: bytes, whole: bytes, in_bytes: bytes) -> None:
    at_once, in_pieces, followed = (body_of(lines) for _ in range(3))
    pieces = b"".join(b"".join(in_pieces.take(each)) for each in bytewise(data))

    assert (whole, b"") == (b"".join(at_once.take(data)), at_once.rest)
    assert (in_bytes, b"") == (pieces, in_pieces.rest)
    assert (whole, b"GET /") == (b"".join(followed.take(data + b"GET /")), followed.rest)
    assert [True] * 3 == [each.is_whole for each in (at_once, in_pieces, followed)]


@pytest.mark.parametrize("pieces", [[CHUNKS], bytewise(CHUNKS)], ids=["whole", "byte-by-byte"])
def test_too_long(pieces: list[bytes]) -> None:
    body = body_of(CHUNKED, max_bytes=3)
    taken: list[bytes] = []
    with pytest.raises(HeadError) as caught:
        taken.extend(b"".join(body.take(piece)) for piece in pieces)

    assert (413, str(too_long(3))) == (caught.value.code, str(caught.value))
    assert b"y" not in b"".join(taken)
    assert not body.is_whole


@pytest.mark.parametrize(
    ("lines", "is_worth"),
    [
        (SIZED, True),
        (b"Content-Length: %d\r\n" % MAX_DISCARDED_BODY_BYTES, True),
        (b"Content-Length: %d\r\n" % (MAX_DISCARDED_BODY_BYTES + 1), False),
        (SIZED + b"Expect: 100-continue\r\n", False),
        (CHUNKED, False),
    ],
)
def test_worth_discarding(lines: bytes, is_worth: bool) -> None:
    assert is_worth is body_of(lines).is_worth_discarding


class Transport(asyncio.Transport):
    """Writes as much as there is room for at once, and keeps views of the rest, as loops do."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room
        self.calls: list[str] = []
        self.kept: list[memoryview] = []

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.calls.append("write")
        self._take(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        self.calls.append("writelines")
        for data in list_of_data:
            self._take(data)

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.kept))

    def _take(self, data: bytes | bytearray | memoryview[Any]) -> None:
        written = min(self._room, len(data))
        self._room -= written
        if written < len(data):
            self.kept.append(memoryview(data)[written:])


def test_one_direction_holds_less_than_128_kib() -> None:
    framed = b"".join(encode_chunk([bytes(ANSWER_READ_BYTES)], ANSWER_READ_BYTES))

    assert 131072 > WRITE_HIGH_WATER_BYTES + len(framed)


def test_buffer_that_is_left_is_not_read_into() -> None:
    buffer = ReadBuffer()
    buffer.view[:2] = b"ab"
    kept = buffer.view[:2]

    buffer.leave()
    buffer.view[:2] = b"cd"

    assert (b"ab", b"cd") == (kept.tobytes(), buffer.view[:2].tobytes())
    assert (ANSWER_READ_BYTES, READ_BYTES) == (len(buffer.view), len(buffer.start))


@pytest.mark.parametrize("kept", [0, 4])
def test_what_a_transport_keeps_is_not_overwritten(kept: int) -> None:
    before, transport = READS.view, Transport(room=ANSWER_READ_BYTES - kept)
    READS.view[-4:] = b"last"
    write_pieces(transport, (READS.view,), ANSWER_READ_BYTES)
    assert (READS.view is before) == (not kept)
    READS.view[-4:] = b"next"

    assert b"last"[4 - kept :] == b"".join(transport.kept)
    assert ["writelines"] == transport.calls


@pytest.mark.parametrize(
    "pieces", [[b"a" * (LARGE_BYTES - 1)], [b"a" * 1000] * (MAX_PIECES + 1)], ids=["little", "many"]
)
def test_little_and_many_pieces_are_copied(pieces: list[bytes]) -> None:
    before, transport = READS.view, Transport(room=0)
    data = b"".join(pieces)

    write_pieces(transport, pieces, len(data))

    assert ["write"] == transport.calls
    assert data == b"".join(transport.kept)
    assert before is READS.view
