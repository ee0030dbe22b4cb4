"""Logging of a process: stdlib's, to stderr, one line each, as text or as JSON."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from typing import Any

from apfproxy.base.rare_log import RareLog
from apfproxy.settings import JSON, TEXT

FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(of_worker)s%(name)s: %(message)s"
DATE_FORMAT = "%Y-%m-%dT%H:%M:%S"

WORKER, OF_WORKER = "worker", "of_worker"
"""Attributes of a worker's records: its number, and as lines have it."""

LOOP = "asyncio"
"""The logger of event loops, uvloop's too."""

_loop_warnings = RareLog(logging.getLogger(f"{LOOP}.warnings"), time.monotonic_ns)

CONTROLS = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


class OneLineFormatter(logging.Formatter):
    """Writes each record in one line of UTC time, level, logger and text.

    Control characters are escaped: a message may hold what a client sent, which must neither forge
    a record nor control a terminal.
    """

    def format(self, record: logging.LogRecord) -> str:
        return CONTROLS.sub(escaped, super().format(record))


class JsonFormatter(logging.Formatter):
    """Writes each record as a JSON object in a line; its escapes keep clients from forging one."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": f"{self.formatTime(record, DATE_FORMAT)}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if WORKER in record.__dict__:
            fields[WORKER] = record.__dict__[WORKER]
        if record.exc_info and record.exc_info[0] is not None:
            fields["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack"] = self.formatStack(record.stack_info)
        return json.dumps(fields)


def escaped(control: re.Match[str]) -> str:
    return control[0].encode("unicode_escape").decode()


def is_no_client_fault(record: logging.LogRecord) -> bool:
    """Whether a record of an HTTP server is no complaint about a request that is no HTTP.

    Clients can send such ones without end, and what they hold, a token maybe, is in the record.
    """
    from aiohttp.http_exceptions import HttpProcessingError  # noqa: PLC0415 - aiohttp logged this

    return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)


def is_no_loop_warning(record: logging.LogRecord) -> bool:
    """Whether a record of an event loop is no warning; those have one line of a kind a minute.

    A loop warns of each write to a connection that broke a moment ago: a client that resets a
    download is worth ten lines.
    """
    if record.levelno != logging.WARNING:
        return True
    arguments = record.args if isinstance(record.args, tuple) else (record.args,)
    _loop_warnings.log(record.levelno, str(record.msg), str(record.msg), *arguments)
    return False


def name_worker(index: int) -> None:
    """Have each record of this process name its worker from now on."""
    make = logging.LogRecord

    def named(*arguments: Any, **options: Any) -> logging.LogRecord:  # noqa: ANN401 - logging's
        record = make(*arguments, **options)
        record.__dict__.update({WORKER: index, OF_WORKER: f"worker {index} "})
        return record

    logging.setLogRecordFactory(named)


def configure_logging(level: str, form: str = TEXT) -> None:
    """Send the records of all loggers from `level` on to stderr, in one of the two forms."""
    formatter: logging.Formatter = OneLineFormatter(FORMAT, DATE_FORMAT, defaults={OF_WORKER: ""})
    if form == JSON:
        formatter = JsonFormatter()
    formatter.converter = time.gmtime
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Of a library these are details even where ours are wanted.
    for name in ("asyncio", "aiohttp", "watchfiles"):
        logging.getLogger(name).setLevel(max(logging.INFO, logging.getLogger().level))
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    logging.getLogger("aiohttp.server").addFilter(is_no_client_fault)
    logging.getLogger(LOOP).addFilter(is_no_loop_warning)
