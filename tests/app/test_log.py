"""Logging of a process."""

from __future__ import annotations

import datetime as dt
import json
import logging
import time
from typing import TYPE_CHECKING

import pytest
from aiohttp.http_exceptions import BadHttpMessage

from apfproxy.app import log as log_module
from apfproxy.app.log import OneLineFormatter, configure_logging
from apfproxy.base.rare_log import RareLog

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("", "asyncio", "aiohttp", "watchfiles")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in NAMES]
    levels = [logger.level for logger in loggers]
    handlers = loggers[0].handlers[:]
    loggers[0].handlers.clear()
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
    loggers[0].handlers[:] = handlers


@pytest.mark.parametrize(("level", "count"), [("debug", 2), ("info", 1), ("error", 0)])
def test_configured(level: str, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Records from the level on go to stderr with time, level and logger."""
    configure_logging(level)
    logging.getLogger("apfproxy.x").debug("detail")
    logging.getLogger("asyncio").debug("another's detail")
    logging.getLogger("apfproxy.x").info("hello %s", "there")

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == count
    assert all(line[:2] == "20" and "Z " in line for line in lines)
    assert [line.endswith("INFO apfproxy.x: hello there") for line in lines[-1:]] == [True][:count]


def test_control_characters() -> None:
    record = logging.LogRecord("a", logging.INFO, "", 1, "\x1b[2J\x85\u2028\x00 \t\xfc", None, None)

    assert "\\x1b[2J\\x85\\u2028\\x00 \t\xfc" == OneLineFormatter().format(record)


@pytest.mark.parametrize(
    ("error", "shown"), [(BadHttpMessage("Authorization: x"), False), (ValueError("ours"), True)]
)
def test_requests_that_are_none(
    error: Exception, *, shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging("info")
    logging.getLogger("aiohttp.server").error("failed", exc_info=error)

    assert shown == ("failed" in capsys.readouterr().err)


def test_warnings_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rare = RareLog(logging.getLogger("asyncio.warnings"), time.monotonic_ns)
    monkeypatch.setattr(log_module, "_loop_warnings", rare, raising=False)
    configure_logging("info")
    logger = logging.getLogger("asyncio")
    for _ in range(3):
        logger.warning("%s is closed", "it")
        logger.warning("a dictionary: %(a)s", {"a": 1})
        logger.error("an error")

    lines = [line.split(" ", 2)[1:] for line in capsys.readouterr().err.splitlines()]
    assert ["WARNING", "asyncio.warnings: it is closed"] in lines
    assert ["WARNING", "asyncio.warnings: a dictionary: 1"] in lines
    assert 3 == lines.count(["ERROR", "asyncio: an error"])
    assert 5 == len(lines)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Each record is an object in a line, with the traceback where there is one."""
    configure_logging("info", "json")
    logger = logging.getLogger("apfproxy.x")
    logger.info("hello %s", 'a"b\n\x1b\u2028')
    try:
        raise RuntimeError("broken")  # noqa: TRY301 - it is to have a traceback
    except RuntimeError:
        logger.exception("failed")
    logger.warning("where", stack_info=True)

    first, second, third = map(json.loads, capsys.readouterr().err.splitlines())
    assert ("INFO", "apfproxy.x") == (first["level"], first["logger"])
    assert 'hello a"b\n\x1b\u2028' == first["message"]
    assert dt.datetime.fromisoformat(first["time"]).utcoffset() == dt.timedelta(0)
    assert list(first) == ["time", "level", "logger", "message"]
    assert second["exception"].startswith("Traceback (most recent call last):\n")
    assert third["stack"].startswith("Stack (most recent call last):\n")
