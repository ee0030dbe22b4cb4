"""The link between a parent and one of its workers: a connection on which each says single bytes.

1. The parent tells the worker to drain, to leave what it listens on to the process that takes its
   place, or to end at once.  To say a thing twice does no harm, unlike a second signal; so a worker
   that a terminal or a service manager has signalled, too, still drains in order.
2. The worker tells that it serves, that it reads its settings again, that it ends, and now and then
   that it lives.
3. The end of the link is that of the other process, however it ended.  A worker without a parent
   drains.

A byte that is not known, from another version, means nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import TYPE_CHECKING

from apfproxy.app.service_manager import ServiceManager

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.base.signals import Signals

DRAIN, LEAVE, CUT = b"d", b"l", b"c"
"""What a parent says."""
SERVING, READING, ENDING, ALIVE = b"s", b"r", b"e", b"a"
"""What a worker says."""

PING_PERIOD_S = 1.0
"""Between two signs of life of a worker, which are a byte and cheap."""
READ_BYTES = 256

log = logging.getLogger(__name__)


class LinkEnd:
    """One end of a link, which it closes.

    Args:
        connection: A connected socket.
        on_word: Called with each byte that the other process says.
        on_gone: Called once when the other process has ended.
    """

    def __init__(
        self,
        connection: socket.socket,
        on_word: Callable[[bytes], None],
        on_gone: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._on_word = on_word
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        connection.setblocking(False)
        self._loop.add_reader(connection.fileno(), self._read)

    def say(self, word: bytes) -> None:
        """Say something; harmless if the other process is gone, or has not listened for long."""
        with contextlib.suppress(OSError):
            self._connection.send(word)

    def close(self) -> None:
        """End the link; harmless once done."""
        if self._connection.fileno() >= 0:
            self._loop.remove_reader(self._connection.fileno())
            self._connection.close()

    def _read(self) -> None:
        try:
            words = self._connection.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            words = b""
        for word in words:
            self._on_word(bytes((word,)))
        if not words:
            self.close()
            self._on_gone()

    def __repr__(self) -> str:
        return f"<LinkEnd {self._connection.fileno()}>"


class ParentLink(ServiceManager):
    """The parent of this worker, which is its service manager.

    Args:
        descriptor: Of the connection to it.
        signals: Which the parent's words are like.
        counts: Where it wants what is counted, see `ServiceManager`.
    """

    def __init__(self, descriptor: int, signals: Signals, counts: str | None = None) -> None:
        super().__init__({})
        self.counts = counts
        self._signals = signals
        self.ping_period_s = PING_PERIOD_S
        connection = socket.socket(fileno=descriptor)
        connection.set_inheritable(False)
        self._link = LinkEnd(connection, self._on_word, self._on_gone)

    def ready(self) -> None:
        """The worker serves, for the first time or with what it has read again."""
        self._link.say(SERVING)

    def reloading(self) -> None:
        """The worker reads its settings again."""
        self._link.say(READING)

    def stopping(self, within_s: float) -> None:  # noqa: ARG002 - the parent knows the settings
        """The worker ends."""
        self._link.say(ENDING)

    def alive(self) -> None:
        """The worker does what it is there for."""
        self._link.say(ALIVE)

    def close(self) -> None:
        """End the link; harmless once done."""
        self._link.close()

    def _on_word(self, word: bytes) -> None:
        if word in {DRAIN, LEAVE}:
            self.is_relieved = self.is_relieved or word == LEAVE
            self._signals.end_as_parent_says()
        elif word == CUT:
            self._signals.end_at_once()

    def _on_gone(self) -> None:
        log.warning("the parent process is gone")
        self._signals.end_as_parent_says()

    def __repr__(self) -> str:
        return f"<ParentLink {self._link}>"
