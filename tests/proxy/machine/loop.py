"""An event loop of asyncio's own whose time moves only when it is told to, and without sockets.

Tasks, timers and time limits are asyncio's, so the whole server runs on it.  Servers and
connections are left to the player of the network.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from apfproxy.base.clock import LoopClock

if TYPE_CHECKING:
    from collections.abc import Callable

START_NS = 1_000_000_000_000


@dataclass
class Attempt:
    """A connection that is asked for, and the future that says what becomes of it."""

    factory: Callable[[], asyncio.BufferedProtocol]
    outcome: asyncio.Future[tuple[asyncio.Transport, asyncio.BufferedProtocol]]


class _Server:
    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self.sockets = ()

    def close(self) -> None:
        self._loop.accept = None


class _Selector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.loop: VirtualLoop | None = None

    def select(self, timeout: float | None = None) -> list[Any]:
        if self.loop is not None and timeout != 0:
            self.loop.on_nothing_to_do(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """`has_timers` says whether there was any when there was last nothing to do."""

    def __init__(self) -> None:
        self._now_ns = START_NS
        self._end_ns = START_NS
        self.attempts: list[Attempt] = []
        self.accept: Callable[[], asyncio.BufferedProtocol] | None = None
        self.has_timers = False
        selector = _Selector()
        super().__init__(selector)
        selector.loop = self
        self.clock = VirtualLoopClock(self)

    def now_ns(self) -> int:
        return self._now_ns

    def time(self) -> float:
        return self._now_ns / 1e9

    def run_ready(self) -> None:
        self.run_for(0)

    def run_for(self, duration_ns: int) -> None:
        self._end_ns = self._now_ns + duration_ns
        self.run_forever()

    def stall(self, duration_ns: int) -> None:
        self._now_ns += duration_ns

    def on_nothing_to_do(self, timeout: float | None) -> None:
        self.has_timers = timeout is not None
        step_ns = math.inf if timeout is None else math.ceil(timeout * 1e9)
        if self._now_ns + step_ns > self._end_ns:
            self._now_ns = max(self._now_ns, self._end_ns)
            self.stop()
        else:
            self._now_ns += cast("int", step_ns)

    async def create_server(  # type: ignore[override]  # no more is asked of it
        self,
        protocol_factory: Callable[[], asyncio.BufferedProtocol],
        *args: object,
        **more: object,
    ) -> _Server:
        del args, more
        self.accept = protocol_factory
        return _Server(self)

    async def create_connection(  # type: ignore[override]  # as above
        self,
        protocol_factory: Callable[[], asyncio.BufferedProtocol],
        *args: object,
        **more: object,
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        del args, more
        attempt = Attempt(protocol_factory, self.create_future())
        self.attempts.append(attempt)
        return await attempt.outcome


class VirtualLoopClock(LoopClock):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(loop)
        self.now_ns = loop.now_ns
