"""A client of the echo over HTTP/2: many requests on one connection, each with an end of its own.

It leaves in the middle of requests and responses, mostly by RST_STREAM
and sometimes with the whole connection.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    InformationalResponseReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

from loadtest.echo import ENDLESS_EVENTS, ID, WATCH_PATIENCE_S, Answer, Ask, event

if TYPE_CHECKING:
    from h2.events import Event

    from loadtest.echo_clients import EchoClients

STREAMS = (1, 2, 8, 32)
"""Requests on their way at once on one connection."""
WINDOWS = (1 << 12, 65_535, 1 << 20)
"""Bytes of a response that may be on their way."""


@dataclass(slots=True)
class Stream:
    """A request without a whole response.

    Attributes:
        body: What of the request's body is not sent; None once its end is.
    """

    ask: Ask
    sent_s: float
    body: bytes | None
    answer: Answer | None = None


class Http2EchoClient(asyncio.Protocol):
    """One connection.

    Attributes:
        closed: Done when the connection is.
        waiting: Requests without a whole response, by their streams.
    """

    def __init__(self, crowd: EchoClients, life: int) -> None:
        self._crowd = crowd
        self._tally = crowd.tally
        self._life = life
        self._depth = crowd.random.choice(STREAMS)
        self._window = crowd.random.choice(WINDOWS)
        self._state = H2Connection(H2Configuration(header_encoding=None))
        self._is_writable = True
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._has_left = self._is_timed = False
        self._closing_s = 0.0
        self.waiting: dict[int, Stream] = {}
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._crowd.clients.add(self)
        self._state.local_settings = type(self._state.local_settings)(
            client=True,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.INITIAL_WINDOW_SIZE: self._window,
            },
        )
        self._state.initiate_connection()
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        """Account for what has no response."""
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
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._has_left:
            return
        try:
            events = self._state.receive_data(data)
        except ProtocolError as error:
            self._tally.on_mispaired(f"what is no HTTP/2: {error!r}")
            self._transport.abort()
            return
        for each in events:
            self._take(each)
        self._send_bodies()
        self._ask()

    def sweep(self, now_s: float) -> None:
        """Give up what takes too long."""
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
                self._reset(stream)
        self._ask()

    def _flush(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(self._state.data_to_send())

    def _ask(self) -> None:
        """Have as many requests on their way as this connection shall."""
        crowd = self._crowd
        while len(self.waiting) < self._depth and not self._transport.is_closing():
            due_s = crowd.due_s()
            if due_s > 0:
                if not self._is_timed:
                    self._is_timed = True
                    self._loop.call_later(due_s, self._ask_when_due)
                break
            ask = crowd.next_ask() if self._life else None
            if ask is None:
                if not self.waiting:
                    self._closing_s = self._loop.time()
                    self._flush()
                    self._transport.close()
                break
            self._life -= 1
            self._send(ask)
        self._flush()

    def _ask_when_due(self) -> None:
        self._is_timed = False
        self._ask()

    def _send(self, ask: Ask) -> None:
        crowd = self._crowd
        dice = crowd.random
        self._tally.asked += 1
        stream = self._state.get_next_available_stream_id()
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
        self._state.send_headers(stream, fields, end_stream=body is None)
        self.waiting[stream] = each = Stream(ask, self._loop.time(), body)
        if dice.random() < crowd.habits.abort_share:
            leave = (self._leave, stream) if dice.random() < 0.8 else (self._leave_all,)
            self._loop.call_later(dice.random() * 0.05, *leave)
            if dice.random() < 0.3:
                return  # and its body does not come
        self._send_body(stream, each)

    def _send_bodies(self) -> None:
        for stream, each in list(self.waiting.items()):
            self._send_body(stream, each)

    def _send_body(self, stream: int, each: Stream) -> None:
        while each.body is not None and self._is_writable and not self._transport.is_closing():
            room = self._state.local_flow_control_window(stream)
            size = min(len(each.body), room, self._state.max_outbound_frame_size)
            if size <= 0 and each.body:
                return
            data, left = each.body[:size], each.body[size:]
            each.body = left or None
            self._state.send_data(stream, data, end_stream=not left)
            self._flush()

    def _leave(self, stream: int) -> None:
        """Want a response no more."""
        if not self._transport.is_closing() and stream in self.waiting:
            self._tally.left += 1
            self._reset(stream)

    def _leave_all(self) -> None:
        if not self._transport.is_closing():
            self._has_left = True
            self._transport.abort()

    def _reset(self, stream: int) -> None:
        del self.waiting[stream]
        self._state.reset_stream(stream, ErrorCodes.CANCEL)
        self._flush()

    def _take(self, found: Event) -> None:
        if isinstance(found, ConnectionTerminated):
            self._life = 0
            last = found.last_stream_id or 0
            for number, waiting in self.waiting.items():
                # h2 takes nothing any more, not even the responses that are to come.
                self._on_broken(waiting, has_left=number <= last)
            self.waiting.clear()
            self._transport.abort()
            return
        if isinstance(found, RemoteSettingsChanged | WindowUpdated):
            return
        stream = getattr(found, "stream_id", 0)
        each = self.waiting.get(stream)
        if isinstance(found, DataReceived):
            self._take_data(stream, each, found)
        elif each is None:
            return
        elif isinstance(found, ResponseReceived | InformationalResponseReceived):
            fields = dict(found.headers)
            status, name = int(fields[b":status"]), fields.get(ID)
            if status >= 200:
                each.answer = Answer(status, name, int(fields.get(b"content-length", b"-1")))
            elif name != each.ask.id:
                self._tally.on_mispaired(f"{status} of {name!r} for {each.ask}")
        elif isinstance(found, TrailersReceived):
            self._tally.on_mispaired(f"trailers that the origin has not sent: {found.headers}")
        elif isinstance(found, StreamReset):
            self._on_broken(self.waiting.pop(stream), has_left=False)
        elif isinstance(found, StreamEnded):
            self._on_end(self.waiting.pop(stream))

    def _take_data(self, stream: int, each: Stream | None, found: DataReceived) -> None:
        self._state.acknowledge_received_data(found.flow_controlled_length, stream)
        if each is None:
            return
        answer = each.answer
        if answer is None:
            self._tally.on_mispaired(f"a body without a head for {each.ask}")
            return
        answer.body += found.data
        enough = ENDLESS_EVENTS * len(event(each.ask.id))
        if each.ask.is_watch and each.ask.size % 8 == 0 and len(answer.body) >= enough:
            if self._tally.judge_watch(each.ask, answer):
                self._tally.left += 1
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
