"""The buffer that all connections read into."""

from __future__ import annotations

from apfproxy.proxy.chunked import encode_chunk
from apfproxy.proxy.read_buffer import (
    READ_BUFFER,
    READ_BYTES,
    READ_VIEW,
    WRITE_HIGH_WATER_BYTES,
)


def test_view_shows_the_buffer() -> None:
    """What the loop puts into the buffer is what connections see."""
    READ_BUFFER[:2] = b"ab"

    assert b"ab" == bytes(READ_VIEW[:2])
    assert READ_BYTES == len(READ_BUFFER) == len(READ_VIEW)


def test_one_direction_holds_less_than_128_kib() -> None:
    """A slow reader costs one read with its frame on top of what is still written."""
    assert 131072 > WRITE_HIGH_WATER_BYTES + len(encode_chunk(bytes(READ_BYTES)))
