"""Bodies of requests."""

from __future__ import annotations

import pytest

from apfproxy.http.grammar import HeadError
from apfproxy.http.request_body import MAX_DISCARDED_BODY_BYTES, RequestBody, too_long
from tests.http.test_request_head import parse

SIZED = b"Content-Length: 4\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"1;x=y\r\nb\r\n03\r\nody\r\n0\r\nClaim: 1\r\nA: 1\r\n\r\n"


def body_of(lines: bytes, max_bytes: int = 4) -> RequestBody:
    head = parse(b"POST /a HTTP/1.1\r\nHost: h\r\n" + lines + b"\r\n")
    return RequestBody(head, max_bytes, lambda name: name == b"claim")


@pytest.mark.parametrize(
    ("lines", "data", "whole", "bytewise"),
    [
        pytest.param(SIZED, b"body", b"body", b"body", id="sized"),
        pytest.param(
            CHUNKED,
            CHUNKS,
            b"4\r\nbody\r\n0\r\nA: 1\r\n\r\n",
            b"1\r\nb\r\n1\r\no\r\n1\r\nd\r\n1\r\ny\r\n0\r\nA: 1\r\n\r\n",
            id="chunked",
        ),
    ],
)
def test_taken(lines: bytes, data: bytes, whole: bytes, bytewise: bytes) -> None:
    at_once, in_pieces, followed = (body_of(lines) for _ in range(3))
    pieces = [b"".join(in_pieces.take(data[each : each + 1])) for each in range(len(data))]

    assert (whole, b"") == (b"".join(at_once.take(data)), at_once.rest)
    assert (bytewise, b"") == (b"".join(pieces), in_pieces.rest)
    assert (whole, b"GET /") == (b"".join(followed.take(data + b"GET /")), followed.rest)
    assert [True] * 3 == [each.is_whole for each in (at_once, in_pieces, followed)]


@pytest.mark.parametrize("is_bytewise", [False, True])
def test_too_long(is_bytewise: bool) -> None:
    body = body_of(CHUNKED, max_bytes=3)
    pieces = [CHUNKS[each : each + 1] for each in range(len(CHUNKS))] if is_bytewise else [CHUNKS]
    taken: list[bytes] = []
    with pytest.raises(HeadError) as caught:
        taken.extend(b"".join(body.take(piece)) for piece in pieces)

    assert 413 == caught.value.code
    assert str(too_long(3)) == str(caught.value)
    assert b"y" not in b"".join(taken)
    assert not body.is_whole


@pytest.mark.parametrize(
    ("lines", "is_worth"),
    [
        pytest.param(SIZED, True, id="sized"),
        pytest.param(b"Content-Length: %d\r\n" % MAX_DISCARDED_BODY_BYTES, True, id="longest"),
        pytest.param(b"Content-Length: %d\r\n" % (MAX_DISCARDED_BODY_BYTES + 1), False, id="long"),
        pytest.param(SIZED + b"Expect: 100-continue\r\n", False, id="may-never-come"),
        pytest.param(CHUNKED, False, id="of-any-length"),
    ],
)
def test_worth_discarding(lines: bytes, is_worth: bool) -> None:
    assert is_worth is body_of(lines).is_worth_discarding
