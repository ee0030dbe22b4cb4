"""Tasks that nobody waits for."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Callable


async def succeed() -> None:
    """End at once."""


async def fail() -> None:
    """Fail at once."""
    raise ValueError("broken")


async def hang() -> None:
    """Never end."""
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("work", "logged"),
    [
        pytest.param(succeed, [], id="success-is-silent"),
        pytest.param(fail, ["work failed"], id="failure-is-logged"),
    ],
)
async def test_failures_are_logged(
    work: Callable[[], object], logged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A failure that nobody awaits is in the log, with the task's name."""
    coroutine = work()
    assert asyncio.iscoroutine(coroutine)
    with caplog.at_level(logging.ERROR):
        await asyncio.wait([spawn(coroutine, name="work")])

    assert logged == [message.partition("\n")[0] for message in caplog.messages]


async def test_cancellation_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    """A task that was cancelled has not failed."""
    task = spawn(hang(), name="work")
    task.cancel()
    await asyncio.wait([task])

    assert [] == caplog.messages
    assert task.cancelled()
