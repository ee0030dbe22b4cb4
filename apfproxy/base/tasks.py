"""Tasks that are named, kept alive until they end, and whose failure is never silent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from apfproxy.base.faults import Part, report

if TYPE_CHECKING:
    from collections.abc import Coroutine

# The loop itself holds tasks weakly; without this one could vanish half-way.
_running: set[asyncio.Task[Any]] = set()


def spawn(coroutine: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
    """Run a coroutine beside everything else."""
    task = asyncio.create_task(coroutine, name=name)  # noqa: TID251  the one place that may
    _running.add(task)
    task.add_done_callback(_on_done)
    return task


def _on_done(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        report(Part.TASK, error, f"{task.get_name()} failed", loop=task.get_loop())
