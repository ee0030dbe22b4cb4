"""Field sections, told apart from the length of the body, and by what a connection is known."""

from __future__ import annotations

import pytest

from apfproxy.http.header_block import HeaderBlock, is_of_any_length, key_of
from apfproxy.http.request_fields import NO_BODY, SIZED, RequestFields

LINE = b"PUT / HTTP/1.1\r\n"


@pytest.mark.parametrize(
    ("section", "key", "body_bytes"),
    [
        pytest.param(
            b"Host: h\r\nContent-Length: 12\r\nA: b\r\n\r\n",
            (b"Host: h\r\nContent-Length: ", b"\r\nA: b\r\n\r\n"),
            12,
            id="one",
        ),
        pytest.param(
            b"content-length: 7\r\n\r\n", (b"content-length: ", b"\r\n\r\n"), 7, id="first"
        ),
        pytest.param(
            b"Content-Length: 0\r\n\r\n", (b"", b"Content-Length: 0\r\n\r\n"), 0, id="zero"
        ),
        pytest.param(b"Host: h\r\n\r\n", (b"", b"Host: h\r\n\r\n"), 0, id="none"),
        pytest.param(
            b"A-Content-Length: 7\r\n\r\n", (b"", b"A-Content-Length: 7\r\n\r\n"), 0, id="another"
        ),
        pytest.param(
            b"Content-Length: 7\r\nContent-Length: 7\r\n\r\n",
            (b"", b"Content-Length: 7\r\nContent-Length: 7\r\n\r\n"),
            0,
            id="two",
        ),
    ],
)
def test_key(section: bytes, key: tuple[bytes, bytes], body_bytes: int) -> None:
    """The digits of one length, well written, are no part of the key."""
    assert (key, body_bytes) == key_of(section)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        pytest.param(b"Content-Length: 7\r\nA: b\r\n\r\n", 7, id="the-same"),
        pytest.param(b"Content-Length: 123456\r\nA: b\r\n\r\n", 123456, id="longer"),
        pytest.param(b"Content-Length: " + b"9" * 18 + b"\r\nA: b\r\n\r\n", 10**18 - 1, id="long"),
        pytest.param(b"Content-Length: " + b"9" * 19 + b"\r\nA: b\r\n\r\n", -1, id="too-long"),
        pytest.param(b"Content-Length: 0\r\nA: b\r\n\r\n", -1, id="none"),
        pytest.param(b"Content-Length: 07\r\nA: b\r\n\r\n", -1, id="leading-zero"),
        pytest.param(b"Content-Length: \r\nA: b\r\n\r\n", -1, id="empty"),
        pytest.param(b"Content-Length: 7", -1, id="without-an-end"),
        pytest.param(b"Content-Length: +7\r\nA: b\r\n\r\n", -1, id="sign"),
        pytest.param(b"Content-Length: 7\r\nC: d\r\nA: b\r\n\r\n", -1, id="another-line"),
        pytest.param(b"Content-Length: 7\r\n\r\n", -1, id="without-a-line"),
        pytest.param(b"content-length: 7\r\nA: b\r\n\r\n", -1, id="another-spelling"),
    ],
)
def test_body_bytes(section: bytes, expected: int) -> None:
    """A head has the section if it differs in the digits alone."""
    fields = RequestFields(is_http_10=False, framing=SIZED, body_bytes=5, has_one_length=True)
    block = HeaderBlock(fields, key_of(b"Content-Length: 5\r\nA: b\r\n\r\n")[0])

    assert is_of_any_length(fields)
    head = LINE + section
    end = len(head) if expected >= 0 else 0
    for data in (head, head + LINE, bytearray(head)):
        assert (end, max(0, expected)) == block.match(data, len(LINE))
    assert "<HeaderBlock of 26 bytes>" == repr(block)


def test_section_without_a_length() -> None:
    """It is the same bytes, or another one."""
    fields = RequestFields(is_http_10=False, framing=NO_BODY)
    block = HeaderBlock(fields, key_of(b"A: b\r\n\r\n")[0])

    assert not is_of_any_length(fields)
    assert (len(LINE) + 8, 0) == block.match(LINE + b"A: b\r\n\r\nbody", len(LINE))
    assert (0, 0) == block.match(LINE + b"A: c\r\n\r\n", len(LINE))
    assert (0, 0) == block.match(LINE + b"C: d\r\nA: b\r\n\r\n", len(LINE))
    assert (0, 0) == block.match(LINE + b"A: b\r\n", len(LINE))
