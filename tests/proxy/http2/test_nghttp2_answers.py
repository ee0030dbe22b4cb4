"""The binding, as answers go."""

from __future__ import annotations

import sys

import pytest
from h2.errors import ErrorCodes
from h2.events import (
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from hyperframe.frame import (
    DataFrame,
)

from tests.proxy.http2.pair import (
    GET,
    POST,
    Pair,
    ended,
    nghttp2,
    opened,
)


def test_output_is_bounded() -> None:
    """About as much comes as was asked for: up to a frame more."""
    pair = Pair()
    stream_id = pair.request(GET)
    pair.pump()
    pair.session.answer(stream_id, 200, b"", b"x" * 60_000, True)

    first = pair.session.output(20_000)

    assert 20_000 <= len(first) <= 20_000 + 16384 + 9
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


def test_room_that_is_there() -> None:
    """It is told of at once."""
    pair = Pair()
    stream_id = pair.request(GET)
    pair.pump()
    pair.session.answer(stream_id, 200, b"", b"", False)

    pair.session.want_room(stream_id)

    assert [(nghttp2.ROOM, stream_id, None, 0)] == pair.session.events()


def test_break_off_of_what_was_not_answered() -> None:
    """It is a reset."""
    pair = Pair()
    stream_id = pair.request(GET)
    pair.pump()

    pair.session.break_off(stream_id, 2)

    assert [(nghttp2.CLOSED, stream_id, None, 2)] == pair.pump()


@pytest.mark.parametrize(("code", "counted"), [(1, 1), (2, 0), (8, 0)])
def test_reset_for_a_broken_rule(code: int, counted: int) -> None:
    """It counts: a client could have streams reset without end (MadeYouReset)."""
    pair = Pair()
    stream_id = pair.request(GET)
    pair.pump()
    before = pair.session.nuisances

    pair.session.reset(stream_id, code)

    assert [(nghttp2.CLOSED, stream_id, None, code)] == pair.pump()
    assert (counted, counted) == (pair.session.own_resets, pair.session.nuisances - before)


def half_closed() -> tuple[Pair, int]:
    """A stream whose answer has its end, though its request has none."""
    pair = Pair()
    stream_id = pair.request(POST, is_last=False)
    pair.pump()
    pair.session.answer(stream_id, 200, b"", b"one", False)
    pair.session.half_close(stream_id)
    return pair, stream_id


@pytest.mark.parametrize("is_sent", [False, True])
def test_break_off_of_what_is_half_closed(is_sent: bool) -> None:
    """What is unsent, the end, and then the reset."""
    pair, stream_id = half_closed()
    body = b"one"
    if is_sent:
        pair.pump()
        body = b""

    pair.session.break_off(stream_id, 0)

    assert [(nghttp2.CLOSED, stream_id, None, 0)] == pair.pump()
    assert body == pair.body(stream_id)
    assert (not is_sent) == bool(pair.of(StreamEnded))
    [reset] = pair.of(StreamReset)
    assert ErrorCodes.NO_ERROR == reset.error_code


def test_calls_for_streams_that_are_gone() -> None:
    """They do nothing."""
    session = opened()

    session.interim(1, 100, b"")
    session.answer(1, 200, b"", b"x", False)
    session.send(1, b"x", True)
    session.end(1, b"")
    session.break_off(1, 2)
    session.reset(1, 2)
    session.consume(1, 5)
    session.want_room(1)

    assert 0 == session.unsent(1)
    assert [] == session.events()
    assert b"" == session.output(100)


def test_wrong_calls() -> None:
    """They say what is wrong."""
    pair = Pair()
    stream_id = pair.request(GET)
    pair.pump()

    with pytest.raises(ValueError, match="no answer under way"):
        pair.session.send(stream_id, b"x", False)
    with pytest.raises(ValueError, match="no answer under way"):
        pair.session.end(stream_id, b"")
    for lines in (b"x", b"x\r\n", b": x\r\n", b"x: y\n", b"x: y\r\nz"):
        with pytest.raises(ValueError, match="line"):
            pair.session.answer(stream_id, 200, lines, b"", True)
    for status in (0, 99, 101 - 1, 1000):
        with pytest.raises(ValueError, match="no status"):
            pair.session.answer(stream_id, status, b"", b"", True)
    with pytest.raises(ValueError, match="no status"):
        pair.session.interim(stream_id, 200, b"")
    pair.session.answer(stream_id, 200, b"", b"", False)
    with pytest.raises(ValueError, match="line"):
        pair.session.end(stream_id, b"x")
    with pytest.raises(ValueError, match="has its answer"):
        pair.session.answer(stream_id, 200, b"", b"", False)


def test_many_fields_of_an_answer() -> None:
    """More than a few are no trouble, nor more than a frame has room for."""
    pair = Pair()
    pair.client.decoder.max_header_list_size = 1 << 20
    stream_id = pair.request(GET)
    pair.pump()
    lines = b"".join(b"x-%d: %s\r\n" % (each, b"v" * 200) for each in range(500))

    pair.session.answer(stream_id, 200, lines, b"", True)
    pair.pump()

    [head] = pair.of(ResponseReceived)
    assert 501 == len(head.headers)


def test_sessions_end_with_streams_under_way() -> None:
    """What they held is given back: the chunk has this function's references only."""
    chunk = b"x" * 100_000
    pair = Pair()
    stream_id = pair.request(GET)
    pair.pump()
    before = sys.getrefcount(chunk)
    pair.session.answer(stream_id, 200, b"", chunk, False)
    assert before + 1 == sys.getrefcount(chunk)

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
