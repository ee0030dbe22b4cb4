"""Clients that stall on purpose, and measure how late the proxy ends what they began.

Each does one thing for which the proxy has a deadline, again and again: half a head, a body that
does not go on, a connection that is idle, a request that the origin never answers, a wait for a
seat, a token that expires.  None goes through a faulty link itself, so a deadline that is not kept
is the proxy's doing.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from time import monotonic, time
from typing import TYPE_CHECKING

from loadtest.echo import CONFIGMAPS, NEVER

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Awaitable, Callable

LATE_S = 1.0
"""How late a deadline may be kept."""
EARLY_S = 0.3
"""How early: the proxy's clock starts before the client knows that its bytes are there."""
PATIENCE_S = 30.0
"""After which a deadline counts as not kept at all."""
ASK_PERIOD_S = 0.05
"""Between two requests with a token that is about to expire."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The proxy's settings, in seconds."""

    head_s: float
    idle_s: float
    request_s: float
    answer_s: float
    body_grace_s: float


@dataclass(slots=True)
class Kept:
    """How one kind of deadline was kept.

    Attributes:
        late_s: How much later than the deadline each end came.
        cut: Ends other than by the deadline that a failure of the origin's link explains.
        wrong: Ends that nothing explains; the first few.
    """

    late_s: list[float] = field(default_factory=list)
    cut: int = 0
    wrong: list[str] = field(default_factory=list)

    def judge(self, got: bytes, expected: bytes, late_s: float) -> None:
        """Take one end.

        Args:
            got: What came before it, from its start.
            expected: How that has to begin.
            late_s: How much later than the deadline it came.
        """
        if got.startswith(b"HTTP/1.1 502 ") and late_s < LATE_S:
            self.cut += 1
            return
        self.late_s.append(late_s)
        is_right = got.startswith(expected) if expected else not got
        if not is_right or not -EARLY_S <= late_s <= LATE_S:
            self.complain(f"{late_s:+.3f} s: {got[:200]!r}")

    def complain(self, text: str) -> None:
        if len(self.wrong) < 20:
            self.wrong.append(text)


class StrainedClients:
    """All kinds of them.

    Args:
        port: The proxy's.
        deadlines: Its settings.
        dice: Draws what varies.
        new_token: Makes a token of a user that expires at the given time of day, in whole seconds.

    Attributes:
        kept: Kind to what came of it.
    """

    def __init__(
        self,
        port: int,
        deadlines: Deadlines,
        dice: random.Random,
        new_token: Callable[[int], str],
    ) -> None:
        self._port = port
        self._deadlines = deadlines
        self._dice = dice
        self._new_token = new_token
        self._seat_lock = asyncio.Lock()
        self._kinds: dict[str, Callable[[Kept], Awaitable[None]]] = {
            "silence": self._silence,
            "half a head": self._half_a_head,
            "idle": self._idle,
            "body": self._body,
            "slow body": self._slow_body,
            "answer": self._answer,
            "seat": self._seat,
            "token": self._token,
        }
        self.kept = {kind: Kept() for kind in self._kinds}

    def __repr__(self) -> str:
        return f"<StrainedClients of port {self._port}>"

    async def run(self, of_each: int) -> None:
        """Stall until cancelled.

        Args:
            of_each: Clients of each kind.
        """
        async with asyncio.TaskGroup() as group:
            for kind in self._kinds:
                for _ in range(of_each):
                    group.create_task(self._again_and_again(kind))

    async def _again_and_again(self, kind: str) -> None:
        once, kept = self._kinds[kind], self.kept[kind]
        while True:
            await asyncio.sleep(self._dice.uniform(0, 0.5))
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await once(kept)
            except TimeoutError:
                kept.complain(f"no end within {PATIENCE_S:g} s")
            except (OSError, EOFError) as error:
                kept.complain(repr(error))

    @contextlib.asynccontextmanager
    async def _connection(
        self,
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    def _request(self, answer: str, *, fields: str = "", method: str = "GET") -> bytes:
        return (
            f"{method} {CONFIGMAPS}/x HTTP/1.1\r\nHost: a.test\r\nX-Request-Id: s\r\n"
            f"X-Answer: {answer}\r\n{fields}\r\n"
        ).encode()

    async def _silence(self, kept: Kept) -> None:
        async with self._connection() as (reader, _):
            began_s = monotonic()
            got = await reader.read(4096)
            kept.judge(got, b"", monotonic() - began_s - self._deadlines.head_s)

    async def _half_a_head(self, kept: Kept) -> None:
        async with self._connection() as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: a.test\r\nX-A: ")
            began_s = monotonic()
            got = await reader.read(4096)
            kept.judge(got, b"HTTP/1.1 408 ", monotonic() - began_s - self._deadlines.head_s)

    async def _idle(self, kept: Kept) -> None:
        async with self._connection() as (reader, writer):
            writer.write(self._request("sized 3", fields=NAMED))
            await read_answer(reader)
            began_s = monotonic()
            got = await reader.read(4096)
            kept.judge(got, b"", monotonic() - began_s - self._deadlines.idle_s)

    async def _body(self, kept: Kept) -> None:
        request = self._request(
            "put-in-chunks 3", fields=f"{NAMED}Content-Length: 3\r\n", method="PUT"
        )
        async with self._connection() as (reader, writer):
            for _ in range(self._dice.randint(0, 3)):
                writer.write(request + b"s|s")
                await read_answer(reader)
            writer.write(request + b"s")
            began_s = monotonic()
            got = await reader.read(4096)
            kept.judge(got, b"HTTP/1.1 408 ", monotonic() - began_s - self._deadlines.request_s)

    async def _slow_body(self, kept: Kept) -> None:
        fields = f"{NAMED}Content-Length: 1000000\r\n"
        async with self._connection() as (reader, writer):
            writer.write(
                self._request("put-in-chunks 3", fields=fields, method="PUT") + bytes(40_000)
            )
            began_s = monotonic()
            got = await reader.read(4096)
            late_s = monotonic() - began_s - self._deadlines.body_grace_s
            kept.judge(got, b"HTTP/1.1 408 ", late_s)

    async def _answer(self, kept: Kept) -> None:
        async with self._connection() as (reader, writer):
            writer.write(self._request(f"{NEVER} 0", fields=NAMED))
            began_s = monotonic()
            got = await reader.read(4096)
            kept.judge(got, b"HTTP/1.1 504 ", monotonic() - began_s - self._deadlines.answer_s)

    async def _seat(self, kept: Kept) -> None:
        fields = "X-Remote-User: waiter\r\nX-Remote-Group: waiters\r\n"
        async with (
            self._seat_lock,
            self._connection() as (reader, writer),
            self._connection() as (held, holder),
        ):
            holder.write(self._request(f"{NEVER} 0", fields=fields))
            holding = asyncio.create_task(held.read(1))
            await asyncio.sleep(0.2)
            # A quarter of its time is what it may wait.
            wait_s = self._dice.choice((1.0, 1.5))
            request = self._request(f"{NEVER} 0", fields=fields)
            writer.write(request.replace(b" HTTP/1.1", b"?timeout=%gs HTTP/1.1" % (4 * wait_s), 1))
            began_s = monotonic()
            got = await reader.read(4096)
            late_s = monotonic() - began_s - wait_s
            if holding.done():
                kept.cut += 1  # its link failed, so that the seat came free
            else:
                kept.judge(got, b"HTTP/1.1 429 ", late_s)
            holding.cancel()

    async def _token(self, kept: Kept) -> None:
        expires_s = int(time()) + self._dice.randint(2, 5)
        token = self._new_token(expires_s)
        fields = f"Authorization: Bearer {token}\r\n"
        request = self._request("sized 3", fields=fields)
        served_s = 0.0
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            while True:
                sent_s = time()
                writer.write(request)
                try:
                    status = await read_answer(reader)
                except (OSError, EOFError):
                    # The origin's link failed in the middle of an answer.
                    writer.transport.abort()
                    reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                    continue
                if status == 401:
                    break
                served_s = sent_s
                await asyncio.sleep(ASK_PERIOD_S)
        finally:
            writer.transport.abort()
        late_s = max(0.0, served_s - expires_s)
        kept.late_s.append(late_s)
        if late_s > LATE_S or sent_s + EARLY_S < expires_s:
            kept.complain(f"served until {late_s:.3f} s, refused {sent_s - expires_s:+.3f} s after")


NAMED = "X-Remote-User: staller\r\nX-Remote-Group: testers\r\n"


async def read_answer(reader: asyncio.StreamReader) -> int:
    """Read one answer with a length: its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    await reader.readexactly(length)
    return int(head.split(b" ", 2)[1])
