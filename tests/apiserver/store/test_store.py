"""Tests of the one way to change collections: order, heads, failures, and the end."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.counters import ApiServerCounters
from apfproxy.apiserver.store import store as module
from apfproxy.apiserver.store.collection import Collection
from apfproxy.apiserver.store.entries import ObjectTooLargeError, StoreError
from apfproxy.apiserver.store.store import Loaded, Store
from tests.apiserver.store.backends import GatedBackend, ListBackend
from tests.end_to_end.peer import WAIT_S

if TYPE_CHECKING:
    from apfproxy.apiserver.store.entries import Entry


def thing(name: str, **parts: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    """An object."""
    return {"metadata": {"namespace": "a", "name": name, "uid": "u"}, **parts}


def put(store: Store, name: str, resource: str = "pods") -> asyncio.Future[Entry]:
    """Write an object."""
    return store.put(resource, thing(name), {})


def delete(store: Store, name: str) -> asyncio.Future[Entry]:
    """Delete an object."""
    return store.delete("pods", thing(name), {})


def names(entries: list[Entry]) -> list[str]:
    """Which objects they are."""
    return [entry.name for entry in entries]


async def test_put_in_memory() -> None:
    """Without a backend a write is done when `put` returns."""
    store = Store()
    labels = {"app": "web"}
    metadata = {"namespace": "a", "name": "x", "uid": "u1", "labels": labels}
    obj = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {}}
    entry = store.put("pods", obj, {"metadata.name": "x"}).result()

    assert "2" == metadata["resourceVersion"]
    assert {"metadata": obj["metadata"], "spec": {}} == json.loads(entry.data)
    assert ({"app": "web"}, {"metadata.name": "x"}, "u1") == (entry.labels, entry.fields, entry.uid)
    assert entry is store.head("pods", "a", "x")
    assert entry is store.collection("pods").get("a", "x")


async def test_one_counter_for_all_resources() -> None:
    """Resource versions are unique in the store, and its first change gets 2, as in etcd."""
    store = Store()
    entries = [put(store, "x", resource).result() for resource in ("pods", "slices", "pods")]

    assert [2, 3, 4] == [entry.resource_version for entry in entries]


async def test_what_is_not_json_changes_nothing() -> None:
    """An object that cannot be written down takes no resource version."""
    store = Store()
    with pytest.raises(TypeError):
        store.put("pods", thing("x", spec=object()), {})

    assert store.head("pods", "a", "x") is None
    assert 2 == put(store, "x").result().resource_version


async def test_delete_of_what_is_not_there() -> None:
    """Whoever deletes has looked at the head before."""
    with pytest.raises(LookupError, match="pods a/x is not in the store"):
        delete(Store(), "x")


async def test_pending_writes_are_seen_by_writers_only() -> None:
    """Heads are ahead of what readers see, until the backend has it."""
    backend = GatedBackend(ListBackend())
    store = Store(backend=backend)
    backend.gate.set()
    await asyncio.gather(put(store, "x"), put(store, "z"))
    backend.gate.clear()
    futures = [put(store, "y"), delete(store, "x"), put(store, "w", "slices")]
    before = names(store.heads("pods")), names(store.collection("pods").snapshot())
    gone = store.head("pods", "a", "x")
    pending = store.pending
    backend.gate.set()
    await asyncio.gather(*futures)

    assert (["y", "z"], ["x", "z"]) == before
    assert (None, 3, 0) == (gone, pending, store.pending)
    assert ["y", "z"] == names(store.collection("pods").snapshot())
    # Two batches: what one round of the event loop brought belongs together.
    assert [2, 3] == backend.batches
    await store.close()


async def test_writes_gather_while_the_backend_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes during one batch is the next one, up to a bound; the newest head stays."""
    monkeypatch.setattr(module, "MAX_BATCH_CHANGES", 3)
    backend = GatedBackend(ListBackend())
    store = Store(backend=backend)
    order: list[int] = []
    futures = [put(store, "x")]
    await asyncio.sleep(0)
    futures += [put(store, "x") for _ in range(4)]
    for future in futures:
        future.add_done_callback(lambda done: order.append(done.result().resource_version))
    heads: list[int] = []
    futures[0].add_done_callback(
        lambda _: heads.append(getattr(store.head("pods", "a", "x"), "resource_version", 0))
    )
    backend.gate.set()
    await asyncio.gather(*futures)

    assert ([1, 3, 1], [2, 3, 4, 5, 6], [6]) == (backend.batches, order, heads)
    await store.close()


async def test_a_refusal_takes_everything_back(caplog: pytest.LogCaptureFixture) -> None:
    """Writes after a failed one were decided on it, so they fail too; then all works again."""
    backend = GatedBackend(ListBackend())
    store = Store(backend=backend)
    backend.outcomes = [True, False]
    futures = [put(store, "x")]
    await asyncio.sleep(0)
    futures += [put(store, "y"), delete(store, "x"), put(store, "x")]
    backend.gate.set()
    results = await asyncio.gather(*futures, return_exceptions=True)
    heads = names(store.heads("pods"))
    again = await put(store, "y")

    assert [False, True, True, True] == [isinstance(result, StoreError) for result in results]
    assert "the disk is full" == str(results[1])
    assert (["x"], 6) == (heads, again.resource_version)
    assert ["x", "y"] == names(store.collection("pods").snapshot())
    assert ["3 writes failed: the disk is full"] == caplog.messages
    await store.close()


async def test_a_refusal_reaches_who_is_waiting_only() -> None:
    """A caller that went away neither stops its write nor is missed."""
    backend = GatedBackend(ListBackend())
    store = Store(backend=backend)
    gone = put(store, "x")
    await asyncio.sleep(0)
    refused = put(store, "y")
    gone.cancel()
    refused.cancel()
    backend.outcomes = [True, False]
    backend.gate.set()
    with pytest.raises(StoreError):
        await put(store, "z")

    assert ["x"] == names(store.collection("pods").snapshot())
    await store.close()


async def test_wait_for() -> None:
    """One waits until readers see a version, or until the time is over."""
    backend = GatedBackend(ListBackend())
    store = Store(backend=backend)
    future = put(store, "x")
    early = await store.wait_for(2, 0)
    waiting = asyncio.create_task(store.wait_for(2, 60))
    later = asyncio.create_task(store.wait_for(3, 60))
    await asyncio.sleep(0)
    backend.gate.set()
    await future

    assert (False, True, True) == (early, await waiting, await store.wait_for(1, 0))
    await store.close()
    assert (False, False) == (await later, await store.wait_for(9, 60))


async def test_wait_for_in_memory() -> None:
    """Writes in memory end the wait as well."""
    store = Store()
    waiting = asyncio.create_task(store.wait_for(2, 60))
    await asyncio.sleep(0)
    put(store, "x")

    assert await waiting


async def test_close_finishes_what_was_handed_over() -> None:
    """Nothing is lost by stopping; what comes after is refused."""
    backend = GatedBackend(ListBackend())
    store = Store(backend=backend)
    future = put(store, "x")
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    with pytest.raises(StoreError, match="the store is closed"):
        put(store, "y")
    backend.gate.set()
    await closing
    await store.close()

    assert ("x", True) == (future.result().name, backend.is_closed)


async def test_commits_are_counted() -> None:
    """A failure is told once, and so is its end."""
    backend = GatedBackend(ListBackend())
    backend.gate.set()
    backend.outcomes.extend([True, False, False, True])
    counters, told = ApiServerCounters(), list[str | None]()
    store = Store(backend=backend, counters=counters, on_problem=told.append)
    for _ in range(4):
        await asyncio.gather(put(store, "x"), return_exceptions=True)
    await store.close()

    assert ["the disk is full", None] == told
    assert (2, 2) == (counters.committed_changes, counters.commit_failures)
    assert 2 == sum(counters.commit_ns.counts)


async def test_restart() -> None:
    """Objects, changes and the counter go on; a narrower window is cut at once."""
    inner = ListBackend()
    first = Store(backend=inner)
    await asyncio.gather(*(put(first, "x") for _ in range(5)), put(first, "y"))
    await delete(first, "y")
    await first.close()
    second = Store(backend=inner, window=3)
    changes = second.collection("pods").watch(5).read(10)
    entry = await put(second, "z")
    await second.close()

    assert [6, 7, 8] == [change.resource_version for change in changes]
    assert (9, ["x", "z"]) == (
        entry.resource_version,
        names(second.collection("pods").snapshot()),
    )
    assert {"pods": 5} == inner.floors


def test_a_backend_that_cannot_be_read_is_let_go() -> None:
    """The file can be used by others after the failure."""

    class Unreadable(ListBackend):
        """Is damaged."""

        def load(self) -> Loaded:
            """It cannot."""
            raise StoreError("it is damaged")

    backend = GatedBackend(Unreadable())
    with pytest.raises(StoreError, match="it is damaged"):
        Store(backend=backend)

    assert backend.is_closed


async def test_large_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object that is too large is not written, and takes no resource version."""
    monkeypatch.setattr(module, "LARGEST_OBJECT_BYTES", 120)
    store = Store()
    put(store, "x").result()
    with pytest.raises(ObjectTooLargeError, match="bytes are more than 120"):
        store.put("pods", thing("y", spec="x" * 120), {})
    deleted = store.delete("pods", thing("x", spec="x" * 120), {}).result()

    assert 3 == deleted.resource_version == store.resource_version


async def test_an_error_after_a_write_does_not_stop_the_store(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who waits is told, later writes are published, and the store can be closed."""
    store = Store(backend=ListBackend())
    with monkeypatch.context() as patch:
        patch.setattr(Collection, "wake", lambda _collection: 1 // 0)
        first = put(store, "a")
        with contextlib.suppress(StoreError):
            await first
    second = await put(store, "b")
    async with asyncio.timeout(WAIT_S):
        await store.close()

    assert "b" == second.name
    assert "ZeroDivisionError" in caplog.text


async def test_a_write_that_cannot_be_begun(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who waits is told, later writes are kept, and the store can be closed."""
    store = Store(backend=ListBackend())
    loop = asyncio.get_running_loop()
    with monkeypatch.context() as patch:
        patch.setattr(loop, "run_in_executor", lambda *_: 1 // 0)
        with pytest.raises(StoreError):
            await put(store, "a")
    second = await put(store, "b")
    async with asyncio.timeout(WAIT_S):
        await store.close()

    assert "b" == second.name
    assert "ZeroDivisionError" in caplog.text
