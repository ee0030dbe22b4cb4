"""Notices when the process has no file descriptor left, which nothing else would tell of.

uvloop resets connections that it cannot accept for want of one, without a word.  The limits keep
clients, operators and the upstream from that; whatever else may open files is seen here.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import TYPE_CHECKING

from apfproxy.base.rare_log import RareLog

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_S = 1.0
NONE_LEFT = frozenset((errno.EMFILE, errno.ENFILE))

log = logging.getLogger(__name__)


class DescriptorWatch:
    """Looks whether there is a descriptor left; `shortages` counts when there was none."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._log = RareLog(log, now_ns)
        self.shortages = 0

    def look(self) -> None:
        """Look once; takes a few microseconds."""
        try:
            socket.socket().close()
        except OSError as error:
            if error.errno not in NONE_LEFT:
                raise
            self.shortages += 1
            self._log.log(
                logging.WARNING,
                "none left",
                "no connection can be accepted or made: %s; raise the limit of open files"
                " (ulimit -n, LimitNOFILE=)",
                error.strerror,
            )

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                self.look()
            except OSError:
                log.exception("whether there are descriptors left cannot be told")
