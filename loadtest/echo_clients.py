"""Clients that hold every answer against its request: right and whole, visibly broken, or wrong.

Clients keep connections, pipeline on some of them, and leave in the middle of requests and
answers.  What became of every request is in a `Tally`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections import deque
from typing import cast

from loadtest.echo import (
    DEPTHS,
    ENDLESS_EVENTS,
    ID,
    LONGEST_LIFE,
    WATCH_PATIENCE_S,
    Answer,
    Ask,
    Habits,
    Tally,
    draw,
    event,
)
from loadtest.echo_http2_client import Http2EchoClient

LINGER_NOT = struct.pack("ii", 1, 0)
SWEEP_S = 0.25
MAX_REFUSED = 20
"""Connections of one client in a row that are not made, after which it gives up."""


class EchoClient(asyncio.Protocol):
    """One connection.

    Attributes:
        closed: Done when the connection is.
        waiting: Requests without a whole answer, and when they were sent.
    """

    def __init__(self, crowd: EchoClients, life: int, depth: int) -> None:
        self._crowd = crowd
        self._tally = crowd.tally
        self._life = life
        self._depth = depth
        self._pending = bytearray()
        self._answer: Answer | None = None
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._has_left = False
        self._is_last = False
        self._closing_s = 0.0
        self.waiting: deque[tuple[Ask, float]] = deque()
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._crowd.clients.add(self)
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        crowd, tally = self._crowd, self._tally
        crowd.clients.discard(self)
        for at, (ask, _) in enumerate(self.waiting):
            if self._has_left:
                tally.left += 1
            elif at == 0 and self._answer is not None:
                tally.judge_broken(ask, self._answer)
            else:
                tally.lost += 1
        self.waiting.clear()
        self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._pending += data
        while self._pending and not self._has_left and self._take():
            pass

    def sweep(self, now_s: float) -> None:
        if self._closing_s and now_s - self._closing_s > self._crowd.habits.patience_s:
            # It may have more to send than the proxy takes.
            self._closing_s = now_s
            self._tally.complain(f"a connection does not close: {self.waiting}")
            self._tally.hung += len(self.waiting)
            self.waiting.clear()
            self._transport.abort()
        if self._has_left or not self.waiting or self._closing_s:
            return
        ask, sent_s = self.waiting[0]
        if ask.is_watch and now_s - sent_s > WATCH_PATIENCE_S:
            self.leave(is_reset=False)
        elif now_s - sent_s > self._crowd.habits.patience_s:
            self._tally.hung += 1
            self._tally.complain(f"no end of {ask}, {self._answer and self._answer.status}")
            self.waiting.popleft()
            self.leave(is_reset=True)

    def leave(self, *, is_reset: bool) -> None:
        if self._has_left or self._transport.is_closing():
            return
        self._has_left = True
        if is_reset:
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        self._transport.abort()

    def _ask(self) -> None:
        crowd = self._crowd
        while len(self.waiting) < self._depth and not self._transport.is_closing():
            due_s = crowd.due_s()
            if due_s > 0:
                if not self.waiting:
                    self._loop.call_later(due_s, self._ask)
                return
            ask = crowd.next_ask() if self._life else None
            if ask is None:
                if not self.waiting:
                    self._close()
                return
            self._life -= 1
            if self.waiting and self.waiting[-1][0].is_watch:
                self._life = 0
            self._send(ask)

    def _close(self) -> None:
        self._closing_s = self._loop.time()
        self._transport.close()

    def _send(self, ask: Ask) -> None:
        crowd = self._crowd
        dice = crowd.random
        self._tally.asked += 1
        data = ask.encode(f"user-{ask.number % crowd.habits.users}", crowd.next_fields())
        self.waiting.append((ask, self._loop.time()))
        if dice.random() < crowd.habits.abort_share:
            if dice.random() < 0.3:
                data = data[: dice.randrange(len(data))]
            is_reset = dice.random() < 0.5
            self._loop.call_later(dice.random() * 0.05, lambda: self.leave(is_reset=is_reset))
            self._life = 0
            self._depth = 0
        self._transport.write(data)

    def _take(self) -> bool:
        if self._answer is None:
            return self._take_head()
        answer, pending = self._answer, self._pending
        if answer.left == -1:
            return self._take_chunk(answer)
        data = pending if answer.left == -2 else pending[: answer.left]
        answer.body += data
        if answer.left >= 0:
            answer.left -= len(data)
        del pending[: len(data)]
        if answer.left == 0:
            self._end()
        return True

    def _take_chunk(self, answer: Answer) -> bool:
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
            self._end()
        elif answer.body and self.waiting[0][0].is_watch:
            ask = self.waiting[0][0]
            if ask.size % 8 == 0 and len(answer.body) >= ENDLESS_EVENTS * len(event(ask.id)):
                if not self._tally.judge_watch(ask, answer):
                    self.waiting.popleft()
                self.leave(is_reset=False)
        return True

    def _take_head(self) -> bool:
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
        if not self.waiting:
            self._tally.on_mispaired(f"an answer that nobody asked for: {first!r}, {name!r}")
            self.leave(is_reset=True)
            return False
        ask = self.waiting[0][0]
        if status < 200:
            if name != ask.id:
                self._tally.complain(f"{first!r} of {name!r} for {ask}")
                self._tally.mispaired += 1
            return True
        self._is_last = fields.get(b"connection", b"").lower() == b"close"
        if ask.method == "HEAD" or status == 204:
            left = 0
        elif fields.get(b"transfer-encoding", b"").lower() == b"chunked":
            left = -1
        else:
            left = int(fields.get(b"content-length", b"-2"))
        self._answer = Answer(status, name, left)
        if left == 0:
            self._end()
        return True

    def _end(self) -> None:
        answer = self._answer
        assert answer is not None
        self._answer = None
        ask, _ = self.waiting.popleft()
        self._tally.judge(ask, answer)
        if self._is_last:
            self._close()
        else:
            self._ask()


class EchoClients:
    """Clients that share out requests among them.

    Attributes:
        tally: What became of the requests.
        clients: Connections that are open.
        random: Draws.
    """

    def __init__(self, port: int, seed: int, habits: Habits, first: int = 0) -> None:
        self.habits = habits
        self.tally = Tally()
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.clients: set[EchoClient | Http2EchoClient] = set()
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
        dice = self.random
        refused = 0
        while self.next_number < self._end:
            tls = dice.choice(self.habits.tls) if self.habits.tls else None
            life = dice.randint(1, LONGEST_LIFE)
            client: EchoClient | Http2EchoClient
            if self.habits.http2:
                client = Http2EchoClient(self, life)
            else:
                client = EchoClient(self, life, dice.choice(DEPTHS))
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
