"""How much memory there is, what may be kept in it, and how it goes back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from apfproxy.base import memory
from apfproxy.base.bounded_cache import MARK_BYTES, BoundedCache, MemoryBudget
from apfproxy.base.memory import (
    MIN_CROWD,
    MemoryTrimmer,
    container_bytes,
    default_bytes,
    overload_bytes,
    return_memory,
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
def test_containers(
    limits: tuple[str | None, ...],
    expected: int | None,
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
def test_defaults(
    container: int | None,
    memory_bytes: int | None,
    held: int,
    overload: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They leave most of the memory to all else, and some of it to the kernel."""
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
    """Only then, and once."""
    made: list[None] = []
    memory = MemoryTrimmer(lambda: made.append(None))
    for count in counts:
        memory.on_sweep(count)

    assert calls == len(made)


def test_returning() -> None:
    """It can be done at any time."""
    assert None is return_memory()  # type: ignore[func-returns-value]


ROOMY = 1 << 20


def kept_in(room: MemoryBudget, bound: int = 100) -> BoundedCache[str, int]:
    """A collection of numbers that say how large they are."""
    return BoundedCache(bound, room, lambda _, size: size)


def test_keeps_what_comes_twice() -> None:
    """What comes once is not kept."""
    kept = kept_in(MemoryBudget(ROOMY), 4)
    kept.offer("a", 1)
    kept.offer("b", 2)
    kept.offer("a", 3)

    assert {"a": 3} == kept.values


def test_the_older_half_makes_room() -> None:
    """There are never more values than the bound; what was put in first goes."""
    room = MemoryBudget(ROOMY)
    kept = kept_in(room, 3)
    for key in "aabbccdd":
        kept.offer(key, 10)

    assert ["c", "d"] == list(kept.values)
    assert 20 == room.taken


def test_keys_seen_once_are_forgotten() -> None:
    """A key that comes again after too many others counts as new."""
    room = MemoryBudget(ROOMY)
    kept = kept_in(room, 2)
    for key in "abcdea":
        kept.offer(key, 0)

    assert {} == kept.values
    assert 2 * MARK_BYTES == room.taken


def test_what_is_kept_again_takes_its_room_once() -> None:
    """A value in place of another one gives that one's room back."""
    room = MemoryBudget(ROOMY)
    kept = kept_in(room)
    for size in (1, 10, 1, 20):
        kept.offer("a", size)

    assert ({"a": 20}, 20) == (kept.values, room.taken)


def test_collections_share_their_room() -> None:
    """When it is full, the older half of each goes, and what has come once."""
    room = MemoryBudget(700)
    one, other = kept_in(room), kept_in(room)
    for kept, keys in ((one, "aabbx"), (other, "ccdd")):
        for key in keys:
            kept.offer(key, 150)

    assert (["b"], ["d"]) == (list(one.values), list(other.values))
    assert 300 == room.taken


def test_what_is_larger_than_the_room_is_not_kept() -> None:
    """It pushes out everything, itself at last."""
    room = MemoryBudget(100)
    kept = kept_in(room)
    for key in "aabb":
        kept.offer(key, 1000)

    assert ({}, 0) == (kept.values, room.taken)


def test_a_collection_that_is_gone_takes_no_room() -> None:
    """Its bytes are those of others again."""
    room = MemoryBudget(ROOMY)
    kept = kept_in(room)
    for key in "aab":
        kept.offer(key, 10)
    assert 10 + MARK_BYTES == room.taken
    del kept

    assert 0 == room.taken


def test_others_hear_once_however_many_collections_forget() -> None:
    """To tell thousands of connections of each of thousands of collections takes seconds."""
    told: list[int] = []
    room = MemoryBudget(700, lambda: told.append(room.taken))
    caches = [kept_in(room, 4) for _ in range(9)]
    for cache in caches[:2]:
        cache.offer("a", 400)
        cache.offer("a", 400)

    assert [0] == told


def test_others_hear_where_one_collection_is_full() -> None:
    """They may still use what it has forgotten."""
    told: list[None] = []
    cache = kept_in(MemoryBudget(ROOMY, lambda: told.append(None)), 2)
    for key in "aabbcc":
        cache.offer(key, 1)

    assert [None] == told
