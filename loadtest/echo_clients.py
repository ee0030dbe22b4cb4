"""Clients that hold every response against its request: right and whole, visibly broken, or wrong.

Clients keep connections, have several requests on their way on some of them, and leave in the
middle of requests and responses: over HTTP/2 mostly by RST_STREAM, otherwise with the connection.
The `Tally` says what became of every request.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

from loadtest.echo import ID, Answer, Ask, Habits, Tally, draw, event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h2.events import Event

LINGER_NOT = struct.pack("ii", 1, 0)
SWEEP_S = 0.25
LONGEST_LIFE = 300
ENDLESS_EVENTS = 6
"""After which a client has enough of a watch that does not end."""
WATCH_PATIENCE_S = 2.0
"""After which a client has enough of a watch that is quiet."""
MAX_REFUSED = 20
"""Connections of one client in a row that are not made, after which it gives up."""
WINDOWS = (1 << 12, 65_535, 1 << 20)
"""Bytes of a response that may be on their way over HTTP/2."""


@dataclass(slots=True)
class Exchange:
    """A request without a whole response; `body` is the part of it that HTTP/2 has not sent."""

    ask: Ask
    sent_s: float
    body: bytes | None = None
    answer: Answer | None = None

    @property
    def is_endless(self) -> bool:
        """Whether it is a watch that does not end, and has had enough events."""
        if self.answer is None or not self.ask.is_watch or self.ask.size % 8:
            return False
        return len(self.answer.body) >= ENDLESS_EVENTS * len(event(self.ask.id))


class Client(asyncio.Protocol):
    """One connection.

    Attributes:
        closed: Done when the connection is.
        waiting: Requests without a whole response, the oldest first, by number or by stream.
    """

    depths: ClassVar[Sequence[int]]
    """Requests on their way at once on one connection."""
    in_turn: ClassVar[int | None]
    """How many of them may get a response next; None for all."""

    def __init__(self, crowd: EchoClients, life: int) -> None:
        self._crowd, self._tally, self._dice = crowd, crowd.tally, crowd.random
        self._life = life
        self._depth = self._dice.choice(self.depths)
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._has_left = self._is_timed = False
        self._closing_s = 0.0
        self.waiting: dict[int, Exchange] = {}
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._crowd.clients.add(self)
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._crowd.clients.discard(self)
        for each in self.waiting.values():
            self._on_broken(each, has_left=self._has_left)
        self.waiting.clear()
        self.closed.set_result(None)

    def sweep(self, now_s: float) -> None:
        """Give up what takes too long."""
        patience_s = self._crowd.habits.patience_s
        if self._closing_s:
            if now_s - self._closing_s > patience_s:
                # It may have more to send than the proxy takes.
                self._closing_s = now_s
                self._tally.wrong.add(f"a connection does not close: {self.waiting}")
                self._tally.hung += len(self.waiting)
                self.waiting.clear()
                self._transport.abort()
            return
        if self._has_left:
            return
        for key, each in [*itertools.islice(self.waiting.items(), self.in_turn)]:
            late_s = now_s - each.sent_s
            if each.ask.is_watch and late_s > WATCH_PATIENCE_S:
                self._leave(key)
            elif late_s > patience_s:
                self._tally.hung += 1
                self._tally.wrong.add(f"no end of {each.ask}, {each.answer and each.answer.status}")
                self._give_up(key)
        self._ask()

    def _ask(self) -> None:
        """Have as many requests on their way as this connection shall."""
        crowd = self._crowd
        while len(self.waiting) < self._depth and not self._transport.is_closing():
            if (due_s := crowd.due_s()) > 0:
                if not self._is_timed:
                    self._is_timed = True
                    self._loop.call_later(due_s, self._ask_when_due)
                break
            ask = crowd.next_ask() if self._life else None
            if ask is None:
                if not self.waiting:
                    self._close()
                break
            self._life -= 1
            self._tally.asked += 1
            self._send(ask, f"user-{ask.number % crowd.habits.users}", crowd.next_fields())
        self._flush()

    def _ask_when_due(self) -> None:
        self._is_timed = False
        self._ask()

    def _close(self) -> None:
        self._closing_s = self._loop.time()
        self._flush()
        self._transport.close()

    def _leave_all(self, *, is_reset: bool) -> None:
        if self._has_left or self._transport.is_closing():
            return
        self._has_left = True
        if is_reset:
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        self._transport.abort()

    def _on_broken(self, each: Exchange, *, has_left: bool) -> None:
        if has_left:
            self._tally.left += 1
        elif each.answer is not None:
            self._tally.judge_broken(each.ask, each.answer)
        else:
            self._tally.lost += 1

    def _send(self, ask: Ask, user: str, fields: str) -> None:
        raise NotImplementedError

    def _flush(self) -> None:
        """Write what is to be sent."""

    def _leave(self, key: int) -> None:
        """Want a response no more."""
        raise NotImplementedError

    def _give_up(self, key: int) -> None:
        """Forget a request that hangs, and tell the proxy."""
        raise NotImplementedError


class Http1Client(Client):
    """A connection over HTTP/1.1, which may pipeline requests."""

    depths = (1, 1, 1, 2, 8)
    in_turn = 1

    def __init__(self, crowd: EchoClients, life: int) -> None:
        super().__init__(crowd, life)
        self._pending = bytearray()
        self._is_last = False

    def data_received(self, data: bytes) -> None:
        self._pending += data
        while self._pending and not self._has_left and self._take():
            pass

    def _send(self, ask: Ask, user: str, fields: str) -> None:
        dice = self._dice
        data = ask.encode(user, fields)
        if self.waiting and next(reversed(self.waiting.values())).ask.is_watch:
            self._life = 0
        self.waiting[ask.number] = Exchange(ask, self._loop.time())
        if dice.random() < self._crowd.habits.abort_share:
            if dice.random() < 0.3:
                data = data[: dice.randrange(len(data))]
            is_reset = dice.random() < 0.5
            self._loop.call_later(dice.random() * 0.05, lambda: self._leave_all(is_reset=is_reset))
            self._life = 0
            self._depth = 0
        self._transport.write(data)

    def _leave(self, key: int) -> None:
        del key
        self._leave_all(is_reset=False)

    def _give_up(self, key: int) -> None:
        del self.waiting[key]
        self._leave_all(is_reset=True)

    def _take(self) -> bool:
        oldest = next(iter(self.waiting.values()), None)
        if oldest is None or oldest.answer is None:
            return self._take_head(oldest)
        answer, pending = oldest.answer, self._pending
        if answer.left == -1:
            return self._take_chunk(oldest, answer)
        data = pending if answer.left == -2 else pending[: answer.left]
        answer.body += data
        if answer.left >= 0:
            answer.left -= len(data)
        del pending[: len(data)]
        if answer.left == 0:
            self._end(oldest.ask, answer)
        return True

    def _take_chunk(self, oldest: Exchange, answer: Answer) -> bool:
        pending = self._pending
        end = pending.find(b"\r\n")
        if end < 0:
            return False
        size = int(bytes(pending[:end]).partition(b";")[0], 16)
        if len(pending) < end + size + 4:
            return False
        answer.body += pending[end + 2 : end + 2 + size]
        del pending[: end + size + 4]
        if not size:
            self._end(oldest.ask, answer)
        elif oldest.is_endless:
            if not self._tally.judge_begun(oldest.ask, answer):
                del self.waiting[oldest.ask.number]
            self._leave_all(is_reset=False)
        return True

    def _take_head(self, oldest: Exchange | None) -> bool:
        pending = self._pending
        end = pending.find(b"\r\n\r\n")
        if end < 0:
            return False
        first, *lines = bytes(pending[:end]).split(b"\r\n")
        del pending[: end + 4]
        fields = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(b":") for line in lines)
        }
        status = int(first.split(b" ")[1])
        name = fields.get(ID)
        if oldest is None:
            self._tally.on_mispaired(f"a response without a request: {first!r}, {name!r}")
            self._leave_all(is_reset=True)
            return False
        ask = oldest.ask
        if status < 200:
            if name != ask.id:
                self._tally.on_mispaired(f"{first!r} of {name!r} for {ask}")
            return True
        self._is_last = fields.get(b"connection", b"").lower() == b"close"
        if ask.method == "HEAD" or status == 204:
            left = 0
        elif fields.get(b"transfer-encoding", b"").lower() == b"chunked":
            left = -1
        else:
            left = int(fields.get(b"content-length", b"-2"))
        oldest.answer = Answer(status, name, left)
        if left == 0:
            self._end(ask, oldest.answer)
        return True

    def _end(self, ask: Ask, answer: Answer) -> None:
        del self.waiting[ask.number]
        self._tally.judge(ask, answer)
        if self._is_last:
            self._close()
        else:
            self._ask()


class Http2Client(Client):
    depths = (1, 2, 8, 32)
    in_turn = None

    def __init__(self, crowd: EchoClients, life: int) -> None:
        super().__init__(crowd, life)
        self._window = self._dice.choice(WINDOWS)
        self._state = H2Connection(H2Configuration(header_encoding=None))
        self._is_writable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._state.local_settings = type(self._state.local_settings)(
            client=True,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.INITIAL_WINDOW_SIZE: self._window,
            },
        )
        self._state.initiate_connection()
        super().connection_made(transport)

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

    def _flush(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(self._state.data_to_send())

    def _send(self, ask: Ask, user: str, fields: str) -> None:
        dice = self._dice
        stream = self._state.get_next_available_stream_id()
        has_tls = self._transport.get_extra_info("ssl_object") is not None
        block = [
            (b":authority", b"a.test"),
            (b":method", ask.method.encode()),
            (b":path", ask.target.encode()),
            (b":scheme", b"https" if has_tls else b"http"),
        ]
        for line in ask.lines(user, fields).splitlines():
            name, _, value = line.partition(": ")
            block.append((name.lower().encode(), value.encode()))
        body = ask.body
        if ask.kind == "posted":
            block.append((b"content-length", b"%d" % len(body or b"")))
        self._state.send_headers(stream, block, end_stream=body is None)
        self.waiting[stream] = each = Exchange(ask, self._loop.time(), body)
        if dice.random() < self._crowd.habits.abort_share:
            is_one = dice.random() < 0.8
            self._loop.call_later(
                dice.random() * 0.05,
                lambda: self._leave(stream) if is_one else self._leave_all(is_reset=False),
            )
            if dice.random() < 0.3:
                return  # and its body does not come
        self._send_body(stream, each)

    def _send_bodies(self) -> None:
        for stream, each in list(self.waiting.items()):
            self._send_body(stream, each)

    def _send_body(self, stream: int, each: Exchange) -> None:
        while each.body is not None and self._is_writable and not self._transport.is_closing():
            room = self._state.local_flow_control_window(stream)
            size = min(len(each.body), room, self._state.max_outbound_frame_size)
            if size <= 0 and each.body:
                return
            data, left = each.body[:size], each.body[size:]
            each.body = left or None
            self._state.send_data(stream, data, end_stream=not left)
            self._flush()

    def _leave(self, key: int) -> None:
        if not self._transport.is_closing() and key in self.waiting:
            self._tally.left += 1
            self._give_up(key)

    def _give_up(self, key: int) -> None:
        del self.waiting[key]
        self._state.reset_stream(key, ErrorCodes.CANCEL)
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

    def _take_data(self, stream: int, each: Exchange | None, found: DataReceived) -> None:
        self._state.acknowledge_received_data(found.flow_controlled_length, stream)
        if each is None:
            return
        if each.answer is None:
            self._tally.on_mispaired(f"a body without a head for {each.ask}")
            return
        each.answer.body += found.data
        if each.is_endless:
            if self._tally.judge_begun(each.ask, each.answer):
                self._tally.left += 1
            self._give_up(stream)

    def _on_end(self, each: Exchange) -> None:
        answer = each.answer
        if answer is None:
            self._tally.on_mispaired(f"an end without a head for {each.ask}")
        elif answer.left >= 0 and each.ask.method != "HEAD" and answer.left != len(answer.body):
            self._tally.on_mispaired(f"{len(answer.body)} bytes for {answer.left} of {each.ask}")
        else:
            self._tally.judge(each.ask, answer)


class EchoClients:
    """Clients that share out requests among them; `clients` are the open connections."""

    def __init__(self, port: int, seed: int, habits: Habits, first: int = 0) -> None:
        self.habits = habits
        self.tally = Tally()
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.clients: set[Client] = set()
        self.next_number = first
        self._port = port
        self._end = first
        self._due_s = 0.0
        self._loop = asyncio.get_running_loop()

    def next_ask(self) -> Ask | None:
        if self.next_number >= self._end:
            return None
        self.next_number += 1
        return draw(self.next_number, self.random, self.habits.kinds)

    def next_fields(self) -> str:
        return self.random.choice(self.habits.fields)

    def due_s(self) -> float:
        rate = self.habits.requests_per_s
        if not rate:
            return 0.0
        now_s = self._loop.time()
        if self._due_s > now_s:
            return self._due_s - now_s
        # A pause is not made up for at once.
        self._due_s = max(self._due_s, now_s - 0.05) + 1 / rate
        return 0.0

    async def run(self, count: int, connections: int) -> None:
        """Send so many requests on so many connections at once, until each has an end."""
        self._end = self.next_number + count
        sweeping = asyncio.create_task(self._sweep())
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(connections):
                    group.create_task(self._work())
        finally:
            sweeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sweeping

    def stop(self) -> None:
        self._end = self.next_number

    async def _work(self) -> None:
        refused = 0
        while self.next_number < self._end:
            tls = self.random.choice(self.habits.tls) if self.habits.tls else None
            life = self.random.randint(1, LONGEST_LIFE)
            client = (Http2Client if self.habits.http2 else Http1Client)(self, life)
            try:
                await self._loop.create_connection(
                    lambda client=client: client,
                    "127.0.0.1",
                    self._port,
                    ssl=tls,
                    server_hostname="localhost" if tls is not None else None,
                )
            except OSError:
                self.tally.refused += 1
                refused += 1
                if refused > MAX_REFUSED:
                    raise
                await asyncio.sleep(0.1)
                continue
            refused = 0
            await client.closed

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            for client in list(self.clients):
                client.sweep(self._loop.time())
