"""Settings, windows, fields: h2spec's part `http2` from section 6.5 on, and `hpack`."""

from __future__ import annotations

from tests.end_to_end.http2.cases_refused import (
    ASKED,
    BEGUN,
    MALFORMED,
    MORE,
    PARTLY,
    PARTLY_BEGUN,
    PROTOCOL,
    WRONG_BLOCK,
    WRONG_SIZE,
)
from tests.end_to_end.http2.conformance import (
    ASK,
    Case,
    acknowledged,
    answered,
    case,
    connection_error,
    data_of,
    pong,
    pong_or_end,
    stream_error,
)
from tests.end_to_end.http2.frames import (
    ACK,
    END_HEADERS,
    GET,
    Code,
    Kind,
    Setting,
    block,
    continuation,
    data,
    frame,
    goaway,
    headers,
    ping,
    prefixed,
    request,
    reset,
    settings,
    window_update,
)

MAX_WINDOW = (1 << 31) - 1
TABLE_BYTES = 4096
"""Of the table of fields, unless SETTINGS say otherwise."""

OVERFLOW = connection_error(Code.FLOW_CONTROL_ERROR)


def _window(*sizes: int) -> bytes:
    """SETTINGS of the window that streams begin with."""
    return settings(*((Setting.INITIAL_WINDOW_SIZE, each) for each in sizes))


SETTINGS = (
    case(
        *("http2/6.5/1", "6.5", "an acknowledgement with content"),
        *(frame(Kind.SETTINGS, ACK, 0, b"\0"), WRONG_SIZE),
    ),
    case(
        *("http2/6.5/2", "6.5", "SETTINGS of a stream"),
        *(frame(Kind.SETTINGS, 0, 1, settings((3, 100))[9:]), PROTOCOL),
    ),
    case(
        *("http2/6.5/3", "6.5", "SETTINGS of 3 bytes"),
        *(frame(Kind.SETTINGS, 0, 0, b"\0\3\0"), WRONG_SIZE),
    ),
    case("http2/6.5.2/1", "6.5.2", "push 2", settings((Setting.ENABLE_PUSH, 2)), PROTOCOL),
    case("http2/6.5.2/2", "6.5.2", "too large a window", _window(MAX_WINDOW + 1), OVERFLOW),
    case(
        *("http2/6.5.2/3", "6.5.2", "too small frames"),
        *(settings((Setting.MAX_FRAME_SIZE, (1 << 14) - 1)), PROTOCOL),
    ),
    case(
        *("http2/6.5.2/4", "6.5.2", "too large frames"),
        *(settings((Setting.MAX_FRAME_SIZE, 1 << 24)), PROTOCOL),
    ),
    case("http2/6.5.2/5", "6.5.2", "an unknown parameter", settings((0xFF, 1)) + ASK, pong),
    case(
        *("http2/6.5.3/1", "6.5.3", "a parameter twice"),
        *(_window(100, 1), acknowledged, ASKED, data_of(1)),
    ),
    case(
        *("http2/6.5.3/2", "6.5.3", "SETTINGS"),
        *(settings((Setting.ENABLE_PUSH, 0)), acknowledged),
    ),
)
CONTENT = b"h2spec\0\0"
PINGS = (
    case("http2/6.7/1", "6.7", "PING", ASK, pong),
    case(
        "http2/6.7/2",
        "6.7",
        "an answer that was not asked for",
        ping(CONTENT, is_answer=True) + ASK,
        pong,
    ),
    case("http2/6.7/3", "6.7", "PING of a stream", frame(Kind.PING, 0, 1, bytes(8)), PROTOCOL),
    case("http2/6.7/4", "6.7", "PING of 6 bytes", frame(Kind.PING, 0, 0, bytes(6)), WRONG_SIZE),
    case("http2/6.8/1", "6.8", "GOAWAY of a stream", frame(Kind.GOAWAY, 0, 1, bytes(8)), PROTOCOL),
)
WINDOWS = (
    case("http2/6.9/1", "6.9", "WINDOW_UPDATE of 0", window_update(0, 0), PROTOCOL),
    case("http2/6.9/2", "6.9", "the same of a stream", BEGUN + window_update(1, 0), MALFORMED),
    case(
        *("http2/6.9/3", "6.9", "WINDOW_UPDATE of 3 bytes"),
        *(frame(Kind.WINDOW_UPDATE, 0, 0, b"\0\0\1"), WRONG_SIZE),
    ),
    case("http2/6.9.1/1", "6.9.1", "a window of 1", _window(1), acknowledged, ASKED, data_of(1)),
    case(
        "http2/6.9.1/2", "6.9.1", "too large a window", 2 * window_update(0, MAX_WINDOW), OVERFLOW
    ),
    case(
        *("http2/6.9.1/3", "6.9.1", "too large a window of a stream"),
        *(BEGUN + 2 * window_update(1, MAX_WINDOW), stream_error(Code.FLOW_CONTROL_ERROR)),
    ),
    case(
        *("http2/6.9.2/1", "6.9.2", "a window that is opened by SETTINGS"),
        *(_window(0), acknowledged, ASKED + _window(1), data_of(1)),
    ),
    case(
        *("http2/6.9.2/2", "6.9.2", "a window below 0"),
        *(_window(3), acknowledged, ASKED, data_of(3), _window(2), acknowledged),
        *(window_update(1, 2), data_of(1)),
    ),
    case("http2/6.9.2/3", "6.9.2", "too large a window", _window(MAX_WINDOW + 1), OVERFLOW),
)
CONTINUATIONS = (
    case(
        *("http2/6.10/1", "6.10", "CONTINUATION twice"),
        PARTLY + continuation(1, MORE, is_whole=False) + continuation(1, MORE),
        answered,
    ),
    case(
        *("http2/6.10/2", "6.10", "DATA within a block"),
        PARTLY_BEGUN + continuation(1, MORE, is_whole=False) + data(1, b"test"),
        PROTOCOL,
    ),
    case(
        "http2/6.10/3", "6.10", "CONTINUATION of stream 0", PARTLY + continuation(0, MORE), PROTOCOL
    ),
    case(
        "http2/6.10/4", "6.10", "CONTINUATION of no block", ASKED + continuation(1, MORE), PROTOCOL
    ),
    case(
        *("http2/6.10/5", "6.10", "CONTINUATION after a block"),
        *(PARTLY + 2 * continuation(1, MORE), PROTOCOL),
    ),
    case(
        *("http2/6.10/6", "6.10", "CONTINUATION after DATA within a block"),
        *(PARTLY_BEGUN + data(1, b"test") + continuation(1, MORE), PROTOCOL),
    ),
)
CODES = (
    case("http2/7/1", "7", "GOAWAY with an unknown code", goaway(0xFF) + ASK, pong_or_end),
    case("http2/7/2", "7", "RST_STREAM with an unknown code", BEGUN + reset(1, 0xFF) + ASK, pong),
)


def _malformed(number: str, rule: str, what: str, encoded: bytes) -> Case:
    """A request with wrong fields."""
    return case(f"http2/{number}", rule, what, headers(1, encoded), MALFORMED)


METHOD, SCHEME, PATH = (b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/")
AUTHORITY = (b":authority", b"localhost")
TEST = (b"x-test", b"ok")
ONE_BYTE = headers(1, request(b"POST", b"/", (b"content-length", b"1")), ends=False)
BODY = data(1, b"test", ends=False)
MESSAGES = (
    case(
        *("http2/8.1/1", "8.1", "HEADERS behind DATA that does not end the stream"),
        *(BEGUN + BODY + headers(1, block(TEST), ends=False), MALFORMED),
    ),
    _malformed("8.1.2/1", "8.2.1", "a name in capitals", request(b"GET", b"/", (b"X-TEST", b"ok"))),
    _malformed("8.1.2.1/1", "8.3", "an unknown pseudo field", GET + block((b":test", b"ok"))),
    _malformed("8.1.2.1/2", "8.3", "a pseudo field of answers", GET + block((b":status", b"200"))),
    case(
        *("http2/8.1.2.1/3", "8.3", "a pseudo field in trailers"),
        *(BEGUN + BODY + headers(1, block((b":method", b"POST"))), MALFORMED),
    ),
    _malformed("8.1.2.1/4", "8.3", "a pseudo field behind others", block(TEST) + GET),
    _malformed("8.1.2.2/1", "8.2.2", "Connection", GET + block((b"connection", b"keep-alive"))),
    _malformed("8.1.2.2/2", "8.2.2", "TE", GET + block((b"te", b"trailers, deflate"))),
    _malformed("8.1.2.3/1", "8.3.1", "an empty path", request(b"GET", b"")),
    _malformed("8.1.2.3/2", "8.3.1", "no method", block(SCHEME, PATH, AUTHORITY)),
    _malformed("8.1.2.3/3", "8.3.1", "no scheme", block(METHOD, PATH, AUTHORITY)),
    _malformed("8.1.2.3/4", "8.3.1", "no path", block(METHOD, SCHEME, AUTHORITY)),
    _malformed("8.1.2.3/5", "8.3.1", "two methods", GET + block(METHOD)),
    _malformed("8.1.2.3/6", "8.3.1", "two schemes", GET + block(SCHEME)),
    _malformed("8.1.2.3/7", "8.3.1", "two paths", GET + block(PATH)),
    case(
        *("http2/8.1.2.6/1", "8.1.1", "a body longer than its length"),
        *(ONE_BYTE + data(1, b"test"), MALFORMED),
    ),
    case(
        *("http2/8.1.2.6/2", "8.1.1", "the same in two frames"),
        *(ONE_BYTE + BODY + data(1, b"test"), MALFORMED),
    ),
    case(
        *("http2/8.2/1", "8.4", "PUSH_PROMISE"),
        frame(Kind.PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\3" + GET),
        PROTOCOL,
    ),
)


def _wrong(number: str, rule: str, what: str, encoded: bytes) -> Case:
    """A block that cannot be decoded."""
    return case(f"hpack/{number}", f"7541 {rule}", what, headers(1, encoded), WRONG_BLOCK)


X_TEST = bytes.fromhex("0085f2b24a84ff")
"""A field that enters no table, to the end of its name: `x-test` in Huffman's code."""
FIELDS = (
    _wrong("2.3.3/1", "2.3.3", "an index beyond the tables", GET + prefixed(70, 7, 0x80)),
    _wrong("2.3.3/2", "2.3.3", "the same for a name", GET + prefixed(70, 6, 0x40) + b"\0"),
    _wrong("4.2/1", "4.2", "another size of the table at the end", GET + prefixed(1, 5, 0x20)),
    _wrong("5.2/1", "5.2", "padding of 8 bits", GET + X_TEST + b"\x84\x49\x50\x9f\xff"),
    _wrong("5.2/2", "5.2", "padding with zeros", GET + X_TEST + b"\x83\x49\x50\x90"),
    _wrong("5.2/3", "5.2", "the end mark", GET + X_TEST + b"\x87\x49\x51\xff\xff\xff\xfa\x7f"),
    _wrong("6.1/1", "6.1", "index 0", GET + prefixed(0, 7, 0x80)),
    _wrong("6.3/1", "6.3", "too large a table", prefixed(TABLE_BYTES + 1, 5, 0x20) + GET),
)
CASES = (*SETTINGS, *PINGS, *WINDOWS, *CONTINUATIONS, *CODES, *MESSAGES, *FIELDS)
