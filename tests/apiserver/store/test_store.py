"""Tests of the store: bounds, batches, failures, the end; and all of it against a plain model."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import shutil
import tempfile
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

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
    Pool,
    StoreError,
    TooOldError,
    Window,
)
from apfproxy.apiserver.store.sqlite import SqliteBackend
from apfproxy.apiserver.store.store import Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from apfproxy.apiserver.store.collection import Watcher


@pytest.fixture
def backend(tmp_path: Path) -> GatedBackend:
    return GatedBackend(tmp_path / "store.db")


@pytest_asyncio.fixture
async def store(backend: GatedBackend) -> AsyncIterator[Store]:
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
    backend.outcomes = [False]
    with pytest.raises(StoreError):
        await put(store, "z")
    assert ["3 writes failed: the disk is full"] == caplog.messages, "one line a minute"


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


async def test_close_finishes_what_was_handed_over(store: Store, backend: GatedBackend) -> None:
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


def change(version: int, size: int = 2) -> Change:
    entry = Entry("pods", "a", f"x{version}", version, "u", {}, {}, b"x" * size)
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
    monkeypatch.setattr(entries, name, most)
    window = Window(8)
    for version in range(1, 9):
        window.append(change(version, 40))
    found = [each.encoded is not None for each in window.read(0, 10)]
    assert [False] * (8 - expected) + [True] * expected == found


WINDOW = 8
TYPES = ("pods", "slices")
RESOURCES = st.sampled_from(TYPES)
NAMESPACES = st.sampled_from(["", "a", "a-b", "b"])
KEYS = st.tuples(NAMESPACES, st.sampled_from(["x", "y", "y-1", "z"]))

Key = tuple[str, str]
State = tuple[str, str, int, str]
"""Namespace, name, resource version, value."""


class GatedBackend(SqliteBackend):
    """Writes wait while the gate is closed, and fail where `outcomes` of the next ones says so."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gate = threading.Event()
        self.outcomes: list[bool] = []
        self.batches: list[int] = []
        self.is_closed = False

    def write(self, changes: Sequence[Change], floors: Mapping[str, int]) -> None:
        self.gate.wait()
        self.batches.append(len(changes))
        if self.outcomes and not self.outcomes.pop(0):
            raise StoreError("the disk is full")
        super().write(changes, floors)

    def close(self) -> None:
        self.is_closed = True
        super().close()


def state(entry: Entry | None) -> State | None:
    if entry is None:
        return None
    metadata = {
        "namespace": entry.namespace,
        "name": entry.name,
        "uid": entry.uid,
        "labels": entry.labels,
        "resourceVersion": str(entry.resource_version),
        "managedFields": [{"manager": entry.labels["value"]}],
    }
    assert {"metadata": metadata, "spec": {"value": entry.uid}} == json.loads(entry.data)
    assert {"metadata.name": entry.name} == entry.fields
    return entry.namespace, entry.name, entry.resource_version, entry.labels["value"]


@dataclass
class Step:
    resource: str
    new: State
    is_deletion: bool
    old: State | None = None

    @property
    def key(self) -> Key:
        return self.new[:2]

    @property
    def version(self) -> int:
        return self.new[2]

    def change(self) -> tuple[str, State, State | None]:
        type_ = "DELETED" if self.is_deletion else "MODIFIED" if self.old else "ADDED"
        return type_, self.new, self.old


def replayed(steps: Iterable[Step], resource: str, at: int = 1 << 62) -> dict[Key, State]:
    objects: dict[Key, State] = {}
    for step in steps:
        if step.resource == resource and step.version <= at:
            objects.pop(step.key, None)
            if not step.is_deletion:
                objects[step.key] = step.new
    return objects


def in_order(objects: dict[Key, State], namespace: str | None) -> list[State]:
    """Objects as a list gives them: `a-b/x` before `a/x`, as in etcd."""
    keys = sorted(objects, key="/".join)
    return [objects[key] for key in keys if namespace is None or key[0] == namespace]


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.loop = asyncio.new_event_loop()
        self.steps: list[Step] = []  # everything that was published, ever
        self.pending: list[tuple[Step, asyncio.Future[Entry]]] = []
        self.last_assigned = 1
        self.open()

    @property
    def version(self) -> int:
        return self.steps[-1].version if self.steps else 1

    def heads(self, resource: str) -> dict[Key, State]:
        return replayed([*self.steps, *(step for step, _ in self.pending)], resource)

    def publish(self, step: Step) -> None:
        step.old = replayed(self.steps, step.resource).get(step.key)
        self.steps.append(step)

    def after(self, resource: str, version: int) -> list[Step]:
        return [s for s in self.steps if s.resource == resource and s.version > version]

    def open(self) -> None:
        self.backend = self.new_backend()
        self.store = Store(window=WINDOW, backend=self.backend)
        self.readings: list[tuple[Watcher, str, list[int]]] = []

    def new_backend(self) -> GatedBackend | None:
        return GatedBackend(self.folder / "store.db")

    @rule(resource=RESOURCES, key=KEYS, value=st.text(max_size=3), is_deletion=st.booleans())
    def write(self, resource: str, key: Key, value: str, *, is_deletion: bool) -> None:
        metadata: dict[str, Any] = {"namespace": key[0], "name": key[1], "uid": value}
        metadata["labels"] = {"value": value}
        metadata["managedFields"] = [{"manager": value}]
        obj = {"apiVersion": "v1", "kind": "T", "metadata": metadata, "spec": {"value": value}}

        async def write() -> asyncio.Future[Entry]:
            act = self.store.delete if is_deletion else self.store.put
            return act(resource, obj, {"metadata.name": key[1]})

        if is_deletion and key not in self.heads(resource):
            with pytest.raises(LookupError, match=f"{resource} .* is not in the store"):
                self.loop.run_until_complete(write())
            return
        future = self.loop.run_until_complete(write())
        version = int(metadata["resourceVersion"])
        assert version > self.last_assigned
        self.last_assigned = version
        step = Step(resource, (*key, version, value), is_deletion)
        if self.backend is None:
            assert step.new == state(future.result())
            self.publish(step)
        else:
            self.pending.append((step, future))

    @rule(outcomes=st.lists(st.booleans(), max_size=2))
    @precondition(lambda self: self.backend is not None)
    def settle(self, outcomes: list[bool]) -> None:
        backend = self.backend
        assert backend is not None
        backend.outcomes = outcomes[:]
        backend.gate.set()
        # The first was handed over alone, the others gathered meanwhile.
        takes_first, takes_rest = ([*outcomes, True, True])[:2]
        for index, (step, future) in enumerate(self.pending):
            self.loop.run_until_complete(asyncio.wait([future], timeout=10))
            error = future.exception()
            if takes_first and (index == 0 or takes_rest):
                assert step.new == state(future.result())
                self.publish(step)
            else:
                assert "the disk is full" == str(error)
                assert isinstance(error, StoreError)
        self.pending.clear()
        backend.outcomes.clear()
        backend.gate.clear()

    @rule()
    @precondition(lambda self: self.backend is not None)
    def restart(self) -> None:
        self.settle([])
        self.loop.run_until_complete(self.store.close())
        self.open()
        # What was refused just before was never told to anybody as kept.
        self.last_assigned = self.version

    @rule(
        resource=RESOURCES,
        namespace=st.none() | NAMESPACES,
        back=st.integers(-2, 40),
        start=st.none() | KEYS,
        limit=st.none() | st.integers(0, 5),
    )
    def snapshot(
        self, resource: str, namespace: str | None, back: int, start: Key | None, limit: int | None
    ) -> None:
        """A page of any version is as it was, whether or not there is an object at its start."""
        collection, at = self.store.collection(resource), self.version - back
        if at < collection.floor:
            for look in (collection.snapshot, collection.count):
                with pytest.raises(TooOldError):
                    look(namespace, at, start)
            return
        objects = in_order(replayed(self.steps, resource, at), namespace)
        expected = [each for each in objects if not start or "/".join(each[:2]) > "/".join(start)]
        assert expected[:limit] == [*map(state, collection.snapshot(namespace, at, start, limit))]
        assert len(expected) == collection.count(namespace, at, start)

    @rule(resource=RESOURCES, back=st.integers(-2, 40))
    def watch(self, resource: str, back: int) -> None:
        collection, after = self.store.collection(resource), self.version - back
        if after < collection.floor:
            with pytest.raises(TooOldError):
                collection.watch(after)
        else:
            self.readings.append((collection.watch(after), resource, [after]))

    @rule(index=st.integers(0, 40), limit=st.integers(1, 12))
    @precondition(lambda self: self.readings)
    def read(self, index: int, limit: int) -> None:
        reading = self.readings[index % len(self.readings)]
        watcher, resource, known = reading
        expected = self.after(resource, known[0])
        floor = self.store.collection(resource).floor
        if expected and expected[0].version <= floor:
            with pytest.raises(TooOldError) as caught:
                watcher.read(limit)
            assert (known[0], floor) == (caught.value.resource_version, caught.value.floor)
            watcher.close()
            self.readings.remove(reading)
            return
        found = watcher.read(limit)
        assert [step.change() for step in expected[:limit]] == [
            (change.type, state(change.entry), state(change.old)) for change in found
        ]
        if found:
            known[0] = found[-1].resource_version
        if len(found) == len(expected):
            known[0] = max(known[0], self.version)
        assert known[0] == watcher.position

    @invariant()
    def heads_are_ahead_of_readers_by_what_is_pending(self) -> None:
        store = self.store
        assert (self.version, len(self.pending)) == (store.resource_version, store.pending)
        for resource in TYPES:
            heads, published = self.heads(resource), replayed(self.steps, resource)
            for namespace in (None, "a"):
                expected = in_order(heads, namespace)
                assert expected == list(map(state, store.heads(resource, namespace)))
            for key in (("", "y"), ("a-b", "y")):
                assert heads.get(key) == state(store.head(resource, *key))
                assert published.get(key) == state(store.collection(resource).get(*key))

    @invariant()
    def window_is_as_wide_as_told(self) -> None:
        for resource in TYPES:
            floor = self.store.collection(resource).floor
            kept = len(self.after(resource, floor))
            assert kept <= WINDOW + WINDOW // 8
            assert floor == 0 or kept >= WINDOW

    def teardown(self) -> None:
        if self.backend is not None:
            self.backend.outcomes.clear()
            self.backend.gate.set()
        self.loop.run_until_complete(self.store.close())
        self.loop.close()
        shutil.rmtree(self.folder)


class MemoryMachine(StoreMachine):
    def new_backend(self) -> None:
        return None


TestStoreMachine = StoreMachine.TestCase
TestMemoryMachine = MemoryMachine.TestCase
TestStoreMachine.settings = TestMemoryMachine.settings = settings(max_examples=30)


def test_a_pool_shares_little_ones_only() -> None:
    """Long names count as values do, so that a client cannot fill it."""
    pool = Pool()
    few, many = {"a": "1"}, {"n" * 300 + str(index): "" for index in range(20)}

    assert pool.shared(few) is pool.shared(dict(few))
    assert pool.shared(many) is not pool.shared(dict(many))
