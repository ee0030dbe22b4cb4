"""Notifications to systemd: that it is ready, reads its settings again, ends, and lives.

The protocol of sd_notify(3): texts to a Unix socket that `NOTIFY_SOCKET` names.  Where it names
none, nothing is told.  Other service managers speak it, too; the parent of workers has a link.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
import time
from typing import TYPE_CHECKING

from apfproxy.base.faults import Part
from apfproxy.base.tasks import Recurring

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    Handler = Callable[[bytes], Awaitable[bytes]]

NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
PINGS = 2
"""In the time after which a process without a sign of life is taken for dead."""

log = logging.getLogger(__name__)


class ServiceManager:
    """The service manager that the environment names, if any.

    Attributes:
        ping_period_s: How often it is to be told that the process lives; 0 for never.
        pauses_s: The pauses between that, if they are others.
        shows_state: Whether it shows the process's state itself, as the parent of workers does.
        is_relieved: Whether it has had another process take over already.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = environment.get(NOTIFY_SOCKET, "")
        if self._address.startswith("@"):
            self._address = f"\0{self._address[1:]}"
        self._has_failed = False
        self._signs_of_life: Recurring | None = None
        self.shows_state = False
        self.pauses_s: Iterator[float] | None = None
        self.is_relieved = False
        pid, watchdog_us = environment.get(WATCHDOG_PID), environment.get(WATCHDOG_USEC, "")
        self.ping_period_s = 0.0
        if self._address and pid in (None, str(os.getpid())) and watchdog_us.isdecimal():
            self.ping_period_s = int(watchdog_us) / 1e6 / PINGS

    def begin(self, is_well: Callable[[], bool]) -> None:
        """Say that the process serves, and give signs of life while it is well."""
        self.ready()
        if self.ping_period_s:

            def show_life() -> None:
                if is_well():
                    self.alive()

            loop = asyncio.get_running_loop()
            self._signs_of_life = Recurring(
                Part.LOOP, loop, self.ping_period_s, math.inf, show_life, self.pauses_s
            )
            self._signs_of_life.start()

    def show(
        self, state: Callable[[], Awaitable[bytes]], handlers: Mapping[str, Handler]
    ) -> None: ...

    async def last(self) -> None: ...

    def end(self) -> None:
        if self._signs_of_life is not None:
            self._signs_of_life.stop()

    def ready(self, refused: str = "") -> None:  # noqa: ARG002 - the parent of workers asks
        """The process serves, for the first time or with what it has read again.

        `refused` says why it cannot use what it has read; "" if it does.
        """
        self._tell("READY=1")

    def reloading(self) -> None:
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, within_s: float) -> None:
        """The process ends within that time."""
        self._tell(f"STOPPING=1\nEXTEND_TIMEOUT_USEC={round(within_s * 1e6)}")

    def alive(self) -> None:
        self._tell("WATCHDOG=1")

    def _tell(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
                connection.setblocking(False)
                connection.sendto(text.encode(), self._address)
        except OSError as error:
            if not self._has_failed:
                log.warning("%s cannot be told: %s", NOTIFY_SOCKET, error)
            self._has_failed = True


NO_SERVICE_MANAGER = ServiceManager({})
