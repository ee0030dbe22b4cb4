"""The body of a request: where it ends, how long it may be, and how it is forwarded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.http.chunked import ChunkedDecoder, encode_chunk, last_chunk
from apfproxy.http.grammar import HeadError
from apfproxy.http.request_fields import SIZED

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.http.read_buffer import Piece
    from apfproxy.http.request_head import RequestHead

MAX_DISCARDED_BODY_BYTES = 262144
"""The longest body that is read though it is not wanted, to keep the connection; as in Go."""


class RequestBody:
    """A body that is not through yet; `rest` came behind it, once it is whole."""

    def __init__(
        self, head: RequestHead, max_bytes: int, is_claim: Callable[[bytes], bool]
    ) -> None:
        self._expects_continue = head.expects_continue
        self._max_bytes = max_bytes
        self.is_whole = False
        self.rest = b""
        if head.framing == SIZED:
            self._decoder: ChunkedDecoder | None = None
            self._left = head.body_bytes
        else:
            self._decoder = ChunkedDecoder(is_claim)
            self._left = max_bytes

    def take(self, data: Piece) -> list[Piece]:
        """The part of the body in `data`, framed as it is forwarded; ChunkedError or HeadError."""
        decoder = self._decoder
        if decoder is None:
            left = self._left = self._left - len(data)
            if left > 0:
                return [data]
            self.is_whole = True
            if left < 0:
                self.rest = bytes(data[left:])
                return [data[:left]]
            return [data]
        pieces, rest = decoder.feed(data)
        size = sum(map(len, pieces))
        self._left -= size
        if self._left < 0:
            raise too_long(self._max_bytes)
        framed = encode_chunk(pieces, size)
        if decoder.is_done:
            self.is_whole = True
            self.rest = rest
            framed.append(last_chunk(decoder.trailers))
        return framed

    @property
    def is_worth_discarding(self) -> bool:
        """Whether the rest is worth reading, though it is not wanted, to keep the connection."""
        return (
            self._decoder is None
            and self._left <= MAX_DISCARDED_BODY_BYTES
            and not self._expects_continue
        )


def too_long(max_bytes: int) -> HeadError:
    return HeadError(
        413, f"the request's body is longer than {max_bytes} bytes (downstream.limits.maxBodyBytes)"
    )
