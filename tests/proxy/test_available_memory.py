"""How much memory there is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from apfproxy.proxy import available_memory as memory
from apfproxy.proxy.available_memory import available_bytes, default_bytes

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param(("max",), 64 * MIB, id="of-the-machine"),
        pytest.param((f"{64 * MIB}\n",), 64 * MIB, id="of-a-container"),
        pytest.param((None, str(100 * MIB)), 64 * MIB, id="more-than-there-is"),
        pytest.param((None, str(32 * MIB)), 32 * MIB, id="of-an-older-container"),
        pytest.param((None,), 64 * MIB, id="of-no-container"),
    ],
)
def test_available_memory(
    limits: tuple[str | None, ...],
    expected: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is what the kernel lets the process have."""
    paths = []
    for number, limit in enumerate(limits):
        paths.append(tmp_path / str(number))
        if limit is not None:
            paths[-1].write_text(limit)
    monkeypatch.setattr(memory, "CGROUP_LIMITS", tuple(paths))
    pages = {"SC_PHYS_PAGES": 64, "SC_PAGE_SIZE": MIB}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)

    assert expected == available_bytes()


@pytest.mark.parametrize(
    ("available", "memory_bytes", "expected"),
    [
        pytest.param(1 << 40, None, 128 * MIB, id="of-much-memory"),
        pytest.param(256 * MIB, None, 64 * MIB, id="of-a-small-container"),
        pytest.param(1 << 40, 150 * MIB, 50 * MIB, id="of-an-overload-by-memory"),
        pytest.param(16 * MIB, None, 8 * MIB, id="of-hardly-any"),
    ],
)
def test_default(
    available: int, memory_bytes: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves most of the memory to all else."""
    monkeypatch.setattr(memory, "available_bytes", lambda: available)

    assert expected == default_bytes(memory_bytes)
