"""Tests of the whole store against a plain model, whatever happens in whatever order."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from apfproxy.apiserver.store.entries import StoreError, TooOldError
from apfproxy.apiserver.store.sqlite import SqliteBackend
from apfproxy.apiserver.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apfproxy.apiserver.store.collection import Watcher
    from apfproxy.apiserver.store.entries import Change, Entry

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
    """An entry, which has to agree with its JSON."""
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
    """A write, as the model has it, and the state that it replaces."""

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
    """A store on a file, whose disk waits, fails and is opened again."""

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
        """A watcher reads what comes next, all of it, or learns that it is too late."""
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
