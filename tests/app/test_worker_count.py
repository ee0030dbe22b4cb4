"""How many workers there are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from apfproxy.app.worker_count import worker_count
from apfproxy.settings import AUTO_WORKERS, MAX_WORKERS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("quota", "count"),
    [
        pytest.param("max 100000\n", 8, id="no-quota"),
        pytest.param("250000 100000\n", 3, id="a-part-counts"),
        pytest.param("10000 100000\n", 1, id="at-least-one"),
        pytest.param("9000000 100000\n", 8, id="more-than-there-are"),
        pytest.param("1 0\n", 8, id="nonsense"),
        pytest.param(None, 8, id="no-cgroup"),
    ],
)
def test_auto(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str | None, count: int
) -> None:
    """One for each processor that this process may use."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))
    path = tmp_path / "cpu.max"
    if quota is not None:
        path.write_text(quota)

    assert count == worker_count(AUTO_WORKERS, path)


def test_many_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are never more than may be asked for."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(400)))

    assert MAX_WORKERS == worker_count(AUTO_WORKERS, tmp_path / "none")


def test_a_number() -> None:
    """What is asked for is what there is."""
    assert 3 == worker_count(3)
