"""A case played with a proxy, and what came out on both sides."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.conformance.hostile.script import steps
from tests.end_to_end.http2_peer import HTTP2
from tests.end_to_end.peer import begin

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.conformance.hostile.script import Case
    from tests.end_to_end.peer import Message, Peer
    from tests.end_to_end.scene import Scene
    from tests.end_to_end.upstream import Arrival

QUIET_S = 0.02
"""Nothing more comes if nothing came for so long: all sides run in one loop and one kernel."""
PATIENCE_S = 3.0
"""For the first byte that comes."""

STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")


@dataclass
class Outcome:
    """The bytes and requests that came out on both sides."""

    received: bytearray = field(default_factory=bytearray)
    is_closed: bool = False
    has_left: bool = False
    requests: list[Message] = field(default_factory=list)
    is_upstream_left: bool = False

    @property
    def codes(self) -> list[int]:
        return [int(code) for code in STATUS.findall(bytes(self.received))]

    @property
    def code(self) -> int:
        return next((code for code in self.codes if code >= 200), 0)

    def __str__(self) -> str:
        end = "closed" if self.is_closed else "open"
        lines = [request.line[:80] for request in self.requests]
        return f"answers {self.codes}, then {end}; the upstream got {lines}"


class Play:
    """One case, played with a proxy."""

    def __init__(
        self, case: Case, scene: Scene, connect: Callable[[], Awaitable[Peer]] | None = None
    ) -> None:
        self._case = case
        self._scene = scene
        self._connect = connect or scene.connect
        self._reader: asyncio.Task[None] | None = None
        self._events = 0
        self.outcome = Outcome()

    async def run(self) -> None:
        await self._prepare()
        scene, outcome = self._scene, self.outcome
        client = await self._connect()
        script = list(steps(self._case["raw"]))
        sending = begin(self._send(client, script))
        if "NOREAD" in dict(script):
            await self._settle()
        self._read(client)
        await self._settle(sending)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        upstream = scene.upstream
        outcome.is_upstream_left = len(upstream.ended) == len(upstream.peers)
        # A stream ends with its answer; the connection, which others share, goes on.
        outcome.is_closed |= scene.protocol == HTTP2
        client.close()

    async def _prepare(self) -> None:
        scenario, upstream = self._case.get("scenario"), self._scene.upstream
        if scenario in ("apf-reject", "apf-queued"):
            await self._scene.take_seat()
        elif scenario == "upstream-idle-close":
            await (await self._scene.take_seat()).end()
            stale = upstream.peers[0]

            async def close_stale(arrival: Arrival) -> None:
                if arrival.peer is stale:
                    stale.close()
                else:
                    await self._answer(arrival)

            upstream.answer_with(close_stale)
            return
        upstream.answer_with(self._answer)

    async def _answer(self, arrival: Arrival) -> None:
        self._events += 1
        peer, request = arrival
        self.outcome.requests.append(request)
        script = self._case.get("upstream_raw")
        if script is not None and len(self.outcome.requests) == 1:
            for verb, argument in steps(script):
                if verb == "SEND":
                    await peer.send(argument.encode("latin-1"))
                elif verb == "PAUSE":
                    await asyncio.sleep(float(argument))
                else:
                    peer.close()
            return
        if re.search(rb"[?&]watch=(true|1)\b", request.line):
            head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            await peer.send(head + b"2\r\n{}\r\n")
            return
        said = b"got " + request.line[:200]
        body = b"" if request.line.startswith(b"HEAD ") else said
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(said), body))

    async def _send(self, client: Peer, script: list[tuple[str, str]]) -> None:
        draining = None
        try:
            for verb, argument in script:
                if verb == "SEND":
                    await client.send(argument.encode("latin-1"))
                elif verb == "DRIP":
                    text, number = argument.rsplit("|", 1)
                    await self._drip(client, text.encode("latin-1"), int(number))
                elif verb == "PAUSE":
                    await self._settle()
                elif verb == "HALFCLOSE":
                    client.end_sending()
                elif verb == "SIGTERM":
                    await self._settle()
                    draining = begin(self._scene.process.drain())
                    await asyncio.sleep(0)
                elif verb in ("CLOSE", "RST"):
                    self.outcome.has_left = True
                    if self._reader is not None:
                        self._reader.cancel()
                        await asyncio.gather(self._reader, return_exceptions=True)
                    client.reset() if verb == "RST" else client.close()
        except OSError:
            pass  # the proxy closed before it had all
        if draining is not None:
            await draining

    async def _drip(self, client: Peer, piece: bytes, number: int) -> None:
        """Send a piece so often that each is a segment of its own, while the proxy reads."""
        for _ in range(number):
            if self.outcome.is_closed:
                return
            await client.send(piece)
            await asyncio.sleep(0)

    def _read(self, client: Peer) -> None:
        if self._reader is None and not self.outcome.has_left:
            self._reader = begin(self._receive(client))

    async def _receive(self, client: Peer) -> None:
        outcome = self.outcome
        try:
            while data := await client.receive():
                self._events += 1
                outcome.received += data
        except TimeoutError:
            return
        except ConnectionResetError:
            pass
        outcome.is_closed = True
        self._events += 1

    async def _settle(self, sending: asyncio.Task[None] | None = None) -> None:
        """Wait until all is sent and the connection is closed, or nothing more comes."""
        loop = asyncio.get_running_loop()
        outcome, counters = self.outcome, self._scene.process.cluster.counters
        patient_until = loop.time() + PATIENCE_S
        state: tuple[int, ...] = ()
        while not (outcome.is_closed and (sending is None or sending.done())):
            before = state
            state = (
                self._events,
                counters.listener.bytes_from_clients,
                counters.listener.bytes_to_clients,
                counters.pool.bytes_sent,
                counters.listener.connections_open,
                len(self._scene.upstream.ended),
            )
            is_enough = sending is None or (
                sending.done() and (outcome.received or outcome.has_left)
            )
            if before == state and (is_enough or loop.time() > patient_until):
                return
            await asyncio.sleep(QUIET_S)
