"""How much memory there is, what may be kept in it, and how it goes back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from apfproxy.base import memory
from apfproxy.base.memory import (
    MIN_CROWD,
    MemoryTrimmer,
    container_bytes,
    default_bytes,
    overload_bytes,
)

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param(("max",), None, id="without-a-limit"),
        pytest.param((f"{32 * MIB}\n",), 32 * MIB, id="of-a-container"),
        pytest.param((None, str(100 * MIB)), None, id="more-than-there-is"),
        pytest.param((None, str(32 * MIB)), 32 * MIB, id="of-an-older-container"),
        pytest.param((None,), None, id="of-no-container"),
    ],
)
def test_container_has_what_the_kernel_allows(
    limits: tuple[str | None, ...],
    expected: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paths = []
    for number, limit in enumerate(limits):
        paths.append(tmp_path / str(number))
        if limit is not None:
            paths[-1].write_text(limit)
    monkeypatch.setattr(memory, "CGROUP_LIMITS", tuple(paths))
    pages = {"SC_PHYS_PAGES": 64, "SC_PAGE_SIZE": MIB}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)

    assert expected == container_bytes()


@pytest.mark.parametrize(
    ("container", "memory_bytes", "held", "overload"),
    [
        pytest.param(None, None, 128 * MIB, None, id="of-a-machine"),
        pytest.param(256 * MIB, None, 64 * MIB, 208 * MIB, id="of-a-small-container"),
        pytest.param(None, 150 * MIB, 50 * MIB, 150 * MIB, id="of-an-overload-by-memory"),
        pytest.param(16 * MIB, None, 8 * MIB, 13 * MIB, id="of-hardly-any"),
    ],
)
def test_defaults_leave_most_of_the_memory(
    container: int | None,
    memory_bytes: int | None,
    held: int,
    overload: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "container_bytes", lambda: container)
    monkeypatch.setattr(memory, "machine_bytes", lambda: 1 << 40)

    assert (held, overload) == (default_bytes(memory_bytes), overload_bytes(memory_bytes))


@pytest.mark.parametrize(
    ("counts", "calls"),
    [
        pytest.param([0, MIN_CROWD - 1, 0, 0], 0, id="no-crowd"),
        pytest.param([MIN_CROWD, MIN_CROWD // 4 + 1], 0, id="too-many-left"),
        pytest.param([MIN_CROWD, MIN_CROWD // 4, 0, 0], 1, id="once-per-crowd"),
        pytest.param([MIN_CROWD, 0, MIN_CROWD, 0], 2, id="two-crowds"),
        pytest.param([4 * MIN_CROWD, MIN_CROWD, MIN_CROWD // 4], 2, id="in-two-steps"),
    ],
)
def test_is_returned_when_a_crowd_has_gone(counts: list[int], calls: int) -> None:
    made: list[None] = []
    memory = MemoryTrimmer(lambda: made.append(None))
    for count in counts:
        memory.on_sweep(count)

    assert calls == len(made)
