"""The binding, as requests come and answers go; with h2 as the client."""

from __future__ import annotations

import sys

import pytest
from h2.errors import ErrorCodes
from h2.events import StreamEnded, StreamReset
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
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
    ended,
    frames_of,
    nghttp2,
    opened,
    raw,
)


def begun(fields: list[tuple[str, str]] = GET, *, is_last: bool = True) -> tuple[Pair, int]:
    pair = Pair()
    stream_id = pair.request(fields, is_last=is_last)
    pair.pump()
    return pair, stream_id


def test_settings() -> None:
    session = nghttp2.Session(7, 1000, 2000, 4096, True)
    [settings] = frames_of(session.output(1 << 20))

    assert isinstance(settings, SettingsFrame)
    assert {3: 7, 4: 1000, 6: 2000, 8: 1, 9: 1} == settings.settings
    assert session.is_over is False
    assert 10 * WINDOW == Pair(max_streams=10).client.outbound_flow_control_window


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
    pair, _ = begun([*POST, ("cookie", "x=y"), ("cookie", "z=y")])
    pair.request([*GET, *fields])

    [(_, _, head, _)] = pair.pump()
    assert marks == head[6]


def test_order_of_fields() -> None:
    pair = Pair()
    sent = ["b: 3", "accept: 2", "b: 1", "ab: 4", "a: 5", "b: 2", "accept-x: 1"]
    fields = [(name, value) for name, _, value in (each.partition(": ") for each in sent)]
    many = [(f"x-{at % 7}", f"{at}") for at in range(65)]
    pair.request([*GET[:4], *fields])
    pair.request([*GET[:4], *many])

    few, more = (str(head[5], "ascii").split("\r\n")[:-1] for _, _, head, _ in pair.pump())
    assert ["a: 5", "ab: 4", "accept: 2", "accept-x: 1", "b: 3", "b: 1", "b: 2"] == few
    assert [f"{name}: {value}" for name, value in many] == more


def test_padding_needs_no_consuming() -> None:
    pair, stream_id = begun(POST, is_last=False)
    for _ in range(300):
        pair.client.send_data(stream_id, b"", pad_length=255)
        assert [] == pair.pump()

    assert WINDOW // 2 <= pair.client.local_flow_control_window(stream_id)
    assert 300 == pair.session.empty_data


def test_reset_of_an_answer() -> None:
    """A client that breaks off what it gets is not one that resets its requests."""
    pair, stream_id = begun()
    pair.session.answer(stream_id, 200, b"", b"some", False)
    pair.pump()
    pair.client.reset_stream(stream_id, ErrorCodes.CANCEL)

    assert [(nghttp2.CLOSED, stream_id, None, 8)] == pair.pump()
    assert (0, 0) == (pair.session.resets, pair.session.own_resets)


def test_many_resets_are_for_the_owner_to_judge() -> None:
    pair = Pair()
    for _ in range(1200):
        stream_id = pair.request(GET)
        pair.pump()
        pair.client.reset_stream(stream_id)
        assert [(nghttp2.CLOSED, stream_id, None, 0)] == pair.pump()


def test_requests_that_are_reset_at_once() -> None:
    """They are counted, not told of, nor is their body; others are."""
    pair = Pair()
    gone = pair.request(POST, is_last=False)
    pair.client.send_data(gone, b"x")
    stays = pair.request(GET)
    pair.client.reset_stream(gone)

    assert [(nghttp2.REQUEST, stays)] == [each[:2] for each in pair.pump()]
    assert (2, 1) == (pair.session.requests, pair.session.resets)


def test_bound_of_fields() -> None:
    """Each field counts 32 bytes more than it has, as RFC 9113 says."""
    size = sum(len(name) + len(value) + 32 for name, value in GET)
    for bound, kind in ((size, nghttp2.REQUEST), (size - 1, nghttp2.TOO_LARGE)):
        pair = Pair(max_fields_bytes=bound)
        pair.request(GET)
        assert [kind] == [each[0] for each in pair.pump()]

    stream_id = pair.request([*POST[:3], (":path", "/")], is_last=False)
    pair.pump()
    pair.client.send_headers(stream_id, [("x-long", "v" * 1000)], end_stream=True)
    assert [(nghttp2.CLOSED, stream_id, None, ErrorCodes.ENHANCE_YOUR_CALM)] == pair.pump()
    assert 1 == pair.session.own_resets


def test_counts() -> None:
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

    assert (1, 1, 1) == (session.requests, session.resets, session.continuations)
    assert (1, 1) == (session.empty_data, session.window_updates)
    assert before + 9 == session.nuisances


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="window_bytes"):
        nghttp2.Session(100, 1 << 31, 65536, 4096, False)
    session = opened()
    with pytest.raises(RuntimeError):
        session.__init__(100, WINDOW, 65536, 4096, False)
    with pytest.raises(TypeError):
        session.receive("text")  # type: ignore[arg-type]


def test_output_is_bounded() -> None:
    """About as much comes as was asked for: up to a frame more."""
    pair, stream_id = begun()
    pair.session.answer(stream_id, 200, b"", b"x" * 60_000, True)

    assert 20_000 <= len(pair.session.output(20_000)) <= 20_000 + 16384 + 9
    assert pair.session.output(1 << 20)


def test_streams_take_turns() -> None:
    """A stream with much to send does not keep others waiting, whatever the client wishes."""
    pair = Pair()
    first = pair.request([*GET, ("priority", "u=0")])
    second = pair.request([*GET, ("priority", "u=7")])
    pair.client.increment_flow_control_window(1 << 20)
    pair.pump()
    for stream_id in (first, second):
        pair.session.answer(stream_id, 200, b"", b"x" * 40_000, True)

    sent = [each.stream_id for each in ended(pair.session) if isinstance(each, DataFrame)]
    assert sent in ([first, second] * 3, [second, first] * 3)


@pytest.mark.parametrize(("code", "counted"), [(1, 1), (2, 0), (8, 0)])
def test_reset_for_a_broken_rule(code: int, counted: int) -> None:
    """It counts: a client could have streams reset without end (MadeYouReset)."""
    pair, stream_id = begun()
    before = pair.session.nuisances
    pair.session.reset(stream_id, code)

    assert [(nghttp2.CLOSED, stream_id, None, code)] == pair.pump()
    assert (counted, counted) == (pair.session.own_resets, pair.session.nuisances - before)


@pytest.mark.parametrize("is_sent", [False, True])
def test_break_off_of_what_is_half_closed(is_sent: bool) -> None:
    pair, stream_id = begun(POST, is_last=False)
    pair.session.answer(stream_id, 200, b"", b"one", False)
    pair.session.half_close(stream_id)
    if is_sent:
        pair.pump()
    pair.session.break_off(stream_id, 0)

    assert [(nghttp2.CLOSED, stream_id, None, 0)] == pair.pump()
    assert (b"" if is_sent else b"one") == pair.body(stream_id)
    assert (not is_sent) == bool(pair.of(StreamEnded))
    assert [ErrorCodes.NO_ERROR] == [each.error_code for each in pair.of(StreamReset)]


def test_calls_for_streams_that_are_gone() -> None:
    session = opened()
    session.interim(1, 100, b"")
    session.answer(1, 200, b"", b"x", False)
    session.send(1, b"x", True)
    session.end(1, b"")
    session.break_off(1, 2)
    session.reset(1, 2)
    session.consume(1, 5)
    session.want_room(1)

    assert (0, [], b"") == (session.unsent(1), session.events(), session.output(100))


def test_wrong_calls() -> None:
    pair, stream_id = begun()
    session = pair.session
    with pytest.raises(ValueError, match="no answer under way"):
        session.send(stream_id, b"x", False)
    with pytest.raises(ValueError, match="no answer under way"):
        session.end(stream_id, b"")
    for lines in (b"x", b"x\r\n", b": x\r\n", b"x: y\n", b"x: y\r\nz"):
        with pytest.raises(ValueError, match="line"):
            session.answer(stream_id, 200, lines, b"", True)
    for status in (0, 99, 1000):
        with pytest.raises(ValueError, match="no status"):
            session.answer(stream_id, status, b"", b"", True)
    with pytest.raises(ValueError, match="no status"):
        session.interim(stream_id, 200, b"")
    session.answer(stream_id, 200, b"", b"", False)
    with pytest.raises(ValueError, match="line"):
        session.end(stream_id, b"x")
    with pytest.raises(ValueError, match="has its answer"):
        session.answer(stream_id, 200, b"", b"", False)


@pytest.mark.parametrize("fails", [False, True])
def test_sessions_end_with_streams_under_way(fails: bool) -> None:
    """What they held is given back, for no reference is left: a session has no cycle."""
    chunk = b"x" * 100_000
    pair, stream_id = begun()
    before = sys.getrefcount(chunk)
    pair.session.answer(stream_id, 200, b"", chunk, False)
    assert before + 1 == sys.getrefcount(chunk)
    if fails:
        with pytest.raises(nghttp2.SessionError):
            pair.session.receive(b"\xff" * 9)
    del pair

    assert before == sys.getrefcount(chunk)


def test_what_differs_in_every_answer() -> None:
    """The id of a request does not drive the rest out of HPACK's table, in which that stays."""
    pair = Pair()
    sizes = []
    for number in range(200):
        stream_id = pair.request(GET)
        pair.pump()
        lines = b"Audit-Id: %036d\r\nCache-Control: no-cache, private\r\n" % number
        pair.session.answer(stream_id, 200, lines, b"", True)
        output = pair.session.output(1000)
        pair.client.receive_data(output)
        sizes.append(len(output))

    assert 1 == len(set(sizes[1:]))
    assert sizes[0] > sizes[1]
