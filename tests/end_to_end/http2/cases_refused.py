"""What a server has to refuse, and what it has to ignore: h2spec's part `http2`, to section 6.4."""

from __future__ import annotations

from tests.end_to_end.http2.conformance import (
    ASK,
    PING,
    answered,
    case,
    closed,
    connection_error,
    ended,
    first_settings,
    pong,
    stream_error,
)
from tests.end_to_end.http2.frames import (
    END_HEADERS,
    END_STREAM,
    GET,
    PADDED,
    POST,
    PREFACE,
    Code,
    Kind,
    Setting,
    block,
    continuation,
    data,
    dependency,
    frame,
    headers,
    priority,
    reset,
    settings,
    window_update,
)

FRAME_BYTES = 1 << 14
"""What a frame has at most, unless SETTINGS say otherwise."""
STREAMS = 100
"""That a connection may have at once."""

ASKED = headers(1, GET)
BEGUN = headers(1, POST, ends=False)
PARTLY = headers(1, GET, is_whole=False)
PARTLY_BEGUN = headers(1, POST, ends=False, is_whole=False)
MORE = block((b"x-more", b"x" * 4000))
MANY = b"".join(block((b"x-more-%d" % number, b"x" * 4000)) for number in range(5))
UNKNOWN = frame(0x16, 0, 0, bytes(8))
ON_ITSELF = dependency(1)
NO_WINDOW = settings((Setting.INITIAL_WINDOW_SIZE, 0))

PROTOCOL = connection_error(Code.PROTOCOL_ERROR)
WRONG_SIZE = connection_error(Code.FRAME_SIZE_ERROR)
WRONG_BLOCK = connection_error(Code.COMPRESSION_ERROR)
MALFORMED = stream_error(Code.PROTOCOL_ERROR)
GONE = stream_error(Code.STREAM_CLOSED)
GONE_OR_ODD = stream_error(Code.STREAM_CLOSED, Code.PROTOCOL_ERROR)

STARTING = (
    case("http2/3.5/1", "3.4", "a preface", PREFACE + settings(), first_settings, begins=False),
    case(
        *("http2/3.5/2", "3.4", "no preface"),
        *(b"INVALID CONNECTION PREFACE\r\n\r\n", closed),
        begins=False,
    ),
)
FRAMES = (
    case("http2/4.1/1", "4.1", "an unknown type", UNKNOWN + ASK, pong),
    case("http2/4.1/2", "4.1", "an unknown flag", frame(Kind.PING, 0x16, 0, PING), pong),
    case("http2/4.1/3", "4.1", "the reserved bit", frame(Kind.PING, 0, 1 << 31, PING), pong),
    case(
        *("http2/4.2/1", "4.2", "DATA as long as allowed"),
        *(BEGUN + data(1, bytes(FRAME_BYTES)), answered),
    ),
    case(
        *("http2/4.2/2", "4.2", "DATA that is too long"),
        *(BEGUN + data(1, bytes(FRAME_BYTES + 1)), stream_error(Code.FRAME_SIZE_ERROR)),
    ),
    case("http2/4.2/3", "4.2", "HEADERS that is too long", headers(1, GET + MANY), WRONG_SIZE),
    case("http2/4.3/1", "4.3", "a block that breaks off", headers(1, b"\x40"), WRONG_BLOCK),
    case(
        *("http2/4.3/2", "4.3", "PRIORITY within a block"),
        *(PARTLY_BEGUN + priority(1, dependency(0)) + continuation(1, MORE), PROTOCOL),
    ),
    case(
        *("http2/4.3/3", "4.3", "HEADERS of another stream within a block"),
        *(PARTLY_BEGUN + headers(3, GET) + continuation(1, MORE), PROTOCOL),
    ),
)
STREAM_STATES = (
    case(
        *("http2/5.1/1", "5.1", "DATA of an idle stream"),
        *(data(1, b"test"), connection_error(Code.PROTOCOL_ERROR, Code.STREAM_CLOSED)),
    ),
    case("http2/5.1/2", "5.1", "RST_STREAM of an idle stream", reset(1), PROTOCOL),
    case("http2/5.1/3", "5.1", "WINDOW_UPDATE of an idle stream", window_update(1, 100), PROTOCOL),
    case("http2/5.1/4", "5.1", "CONTINUATION of an idle stream", continuation(1, GET), PROTOCOL),
    case("http2/5.1/5", "5.1", "DATA after the end", ASKED + data(1, b"test"), GONE),
    case("http2/5.1/6", "5.1", "HEADERS after the end", ASKED + ASKED, GONE),
    case("http2/5.1/7", "5.1", "CONTINUATION after it", ASKED + continuation(1, GET), GONE_OR_ODD),
    case("http2/5.1/8", "5.1", "DATA after RST_STREAM", BEGUN + reset(1) + data(1, b"test"), GONE),
    case("http2/5.1/9", "5.1", "HEADERS after RST_STREAM", BEGUN + reset(1) + ASKED, GONE),
    case(
        *("http2/5.1/10", "5.1", "CONTINUATION after RST_STREAM"),
        *(BEGUN + reset(1) + continuation(1, MORE), GONE_OR_ODD),
    ),
    case("http2/5.1/11", "5.1", "DATA of a closed stream", ASKED, ended, data(1, b"test"), GONE),
    case(
        *("http2/5.1/12", "5.1", "HEADERS of a closed stream"),
        *(ASKED, ended, ASKED, connection_error(Code.STREAM_CLOSED)),
    ),
    case(
        *("http2/5.1/13", "5.1", "CONTINUATION of a closed stream"),
        *(ASKED, ended, continuation(1, MORE)),
        connection_error(Code.STREAM_CLOSED, Code.PROTOCOL_ERROR),
    ),
    case("http2/5.1.1/1", "5.1.1", "an even number", headers(2, GET), PROTOCOL),
    case("http2/5.1.1/2", "5.1.1", "a lower number", headers(5, GET) + headers(3, GET), PROTOCOL),
    case(
        *("http2/5.1.2/1", "5.1.2", "a stream more than allowed"),
        NO_WINDOW + b"".join(headers(1 + 2 * number, GET) for number in range(STREAMS + 1)),
        stream_error(Code.PROTOCOL_ERROR, Code.REFUSED_STREAM, stream_id=1 + 2 * STREAMS),
    ),
    case(
        *("http2/5.3.1/1", "5.3.1 of RFC 7540", "HEADERS that depends on itself"),
        *(headers(1, GET, priority=ON_ITSELF), MALFORMED),
    ),
    case(
        *("http2/5.3.1/2", "5.3.1 of RFC 7540", "PRIORITY that depends on itself"),
        *(BEGUN + priority(1, ON_ITSELF), MALFORMED),
    ),
    case("http2/5.4.1/1", "5.4.1", "a wrong PING", frame(Kind.PING, 0, 3, bytes(8)), closed),
    case("http2/5.4.1/2", "5.4.1", "a wrong PING", frame(Kind.PING, 0, 3, bytes(8)), PROTOCOL),
    case("http2/5.5/1", "5.5", "a frame of an extension", UNKNOWN + ASK, pong),
    case("http2/5.5/2", "5.5", "one within a block", PARTLY + UNKNOWN, PROTOCOL),
)
DATA = (
    case("http2/6.1/1", "6.1", "DATA of stream 0", data(0, b"test"), PROTOCOL),
    case("http2/6.1/2", "6.1", "DATA after the end", ASKED + data(1, b"test"), GONE),
    case(
        *("http2/6.1/3", "6.1", "more padding than there is"),
        *(BEGUN + frame(Kind.DATA, END_STREAM | PADDED, 1, b"\6Test"), PROTOCOL),
    ),
)
HEADERS = (
    case("http2/6.2/1", "6.2", "PRIORITY within", PARTLY + priority(1, dependency(0)), PROTOCOL),
    case(
        "http2/6.2/2", "6.2", "HEADERS of another stream within", PARTLY + headers(3, GET), PROTOCOL
    ),
    case("http2/6.2/3", "6.2", "HEADERS of stream 0", headers(0, GET), PROTOCOL),
    case(
        *("http2/6.2/4", "6.2", "more padding than there is"),
        frame(Kind.HEADERS, END_HEADERS | END_STREAM | PADDED, 1, bytes([len(GET) + 2]) + GET),
        PROTOCOL,
    ),
)
PRIORITY = (
    case("http2/6.3/1", "6.3", "PRIORITY of stream 0", priority(0, dependency(0)), PROTOCOL),
    case(
        *("http2/6.3/2", "6.3", "PRIORITY of 4 bytes"),
        *(BEGUN + priority(1, b"\x80\0\0\1"), stream_error(Code.FRAME_SIZE_ERROR)),
    ),
)
RST_STREAM = (
    case("http2/6.4/1", "6.4", "RST_STREAM of stream 0", reset(0), PROTOCOL),
    case("http2/6.4/2", "6.4", "RST_STREAM of an idle stream", reset(1), PROTOCOL),
    case(
        *("http2/6.4/3", "6.4", "RST_STREAM of 3 bytes"),
        *(BEGUN + frame(Kind.RST_STREAM, 0, 1, bytes(3)), WRONG_SIZE),
    ),
)
CASES = (*STARTING, *FRAMES, *STREAM_STATES, *DATA, *HEADERS, *PRIORITY, *RST_STREAM)
