"""One cluster of a process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from apfproxy.errors import OperatorError
from apfproxy.settings import FlowControlSettings
from tests.end_to_end.scene import Setup, on_uvloop, running

if TYPE_CHECKING:
    from pathlib import Path


@on_uvloop
async def test_other_seats() -> None:
    """Settings count once they are committed, and not before."""
    async with running(Setup(seats=10)) as scene:
        cluster = scene.process.cluster
        flow_control = replace(cluster.settings.flow_control, server_concurrency_limit=20)
        change = await cluster.prepare(replace(cluster.settings, flow_control=flow_control))
        before = cluster.controller.server_concurrency_limit
        change.commit()

        assert (10, 20) == (before, cluster.controller.server_concurrency_limit)
        assert flow_control == cluster.settings.flow_control


@on_uvloop
async def test_a_part_that_cannot_change(tmp_path: Path) -> None:
    """All stays as it was."""
    async with running(Setup(seats=10)) as scene:
        cluster = scene.process.cluster
        before = cluster.settings
        missing = FlowControlSettings(
            objects=(str(tmp_path / "missing"),), server_concurrency_limit=20
        )
        with pytest.raises(OperatorError, match="missing"):
            await cluster.prepare(replace(before, flow_control=missing))

        assert (10, before) == (cluster.controller.server_concurrency_limit, cluster.settings)
