"""A worker's side of the link: its parent is its service manager, and has the record of seats."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from typing import TYPE_CHECKING, Final

import msgspec

from apfproxy.base.service_manager import ServiceManager
from apfproxy.base.tasks import spawn
from apfproxy.fleet.record import MAX_RECORD_BYTES
from apfproxy.fleet.store import Stored, StoreError, Swapped
from apfproxy.sources.fleet_store import open_store
from apfproxy.workers.ledger import READ, SWAP, Held, Swap
from apfproxy.workers.link import (
    Alive,
    Cut,
    Drain,
    Ending,
    Leave,
    Link,
    LinkError,
    Message,
    Renew,
    Serving,
    State,
    Urgent,
)
from apfproxy.workers.place import STORE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from apfproxy.base.service_manager import Handler
    from apfproxy.base.signals import Signals
    from apfproxy.fleet.store import LedgerStore
    from apfproxy.settings import FleetSettings
    from apfproxy.sources.servers_behind import ServersBehind
    from apfproxy.workers.place import SentSettings

PING_PERIOD_S: Final = 1.0
"""Between two signs of life of a worker, which has its state beside."""
LAST_WITHIN_S: Final = 3.0
"""For the parent to read the last state."""

log = logging.getLogger(__name__)


class ParentLink(ServiceManager):
    """The parent of this worker, which is its service manager."""

    def __init__(self, settings: SentSettings, signals: Signals) -> None:
        super().__init__({})
        self.shows_state = True
        self.ping_period_s = PING_PERIOD_S
        # At whole seconds: the parent looks in between, when it has one of each worker.
        self.pauses_s = iter(lambda: PING_PERIOD_S - time.time() % PING_PERIOD_S, None)
        self.handlers: dict[str, Handler] = {}
        self._state: Callable[[], Awaitable[bytes]] | None = None
        self._sending: asyncio.Task[None] | None = None
        self._settings = settings
        self._signals = signals
        self._on_urgent: dict[str, Callable[[], None]] = {}
        connection = socket.socket(fileno=settings.place.link)
        connection.set_inheritable(False)
        self._link = Link(connection, self._on_message, self._on_gone, self.handlers)

    def ready(self, refused: str = "") -> None:
        self._link.send(Serving(refused, self._settings.settle(is_refused=bool(refused))))
        self._send_soon()

    def stopping(self, within_s: float) -> None:  # noqa: ARG002 - the parent knows the settings
        self._link.send(Ending())

    def alive(self) -> None:
        """Show life, and the state unless the parent has not read the one before."""
        is_read = self._link.has_sent.is_set()
        self._link.send(Alive())
        if is_read and (self._sending is None or self._sending.done()):
            self._send_soon()

    def show(self, state: Callable[[], Awaitable[bytes]], handlers: Mapping[str, Handler]) -> None:
        self._state = state
        self.handlers.update(handlers)

    def _send_soon(self) -> None:
        self._sending = spawn(self._send_state(), name="sending the state")

    async def _send_state(self) -> None:
        if self._state is not None:
            self._link.send(State(await self._state()))

    async def last(self) -> None:
        """Have the parent read the last state, for a moment."""
        if self._state is not None:
            await self._send_state()
            try:
                async with asyncio.timeout(LAST_WITHIN_S):
                    await self._link.has_sent.wait()
            except TimeoutError:
                log.warning("the parent does not read what was counted last")

    def open_store(
        self, fleet: FleetSettings, key: str, behind: ServersBehind | None = None
    ) -> LedgerStore:
        """The store that settings name, or the parent's memory."""
        if fleet.store == STORE:
            return ParentStore(self._link, self._on_urgent, key)
        return open_store(fleet, key, behind)

    def close(self) -> None:
        self._link.close()

    def _on_message(self, message: Message) -> None:
        if isinstance(message, Drain | Leave):
            self.is_relieved = self.is_relieved or isinstance(message, Leave)
            self._signals.end_as_parent_says()
        elif isinstance(message, Cut):
            self._signals.end_at_once()
        elif isinstance(message, Renew):
            self._settings.sent = message
            self._signals.hangup.set()
        elif isinstance(message, Urgent) and message.key in self._on_urgent:
            self._on_urgent[message.key]()

    def _on_gone(self) -> None:
        log.warning("the parent process is gone")
        self._signals.end_as_parent_says()

    def __repr__(self) -> str:
        return f"<ParentLink {self._link}>"


class ParentStore:
    """One record in the parent process; see `fleet.store.LedgerStore`."""

    def __init__(self, link: Link, on_urgent: dict[str, Callable[[], None]], key: str) -> None:
        self._link = link
        self._on_urgent = on_urgent
        self._key = key

    async def read(self) -> Stored:
        held = await self._ask(READ, Swap(self._key))
        return Stored(held.data, held.version)

    async def swap(self, data: bytes, seen: Stored, *, is_urgent: bool = False) -> Swapped:
        if len(data) > MAX_RECORD_BYTES:
            raise StoreError(f"the record has {len(data)} bytes, more than {MAX_RECORD_BYTES}")
        held = await self._ask(SWAP, Swap(self._key, seen.version, data, is_urgent))
        stored = Stored(data if held.is_done else held.data, held.version)
        return Swapped(is_done=held.is_done, stored=stored)

    def listen(self, on_urgent: Callable[[], None]) -> None:
        self._on_urgent[self._key] = on_urgent

    async def close(self) -> None:
        self._on_urgent.pop(self._key, None)

    async def _ask(self, question: str, arguments: Swap) -> Held:
        try:
            data = await self._link.ask(question, msgspec.msgpack.encode(arguments))
            return msgspec.msgpack.decode(data, type=Held)
        except (LinkError, msgspec.MsgspecError) as error:
            raise StoreError(f"the parent process: {error}") from error

    def __repr__(self) -> str:
        return f"<ParentStore {self._key}>"
