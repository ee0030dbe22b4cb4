"""The flow control group on the admin listener."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.errors import OperatorError
from apfproxy.settings import FlowControlSettings, Settings
from apfproxy.sources.stored_objects import FlowControlApi

if TYPE_CHECKING:
    from pathlib import Path


def api(tmp_path: Path, *, with_suggested: bool = True, token: str | None = None) -> FlowControlApi:
    flow_control = FlowControlSettings(suggested_objects=with_suggested)
    return FlowControlApi(
        str(tmp_path / "objects.db"),
        Settings(flow_control=flow_control, admin_token_file=token),
        is_local=lambda: True,
        on_problem=lambda _problem: None,
    )


async def test_suggested_objects_go(tmp_path: Path) -> None:
    for with_suggested in (True, False):
        found = api(tmp_path, with_suggested=with_suggested)
        await found.start()
        resource = "flowschemas.flowcontrol.apiserver.k8s.io"
        names = {entry.name for entry in found.store.collection(resource).snapshot()}
        await found.stop()

    assert {"exempt", "catch-all"} == names


async def test_one_process(tmp_path: Path) -> None:
    first = api(tmp_path)
    with pytest.raises(OperatorError):
        api(tmp_path)
    await first.stop()
    await asyncio.sleep(0)
    await api(tmp_path).stop()


async def test_no_token(tmp_path: Path) -> None:
    """A token file without a token is found at the start, and the store is left alone."""
    (tmp_path / "token").write_text("short")
    with pytest.raises(OperatorError):
        api(tmp_path, token=str(tmp_path / "token"))

    assert not (tmp_path / "objects.db").exists()
