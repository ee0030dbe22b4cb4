"""The binding and clients that break rules, or send frames of streams that are gone.

Cases that h2spec has are those of `tests/end_to_end/http2`.
"""

from __future__ import annotations

import pytest
from h2.errors import ErrorCodes
from hpack import Encoder
from hyperframe.frame import (
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
)

from tests.proxy.http2.pair import (
    GET,
    POST,
    PREFACE,
    WINDOW,
    block,
    ended,
    nghttp2,
    opened,
    raw,
)

MAX_STREAMS = 100


def headers(stream_id: int, *, is_last: bool = True) -> HeadersFrame:
    """A request; its block depends on none before it."""
    flags = ["END_HEADERS", "END_STREAM"] if is_last else ["END_HEADERS"]
    return HeadersFrame(stream_id, b"\x20" + block(GET if is_last else POST), flags=flags)


def receive_in_pieces(session: nghttp2.Session, data: bytes, size: int) -> None:
    for at in range(0, len(data), size):
        session.receive(data[at : at + size])


def written(session: nghttp2.Session) -> list[tuple[int, int]]:
    """Resets that were written, with what came up meanwhile taken."""
    resets = [each for each in ended(session) if isinstance(each, RstStreamFrame)]
    session.events()
    return [(each.stream_id, each.error_code) for each in resets]


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(("x", "a\rb"), id="cr"),
        pytest.param(("x", "a\nb"), id="lf"),
        pytest.param(("x", "a\0b"), id="nul"),
        pytest.param(("x", " a"), id="space-before"),
        pytest.param(("x", "a\t"), id="tab-behind"),
        pytest.param(("x:y", "a"), id="colon-in-name"),
        pytest.param(("", "a"), id="no-name"),
        pytest.param(("transfer-encoding", "chunked"), id="transfer-encoding"),
        pytest.param(("upgrade", "websocket"), id="upgrade"),
        pytest.param((":protocol", "websocket"), id="protocol-not-offered"),
        pytest.param(("content-length", "1"), id="length-without-body"),
    ],
)
def test_malformed_requests(wrong: tuple[str, str]) -> None:
    """They end their stream, not others; nobody is told of them but by the counts."""
    session, encoder = opened(), Encoder()
    fields = [*GET[:4], wrong] if wrong[0] == ":protocol" else [*GET, wrong]
    first = HeadersFrame(1, block(fields, encoder), flags=["END_HEADERS", "END_STREAM"])
    second = HeadersFrame(3, block(GET, encoder), flags=["END_HEADERS", "END_STREAM"])

    assert [(nghttp2.REQUEST, 3)] == [each[:2] for each in session.receive(raw(first, second))]
    assert [] == session.events()
    assert [(1, ErrorCodes.PROTOCOL_ERROR)] == written(session)
    assert (2, 1) == (session.requests, session.own_resets)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(raw(SettingsFrame(0, settings={2: 2})), 1, id="push"),
        pytest.param(raw(headers(1), headers(9), headers(3)), 1, id="left-out-number"),
        pytest.param(
            raw(headers(1, is_last=False), RstStreamFrame(1), DataFrame(1, b"late")),
            ErrorCodes.STREAM_CLOSED,
            id="data-behind-a-reset",
        ),
        pytest.param(b"\0\0\5\2\0\0\0\0\0" + bytes(5), 1, id="priority-of-no-stream"),
        pytest.param(
            raw(headers(1, is_last=False), PriorityFrame(1, depends_on=1)), 1, id="on-itself"
        ),
        pytest.param(
            raw(headers(1, is_last=False)) + b"\0\0\7\2\0\0\0\0\1" + b"\0\0\0\1\0\0\0",
            ErrorCodes.FRAME_SIZE_ERROR,
            id="length-of-priority",
        ),
    ],
)
@pytest.mark.parametrize("size", [1, 9, 10, 1000])
def test_connection_errors(sent: bytes, code: int, size: int) -> None:
    """However the bytes come, a GOAWAY is left to be written, then nothing."""
    session = opened()
    with pytest.raises(nghttp2.SessionError) as raised:
        receive_in_pieces(session, sent, size)

    assert (code, False) == (raised.value.code, session.is_over)
    assert str(raised.value)
    assert [] == session.events()
    *_, goaway = ended(session)
    assert isinstance(goaway, GoAwayFrame)
    assert (code, True, b"") == (goaway.error_code, session.is_over, session.output(100))
    with pytest.raises(nghttp2.SessionError):
        session.receive(raw(PingFrame(0, b"12345678")))


def test_streams_beyond_the_bound_at_the_start() -> None:
    """A client that has not heard of the bound is told to try again."""
    session = nghttp2.Session(1, WINDOW, 65536, 4096, False)
    told = session.receive(PREFACE + raw(SettingsFrame(0), headers(1), headers(3)))

    assert [1] == [each[1] for each in told]
    assert [(3, ErrorCodes.REFUSED_STREAM)] == written(session)
    assert 1 == session.own_resets


def test_answers_to_floods_are_bounded() -> None:
    """A client that never reads cannot have answers queued without end."""
    session = opened()
    with pytest.raises(nghttp2.SessionError) as raised:
        session.receive(raw(PingFrame(0, b"12345678")) * 5000)

    assert ErrorCodes.ENHANCE_YOUR_CALM == raised.value.code


@pytest.mark.parametrize("references", [8, 12_000])
def test_bomb_of_hpack(references: int) -> None:
    session, encoder = opened(), Encoder()
    bomb = block([*POST, ("x", "v" * 4000)], encoder) + b"\xbe" * references

    assert [] == session.receive(raw(HeadersFrame(1, bomb, flags=["END_HEADERS"])))
    assert [(1, ErrorCodes.ENHANCE_YOUR_CALM)] == written(session)
    assert 1 == session.own_resets
    last = HeadersFrame(3, block(GET, encoder), flags=["END_HEADERS", "END_STREAM"])
    [(kind, stream_id, head, _)] = session.receive(raw(last))
    assert (nghttp2.REQUEST, 3) == (kind, stream_id)
    assert b"accept: application/json\r\n" == head[5]


@pytest.mark.parametrize("late", [DataFrame(1, b"late"), headers(1)])
@pytest.mark.parametrize("is_answered", [False, True])
def test_a_stream_that_was_reset_here(late: Frame, is_answered: bool) -> None:
    """Its client may not know yet, so what comes for it is ignored."""
    session = opened()
    session.receive(raw(headers(1, is_last=False)))
    if is_answered:
        session.answer(1, 413, b"", b"", True)
        written(session)
    session.reset(1, ErrorCodes.CANCEL)
    written(session)

    assert [] == session.receive(raw(late))
    assert 3 == session.receive(raw(headers(3)))[0][1]


def test_all_streams_of_a_client_that_were_reset_here() -> None:
    """As many as it may have open are remembered, which are all that it may still send for."""
    session = opened()
    numbers = range(1, 2 * MAX_STREAMS, 2)
    session.receive(raw(*(headers(each, is_last=False) for each in numbers)))
    for each in numbers:
        session.reset(each, ErrorCodes.CANCEL)
    written(session)

    assert [] == session.receive(raw(*(DataFrame(each, b"late") for each in numbers)))


def test_streams_that_were_refused() -> None:
    """A client that does not know the limit yet opens many, and sends their bodies behind them."""
    session = nghttp2.Session(10, WINDOW, 65536, 4096, False)
    session.receive(PREFACE + raw(SettingsFrame()))
    numbers = list(range(1, 2 * MAX_STREAMS, 2))
    begun = session.receive(raw(*(headers(each, is_last=False) for each in numbers)))
    events = session.receive(raw(*(DataFrame(each, b"more") for each in numbers)))

    assert numbers[:10] == [each[1] for each in begun] == [each[1] for each in events]


def test_streams_after_the_last_one() -> None:
    """A client that does not know yet of the end may send requests and their bodies."""
    session = opened()
    session.receive(raw(headers(1)))
    session.go_away(ErrorCodes.NO_ERROR)
    written(session)

    assert [] == session.receive(raw(headers(3, is_last=False), DataFrame(3, b"more")))


@pytest.mark.parametrize("is_reset", [False, True])
def test_bodies_of_malformed_requests(is_reset: bool) -> None:
    session = opened()
    wrong = HeadersFrame(1, block([*POST, ("connection", "close")]), flags=["END_HEADERS"])
    assert [] == session.receive(raw(wrong))
    if is_reset:
        written(session)

    assert [] == session.receive(raw(DataFrame(1, b"data")))
