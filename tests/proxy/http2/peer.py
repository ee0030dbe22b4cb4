"""A client of HTTP/2 on a transport of the bench's, by another library than the proxy's."""

from __future__ import annotations

import struct
from collections import defaultdict
from typing import TYPE_CHECKING

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    DataReceived,
    Event,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)

from apfproxy.settings import DownstreamSettings, Http2Settings
from tests.proxy.fakes import OK, Bench

if TYPE_CHECKING:
    from collections.abc import Iterable

Fields = list[tuple[bytes, bytes]]

GOAWAY = 7

CLEARTEXT = DownstreamSettings(http2=Http2Settings(is_cleartext=True))


class Answer:
    def __init__(self) -> None:
        self.interim: list[int] = []
        self.fields: dict[bytes, bytes] = {}
        self.trailers: Fields = []
        self.body = b""
        self.is_whole = False
        self.reset_by: int | None = None

    @property
    def status(self) -> int:
        return int(self.fields.get(b":status", b"0"))


class Http2Peer:
    def __init__(self, bench: Bench, *, acknowledges: bool = True) -> None:
        self._bench = bench
        self._acknowledges = acknowledges
        self.answers: dict[int, Answer] = defaultdict(Answer)
        self.goaways: list[tuple[int, int]] = []
        self.transport = bench.client()
        self.h2 = H2Connection(
            H2Configuration(client_side=True, header_encoding=None, validate_outbound_headers=False)
        )
        self.h2.initiate_connection()
        self.send()

    def send(self, data: bytes = b"") -> None:
        self._bench.send(self.transport, self.h2.data_to_send() + data)
        self.take()

    def take(self) -> None:
        while data := self.transport.take():
            for event in self.h2.receive_data(self._without_goaways(data)):
                self._take(event)
            out = self.h2.data_to_send()
            if out:
                self._bench.send(self.transport, out)

    def get(self, sent: bytes = OK) -> None:
        self._bench.send(self._bench.upstreams[0], sent)
        self.take()

    def _without_goaways(self, data: bytes) -> bytes:
        kept = b""
        while data:
            end = 9 + int.from_bytes(data[:3], "big")
            frame, data = data[:end], data[end:]
            if frame[3] == GOAWAY:
                last, code = struct.unpack(">II", frame[9:17])
                self.goaways.append((last, code))
            else:
                kept += frame
        return kept

    def _take(self, event: Event) -> None:
        answer = self.answers[getattr(event, "stream_id", None) or 0]
        if isinstance(event, InformationalResponseReceived):
            answer.interim.append(int(dict(event.headers)[b":status"]))
        elif isinstance(event, ResponseReceived):
            answer.fields = dict(event.headers)
        elif isinstance(event, TrailersReceived):
            answer.trailers = list(event.headers)
        elif isinstance(event, DataReceived):
            answer.body += event.data
            if self._acknowledges and event.flow_controlled_length and event.stream_id:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            answer.is_whole = True
        elif isinstance(event, StreamReset):
            answer.reset_by = int(event.error_code)

    def ask(
        self,
        path: bytes = b"/api/v1/namespaces/a/pods/b",
        method: bytes = b"GET",
        fields: Iterable[tuple[bytes, bytes]] = (),
        body: bytes | None = None,
        protocol: bytes = b"",
    ) -> int:
        stream = self.h2.get_next_available_stream_id()
        pseudo = [
            (b":method", method),
            (b":scheme", b"http"),
            (b":authority", b"h"),
            (b":path", path),
        ]
        if protocol:
            pseudo.append((b":protocol", protocol))
        self.h2.send_headers(stream, [*pseudo, *fields], end_stream=body is None)
        if body:
            self.h2.send_data(stream, body, end_stream=True)
        self.send()
        return stream

    def put(self, stream: int, data: bytes, *, is_last: bool = False) -> None:
        self.h2.send_data(stream, data, end_stream=is_last)
        self.send()

    def put_all(self, stream: int, most: int) -> int:
        sent = 0
        while sent < most and (room := self.h2.local_flow_control_window(stream)):
            size = min(room, 16384, most - sent)
            self.put(stream, bytes(size))
            sent += size
        return sent

    def reset(self, stream: int) -> None:
        self.h2.reset_stream(stream)
        self.send()
