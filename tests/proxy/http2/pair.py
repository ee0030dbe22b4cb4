"""A session of the binding and h2 as its client, connected by function calls; frames as bytes."""

from __future__ import annotations

import os
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived
from hpack import Encoder
from hyperframe.frame import Frame

if not os.environ.get("CI"):
    pytest.importorskip("apfproxy.proxy.http2.nghttp2")
from apfproxy.proxy.http2 import nghttp2

__all__ = [
    "GET",
    "POST",
    "PREFACE",
    "WINDOW",
    "Pair",
    "block",
    "ended",
    "frames_of",
    "nghttp2",
    "opened",
    "raw",
]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
GET = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "api:6443"),
    (":path", "/api/v1/pods?limit=5"),
    ("accept", "application/json"),
]
POST = [(":method", "POST"), *GET[1:]]
WINDOW = 65536


class Pair:
    """A session and its client; settings that are named replace usual ones."""

    def __init__(self, **changed: int) -> None:
        values: dict[str, Any] = {
            "max_streams": 100,
            "window_bytes": WINDOW,
            "max_fields_bytes": 65536,
            "low_water_bytes": 4096,
            "connect_protocol": False,
        }
        self.session = nghttp2.Session(**{**values, **changed})
        self.client = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self.client.initiate_connection()
        assert [] == self.pump()

    def pump(self, max_bytes: int = 1 << 20) -> list[tuple[int, int, Any, int]]:
        told = []
        self.seen: list[Any] = []
        while True:
            sent = self.client.data_to_send()
            if sent:
                told += self.session.receive(sent)
            output = self.session.output(max_bytes)
            told += self.session.events()
            if output:
                self.seen += self.client.receive_data(output)
            if not sent and not output:
                return told

    def request(self, fields: list[tuple[str, str]], *, is_last: bool = True) -> int:
        """Send HEADERS of the client's next stream; `pump` brings them over."""
        stream_id = self.client.get_next_available_stream_id()
        self.client.send_headers(stream_id, fields, end_stream=is_last)
        return stream_id

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.seen if isinstance(event, kind)]

    def body(self, stream_id: int) -> bytes:
        return b"".join(each.data for each in self.of(DataReceived) if each.stream_id == stream_id)


def raw(*frames: Frame) -> bytes:
    return b"".join(frame.serialize() for frame in frames)


def block(fields: list[tuple[str, str]], encoder: Encoder | None = None) -> bytes:
    return (encoder or Encoder()).encode(fields, huffman=False)


def opened() -> nghttp2.Session:
    return Pair().session


def ended(session: nghttp2.Session) -> list[Any]:
    return list(frames_of(session.output(1 << 20)))


def frames_of(data: bytes) -> list[Frame]:
    frames = []
    while data:
        frame, size = Frame.parse_frame_header(memoryview(data[:9]))
        frame.parse_body(memoryview(data[9 : 9 + size]))
        frames.append(frame)
        data = data[9 + size :]
    return frames
