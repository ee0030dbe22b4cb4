"""The binding, as requests come; with h2 as the client."""

from __future__ import annotations

import pytest
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    RemoteSettingsChanged,
)
from h2.settings import SettingCodes
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
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
    WINDOW,
    Pair,
    block,
    frames_of,
    nghttp2,
    opened,
    raw,
)


def test_version() -> None:
    """It is that of the library, with its three numbers."""
    assert 3 == len([int(each) for each in nghttp2.VERSION.split(".")])


def test_settings() -> None:
    """The client learns the bounds first of all."""
    session = nghttp2.Session(7, 1000, 2000, 4096, True)

    [settings] = frames_of(session.output(1 << 20))

    assert isinstance(settings, SettingsFrame)
    assert {3: 7, 4: 1000, 6: 2000, 8: 1, 9: 1} == settings.settings
    assert session.is_over is False


def test_connection_window() -> None:
    """It has room for the windows of all streams."""
    pair = Pair(max_streams=10)

    assert 10 * WINDOW == pair.client.outbound_flow_control_window


@pytest.mark.parametrize(
    ("fields", "marks"),
    [
        ([("x", "y"), ("set-cookie", "a"), ("x-host", "b")], 0),
        ([("cookie", "a=b")], 0),
        (
            [("cookie", "a=b"), ("x", "y"), ("cookie", "c=d"), ("cookie", "e=f")],
            nghttp2.HAS_COOKIES,
        ),
        ([("content-length", "0")], nghttp2.HAS_LENGTH),
        ([("host", "api:6443"), ("content-length", "0")], nghttp2.HAS_LENGTH | nghttp2.HAS_HOST),
    ],
)
def test_marks(fields: list[tuple[str, str]], marks: int) -> None:
    """They say which fields there are, of one request each."""
    pair = Pair()
    pair.request([*POST, ("cookie", "x=y"), ("cookie", "z=y")])
    pair.pump()
    pair.request([*GET, *fields])

    [(_, _, head, _)] = pair.pump()
    assert marks == head[6]


def test_order_of_fields() -> None:
    """Fields come by their names, those of one name in their order, but where there are many."""
    pair = Pair()
    sent = ["b: 3", "accept: 2", "b: 1", "ab: 4", "a: 5", "b: 2", "accept-x: 1"]
    fields = [(name, value) for name, _, value in (each.partition(": ") for each in sent)]
    many = [(f"x-{at % 7}", f"{at}") for at in range(65)]

    pair.request([*GET[:4], *fields])
    pair.request([*GET[:4], *many])

    few, more = (str(head[5], "ascii").split("\r\n")[:-1] for _, _, head, _ in pair.pump())
    assert ["a: 5", "ab: 4", "accept: 2", "accept-x: 1", "b: 3", "b: 1", "b: 2"] == few
    assert [f"{name}: {value}" for name, value in many] == more


def test_byte_by_byte() -> None:
    """Frames may come in parts."""
    pair = Pair()
    pair.request(GET)

    told = [pair.session.receive(bytes([each])) for each in pair.client.data_to_send()]

    assert [[]] * (len(told) - 1) == told[:-1]
    assert nghttp2.REQUEST == told[-1][0][0]
    assert (1, 0) == (pair.session.requests, pair.session.nuisances - 2)  # SETTINGS and their ACK


def test_padding_needs_no_consuming() -> None:
    """The library gives it back."""
    pair = Pair()
    stream_id = pair.request(POST, is_last=False)
    pair.pump()

    for _ in range(300):
        pair.client.send_data(stream_id, b"", pad_length=255)
        assert [] == pair.pump()

    assert WINDOW // 2 <= pair.client.local_flow_control_window(stream_id)
    assert 300 == pair.session.empty_data


def test_reset_of_an_answer() -> None:
    """A client that breaks off what it gets is not one that resets its requests."""
    pair = Pair()
    stream_id = pair.request(GET)
    pair.pump()
    pair.session.answer(stream_id, 200, b"", b"some", False)
    pair.pump()

    pair.client.reset_stream(stream_id, ErrorCodes.CANCEL)

    assert [(nghttp2.CLOSED, stream_id, None, 8)] == pair.pump()
    assert (0, 0) == (pair.session.resets, pair.session.own_resets)


def test_many_resets() -> None:
    """Whether they are too many is for the owner to say, not for the library."""
    pair = Pair()
    for _ in range(2000):
        stream_id = pair.request(GET)
        pair.pump()
        pair.session.answer(stream_id, 200, b"", b"some", False)
        pair.client.reset_stream(stream_id)
        assert [(nghttp2.CLOSED, stream_id, None, 0)] == pair.pump()
        assert [] == pair.of(ConnectionTerminated)

    stream_id = pair.request(GET)
    assert [nghttp2.REQUEST] == [each[0] for each in pair.pump()]


def test_requests_that_are_reset_at_once() -> None:
    """They are counted, not told of, nor is their body; others are."""
    pair = Pair()
    gone = pair.request(POST, is_last=False)
    pair.client.send_data(gone, b"x")
    stays = pair.request(GET)
    pair.client.reset_stream(gone)

    told = pair.pump()

    assert [(nghttp2.REQUEST, stays)] == [each[:2] for each in told]
    assert (2, 1) == (pair.session.requests, pair.session.resets)


def test_bound_of_fields() -> None:
    """Each field counts 32 bytes more than it has, as RFC 9113 says."""
    size = sum(len(name) + len(value) + 32 for name, value in GET)

    for bound, kind in ((size, nghttp2.REQUEST), (size - 1, nghttp2.TOO_LARGE)):
        pair = Pair(max_fields_bytes=bound)
        pair.request(GET)
        assert [kind] == [each[0] for each in pair.pump()]


def test_too_many_trailers() -> None:
    """They end the stream."""
    pair = Pair(max_fields_bytes=1000)
    stream_id = pair.request(POST, is_last=False)
    pair.pump()

    pair.client.send_headers(stream_id, [("x-long", "v" * 1000)], end_stream=True)

    assert [(nghttp2.CLOSED, stream_id, None, ErrorCodes.ENHANCE_YOUR_CALM)] == pair.pump()
    assert 1 == pair.session.own_resets


def test_counts() -> None:
    """Each frame is counted, also where the library tells of none."""
    session, encoder = opened(), Encoder()
    before = session.nuisances
    request = block(POST, encoder)

    session.receive(
        raw(
            HeadersFrame(1, request[:5]),
            ContinuationFrame(1, request[5:], flags=["END_HEADERS"]),
            DataFrame(1, b"data"),
            DataFrame(1, b""),
            PingFrame(0, b"12345678"),
            PriorityFrame(1, stream_weight=5),
            WindowUpdateFrame(1, window_increment=1),
            SettingsFrame(0),
            DataFrame(1, b"", flags=["END_STREAM"]),
            RstStreamFrame(1),
        )
        + b"\0\0\2\xee\0\0\0\0\1xy"
        + raw(RstStreamFrame(1)),
    )

    assert 1 == session.requests
    assert 1 == session.resets
    assert 1 == session.continuations
    assert 1 == session.empty_data
    assert 1 == session.window_updates
    assert before + 9 == session.nuisances


def test_goaway_of_the_client() -> None:
    """The session is over as its streams are."""
    pair = Pair()
    stream_id = pair.request(GET)
    pair.pump()

    pair.session.receive(raw(GoAwayFrame(0)))
    assert pair.session.is_over is False
    pair.session.answer(stream_id, 200, b"", b"", True)
    pair.session.output(1000)

    assert pair.session.is_over is True


def test_settings_of_the_client() -> None:
    """They are obeyed: here the size of windows."""
    pair = Pair()
    pair.client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 10})
    stream_id = pair.request(GET)
    pair.pump()
    assert [] == pair.of(RemoteSettingsChanged)

    pair.session.answer(stream_id, 200, b"", b"x" * 20, True)
    pair.pump()

    assert 10 == len(pair.body(stream_id))
    assert [] == pair.of(ConnectionTerminated)


def test_wrong_arguments() -> None:
    """They are refused."""
    with pytest.raises(ValueError, match="window_bytes"):
        nghttp2.Session(100, 1 << 31, 65536, 4096, False)
    session = opened()
    with pytest.raises(RuntimeError):
        session.__init__(100, WINDOW, 65536, 4096, False)
    with pytest.raises(TypeError):
        session.receive("text")  # type: ignore[arg-type]
