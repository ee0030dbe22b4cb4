"""Logging of a process."""

from __future__ import annotations

import io
import logging
import sys
from typing import TYPE_CHECKING

import pytest

from apfproxy.cli.log import OneLineFormatter, configure_logging

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("", "asyncio", "aiohttp", "watchfiles")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Leave logging as it was."""
    loggers = [logging.getLogger(name) for name in NAMES]
    levels = [logger.level for logger in loggers]
    handlers = loggers[0].handlers[:]
    loggers[0].handlers.clear()
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    loggers[0].handlers[:] = handlers


def test_one_line() -> None:
    """No text makes more than one line of a record."""
    record = logging.LogRecord("a", logging.INFO, "", 1, "one\ntwo\r\nthree", None, None)

    assert OneLineFormatter().format(record) == "one\\ntwo\\r\\nthree"


def test_traceback_is_one_line() -> None:
    """A traceback stays in the line of its record."""
    try:
        raise RuntimeError("broken")  # noqa: TRY301 - it is to have a traceback
    except RuntimeError:
        record = logging.LogRecord("a", logging.ERROR, "", 1, "failed", None, sys.exc_info())

    text = OneLineFormatter().format(record)
    assert text.startswith("failed\\nTraceback")
    assert "\n" not in text


@pytest.mark.parametrize(("level", "count"), [("debug", 2), ("info", 1), ("error", 0)])
def test_configured(level: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records from the level on go to stderr with time, level and logger."""
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    configure_logging(level)
    logging.getLogger("apfproxy.x").debug("detail")
    logging.getLogger("asyncio").debug("another's detail")
    logging.getLogger("apfproxy.x").info("hello %s", "there")

    lines = stderr.getvalue().splitlines()
    assert len(lines) == count
    assert all(line[:2] == "20" and "Z " in line for line in lines)
    assert [line.endswith("INFO apfproxy.x: hello there") for line in lines[-1:]] == [True][:count]
