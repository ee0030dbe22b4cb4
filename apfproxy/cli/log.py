"""Logging of a process: stdlib's, to stderr, one line each."""

from __future__ import annotations

import logging
import sys
import time

FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"
DATE_FORMAT = "%Y-%m-%dT%H:%M:%S"


class OneLineFormatter(logging.Formatter):
    r"""Writes each record in one line of UTC time, level, logger and text.

    A line break in a message, which may hold what a client sent, or in a traceback becomes `\n`,
    so that nobody can forge a record.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        return super().format(record).replace("\r", "\\r").replace("\n", "\\n")


def configure_logging(level: str) -> None:
    """Send the records of all loggers from `level` on to stderr; call once, in a command."""
    formatter = OneLineFormatter(FORMAT, DATE_FORMAT)
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Of a library these are details even where ours are wanted.
    for name in ("asyncio", "aiohttp", "watchfiles"):
        logging.getLogger(name).setLevel(max(logging.INFO, logging.getLogger().level))
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
