"""The binding and clients that break rules, or send frames of streams that are gone."""

from __future__ import annotations

import sys

import pytest
from h2.errors import ErrorCodes
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.proxy.http2.pair import (
    GET,
    POST,
    PREFACE,
    WINDOW,
    Pair,
    block,
    ended,
    nghttp2,
    opened,
    raw,
)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param([*GET, ("x", "a\rb")], id="cr"),
        pytest.param([*GET, ("x", "a\nb")], id="lf"),
        pytest.param([*GET, ("x", "a\0b")], id="nul"),
        pytest.param([*GET, ("x", " a")], id="space-before"),
        pytest.param([*GET, ("x", "a\t")], id="tab-behind"),
        pytest.param([*GET, ("x:y", "a")], id="colon-in-name"),
        pytest.param([*GET, ("x y", "a")], id="space-in-name"),
        pytest.param([*GET, ("", "a")], id="no-name"),
        pytest.param([*GET, ("Accept", "a")], id="capital"),
        pytest.param([*GET, ("connection", "close")], id="connection"),
        pytest.param([*GET, ("transfer-encoding", "chunked")], id="transfer-encoding"),
        pytest.param([*GET, ("upgrade", "websocket")], id="upgrade"),
        pytest.param([*GET, ("keep-alive", "1")], id="keep-alive"),
        pytest.param([*GET, ("proxy-connection", "close")], id="proxy-connection"),
        pytest.param([*GET, ("te", "gzip")], id="te"),
        pytest.param([*GET, ("content-length", "1"), ("content-length", "1")], id="two-lengths"),
        pytest.param([*GET, ("content-length", "-1")], id="negative-length"),
        pytest.param([*GET, ("content-length", "1")], id="length-without-body"),
        pytest.param([*GET, (":path", "/")], id="pseudo-behind"),
        pytest.param([*GET[:4], (":path", "/")], id="pseudo-twice"),
        pytest.param([*GET[:4], (":status", "200")], id="pseudo-of-answers"),
        pytest.param([*GET[:4], (":other", "1")], id="pseudo-unknown"),
        pytest.param([*GET[:4], (":protocol", "websocket")], id="protocol-not-offered"),
        pytest.param(GET[1:], id="no-method"),
        pytest.param([GET[0], *GET[2:]], id="no-scheme"),
        pytest.param(GET[:3], id="no-path"),
        pytest.param([*GET[:3], (":path", "")], id="empty-path"),
        pytest.param([*GET[:3], (":path", "a")], id="path-without-slash"),
        pytest.param([*GET[:3], (":path", "/a b")], id="space-in-path"),
        pytest.param([(":method", "G T"), *GET[1:]], id="space-in-method"),
        pytest.param([*GET[:2], (":authority", "a\x80"), GET[3]], id="authority"),
    ],
)
def test_malformed_requests(fields: list[tuple[str, str]]) -> None:
    """They end their stream, not others; nobody is told of them but by the counts."""
    session, encoder = opened(), Encoder()
    wrong = HeadersFrame(1, block(fields, encoder), flags=["END_HEADERS", "END_STREAM"])
    right = HeadersFrame(3, block(GET, encoder), flags=["END_HEADERS", "END_STREAM"])

    told = session.receive(raw(wrong, right))

    assert [(nghttp2.REQUEST, 3)] == [each[:2] for each in told]
    resets = [each for each in ended(session) if isinstance(each, RstStreamFrame)]
    assert [(1, ErrorCodes.PROTOCOL_ERROR)] == [(r.stream_id, r.error_code) for r in resets]
    assert [] == session.events()
    assert (2, 1) == (session.requests, session.own_resets)


def test_more_data_than_announced() -> None:
    """It ends the stream, of which the caller is told as it is written."""
    pair = Pair()
    stream_id = pair.request([*POST, ("content-length", "3")], is_last=False)
    pair.pump()

    told = pair.session.receive(raw(DataFrame(stream_id, b"four")))

    assert [] == told
    pair.session.output(1000)
    assert [(nghttp2.CLOSED, stream_id, None, 1)] == pair.session.events()
    assert 1 == pair.session.own_resets


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        pytest.param([HeadersFrame(2, block(GET), flags=["END_HEADERS"])], 1, id="even-stream"),
        pytest.param([DataFrame(1, b"x")], 1, id="data-of-idle-stream"),
        pytest.param([RstStreamFrame(1)], 1, id="reset-of-idle-stream"),
        pytest.param([WindowUpdateFrame(0, window_increment=(1 << 31) - 1)], 3, id="window"),
        pytest.param([HeadersFrame(1, b"\xff\xff\xff", flags=["END_HEADERS"])], 9, id="hpack"),
        pytest.param([ContinuationFrame(1, b"")], 1, id="continuation"),
        pytest.param([HeadersFrame(1, block(GET)), PingFrame(0, b"12345678")], 1, id="interleaved"),
        pytest.param([SettingsFrame(0, settings={2: 2})], 1, id="push"),
        pytest.param([SettingsFrame(0, settings={5: 1})], 1, id="frame-size"),
    ],
)
def test_connection_errors(frames: list[Frame], code: int) -> None:
    """They end the connection: a GOAWAY is left to be written, then nothing."""
    session = opened()

    with pytest.raises(nghttp2.SessionError) as raised:
        session.receive(raw(*frames))

    assert code == raised.value.code
    assert str(raised.value)
    assert session.is_over is False
    *_, goaway = ended(session)
    assert isinstance(goaway, GoAwayFrame)
    assert code == goaway.error_code
    assert session.is_over is True
    assert b"" == session.output(100)
    with pytest.raises(nghttp2.SessionError):
        session.receive(raw(PingFrame(0, b"12345678")))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="http1"),
        pytest.param(PREFACE + raw(PingFrame(0, b"12345678")), id="no-settings"),
        pytest.param(PREFACE + b"\xff" * 9, id="frame-size"),
    ],
)
def test_wrong_prefaces(data: bytes) -> None:
    session = nghttp2.Session(100, WINDOW, 65536, 4096, False)

    with pytest.raises(nghttp2.SessionError):
        session.receive(data)

    assert isinstance(ended(session)[-1], GoAwayFrame)
    assert session.is_over is True


def test_streams_beyond_the_bound() -> None:
    """They are refused until the client knows the bound, then they are an error."""
    pair = Pair(max_streams=1)
    first = HeadersFrame(1, block(GET), flags=["END_HEADERS"])
    second = HeadersFrame(3, block(GET), flags=["END_HEADERS"])

    with pytest.raises(nghttp2.SessionError) as raised:
        pair.session.receive(raw(first, second))

    assert ErrorCodes.PROTOCOL_ERROR == raised.value.code


def test_streams_beyond_the_bound_at_the_start() -> None:
    """A client that has not heard of the bound is told to try again."""
    session = nghttp2.Session(1, WINDOW, 65536, 4096, False)
    encoder = Encoder()
    first = HeadersFrame(1, block(GET, encoder), flags=["END_HEADERS"])
    second = HeadersFrame(3, block(GET, encoder), flags=["END_HEADERS"])

    told = session.receive(PREFACE + raw(SettingsFrame(0), first, second))

    assert [1] == [each[1] for each in told]
    [reset] = [each for each in ended(session) if isinstance(each, RstStreamFrame)]
    assert (3, ErrorCodes.REFUSED_STREAM) == (reset.stream_id, reset.error_code)
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

    [reset] = [each for each in ended(session) if isinstance(each, RstStreamFrame)]
    assert (1, ErrorCodes.ENHANCE_YOUR_CALM) == (reset.stream_id, reset.error_code)
    assert 1 == session.own_resets
    last = HeadersFrame(3, block(GET, encoder), flags=["END_HEADERS", "END_STREAM"])
    [(kind, stream_id, head, _)] = session.receive(raw(last))
    assert (nghttp2.REQUEST, 3) == (kind, stream_id)
    assert b"accept: application/json\r\n" == head[5]


def test_nothing_is_told_of_a_session_that_is_over() -> None:
    """What came before the error is lost with the connection."""
    session = opened()
    request = HeadersFrame(1, block(GET), flags=["END_HEADERS", "END_STREAM"])

    with pytest.raises(nghttp2.SessionError):
        session.receive(raw(request, PingFrame(0, b"12345678")) + b"\xff" * 9)

    assert [] == session.events()


def test_errors_hold_no_session() -> None:
    """A session goes with its last reference, also after it failed: it has no cycle."""
    chunk = b"x" * 1000
    before = sys.getrefcount(chunk)
    pair = Pair()
    stream_id = pair.request(GET)
    pair.pump()
    pair.session.answer(stream_id, 200, b"", chunk, False)

    with pytest.raises(nghttp2.SessionError) as raised:
        pair.session.receive(b"\xff" * 9)
    del pair, raised

    assert before == sys.getrefcount(chunk)


MAX_STREAMS = 100


def headers(stream_id: int, *, is_last: bool = True) -> HeadersFrame:
    """A request; its block depends on none before it."""
    flags = ["END_HEADERS", "END_STREAM"] if is_last else ["END_HEADERS"]
    fields = GET if is_last else POST
    return HeadersFrame(stream_id, b"\x20" + block(fields), flags=flags)


def receive_in_pieces(session: nghttp2.Session, data: bytes, size: int) -> None:
    for at in range(0, len(data), size):
        session.receive(data[at : at + size])


def refusal(session: nghttp2.Session, *frames: Frame) -> int:
    with pytest.raises(nghttp2.SessionError) as raised:
        session.receive(raw(*frames))
    return raised.value.code


@pytest.mark.parametrize("size", [1, 9, 10, 1000])
def test_data_of_a_stream_that_its_client_reset(size: int) -> None:
    """It is refused, however the bytes come."""
    session = opened()
    data = raw(headers(1, is_last=False), RstStreamFrame(1), DataFrame(1, b"late"))

    with pytest.raises(nghttp2.SessionError) as raised:
        receive_in_pieces(session, data, size)

    assert ErrorCodes.STREAM_CLOSED == raised.value.code


def test_headers_of_a_stream_that_has_ended() -> None:
    session = opened()
    session.receive(raw(headers(1)))
    session.answer(1, 200, b"", b"ok", True)
    session.output(1 << 20)

    assert ErrorCodes.STREAM_CLOSED == refusal(session, headers(1))


@pytest.mark.parametrize("late", [DataFrame(1, b"late"), headers(1)])
def test_a_stream_that_was_reset_here(late: Frame) -> None:
    """Its client may not know yet, so what comes for it is ignored."""
    session = opened()
    session.receive(raw(headers(1, is_last=False)))
    session.reset(1, ErrorCodes.CANCEL)
    session.output(1 << 20)
    session.events()

    assert [] == session.receive(raw(late))
    assert 3 == session.receive(raw(headers(3)))[0][1]


def test_an_answer_before_the_end_of_its_request() -> None:
    session = opened()
    session.receive(raw(headers(1, is_last=False)))
    session.answer(1, 413, b"", b"", True)
    session.output(1 << 20)
    session.reset(1, ErrorCodes.NO_ERROR)
    session.output(1 << 20)
    session.events()

    assert [] == session.receive(
        raw(DataFrame(1, b"late"), DataFrame(1, b"", flags=["END_STREAM"]))
    )


def test_all_streams_of_a_client_that_were_reset_here() -> None:
    """As many as it may have open are remembered, which are all that it may still send for."""
    session = opened()
    numbers = [1 + 2 * each for each in range(MAX_STREAMS)]
    session.receive(raw(*(headers(each, is_last=False) for each in numbers)))
    for each in numbers:
        session.reset(each, ErrorCodes.CANCEL)
    session.output(1 << 20)
    session.events()

    assert [] == session.receive(raw(*(DataFrame(each, b"late") for each in numbers)))


def test_streams_that_were_refused() -> None:
    """A client that does not know the limit yet opens many, and sends their bodies behind them."""
    session = nghttp2.Session(10, WINDOW, 65536, 4096, False)
    session.receive(PREFACE + raw(SettingsFrame()))
    numbers = [1 + 2 * each for each in range(MAX_STREAMS)]
    begun = session.receive(raw(*(headers(each, is_last=False) for each in numbers)))

    events = session.receive(raw(*(DataFrame(each, b"more") for each in numbers)))

    assert numbers[:10] == [stream_id for _, stream_id, _, _ in begun]
    assert numbers[:10] == [stream_id for _, stream_id, _, _ in events]


def test_streams_after_the_last_one() -> None:
    """A client that does not know yet of the end may send requests and their bodies."""
    session = opened()
    session.receive(raw(headers(1)))
    session.go_away(ErrorCodes.NO_ERROR)
    session.output(1 << 20)
    session.events()

    assert [] == session.receive(raw(headers(3, is_last=False), DataFrame(3, b"more")))


def test_a_malformed_request_with_a_body() -> None:
    """It is reset; what the client has sent behind it is ignored."""
    session = opened()
    wrong = HeadersFrame(1, block([*POST, ("connection", "close")]), flags=["END_HEADERS"])

    assert [] == session.receive(raw(wrong, DataFrame(1, b"data")))
    session.output(1 << 20)
    session.events()
    assert [] == session.receive(raw(DataFrame(1, b"data")))


@pytest.mark.parametrize("number", [3, 7])
def test_numbers_that_were_left_out(number: int) -> None:
    """Streams below the newest are closed, also those that never were."""
    session = opened()
    session.receive(raw(headers(1), headers(9)))

    assert ErrorCodes.PROTOCOL_ERROR == refusal(session, headers(number))


def test_priority_of_no_stream() -> None:
    with pytest.raises(nghttp2.SessionError, match="of no stream"):
        opened().receive(b"\0\0\5\2\0\0\0\0\0" + bytes(5))


@pytest.mark.parametrize("size", [1, 12, 1000])
def test_priority_of_a_stream_on_itself(size: int) -> None:
    """It is refused, however the bytes come; on another stream, it is ignored."""
    session = opened()
    session.receive(raw(headers(1, is_last=False), PriorityFrame(1, depends_on=3)))
    data = raw(PriorityFrame(1, depends_on=1))

    with pytest.raises(nghttp2.SessionError, match="on itself"):
        receive_in_pieces(session, data, size)


def test_priority_of_another_length() -> None:
    session = opened()
    session.receive(raw(headers(1, is_last=False)))

    with pytest.raises(nghttp2.SessionError) as raised:
        session.receive(b"\0\0\7\2\0\0\0\0\1" + b"\0\0\0\1\0\0\0")
    assert ErrorCodes.FRAME_SIZE_ERROR == raised.value.code
