"""Tests of the objects of one resource: snapshots and watches."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.store.collection import bounds
from apfproxy.apiserver.store.entries import TooOldError
from apfproxy.apiserver.store.store import Store

if TYPE_CHECKING:
    from apfproxy.apiserver.store.entries import Entry


def metadata(namespace: str, name: str) -> dict[str, str]:
    """What the store reads of an object."""
    return {"namespace": namespace, "name": name, "uid": "u"}


def put(store: Store, key: str, value: str = "") -> int:
    """Write an object, `namespace/name`; gives its resource version."""
    namespace, name = key.split("/")
    obj: dict[str, Any] = {"metadata": metadata(namespace, name), "spec": {"value": value}}
    return store.put("pods", obj, {}).result().resource_version


def delete(store: Store, key: str) -> int:
    """Delete an object; gives the deletion's resource version."""
    namespace, name = key.split("/")
    return (
        store.delete("pods", {"metadata": metadata(namespace, name)}, {}).result().resource_version
    )


def keys(entries: list[Entry]) -> list[str]:
    """Which objects they are."""
    return [entry.key for entry in entries]


@pytest.fixture
async def store() -> Store:
    """A store of a few objects, some of which are gone; its window is 8 changes wide."""
    store = Store(window=8)
    for key in ("b/x", "a/y", "a/x", "a-b/x", "a0/x"):
        put(store, key)
    return store


@pytest.mark.parametrize(
    ("namespace", "start", "limit", "expected"),
    [
        pytest.param(None, None, None, ["a-b/x", "a/x", "a/y", "a0/x", "b/x"], id="all"),
        pytest.param("a", None, None, ["a/x", "a/y"], id="namespace"),
        pytest.param("c", None, None, [], id="no-such-namespace"),
        pytest.param(None, ("a", "x"), 2, ["a/y", "a0/x"], id="page"),
        pytest.param(None, ("a", "xx"), 2, ["a/y", "a0/x"], id="page-after-a-deleted-one"),
        pytest.param("a", ("a", "x"), 2, ["a/y"], id="page-in-namespace"),
        pytest.param("a", ("b", "x"), 2, [], id="page-beyond-namespace"),
        pytest.param("b", ("a", "x"), 2, ["b/x"], id="page-before-namespace"),
        pytest.param(None, None, 0, [], id="none"),
    ],
)
async def test_snapshot(
    store: Store,
    namespace: str | None,
    start: tuple[str, str] | None,
    limit: int | None,
    expected: list[str],
) -> None:
    """A namespace's objects after a start, in the order of etcd's keys."""
    pods = store.collection("pods")

    assert expected == keys(pods.snapshot(namespace, None, start, limit))
    if limit is None:
        assert len(expected) == pods.count(namespace, None, start)


async def test_pages_of_the_past(store: Store) -> None:
    """Pages at one version fit together whatever happens between them."""
    pods = store.collection("pods")
    at = store.resource_version
    first = pods.snapshot(at=at, limit=2)
    for key in ("a/x", "a/y", "a0/x"):
        delete(store, key)
    put(store, "a/yy")
    put(store, "a/x")
    put(store, "a/x")
    second = pods.snapshot(at=at, start=(first[-1].namespace, first[-1].name), limit=2)
    third = pods.snapshot(at=at, start=(second[-1].namespace, second[-1].name), limit=2)

    assert ["a-b/x", "a/x", "a/y", "a0/x", "b/x"] == keys(first + second + third)
    assert [5, 4, 3, 6, 2] == [entry.resource_version for entry in first + second + third]
    assert ["a-b/x", "a/x", "a/yy", "b/x"] == keys(pods.snapshot())
    assert (3, 4) == (pods.count(at=at, start=("a", "x")), pods.count())
    # The very first can be gone while those that follow are asked for with a limit.
    delete(store, "a-b/x")
    assert ["a/x", "a/yy", "b/x"] == keys(pods.snapshot(at=store.resource_version, limit=3))


async def test_snapshot_before_the_window(store: Store) -> None:
    """A state that can no longer be rebuilt is refused, not guessed."""
    pods = store.collection("pods")
    for _ in range(9):
        put(store, "a/x")

    assert 5 == len(pods.snapshot(at=pods.floor))
    with pytest.raises(TooOldError):
        pods.snapshot(at=pods.floor - 1)
    with pytest.raises(TooOldError):
        pods.count(at=pods.floor - 1)


async def test_watch_reads_changes_once(store: Store) -> None:
    """Changes come in order, with what was there before."""
    pods = store.collection("pods")
    watcher = pods.watch(5)
    put(store, "a/x", "new")
    delete(store, "a/x")
    first = watcher.read(2)
    position = watcher.position
    rest = watcher.read(10)

    assert [("ADDED", None), ("MODIFIED", 4), ("DELETED", 7)] == [
        (change.type, change.old and change.old.resource_version) for change in first + rest
    ]
    assert (7, 8, []) == (position, watcher.position, watcher.read(10))


async def test_position_follows_the_whole_store(store: Store) -> None:
    """Who has read everything knows that nothing happened, whatever happens elsewhere."""
    watcher = store.collection("pods").watch(store.resource_version)
    store.put("nodes", {"metadata": metadata("", "x")}, {})
    before = watcher.position
    put(store, "a/x")

    assert (7, 7) == (before, watcher.position)


async def test_watch_from_a_version_to_come(store: Store) -> None:
    """Changes up to the version where a watch begins are not told."""
    watcher = store.collection("pods").watch(8)
    versions = [put(store, "a/x") for _ in range(3)]

    assert [7, 8, 9] == versions
    assert [9] == [change.resource_version for change in watcher.read(10)]


async def test_watch_that_falls_behind(store: Store) -> None:
    """A reader that is too slow is told from where on it knows nothing."""
    watcher = store.collection("pods").watch(5)
    for _ in range(20):
        put(store, "a/x")

    assert await watcher.wait()
    with pytest.raises(TooOldError) as caught:
        watcher.read(1)
    assert (5, store.collection("pods").floor) == (
        caught.value.resource_version,
        caught.value.floor,
    )


async def test_one_change_wakes_all(store: Store) -> None:
    """All that wait go on, in the order in which they came; who is cancelled is forgotten."""
    pods = store.collection("pods")
    woken = []

    async def follow(number: int) -> None:
        watcher = pods.watch(store.resource_version)
        try:
            if await watcher.wait():
                woken.append((number, len(watcher.read(10))))
        finally:
            watcher.close()
            watcher.close()

    tasks = [asyncio.create_task(follow(number)) for number in range(5)]
    await asyncio.sleep(0)
    waiting = pods.watchers
    tasks[3].cancel()
    put(store, "a/x")
    put(store, "a/x")
    await asyncio.gather(*tasks, return_exceptions=True)

    assert [(0, 2), (1, 2), (2, 2), (4, 2)] == woken
    assert (5, 0) == (waiting, pods.watchers)


async def test_close_ends_watches(store: Store) -> None:
    """What was not read yet can still be read; then it is over."""
    pods = store.collection("pods")
    waiting, behind = pods.watch(store.resource_version), pods.watch(5)
    stopped = pods.watch(5)
    stopped.close()
    task = asyncio.create_task(waiting.wait())
    await asyncio.sleep(0)
    await store.close()

    assert not await task
    assert not await stopped.wait()
    assert await behind.wait()
    assert 1 == len(behind.read(10))
    assert not await behind.wait()
    assert not await store.collection("nodes").watch(0).wait()


def test_bounds() -> None:
    """Keys of a namespace lie between `/` and what follows it."""
    assert ("", None) == bounds(None, None)
    assert ("a/", "a0") == bounds("a", None)
    assert ("a/x", "a0") == bounds("a", ("a", "x"))


async def test_a_page_of_the_past_is_full(store: Store) -> None:
    """Objects that were created since take no place in it."""
    pods = store.collection("pods")
    at = store.resource_version
    for key in ("a-a/x", "a-a/y", "a-b/w"):
        put(store, key)

    assert ["a-b/x", "a/x"] == keys(pods.snapshot(at=at, limit=2))
