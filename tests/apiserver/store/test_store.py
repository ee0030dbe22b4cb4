"""Tests of what the machine cannot see: bounds, batches, failures, who is woken, the end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from apfproxy.apiserver.counters import ApiServerCounters
from apfproxy.apiserver.store import entries
from apfproxy.apiserver.store import store as module
from apfproxy.apiserver.store.collection import Signal
from apfproxy.apiserver.store.entries import (
    CHANGE_BYTES,
    Change,
    ChangeType,
    Entry,
    ObjectTooLargeError,
    StoreError,
    Window,
)
from apfproxy.apiserver.store.sqlite import SqliteBackend
from apfproxy.apiserver.store.store import Store
from tests.apiserver.store.test_store_machine import GatedBackend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
def backend(tmp_path: Path) -> GatedBackend:
    return GatedBackend(tmp_path / "store.db")


@pytest_asyncio.fixture
async def store(backend: GatedBackend) -> AsyncIterator[Store]:
    """A store whose disk waits until the gate is set."""
    store = Store(backend=backend)
    yield store
    backend.gate.set()
    await store.close()


def thing(name: str, spec: object = "") -> dict[str, Any]:
    return {"metadata": {"namespace": "a", "name": name, "uid": "u"}, "spec": spec}


def put(store: Store, name: str) -> asyncio.Future[Entry]:
    return store.put("pods", thing(name), {})


def names(store: Store) -> list[str]:
    return [entry.name for entry in store.collection("pods").snapshot()]


async def test_what_cannot_be_written_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_OBJECT_BYTES", 120)
    store = Store()
    with pytest.raises(TypeError):
        store.put("pods", thing("x", object()), {})
    with pytest.raises(ObjectTooLargeError, match="bytes are more than 120"):
        store.put("pods", thing("x", "x" * 120), {})
    put(store, "x")
    deleted = store.delete("pods", thing("x", "x" * 120), {}).result()

    assert 3 == deleted.resource_version == store.resource_version


async def test_writes_gather_while_the_backend_is_busy(
    store: Store, backend: GatedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes during one batch are the next one, up to a bound; the newest head stays."""
    monkeypatch.setattr(module, "MAX_BATCH_CHANGES", 3)
    futures = [put(store, "x"), put(store, "x")]
    await asyncio.sleep(0)
    futures += [put(store, "x") for _ in range(4)]
    order: list[int] = []
    heads: list[Entry | None] = []
    futures[0].add_done_callback(lambda _: heads.append(store.head("pods", "a", "x")))
    for future in futures:
        future.add_done_callback(lambda done: order.append(done.result().resource_version))
    backend.gate.set()
    await asyncio.gather(*futures)

    assert ([2, 3, 1], [*range(2, 8)]) == (backend.batches, order)
    assert [7] == [head.resource_version for head in heads if head]
    assert not store._heads, "what is published is kept once"  # noqa: SLF001


async def test_a_refusal_takes_everything_back(
    store: Store, backend: GatedBackend, caplog: pytest.LogCaptureFixture
) -> None:
    """Writes after a failed one were decided on it, so they fail too; then all works again."""
    backend.outcomes = [True, False]
    kept, gone = put(store, "x"), put(store, "w")
    await asyncio.sleep(0)
    refused = [put(store, "y"), store.delete("pods", thing("x"), {}), put(store, "x")]
    gone.cancel()
    refused[2].cancel()
    backend.gate.set()
    results = await asyncio.gather(kept, *refused, return_exceptions=True)
    heads = [entry.name for entry in store.heads("pods")]
    again = await put(store, "y")

    assert ["w", "x"] == heads, "a caller that goes away does not take its write back"
    assert ["the disk is full"] * 2 == [str(result) for result in results[1:3]]
    assert [StoreError] * 2 == [type(result) for result in results[1:3]]
    assert ["w", "x", "y"] == names(store)
    assert 7 == again.resource_version, "those of failed writes are not given again"
    assert ["3 writes failed: the disk is full"] == caplog.messages


async def test_failed_writes_are_not_kept(backend: GatedBackend) -> None:
    backend.gate.set()
    backend.outcomes = [False]
    store = Store(backend=backend)
    gc.disable()
    try:
        future = put(store, "x")
        refusal = weakref.ref((await asyncio.gather(future, return_exceptions=True))[0])
        await store.close()
        kept = weakref.ref(future)
        del future
        assert (None, None) == (kept(), refusal())
    finally:
        gc.enable()


async def test_commits_are_counted_and_failures_told_once(backend: GatedBackend) -> None:
    backend.gate.set()
    backend.outcomes = [True, False, False, True]
    counters, told = ApiServerCounters(), list[str | None]()
    store = Store(backend=backend, counters=counters, on_problem=told.append)
    for _ in range(4):
        await asyncio.gather(put(store, "x"), return_exceptions=True)
    await store.close()

    assert ["the disk is full", None] == told
    assert (2, 2) == (counters.committed_changes, counters.commit_failures)
    assert 2 == sum(counters.commit_ns.counts)


async def test_wait_for(store: Store, backend: GatedBackend) -> None:
    future = put(store, "x")
    assert not await store.wait_for(2, 0)
    waiting, later = (asyncio.create_task(store.wait_for(n, 60)) for n in (2, 3))
    await asyncio.sleep(0)
    backend.gate.set()
    await future
    assert (True, True) == (await waiting, await store.wait_for(1, 0))
    await store.close()
    async with asyncio.timeout(10):
        assert (False, False) == (await later, await store.wait_for(9, 60))


async def test_close_finishes_what_was_handed_over(store: Store, backend: GatedBackend) -> None:
    """Nothing is lost by stopping; watches end once all is read."""
    pods = store.collection("pods")
    waiting, behind, stopped = (pods.watch(1) for _ in range(3))
    stopped.close()
    future = put(store, "x")
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    with pytest.raises(StoreError, match="the store is closed"):
        put(store, "y")
    task = asyncio.create_task(waiting.wait())
    backend.gate.set()
    await closing
    await store.close()

    assert ("x", True) == (future.result().name, backend.is_closed)
    assert await task
    assert [await behind.wait(), len(behind.read(9)), await behind.wait()] == [True, 1, False]
    assert not await stopped.wait()
    assert not await store.collection("nodes").watch(0).wait()


async def test_one_change_wakes_all() -> None:
    """All that wait go on, in the order in which they came; who is cancelled is forgotten."""
    store = Store()
    pods, woken = store.collection("pods"), list[int]()

    async def follow(number: int) -> None:
        with contextlib.closing(pods.watch(store.resource_version)) as watcher:
            await watcher.wait()
            woken.append(number + len(watcher.read(10)))

    tasks = [asyncio.create_task(follow(number)) for number in (10, 20, 30)]
    await asyncio.sleep(0)
    waiting = pods.watchers
    tasks[1].cancel()
    put(store, "x")
    put(store, "x")
    await asyncio.gather(*tasks, return_exceptions=True)

    assert [12, 32] == woken
    assert (3, 0) == (waiting, pods.watchers)


@pytest.mark.parametrize("what", [Signal, asyncio.BaseEventLoop])
async def test_an_error_of_our_own_does_not_stop_the_store(
    what: type,
    backend: GatedBackend,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The writer is told, later writes are published, and the store can be closed."""
    backend.gate.set()
    store = Store(backend=backend)
    with monkeypatch.context() as patch:
        patch.setattr(what, "wake" if what is Signal else "run_in_executor", lambda *_: 1 // 0)
        with contextlib.suppress(StoreError):
            await put(store, "a")
    second = await put(store, "b")
    async with asyncio.timeout(10):
        await store.close()

    assert "b" == second.name
    assert "ZeroDivisionError" in caplog.text


def test_a_backend_that_cannot_be_read_is_let_go(backend: GatedBackend) -> None:
    backend._connection.execute("DROP TABLE floors")  # noqa: SLF001  what damage may do
    with pytest.raises(StoreError, match="no such table"):
        Store(backend=backend)

    SqliteBackend(backend.path).close()


def change(version: int, size: int = 2) -> Change:
    entry = Entry("pods", "a", f"x{version}", version, "u", {}, {}, b"x" * size, b"", b"")
    return Change(version, ChangeType.ADDED, entry, None)


@pytest.mark.parametrize(
    ("limit", "sizes", "kept"),
    [
        pytest.param(100, [CHANGE_BYTES] * 19, 5, id="heavy-ones-leave-earlier"),
        pytest.param(100, [2, 2, 100 * CHANGE_BYTES], 1, id="the-newest-stays"),
        pytest.param(100, [100 * CHANGE_BYTES, 2], 1, id="until-it-is-no-longer-the-newest"),
        pytest.param(7, [0] * 100, 7, id="narrow"),
        pytest.param(1, [0] * 3, 1, id="one"),
    ],
)
def test_window_in_bytes(
    limit: int, sizes: list[int], kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "MOST_BYTES", 10 * CHANGE_BYTES)
    window = Window(limit)
    for version, size in enumerate(sizes, 1):
        window.append(change(version, size))

    assert [*range(len(sizes) - kept + 1, len(sizes) + 1)] == [
        each.resource_version for each in window.read(window.end - kept, 1000)
    ]
    assert len(sizes) - kept == window.floor


@pytest.mark.parametrize(
    ("name", "most", "expected"),
    [("SHARED_CHANGES", 3, 3), ("SHARED_BYTES", 100, 2), ("SHARED_BYTES", 1, 1)],
)
def test_only_the_newest_keep_what_is_encoded(
    name: str, most: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encoded events are shared by those near the end; others encode for themselves."""
    monkeypatch.setattr(entries, name, most)
    window = Window(8)
    for version in range(1, 9):
        window.append(change(version, 40))

    found = [each.encoded is not None for each in window.read(0, 10)]
    assert [False] * (8 - expected) + [True] * expected == found
