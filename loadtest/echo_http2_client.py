"""A client of the echo over HTTP/2: many requests on one connection, each with an end of its own.

It keeps to the windows of both sides, gives bytes back as late as it may, and leaves in the middle
of requests and answers, mostly by RST_STREAM and sometimes with the whole connection.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from hpack import Decoder

from loadtest.echo import ENDLESS_EVENTS, ID, WATCH_PATIENCE_S, Answer, Ask, event
from loadtest.http2_frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    MAX_PAYLOAD,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    SETTINGS_ACK,
    WINDOW,
    WINDOW_UPDATE,
    FieldEncoder,
    FrameReader,
    frame,
    window_update,
)

if TYPE_CHECKING:
    from loadtest.echo_clients import EchoClients

STREAMS = (1, 2, 8, 32)
"""Requests on their way at once on one connection."""
WINDOWS = (1 << 12, WINDOW, 1 << 20)
"""Bytes of an answer that may be on their way."""
CANCEL = 8
INITIAL_WINDOW_SIZE = 4


@dataclass(slots=True)
class Stream:
    """A request without a whole answer.

    Attributes:
        body: Of the request, as far as it is not sent.
        room: Bytes of it that may be sent.
        has_body: Whether it is under way.
        taken: Bytes of the answer that are to be given back.
    """

    ask: Ask
    sent_s: float
    body: bytes
    room: int
    has_body: bool
    taken: int = 0
    answer: Answer | None = field(default=None)


class Http2EchoClient(asyncio.Protocol):
    """One connection.

    Attributes:
        closed: Done when the connection is.
        waiting: Requests without a whole answer, by their streams.
    """

    def __init__(self, crowd: EchoClients, life: int) -> None:
        self._crowd = crowd
        self._tally = crowd.tally
        self._life = life
        self._depth = crowd.random.choice(STREAMS)
        self._window = crowd.random.choice(WINDOWS)
        self._reader = FrameReader()
        self._encoder = FieldEncoder()
        self._decoder = Decoder()
        self._next_id = 1
        self._room = WINDOW
        self._stream_room = WINDOW
        self._taken = 0
        self._is_writable = True
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._has_left = False
        self._is_timed = False
        self._closing_s = 0.0
        self.waiting: dict[int, Stream] = {}
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._crowd.clients.add(self)
        settings = struct.pack(">HL", INITIAL_WINDOW_SIZE, self._window)
        self._transport.write(PREFACE + frame(SETTINGS, 0, 0, settings))
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._crowd.clients.discard(self)
        for each in self.waiting.values():
            self._on_broken(each, has_left=self._has_left)
        self.waiting.clear()
        self.closed.set_result(None)

    def pause_writing(self) -> None:
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        self._send_bodies()

    def data_received(self, data: bytes) -> None:
        for kind, flags, stream, payload in self._reader.read(data):
            if self._has_left:
                return
            self._take(kind, flags, stream, payload)
        self._ask()

    def sweep(self, now_s: float) -> None:
        patience_s = self._crowd.habits.patience_s
        if self._closing_s:
            if now_s - self._closing_s > patience_s:
                self._closing_s = now_s
                self._tally.complain("a connection over HTTP/2 does not close")
                self._transport.abort()
            return
        for stream, each in list(self.waiting.items()):
            if each.ask.is_watch and now_s - each.sent_s > WATCH_PATIENCE_S:
                self._leave(stream)
            elif now_s - each.sent_s > patience_s:
                self._tally.hung += 1
                self._tally.complain(f"no end of {each.ask}, {each.answer and each.answer.status}")
                del self.waiting[stream]
                self._reset(stream)
        self._ask()

    def _ask(self) -> None:
        crowd = self._crowd
        while len(self.waiting) < self._depth and not self._transport.is_closing():
            due_s = crowd.due_s()
            if due_s > 0:
                if not self._is_timed:
                    self._is_timed = True
                    self._loop.call_later(due_s, self._ask_when_due)
                return
            ask = crowd.next_ask() if self._life else None
            if ask is None:
                if not self.waiting:
                    self._close()
                return
            self._life -= 1
            self._send(ask)

    def _ask_when_due(self) -> None:
        self._is_timed = False
        self._ask()

    def _close(self) -> None:
        self._closing_s = self._loop.time()
        self._transport.close()

    def _send(self, ask: Ask) -> None:
        crowd = self._crowd
        dice = crowd.random
        self._tally.asked += 1
        stream, self._next_id = self._next_id, self._next_id + 2
        has_tls = self._transport.get_extra_info("ssl_object") is not None
        lines = ask.lines(f"user-{ask.number % crowd.habits.users}", crowd.next_fields())
        fields = [
            (b":authority", b"a.test"),
            (b":method", ask.method.encode()),
            (b":path", ask.target.encode()),
            (b":scheme", b"https" if has_tls else b"http"),
        ]
        for line in lines.splitlines():
            name, _, value = line.partition(": ")
            fields.append((name.lower().encode(), value.encode()))
        body = ask.body
        if ask.kind == "posted":
            fields.append((b"content-length", b"%d" % len(body or b"")))
        flags = END_HEADERS | (END_STREAM if body is None else 0)
        self._transport.write(frame(HEADERS, flags, stream, self._encoder.encode(fields)))
        self.waiting[stream] = Stream(
            ask, self._loop.time(), body or b"", self._stream_room, body is not None
        )
        if dice.random() < crowd.habits.abort_share:
            after_s = dice.random() * 0.05
            self._loop.call_later(
                after_s, *((self._leave, stream) if dice.random() < 0.8 else (self._leave_all,))
            )
            if dice.random() < 0.3:
                return  # and its body does not come
        if body is not None:
            self._send_body(stream, self.waiting[stream])

    def _send_bodies(self) -> None:
        for stream, each in list(self.waiting.items()):
            if each.has_body:
                self._send_body(stream, each)

    def _send_body(self, stream: int, each: Stream) -> None:
        while each.has_body and self._is_writable and not self._transport.is_closing():
            size = min(len(each.body), each.room, self._room, MAX_PAYLOAD)
            if not size and each.body:
                return
            data, each.body = each.body[:size], each.body[size:]
            each.room -= size
            self._room -= size
            each.has_body = bool(each.body)
            flags = 0 if each.has_body else END_STREAM
            self._transport.write(frame(DATA, flags, stream, data))

    def _leave(self, stream: int) -> None:
        if not self._transport.is_closing() and self.waiting.pop(stream, None) is not None:
            self._tally.left += 1
            self._reset(stream)

    def _leave_all(self) -> None:
        if not self._transport.is_closing():
            self._has_left = True
            self._transport.abort()

    def _reset(self, stream: int) -> None:
        self._transport.write(frame(RST_STREAM, 0, stream, struct.pack(">L", CANCEL)))

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == HEADERS:
            self._take_head(stream, payload)
        elif kind == DATA:
            self._take_data(stream, payload)
        elif kind == WINDOW_UPDATE:
            size = int.from_bytes(payload)
            if stream == 0:
                self._room += size
            elif stream in self.waiting:
                self.waiting[stream].room += size
            self._send_bodies()
        elif kind in (SETTINGS, PING) and not flags & ACK:
            self._take_settings(payload if kind == SETTINGS else b"")
            answer = SETTINGS_ACK if kind == SETTINGS else frame(PING, ACK, 0, payload)
            self._transport.write(answer)
        elif kind == RST_STREAM and (each := self.waiting.pop(stream, None)) is not None:
            self._on_broken(each, has_left=False)
        elif kind == GOAWAY:
            self._life = 0
            last = int.from_bytes(payload[:4])
            for later in [number for number in self.waiting if number > last]:
                self._on_broken(self.waiting.pop(later), has_left=False)
        if kind in (DATA, HEADERS) and flags & END_STREAM and stream in self.waiting:
            self._on_end(self.waiting.pop(stream))

    def _take_settings(self, payload: bytes) -> None:
        for name, value in struct.iter_unpack(">HL", payload):
            if name == INITIAL_WINDOW_SIZE:
                for each in self.waiting.values():
                    each.room += value - self._stream_room
                self._stream_room = value
        self._send_bodies()

    def _take_head(self, stream: int, payload: bytes) -> None:
        # The table is to be kept for streams that nobody waits for, too.
        fields = dict(self._decoder.decode(payload, raw=True))
        each = self.waiting.get(stream)
        if each is None:
            if stream >= self._next_id or stream % 2 == 0:
                self._tally.on_mispaired(f"an answer that nobody asked for: stream {stream}")
            return
        if each.answer is not None:
            self._tally.on_mispaired(f"trailers that the origin has not sent: {fields}")
            return
        status, name = int(fields[b":status"]), fields.get(ID)
        if status >= 200:
            each.answer = Answer(status, name, int(fields.get(b"content-length", b"-1")))
        elif name != each.ask.id:
            self._tally.on_mispaired(f"{status} of {name!r} for {each.ask}")

    def _take_data(self, stream: int, payload: bytes) -> None:
        self._taken += len(payload)
        if self._taken > WINDOW // 2:
            self._transport.write(window_update(0, self._taken))
            self._taken = 0
        each = self.waiting.get(stream)
        if each is None:
            return
        answer = each.answer
        if answer is None:
            self._tally.on_mispaired(f"a body without a head for {each.ask}")
            return
        answer.body += payload
        each.taken += len(payload)
        if each.taken > self._window // 2:
            self._transport.write(window_update(stream, each.taken))
            each.taken = 0
        enough = ENDLESS_EVENTS * len(event(each.ask.id))
        if each.ask.is_watch and each.ask.size % 8 == 0 and len(answer.body) >= enough:
            if self._tally.judge_watch(each.ask, answer):
                self._leave(stream)
            else:
                del self.waiting[stream]
                self._reset(stream)

    def _on_end(self, each: Stream) -> None:
        answer = each.answer
        if answer is None:
            self._tally.on_mispaired(f"an end without a head for {each.ask}")
        elif answer.left >= 0 and each.ask.method != "HEAD" and answer.left != len(answer.body):
            self._tally.on_mispaired(f"{len(answer.body)} bytes for {answer.left} of {each.ask}")
        else:
            self._tally.judge(each.ask, answer)

    def _on_broken(self, each: Stream, *, has_left: bool) -> None:
        if has_left:
            self._tally.left += 1
        elif each.answer is not None:
            self._tally.judge_broken(each.ask, each.answer)
        else:
            self._tally.lost += 1
