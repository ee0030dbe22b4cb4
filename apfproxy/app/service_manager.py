"""What systemd is told of the process: that it is ready, reads its settings again, ends, and lives.

The protocol of sd_notify(3): texts to a Unix socket that `NOTIFY_SOCKET` names.  Where it names
none, nothing is told.  Other service managers speak it, too.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
READY = "READY=1"
PINGS = 2
"""In the time after which a process without a sign of life is taken for dead."""
SUCCESSION_WITHIN_S = 1.0
"""For a manager that has much to read: one that does not know a successor ends it."""

log = logging.getLogger(__name__)


class ServiceManager:
    """The service manager that the environment names, if any.

    Attributes:
        ping_period_s: How often it is to be told that the process lives; 0 for never.
        counts: Path of a file in which it wants what the process has counted at its end; None if
            it does not.
        is_relieved: Whether it has had another process take over already, which it began itself.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = environment.get(NOTIFY_SOCKET, "")
        if self._address.startswith("@"):
            self._address = f"\0{self._address[1:]}"
        self._has_failed = False
        self.counts: str | None = None
        self.is_relieved = False
        pid, watchdog_us = environment.get(WATCHDOG_PID), environment.get(WATCHDOG_USEC, "")
        self.ping_period_s = 0.0
        if self._address and pid in (None, str(os.getpid())) and watchdog_us.isdecimal():
            self.ping_period_s = int(watchdog_us) / 1e6 / PINGS

    def ready(self) -> None:
        """The process serves, for the first time or with what it has read again."""
        self._tell(READY)

    def reloading(self) -> None:
        """The process reads its settings again."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, within_s: float) -> None:
        """The process ends, within that time."""
        self._tell(f"STOPPING=1\nEXTEND_TIMEOUT_USEC={round(within_s * 1e6)}")

    def alive(self) -> None:
        """The process does what it is there for."""
        self._tell("WATCHDOG=1")

    def succeeded_by(self, pid: int) -> None:
        """Another process is the service from now on."""
        self._tell(f"MAINPID={pid}\n{READY}", SUCCESSION_WITHIN_S)

    def _tell(self, text: str, within_s: float = 0.0) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
                connection.settimeout(within_s)
                connection.sendto(text.encode(), self._address)
        except OSError as error:
            if not self._has_failed:
                log.warning("%s cannot be told: %s", NOTIFY_SOCKET, error)
            self._has_failed = True

    def __repr__(self) -> str:
        return f"<ServiceManager {self._address.lstrip(chr(0)) or 'nobody'}>"


NO_SERVICE_MANAGER = ServiceManager({})
