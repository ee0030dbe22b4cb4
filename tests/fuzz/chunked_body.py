"""Any bytes as a chunked body: the decoder, however they arrive, and the plain reader agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.http.chunked import ChunkedDecoder, ChunkedError
from tests.fuzz.driver import splits
from tests.fuzz.messages import MalformedError, read_chunked

if TYPE_CHECKING:
    from collections.abc import Iterable

Outcome = tuple[bytes, bool, bytes, bytes] | None
"""The body, whether it is whole, its trailers and what follows; None for a refusal."""


def run_one(data: bytes) -> None:
    """Take a byte that says how it is split, then the body and what follows it."""
    choice, coded = data[0] if data else 0, data[1:]
    outcomes = [_decoded(pieces) for pieces in splits(coded, choice)]
    assert all(outcome == outcomes[0] for outcome in outcomes), outcomes
    if len(coded) > 4000:
        return  # limits, which the plain reader has not
    try:
        body, is_whole, end = read_chunked(coded, 0)
    except MalformedError:
        plain = None
    else:
        plain = (body, is_whole, coded[end:] if is_whole else b"")
    if plain is None:
        # The decoder may still wait for the end of a line that can become none.
        assert outcomes[0] is None or not outcomes[0][1], outcomes[0]
    elif outcomes[0] is None:
        # It judges a line before the line is whole, and has a limit on fields.
        assert not plain[1] or coded.count(b"\r\n") > 100, (coded, plain)
    else:
        found, is_done, _, rest = outcomes[0]
        assert plain == (found, is_done, rest), (coded, plain, outcomes[0])


def _decoded(pieces: Iterable[bytes]) -> Outcome:
    decoder = ChunkedDecoder()
    body, rest = b"", b""
    try:
        for piece in pieces:
            if decoder.is_done:
                rest += piece
            else:
                part, rest = decoder.feed(piece)
                body += b"".join(part)
                assert decoder.is_done or not rest
    except ChunkedError:
        return None
    return body, decoder.is_done, decoder.trailers, rest


def seeds() -> list[bytes]:
    return [
        b"\x000\r\n\r\n",
        b"\x035\r\nhello\r\n0\r\n\r\nGET",
        b"\x05A;a=b\r\n0123456789\r\n00\r\nX-A: b\r\nContent-Length: 3\r\n\r\n",
        b"\x071\nx\r\n0\r\n\r\n",
    ]
