"""The cases of h2spec: bytes that a client sends, and what the server has to say.

The names begin with h2spec's numbers, whose sections are RFC 7540's, or RFC 7541's for HPACK.  A
case that has the bytes of another one is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.end_to_end.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    GET,
    PADDED,
    POST,
    Code,
    FrameClient,
    Kind,
    Setting,
    block,
    continuation,
    data,
    dependency,
    frame,
    goaway,
    headers,
    literal,
    ping,
    prefixed,
    priority,
    request,
    reset,
    settings,
    window_update,
)

if TYPE_CHECKING:
    from tests.end_to_end.http2.frames import Frame

Outcome = Callable[[FrameClient], None]
"""Reads until the server said something; raises AssertionError if it did not."""
PING = b"a marker"


def acknowledged(client: FrameClient) -> None:
    client.until(Kind.SETTINGS, flags=ACK)


def answered(client: FrameClient) -> None:
    assert client.status(1) == 200


def ended(client: FrameClient) -> None:
    found = client.next_frame()
    while found is not None and not found.ends:
        found = client.next_frame()
    assert found is not None, client.told()
    assert found.stream_id == 1


def data_of(size: int) -> Outcome:

    def meet(client: FrameClient) -> None:
        assert size == len(client.until(Kind.DATA, 1).payload), client.told()

    return meet


def pong(client: FrameClient) -> None:
    found = client.until(Kind.PING)
    assert (ACK, PING) == (found.flags, found.payload)


def pong_or_end(client: FrameClient) -> None:
    while (found := client.next_frame()) is not None and found.kind != Kind.PING:
        assert found.kind != Kind.GOAWAY or found.code == Code.NO_ERROR, found


def connection_error(*codes: Code) -> Outcome:

    def meet(client: FrameClient) -> None:
        found = client.until(Kind.GOAWAY)
        assert found.code in codes, found
        client.end()

    return meet


def stream_error(*codes: Code, stream_id: int = 1) -> Outcome:

    def is_told(found: Frame) -> bool:
        return found.kind == Kind.GOAWAY or (
            found.kind == Kind.RST_STREAM and found.stream_id == stream_id
        )

    def meet(client: FrameClient) -> None:
        found = client.next_frame()
        while found is not None and not is_told(found):
            found = client.next_frame()
        assert found is not None, client.told()
        assert found.code in codes, found

    return meet


PROTOCOL = connection_error(Code.PROTOCOL_ERROR)
WRONG_SIZE = connection_error(Code.FRAME_SIZE_ERROR)
WRONG_BLOCK = connection_error(Code.COMPRESSION_ERROR)
OVERFLOW = connection_error(Code.FLOW_CONTROL_ERROR)
CLOSED_OR_ODD = connection_error(Code.STREAM_CLOSED, Code.PROTOCOL_ERROR)
MALFORMED = stream_error(Code.PROTOCOL_ERROR)
GONE = stream_error(Code.STREAM_CLOSED)
GONE_OR_ODD = stream_error(Code.STREAM_CLOSED, Code.PROTOCOL_ERROR)

ASK = ping(PING)
ASKED = headers(1, GET)
BEGUN = headers(1, POST, ends=False)
PARTLY = headers(1, GET, is_whole=False)
PARTLY_BEGUN = headers(1, POST, ends=False, is_whole=False)
TEST = data(1, b"test")
BODY = data(1, b"test", ends=False)
X_MORE = block((b"x-more", b"x" * 4000))
MORE = continuation(1, X_MORE)
MORE_TO_COME = continuation(1, X_MORE, is_whole=False)
MANY = b"".join(block((b"x-more-%d" % number, b"x" * 4000)) for number in range(5))
UNKNOWN = frame(0x16, 0, 0, bytes(8))
NO_WINDOW = settings((Setting.INITIAL_WINDOW_SIZE, 0))
ONE_BYTE = headers(1, request(b"POST", b"/", (b"content-length", b"1")), ends=False)

LEAST, MOST = dependency(0, 0), dependency(0, 255)
ALONE, ON_ITSELF = dependency(0, 0, is_exclusive=True), dependency(1)
FRAME_BYTES = 1 << 14
"""For a frame at most, unless SETTINGS say otherwise."""
STREAMS = 100
"""For a connection at once."""
MAX_WINDOW = (1 << 31) - 1
EVERY_SETTING = settings(*zip(Setting, (4096, 1, 100, 65535, 16384, 100), strict=True))
TOO_MANY = NO_WINDOW + b"".join(headers(1 + 2 * number, GET) for number in range(STREAMS + 1))
TABLE_OF_128 = prefixed(128, 5, 0x20)

ENTERED, NEVER = 0x40, 0x10
"""Patterns of fields that enter the table of known ones, and that may enter none."""
PLAIN, CODED = b"\6h2spec", bytes.fromhex("849c48aca4")
"""A value, as it is and in Huffman's code."""
X_TEST = bytes.fromhex("85f2b24a84ff")
"""A name in Huffman's code."""
METHOD, SCHEME, PATH = (b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/")
AUTHORITY = (b":authority", b"localhost")
OK_TEST = (b"x-test", b"ok")


def window(*sizes: int) -> bytes:
    return settings(*((Setting.INITIAL_WINDOW_SIZE, each) for each in sizes))


def more(field: bytes) -> bytes:
    return headers(1, GET + field)


def fields(*pairs: tuple[bytes, bytes]) -> bytes:
    return headers(1, block(*pairs))


def padded(kind: int, flags: int, padding: int, rest: bytes) -> bytes:
    return frame(kind, flags | END_STREAM | PADDED, 1, bytes([padding]) + rest)


ACCEPTED: dict[str, tuple[bytes | Outcome, ...]] = {
    "generic/2/1 PRIORITY of an idle stream": (priority(1, MOST), ASK, pong),
    "generic/2/2 WINDOW_UPDATE of a stream whose request has ended": (
        *(NO_WINDOW + ASKED + window_update(1, 1), data_of(1)),
    ),
    "generic/2/3 PRIORITY of a stream whose request has ended": (
        *(NO_WINDOW + ASKED + priority(1, MOST) + window_update(1, 1), data_of(1)),
    ),
    "generic/2/4 RST_STREAM of a stream whose request has ended": (ASKED + reset(1) + ASK, pong),
    "generic/2/5 PRIORITY of a closed stream": (ASKED, ended, priority(1, MOST) + ASK, pong),
    "generic/3.1/1 DATA": (BEGUN + TEST, answered),
    "generic/3.1/2 DATA twice": (BEGUN + BODY + TEST, answered),
    "generic/3.1/3 DATA with padding": (
        *(BEGUN + padded(Kind.DATA, 0, 5, b"test" + bytes(5)), answered),
    ),
    "generic/3.2/1 HEADERS": (ASKED, answered),
    "generic/3.2/2 HEADERS with padding": (headers(1, GET, padding=8), answered),
    "generic/3.2/3 HEADERS with priority": (headers(1, GET, priority=MOST), answered),
    "generic/3.3/1 PRIORITY, least weight": (priority(1, LEAST) + ASKED, answered),
    "generic/3.3/2 PRIORITY, most weight": (priority(1, MOST) + ASKED, answered),
    "generic/3.3/3 PRIORITY with a parent": (priority(3, dependency(1, 0)) + ASKED, answered),
    "generic/3.3/4 PRIORITY, exclusive": (priority(1, ALONE) + ASKED, answered),
    "generic/3.3/5 PRIORITY of a higher idle stream": (priority(3, MOST) + ASKED, answered),
    "generic/3.4/1 RST_STREAM": (BEGUN + reset(1) + ASK, pong),
    "generic/3.5/1 SETTINGS of every parameter": (EVERY_SETTING, acknowledged),
    "generic/3.7/1 PING": (ASK, pong),
    "generic/3.8/1 GOAWAY": (goaway(reason=b"enough") + ASK, pong_or_end),
    "generic/3.9/1 WINDOW_UPDATE": (window_update(0, 1) + ASK, pong),
    "generic/3.9/2 WINDOW_UPDATE of a stream": (ASKED + window_update(1, 1), answered),
    "generic/3.10/1 CONTINUATION": (
        *(headers(1, GET[:5], is_whole=False) + continuation(1, GET[5:]), answered),
    ),
    "generic/4/2 HEAD": (headers(1, request(b"HEAD")), answered),
    "generic/4/4 POST with trailers": (BEGUN + BODY + fields(OK_TEST), answered),
    "generic/5/1 an indexed field": (more(prefixed(58, 7, 0x80)), answered),
    "generic/5/2 a known name enters": (more(prefixed(58, 6, ENTERED) + PLAIN), answered),
    "generic/5/3 coded": (more(prefixed(58, 6, ENTERED) + CODED), answered),
    "generic/5/4 a new name enters": (more(literal(b"x-test", b"h2spec", ENTERED)), answered),
    "generic/5/5 coded": (more(bytes([ENTERED]) + X_TEST + CODED), answered),
    "generic/5/6 a known name does not enter": (more(prefixed(58, 4) + PLAIN), answered),
    "generic/5/7 coded": (more(prefixed(58, 4) + CODED), answered),
    "generic/5/8 a new name does not enter": (more(literal(b"x-test", b"h2spec")), answered),
    "generic/5/9 coded": (more(bytes([0]) + X_TEST + CODED), answered),
    "generic/5/10 a known name may not enter": (more(prefixed(58, 4, NEVER) + PLAIN), answered),
    "generic/5/11 coded": (more(prefixed(58, 4, NEVER) + CODED), answered),
    "generic/5/12 a new name may not enter": (
        *(more(literal(b"x-test", b"h2spec", NEVER)), answered),
    ),
    "generic/5/13 coded": (more(bytes([NEVER]) + X_TEST + CODED), answered),
    "generic/5/14 the table's size changes": (headers(1, TABLE_OF_128 + GET), answered),
    "generic/5/15 it changes twice": (
        *(headers(1, TABLE_OF_128 + prefixed(4096, 5, 0x20) + GET), answered),
    ),
    "http2/4.1/1 an unknown type": (UNKNOWN + ASK, pong),
    "http2/4.1/2 an unknown flag": (frame(Kind.PING, 0x16, 0, PING), pong),
    "http2/4.1/3 the reserved bit": (frame(Kind.PING, 0, 1 << 31, PING), pong),
    "http2/4.2/1 DATA as long as allowed": (BEGUN + data(1, bytes(FRAME_BYTES)), answered),
    "http2/6.5.2/5 an unknown parameter": (settings((0xFF, 1)) + ASK, pong),
    "http2/6.5.3/1 a parameter twice": (window(100, 1), acknowledged, ASKED, data_of(1)),
    "http2/6.5.3/2 SETTINGS": (settings((Setting.ENABLE_PUSH, 0)), acknowledged),
    "http2/6.7/2 an acknowledgement of no PING": (ping(b"h2spec\0\0", is_answer=True) + ASK, pong),
    "http2/6.9.1/1 a window of 1": (window(1), acknowledged, ASKED, data_of(1)),
    "http2/6.9.2/1 a window that is opened by SETTINGS": (
        *(window(0), acknowledged, ASKED + window(1), data_of(1)),
    ),
    "http2/6.9.2/2 a window below 0": (
        *(window(3), acknowledged, ASKED, data_of(3), window(2), acknowledged),
        *(window_update(1, 2), data_of(1)),
    ),
    "http2/6.10/1 CONTINUATION twice": (PARTLY + MORE_TO_COME + MORE, answered),
    "http2/7/1 GOAWAY with an unknown code": (goaway(0xFF) + ASK, pong_or_end),
    "http2/7/2 RST_STREAM with an unknown code": (BEGUN + reset(1, 0xFF) + ASK, pong),
}
REFUSED: dict[str, tuple[bytes | Outcome, ...]] = {
    "http2/4.2/2 too long DATA": (
        *(BEGUN + data(1, bytes(FRAME_BYTES + 1)), stream_error(Code.FRAME_SIZE_ERROR)),
    ),
    "http2/4.2/3 too long HEADERS": (headers(1, GET + MANY), WRONG_SIZE),
    "http2/4.3/1 a block that breaks off": (headers(1, b"\x40"), WRONG_BLOCK),
    "http2/4.3/2 PRIORITY within a block": (
        *(PARTLY_BEGUN + priority(1, dependency(0)) + MORE, PROTOCOL),
    ),
    "http2/4.3/3 HEADERS of another within": (PARTLY_BEGUN + headers(3, GET) + MORE, PROTOCOL),
    "http2/5.1/1 DATA of an idle stream": (TEST, CLOSED_OR_ODD),
    "http2/5.1/2 RST_STREAM of an idle stream": (reset(1), PROTOCOL),
    "http2/5.1/3 WINDOW_UPDATE of an idle stream": (window_update(1, 100), PROTOCOL),
    "http2/5.1/4 CONTINUATION of an idle stream": (continuation(1, GET), PROTOCOL),
    "http2/5.1/5 DATA after the end": (ASKED + TEST, GONE),
    "http2/5.1/6 HEADERS after the end": (ASKED + ASKED, GONE),
    "http2/5.1/7 CONTINUATION after the end": (ASKED + continuation(1, GET), GONE_OR_ODD),
    "http2/5.1/8 DATA after RST_STREAM": (BEGUN + reset(1) + TEST, GONE),
    "http2/5.1/9 HEADERS after RST_STREAM": (BEGUN + reset(1) + ASKED, GONE),
    "http2/5.1/10 CONTINUATION after RST_STREAM": (BEGUN + reset(1) + MORE, GONE_OR_ODD),
    "http2/5.1/11 DATA of a closed stream": (ASKED, ended, TEST, GONE),
    "http2/5.1/12 HEADERS of a closed stream": (
        *(ASKED, ended, ASKED, connection_error(Code.STREAM_CLOSED)),
    ),
    "http2/5.1/13 CONTINUATION of a closed stream": (ASKED, ended, MORE, CLOSED_OR_ODD),
    "http2/5.1.1/1 an even number": (headers(2, GET), PROTOCOL),
    "http2/5.1.1/2 a lower number": (headers(5, GET) + headers(3, GET), PROTOCOL),
    "http2/5.1.2/1 one stream too many": (
        TOO_MANY,
        stream_error(Code.PROTOCOL_ERROR, Code.REFUSED_STREAM, stream_id=1 + 2 * STREAMS),
    ),
    "http2/5.3.1/1 HEADERS depends on itself": (headers(1, GET, priority=ON_ITSELF), MALFORMED),
    "http2/5.3.1/2 PRIORITY depends on itself": (BEGUN + priority(1, ON_ITSELF), MALFORMED),
    "http2/5.5/2 an unknown frame within a block": (PARTLY + UNKNOWN, PROTOCOL),
    "http2/6.1/1 DATA of stream 0": (data(0, b"test"), PROTOCOL),
    "http2/6.1/3 DATA with too much padding": (
        *(BEGUN + padded(Kind.DATA, 0, 6, b"Test"), PROTOCOL),
    ),
    "http2/6.2/1 PRIORITY in place of CONTINUATION": (
        *(PARTLY + priority(1, dependency(0)), PROTOCOL),
    ),
    "http2/6.2/2 HEADERS of another in its place": (PARTLY + headers(3, GET), PROTOCOL),
    "http2/6.2/3 HEADERS of stream 0": (headers(0, GET), PROTOCOL),
    "http2/6.2/4 HEADERS with too much padding": (
        *(padded(Kind.HEADERS, END_HEADERS, len(GET) + 2, GET), PROTOCOL),
    ),
    "http2/6.3/1 PRIORITY of stream 0": (priority(0, dependency(0)), PROTOCOL),
    "http2/6.3/2 PRIORITY of 4 bytes": (
        *(BEGUN + priority(1, b"\x80\0\0\1"), stream_error(Code.FRAME_SIZE_ERROR)),
    ),
    "http2/6.4/1 RST_STREAM of stream 0": (reset(0), PROTOCOL),
    "http2/6.4/3 RST_STREAM of 3 bytes": (
        *(BEGUN + frame(Kind.RST_STREAM, 0, 1, bytes(3)), WRONG_SIZE),
    ),
    "http2/6.5/1 an acknowledgement of SETTINGS with content": (
        *(frame(Kind.SETTINGS, ACK, 0, b"\0"), WRONG_SIZE),
    ),
    "http2/6.5/2 SETTINGS of a stream": (
        *(frame(Kind.SETTINGS, 0, 1, settings((3, 100))[9:]), PROTOCOL),
    ),
    "http2/6.5/3 SETTINGS of 3 bytes": (frame(Kind.SETTINGS, 0, 0, b"\0\3\0"), WRONG_SIZE),
    "http2/6.5.2/1 push 2": (settings((Setting.ENABLE_PUSH, 2)), PROTOCOL),
    "http2/6.5.2/2 too large a window": (window(MAX_WINDOW + 1), OVERFLOW),
    "http2/6.5.2/3 too small frames": (
        *(settings((Setting.MAX_FRAME_SIZE, FRAME_BYTES - 1)), PROTOCOL),
    ),
    "http2/6.5.2/4 too large frames": (settings((Setting.MAX_FRAME_SIZE, 1 << 24)), PROTOCOL),
    "http2/6.7/3 PING of a stream": (frame(Kind.PING, 0, 1, bytes(8)), PROTOCOL),
    "http2/6.7/4 PING of 6 bytes": (frame(Kind.PING, 0, 0, bytes(6)), WRONG_SIZE),
    "http2/6.8/1 GOAWAY of a stream": (frame(Kind.GOAWAY, 0, 1, bytes(8)), PROTOCOL),
    "http2/6.9/1 WINDOW_UPDATE of 0": (window_update(0, 0), PROTOCOL),
    "http2/6.9/2 WINDOW_UPDATE of a stream of 0": (BEGUN + window_update(1, 0), MALFORMED),
    "http2/6.9/3 WINDOW_UPDATE of 3 bytes": (
        *(frame(Kind.WINDOW_UPDATE, 0, 0, b"\0\0\1"), WRONG_SIZE),
    ),
    "http2/6.9.1/2 a window that grows too large": (2 * window_update(0, MAX_WINDOW), OVERFLOW),
    "http2/6.9.1/3 a stream's window that does": (
        *(BEGUN + 2 * window_update(1, MAX_WINDOW), stream_error(Code.FLOW_CONTROL_ERROR)),
    ),
    "http2/6.10/2 DATA within a block": (PARTLY_BEGUN + MORE_TO_COME + TEST, PROTOCOL),
    "http2/6.10/3 CONTINUATION of stream 0": (PARTLY + continuation(0, X_MORE), PROTOCOL),
    "http2/6.10/4 CONTINUATION of no block": (ASKED + MORE, PROTOCOL),
    "http2/6.10/5 CONTINUATION after a block": (PARTLY + 2 * MORE, PROTOCOL),
    "http2/6.10/6 CONTINUATION after DATA": (PARTLY_BEGUN + TEST + MORE, PROTOCOL),
    "http2/8.1/1 HEADERS after DATA that does not end the stream": (
        *(BEGUN + BODY + headers(1, block(OK_TEST), ends=False), MALFORMED),
    ),
    "http2/8.1.2/1 a name in capitals": (more(block((b"X-TEST", b"ok"))), MALFORMED),
    "http2/8.1.2.1/1 an unknown pseudo field": (more(block((b":test", b"ok"))), MALFORMED),
    "http2/8.1.2.1/2 one of responses": (more(block((b":status", b"200"))), MALFORMED),
    "http2/8.1.2.1/3 one in trailers": (BEGUN + BODY + fields(METHOD), MALFORMED),
    "http2/8.1.2.1/4 one behind others": (headers(1, block(OK_TEST) + GET), MALFORMED),
    "http2/8.1.2.2/1 Connection": (more(block((b"connection", b"keep-alive"))), MALFORMED),
    "http2/8.1.2.2/2 TE": (more(block((b"te", b"trailers, deflate"))), MALFORMED),
    "http2/8.1.2.3/1 an empty path": (headers(1, request(b"GET", b"")), MALFORMED),
    "http2/8.1.2.3/2 no method": (fields(SCHEME, PATH, AUTHORITY), MALFORMED),
    "http2/8.1.2.3/3 no scheme": (fields(METHOD, PATH, AUTHORITY), MALFORMED),
    "http2/8.1.2.3/4 no path": (fields(METHOD, SCHEME, AUTHORITY), MALFORMED),
    "http2/8.1.2.3/5 two methods": (more(block(METHOD)), MALFORMED),
    "http2/8.1.2.3/6 two schemes": (more(block(SCHEME)), MALFORMED),
    "http2/8.1.2.3/7 two paths": (more(block(PATH)), MALFORMED),
    "http2/8.1.2.6/1 a body longer than its length": (ONE_BYTE + TEST, MALFORMED),
    "http2/8.1.2.6/2 one in two frames": (ONE_BYTE + BODY + TEST, MALFORMED),
    "http2/8.2/1 PUSH_PROMISE": (
        *(frame(Kind.PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\3" + GET), PROTOCOL),
    ),
    "hpack/2.3.3/1 an index beyond the tables": (more(prefixed(70, 7, 0x80)), WRONG_BLOCK),
    "hpack/2.3.3/2 one of a name": (more(prefixed(70, 6, ENTERED) + b"\0"), WRONG_BLOCK),
    "hpack/4.2/1 another table size at the end": (more(prefixed(1, 5, 0x20)), WRONG_BLOCK),
    "hpack/5.2/1 padding of 8 bits": (more(b"\0" + X_TEST + b"\x84\x49\x50\x9f\xff"), WRONG_BLOCK),
    "hpack/5.2/2 padding with zeros": (more(b"\0" + X_TEST + b"\x83\x49\x50\x90"), WRONG_BLOCK),
    "hpack/5.2/3 the end mark": (
        *(more(b"\0" + X_TEST + b"\x87\x49\x51\xff\xff\xff\xfa\x7f"), WRONG_BLOCK),
    ),
    "hpack/6.1/1 index 0": (more(prefixed(0, 7, 0x80)), WRONG_BLOCK),
    "hpack/6.3/1 too large a table": (headers(1, prefixed(4097, 5, 0x20) + GET), WRONG_BLOCK),
}
CASES = ACCEPTED | REFUSED
