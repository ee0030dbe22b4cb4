"""The buffer that all connections read into."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.http.chunked import encode_chunk
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

if TYPE_CHECKING:
    from collections.abc import Iterable


class Transport(asyncio.Transport):
    """Writes what it may at once, and keeps views of the rest, as a loop's own does.

    Attributes:
        calls: Names of the methods called.
        kept: What is not written yet.
    """

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


def test_written_at_once_keeps_the_buffer() -> None:
    before, transport = READS.view, Transport(room=ANSWER_READ_BYTES)

    write_pieces(transport, (READS.view,), ANSWER_READ_BYTES)

    assert (["writelines"], []) == (transport.calls, transport.kept)
    assert before is READS.view


def test_what_a_transport_keeps_is_not_overwritten() -> None:
    READS.view[-4:] = b"last"
    transport = Transport(room=ANSWER_READ_BYTES - 4)

    write_pieces(transport, (READS.view,), ANSWER_READ_BYTES)
    READS.view[-4:] = b"next"

    assert b"last" == b"".join(transport.kept)


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
