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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from loadtest.echo import ID, KINDS, Ask, draw, event

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

OWN_ANSWERS = frozenset((408, 429, 502, 503, 504))
"""Statuses that a proxy may answer by itself to requests that are all right."""
DEPTHS = (1, 1, 1, 2, 8)
"""Requests on their way at once on one connection."""
LONGEST_LIFE = 300
"""Requests on one connection."""
LINGER_NOT = struct.pack("ii", 1, 0)
ENDLESS_EVENTS = 6
"""After which a client has enough of a watch that does not end."""
SWEEP_S = 0.25
MAX_REFUSED = 20
"""Connections of one client in a row that are not made, after which it gives up."""
WATCH_PATIENCE_S = 2.0


@dataclass(slots=True)
class Tally:
    """What became of requests.

    Attributes:
        asked: Sent, or begun to be.
        answered: Right and whole, from the origin.
        by_status: The proxy's own answers.
        broken: The answer began, and its connection ended before its end.
        lost: The connection ended before the answer began.
        left: The client did.
        cut: Right and apparently whole, but short: the origin's connection marked its end and was
            closed early, which nobody can tell from the real end.
        mispaired: The answer is, in part or whole, not that of the request.
        hung: Neither an answer nor an end came.
        refused: Connections that were not made.
        wrong: The first few of the last two kinds.
    """

    asked: int = 0
    answered: int = 0
    by_status: dict[int, int] = field(default_factory=dict)
    broken: int = 0
    lost: int = 0
    left: int = 0
    cut: int = 0
    mispaired: int = 0
    hung: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def ended(self) -> int:
        """Requests of which it is known what became of them."""
        return (
            self.answered
            + sum(self.by_status.values())
            + self.broken
            + self.lost
            + self.left
            + self.cut
            + self.mispaired
            + self.hung
        )

    def on_mispaired(self, text: str) -> None:
        """Note a wrong answer."""
        self.mispaired += 1
        self.complain(text)

    def complain(self, text: str) -> None:
        """Note what went wrong."""
        if len(self.wrong) < 20:
            self.wrong.append(text)


@dataclass(frozen=True, kw_only=True)
class Habits:
    """How clients behave.

    Attributes:
        kinds: Kind of request to weight.
        abort_share: Share of requests in the middle of which the client leaves.
        patience_s: After which a request without an end counts as hung.
        users: Different ones.
        fields: Lines of the head to choose from, such as credentials.
        tls: For connections, one of these; none without TLS.
        requests_per_s: Of all connections; 0 for as fast as answers come.
    """

    kinds: dict[str, int] = field(
        default_factory=lambda: {kind: weight for kind, (weight, _) in KINDS.items()}
    )
    abort_share: float = 0.01
    patience_s: float = 12.0
    users: int = 20
    fields: Sequence[str] = ("",)
    tls: Sequence[Callable[[], ssl.SSLContext]] = ()
    requests_per_s: float = 0.0


@dataclass(slots=True)
class Answer:
    """What has come of an answer.

    Attributes:
        status: Its code.
        name: Of the request that it says it is for; none if the proxy made it.
        left: Bytes of its body to come; -1 for chunks, -2 for all until the connection ends.
        body: So far.
    """

    status: int
    name: bytes | None
    left: int
    body: bytearray = field(default_factory=bytearray)


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
        """Send the first requests."""
        self._transport = cast("asyncio.Transport", transport)
        self._crowd.clients.add(self)
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        """Account for what is not answered."""
        del exc
        crowd, tally = self._crowd, self._tally
        crowd.clients.discard(self)
        for at, (ask, _) in enumerate(self.waiting):
            if self._has_left:
                tally.left += 1
            elif at == 0 and self._answer is not None:
                self._judge_broken(ask, self._answer)
            else:
                tally.lost += 1
        self.waiting.clear()
        self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Take answers."""
        self._pending += data
        while self._pending and not self._has_left and self._take():
            pass

    def sweep(self, now_s: float) -> None:
        """Give up what takes too long."""
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
        """Be gone."""
        if self._has_left or self._transport.is_closing():
            return
        self._has_left = True
        if is_reset:
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        self._transport.abort()

    def _ask(self) -> None:
        """Have as many requests on their way as this connection shall."""
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
        """Take the next part of an answer; whether there was one."""
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
                if not self._judge_watch(ask, answer):
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
        """An answer is whole."""
        answer = self._answer
        assert answer is not None
        self._answer = None
        ask, _ = self.waiting.popleft()
        self._judge(ask, answer)
        if self._is_last:
            self._close()
        else:
            self._ask()

    def _judge(self, ask: Ask, answer: Answer) -> None:
        tally = self._tally
        if answer.name is None:
            if answer.status in OWN_ANSWERS:
                tally.by_status[answer.status] = tally.by_status.get(answer.status, 0) + 1
            else:
                text = bytes(answer.body[:200])
                tally.on_mispaired(f"{answer.status} for {ask}: {text!r}")
            return
        expected = ask.expected_body()
        body = bytes(answer.body)
        if answer.name == ask.id and body == expected:
            tally.answered += 1
        elif answer.name == ask.id and ask.kind == "until-close" and expected.startswith(body):
            tally.cut += 1
        else:
            tally.on_mispaired(f"{answer.name!r}, {len(body)} bytes {body[:100]!r} for {ask}")

    def _judge_broken(self, ask: Ask, answer: Answer) -> None:
        """What has come must be the request's own, too."""
        if answer.name is not None and ask.is_watch:
            if not self._judge_watch(ask, answer):
                return
        elif answer.name is not None and not (
            answer.name == ask.id and ask.expected_body().startswith(bytes(answer.body))
        ):
            self._tally.on_mispaired(f"{answer.name!r}, {bytes(answer.body[:100])!r} for {ask}")
            return
        self._tally.broken += 1

    def _judge_watch(self, ask: Ask, answer: Answer) -> bool:
        """Whether the events so far are the watch's own."""
        one = event(ask.id)
        events = one * (len(answer.body) // len(one) + 1)
        is_right = answer.name == ask.id and events.startswith(bytes(answer.body))
        if not is_right:
            self._tally.on_mispaired(f"{answer.name!r}, {bytes(answer.body[:100])!r} for {ask}")
        return is_right


class EchoClients:
    """Clients that share out requests among them.

    Args:
        port: The proxy's, of 127.0.0.1.
        seed: Of all that is drawn.
        habits: How they behave.
        first: The number of the first request.

    Attributes:
        tally: What became of the requests.
        clients: Connections that are open.
        random: Draws.
    """

    def __init__(self, port: int, seed: int, habits: Habits, first: int = 0) -> None:
        self.habits = habits
        self.tally = Tally()
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.clients: set[EchoClient] = set()
        self.next_number = first
        self._port = port
        self._end = first
        self._due_s = 0.0
        self._loop = asyncio.get_running_loop()

    def __repr__(self) -> str:
        return f"<EchoClients: {self.tally}>"

    def next_ask(self) -> Ask | None:
        """The next request to send, or None."""
        if self.next_number >= self._end:
            return None
        self.next_number += 1
        return draw(self.next_number, self.random, self.habits.kinds)

    def next_fields(self) -> str:
        """More lines for its head."""
        return self.random.choice(self.habits.fields)

    def due_s(self) -> float:
        """How long until the next request may be sent, which is taken to be then."""
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
        """Send so many requests on so many connections at once, until each has an end.

        Raises:
            OSError: The proxy takes no connections.
        """
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
        """Send no more; what is under way ends by itself."""
        self._end = self.next_number

    async def _work(self) -> None:
        dice = self.random
        refused = 0
        while self.next_number < self._end:
            tls = dice.choice(self.habits.tls)() if self.habits.tls else None
            life, depth = dice.randint(1, LONGEST_LIFE), dice.choice(DEPTHS)
            try:
                _, client = await self._loop.create_connection(
                    lambda life=life, depth=depth: EchoClient(self, life, depth),
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
