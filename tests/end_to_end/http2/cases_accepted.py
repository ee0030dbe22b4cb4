"""What a server has to take: h2spec's part `generic`."""

from __future__ import annotations

from tests.end_to_end.http2.conformance import (
    ASK,
    Case,
    acknowledged,
    answered,
    case,
    data_of,
    ended,
    first_settings,
    pong,
    pong_or_end,
)
from tests.end_to_end.http2.frames import (
    END_STREAM,
    GET,
    PADDED,
    POST,
    PREFACE,
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
    prefixed,
    priority,
    request,
    reset,
    settings,
    window_update,
)

ASKED = headers(1, GET)
BEGUN = headers(1, POST, ends=False)
NO_WINDOW = settings((Setting.INITIAL_WINDOW_SIZE, 0))
LEAST = dependency(0, 0)
MOST = dependency(0, 255)
TRAILING = (b"trailer", b"x-test")

ENTERED, NEVER = 0x40, 0x10
"""Patterns of fields that enter the table of those known, and that may enter none."""
PLAIN = b"\6h2spec"
"""A value; below in Huffman's code, as is a name."""
CODED = bytes.fromhex("849c48aca4")
X_TEST = bytes.fromhex("85f2b24a84ff")


def _field(number: int, what: str, field: bytes) -> Case:
    """A request with one more field, in some representation."""
    return case(f"generic/5/{number}", "7541 6", what, headers(1, GET + field), answered)


CASES = (
    case("generic/1/1", "3.4", "a preface", PREFACE + settings(), first_settings, begins=False),
    case("generic/2/1", "5.1", "PRIORITY of an idle stream", priority(1, MOST), ASK, pong),
    case(
        *("generic/2/2", "5.1", "WINDOW_UPDATE of a stream whose request has ended"),
        *(NO_WINDOW + ASKED + window_update(1, 1), data_of(1)),
    ),
    case(
        *("generic/2/3", "5.1", "PRIORITY of a stream whose request has ended"),
        *(NO_WINDOW + ASKED + priority(1, MOST) + window_update(1, 1), data_of(1)),
    ),
    case(
        *("generic/2/4", "5.1", "RST_STREAM of a stream whose request has ended"),
        *(ASKED + reset(1) + ASK, pong),
    ),
    case(
        *("generic/2/5", "5.1", "PRIORITY of a closed stream"),
        *(ASKED, ended, priority(1, MOST) + ASK, pong),
    ),
    case("generic/3.1/1", "6.1", "DATA", BEGUN + data(1, b"test"), answered),
    case(
        *("generic/3.1/2", "6.1", "DATA twice"),
        *(BEGUN + data(1, b"test", ends=False) + data(1, b"test"), answered),
    ),
    case(
        *("generic/3.1/3", "6.1", "DATA with padding"),
        BEGUN + frame(Kind.DATA, END_STREAM | PADDED, 1, b"\5test" + bytes(5)),
        answered,
    ),
    case("generic/3.2/1", "6.2", "HEADERS", ASKED, answered),
    case("generic/3.2/2", "6.2", "HEADERS with padding", headers(1, GET, padding=8), answered),
    case("generic/3.2/3", "6.2", "HEADERS with priority", headers(1, GET, priority=MOST), answered),
    case("generic/3.3/1", "6.3", "PRIORITY, least weight", priority(1, LEAST) + ASKED, answered),
    case("generic/3.3/2", "6.3", "PRIORITY, most weight", priority(1, MOST) + ASKED, answered),
    case(
        *("generic/3.3/3", "6.3", "PRIORITY with a parent"),
        *(priority(3, dependency(1, 0)) + ASKED, answered),
    ),
    case(
        *("generic/3.3/4", "6.3", "PRIORITY, exclusive"),
        *(priority(1, dependency(0, 0, is_exclusive=True)) + ASKED, answered),
    ),
    case(
        *("generic/3.3/5", "6.3", "PRIORITY of an idle stream, HEADERS of a lower one"),
        *(priority(3, MOST) + ASKED, answered),
    ),
    case("generic/3.4/1", "6.4", "RST_STREAM", BEGUN + reset(1) + ASK, pong),
    case(
        *("generic/3.5/1", "6.5", "SETTINGS of every parameter"),
        settings(*zip(Setting, (4096, 1, 100, 65535, 16384, 100), strict=True)),
        acknowledged,
    ),
    case("generic/3.7/1", "6.7", "PING", ASK, pong),
    case("generic/3.8/1", "6.8", "GOAWAY", goaway(reason=b"enough") + ASK, pong_or_end),
    case("generic/3.9/1", "6.9", "WINDOW_UPDATE", window_update(0, 1) + ASK, pong),
    case(
        *("generic/3.9/2", "6.9", "WINDOW_UPDATE of a stream"),
        *(ASKED + window_update(1, 1), answered),
    ),
    case(
        *("generic/3.10/1", "6.10", "CONTINUATION"),
        *(headers(1, GET[:5], is_whole=False) + continuation(1, GET[5:]), answered),
    ),
    case(
        *("generic/3.10/2", "6.10", "CONTINUATION twice"),
        headers(1, GET[:5], is_whole=False)
        + continuation(1, GET[5:10], is_whole=False)
        + continuation(1, GET[10:]),
        answered,
    ),
    case("generic/4/1", "8.1", "GET", ASKED, answered),
    case("generic/4/2", "8.1", "HEAD", headers(1, request(b"HEAD")), answered),
    case("generic/4/3", "8.1", "POST", BEGUN + data(1, b"test"), answered),
    case(
        *("generic/4/4", "8.1", "POST with trailers"),
        headers(1, request(b"POST", b"/", TRAILING), ends=False)
        + data(1, b"test", ends=False)
        + headers(1, block((b"x-test", b"ok"))),
        answered,
    ),
    _field(1, "an indexed field", prefixed(58, 7, 0x80)),
    _field(2, "a known name, entering the table", prefixed(58, 6, ENTERED) + PLAIN),
    _field(3, "the same, coded", prefixed(58, 6, ENTERED) + CODED),
    _field(4, "a new name, entering the table", literal(b"x-test", b"h2spec", ENTERED)),
    _field(5, "the same, coded", bytes([ENTERED]) + X_TEST + CODED),
    _field(6, "a known name, not entering the table", prefixed(58, 4) + PLAIN),
    _field(7, "the same, coded", prefixed(58, 4) + CODED),
    _field(8, "a new name, not entering the table", literal(b"x-test", b"h2spec")),
    _field(9, "the same, coded", bytes([0]) + X_TEST + CODED),
    _field(10, "a known name that no table may have", prefixed(58, 4, NEVER) + PLAIN),
    _field(11, "the same, coded", prefixed(58, 4, NEVER) + CODED),
    _field(12, "a new name that no table may have", literal(b"x-test", b"h2spec", NEVER)),
    _field(13, "the same, coded", bytes([NEVER]) + X_TEST + CODED),
    case(
        *("generic/5/14", "7541 6.3", "a change of the table's size"),
        *(headers(1, prefixed(128, 5, 0x20) + GET), answered),
    ),
    case(
        *("generic/5/15", "7541 6.3", "two changes of the table's size"),
        *(headers(1, prefixed(128, 5, 0x20) + prefixed(4096, 5, 0x20) + GET), answered),
    ),
)
