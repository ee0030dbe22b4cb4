"""Where frames of a WebSocket begin and end, however they come in."""

from __future__ import annotations

import pytest

from apfproxy.http.websocket_frames import GOING_AWAY, FramePosition

FRAMES = {
    "empty": b"\x81\x00",
    "small": b"\x81\x05hello",
    "most-of-one-byte": b"\x82\x7d" + b"x" * 125,
    "two-bytes": b"\x02\x7e\x00\x7e" + b"x" * 126,
    "eight-bytes": b"\x80\x7f" + (300).to_bytes(8, "big") + b"x" * 300,
    "masked": b"\x81\x82mask" + b"xx",
    "masked-empty": b"\x8a\x80mask",
    "masked-two-bytes": b"\x81\xfe\x01\x00mask" + b"x" * 256,
    "compressed": b"\xc1\x01x",
    "ping": b"\x89\x03png",
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_one_frame(frame: bytes, step: int) -> None:
    position = FramePosition()
    assert position.is_between
    for start in range(0, len(frame), step):
        part = frame[start : start + step]
        assert len(part) == position.feed(memoryview(part))
        assert position.is_between == (start + len(part) == len(frame))

    assert not position.has_closed


def test_many_frames_at_once() -> None:
    frames = list(FRAMES.values())
    position = FramePosition()
    position.feed(b"".join(frames))
    assert position.is_between
    rest = b"".join(frames)
    for frame in frames:
        assert len(frame) == position.feed(rest, to_end=True)
        rest = rest[len(frame) :]

    assert 0 == position.feed(rest, to_end=True)


def test_close_frame() -> None:
    position = FramePosition()
    position.feed(GOING_AWAY[:1])
    assert not position.has_closed
    position.feed(GOING_AWAY[1:])

    assert (True, True) == (position.has_closed, position.is_between)
    assert b"\x88\x02\x03\xe9" == GOING_AWAY


def test_a_read_of_heads_alone_is_linear() -> None:
    position = FramePosition()
    data = b"\x81\x00" * 32768

    assert len(data) == position.feed(data)
    assert position.is_between
