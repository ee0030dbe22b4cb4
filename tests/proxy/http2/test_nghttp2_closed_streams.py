"""Frames of streams that are gone, and of such as never were; the library itself ignores them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from h2.errors import ErrorCodes
from hyperframe.frame import DataFrame, HeadersFrame, PriorityFrame, RstStreamFrame, SettingsFrame

from tests.proxy.http2.pair import GET, POST, PREFACE, WINDOW, block, nghttp2, opened, raw

if TYPE_CHECKING:
    from hyperframe.frame import Frame

MAX_STREAMS = 100


def headers(stream_id: int, *, is_last: bool = True) -> HeadersFrame:
    """A request; its block depends on none before it."""
    flags = ["END_HEADERS", "END_STREAM"] if is_last else ["END_HEADERS"]
    fields = GET if is_last else POST
    return HeadersFrame(stream_id, b"\x20" + block(fields), flags=flags)


def receive_in_pieces(session: nghttp2.Session, data: bytes, size: int) -> None:
    """Receive so many bytes at once."""
    for at in range(0, len(data), size):
        session.receive(data[at : at + size])


def refusal(session: nghttp2.Session, *frames: Frame) -> int:
    """The code of the error that these frames are."""
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
    """Its answer was through."""
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
    """The rest of the body may be on its way."""
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
    """Stream 0 has no priority."""
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
    """The library looks at that."""
    session = opened()
    session.receive(raw(headers(1, is_last=False)))

    with pytest.raises(nghttp2.SessionError) as raised:
        session.receive(b"\0\0\7\2\0\0\0\0\1" + b"\0\0\0\1\0\0\0")
    assert ErrorCodes.FRAME_SIZE_ERROR == raised.value.code
