"""Tests of the whole store against plain dictionaries, whatever happens in whatever order."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
)

from apfproxy.apiserver.store.entries import StoreError, TooOldError
from apfproxy.apiserver.store.sqlite import SqliteBackend
from apfproxy.apiserver.store.store import Backend, Store
from tests.apiserver.store.backends import GatedBackend, ListBackend

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from apfproxy.apiserver.store.collection import Watcher
    from apfproxy.apiserver.store.entries import Entry

WINDOW = 8

RESOURCES = st.sampled_from(["pods", "slices"])
NAMESPACES = st.sampled_from(["", "a", "a-b", "b"])
NAMES = st.sampled_from(["x", "y", "y-1", "z"])

Key = tuple[str, str]
Shown = tuple[str, str, int, str]
"""What tells an object's state: namespace, name, resource version, value."""


def shown(entry: Entry) -> Shown:
    """An entry; it has to agree with its JSON."""
    obj = json.loads(entry.data)
    value: str = obj["spec"]["value"]
    metadata = obj["metadata"]
    assert {"metadata", "spec"} == obj.keys()
    assert str(entry.resource_version) == metadata["resourceVersion"]
    assert (entry.namespace, entry.name) == (metadata["namespace"], metadata["name"])
    assert {"value": value} == entry.labels
    assert {"metadata.name": entry.name} == entry.fields
    return entry.namespace, entry.name, entry.resource_version, value


@dataclass
class Step:
    """A write, as the model has it."""

    resource_version: int
    resource: str
    key: Key
    value: str
    is_deletion: bool = False
    type: str = ""
    old: Shown | None = None

    def shown(self) -> Shown:
        """The state that it leads to."""
        return *self.key, self.resource_version, self.value


@dataclass
class Reading:
    """A watcher and what it should know."""

    watcher: Watcher
    resource: str
    known: int
    is_lost: bool = False


@dataclass
class Model:
    """Everything that was published, ever."""

    steps: list[Step] = field(default_factory=list)
    pending: list[tuple[Step, asyncio.Future[Entry]]] = field(default_factory=list)
    version: int = 1

    def publish(self, step: Step) -> None:
        """Add the newest step."""
        step.old = self.objects(step.resource).get(step.key)
        step.type = "DELETED" if step.is_deletion else "MODIFIED" if step.old else "ADDED"
        self.steps.append(step)
        self.version = step.resource_version

    def objects(
        self, resource: str, at: int | None = None, *, with_pending: bool = False
    ) -> dict[Key, Shown]:
        """Objects at a resource version."""
        objects: dict[Key, Shown] = {}
        pending = [step for step, _ in self.pending] if with_pending else []
        for step in self.steps + pending:
            if step.resource == resource and (at is None or step.resource_version <= at):
                objects.pop(step.key, None)
                if not step.is_deletion:
                    objects[step.key] = step.shown()
        return objects

    def changes(self, resource: str, after: int) -> list[Step]:
        """Steps of a resource after a resource version."""
        return [s for s in self.steps if s.resource == resource and s.resource_version > after]


def in_order(objects: dict[Key, Shown], namespace: str | None) -> list[Shown]:
    """As a list gives them."""
    return [
        objects[key]
        for key in sorted(objects, key="/".join)
        if namespace is None or key[0] == namespace
    ]


class StoreMachine(RuleBasedStateMachine):
    """A store whose backend waits, fails and restarts."""

    watchers = Bundle("watchers")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.model = Model()
        self.generation = 0
        self.last_assigned = 1
        self.gated: GatedBackend | None = None
        self.open()

    def inner(self) -> Backend | None:
        """What is behind the gate; None for a store in memory."""
        if self.gated is None:
            return ListBackend()
        return self.gated.inner

    def open(self) -> None:
        """Start the store on what is kept."""
        inner = self.inner()
        self.gated = None if inner is None else GatedBackend(inner)
        self.store = Store(window=WINDOW, backend=self.gated)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401  whatever it gives
        """Run a coroutine to its end."""
        return self.loop.run_until_complete(coroutine)

    @rule(resource=RESOURCES, namespace=NAMESPACES, name=NAMES, value=st.text(max_size=3))
    def put(self, resource: str, namespace: str, name: str, value: str) -> None:
        """Create or replace."""
        self.hand_over(Step(0, resource, (namespace, name), value))

    @rule(resource=RESOURCES, index=st.integers(0, 15), value=st.text(max_size=3))
    def delete(self, resource: str, index: int, value: str) -> None:
        """Delete an object that is there."""
        if objects := self.model.objects(resource, with_pending=True):
            key = sorted(objects)[index % len(objects)]
            self.hand_over(Step(0, resource, key, value, is_deletion=True))

    @rule(resource=RESOURCES, namespace=NAMESPACES, name=NAMES)
    def delete_missing(self, resource: str, namespace: str, name: str) -> None:
        """Nothing is done for an object that is not there."""
        if (namespace, name) not in self.model.objects(resource, with_pending=True):
            with pytest.raises(LookupError):
                self.hand_over(Step(0, resource, (namespace, name), "", is_deletion=True))

    def hand_over(self, step: Step) -> None:
        """Write, without waiting for the disk."""
        namespace, name = step.key
        metadata: dict[str, Any] = {
            "namespace": namespace,
            "name": name,
            "labels": {"value": step.value},
            "uid": "/".join(step.key),
        }

        async def write() -> asyncio.Future[Entry]:
            obj = {
                "apiVersion": "v1",
                "kind": "Thing",
                "metadata": metadata,
                "spec": {"value": step.value},
            }
            act = self.store.delete if step.is_deletion else self.store.put
            return act(step.resource, obj, {"metadata.name": step.key[1]})

        future = self.run(write())
        step.resource_version = int(metadata["resourceVersion"])
        assert step.resource_version > self.last_assigned
        self.last_assigned = step.resource_version
        if self.gated is None:
            assert step.shown() == shown(future.result())
            self.model.publish(step)
        else:
            self.model.pending.append((step, future))

    @rule(outcomes=st.lists(st.booleans(), max_size=2))
    @precondition(lambda self: self.gated is not None)
    def settle(self, outcomes: list[bool]) -> None:
        """Let the disk take what is pending, or refuse it."""
        assert self.gated is not None
        self.gated.outcomes = outcomes[:]
        self.gated.gate.set()
        # The first was handed over alone, the others gathered meanwhile.
        takes_first, takes_rest = ([*outcomes, True, True])[:2]
        for index, (step, future) in enumerate(self.model.pending):
            is_taken = takes_first and (index == 0 or takes_rest)
            self.run(asyncio.wait([future], timeout=10))
            error = future.exception()
            if is_taken:
                assert step.shown() == shown(future.result())
                self.model.publish(step)
            else:
                assert "the disk is full" == str(error)
                assert isinstance(error, StoreError)
                assert isinstance(error.__cause__, StoreError)
        self.model.pending.clear()
        self.gated.outcomes.clear()
        self.gated.gate.clear()

    @rule()
    @precondition(lambda self: self.gated is not None)
    def restart(self) -> None:
        """Stop in good order, then start on what is kept."""
        self.settle([])
        self.run(self.store.close())
        assert self.gated is not None
        assert self.gated.is_closed
        self.generation += 1
        self.open()
        # What was refused just before was never told to anybody as kept.
        self.last_assigned = self.model.version

    @rule(
        resource=RESOURCES,
        namespace=st.none() | NAMESPACES,
        back=st.integers(-2, 40),
        page=st.none() | st.integers(1, 5),
    )
    def snapshot(self, resource: str, namespace: str | None, back: int, page: int | None) -> None:
        """A snapshot of any version is as it was, in pages too."""
        collection = self.store.collection(resource)
        at = self.model.version - back
        if at < collection.floor:
            with pytest.raises(TooOldError):
                collection.snapshot(namespace, at=at)
            return
        expected = in_order(self.model.objects(resource, at), namespace)
        found: list[Shown] = []
        start: Key | None = None
        while True:
            left = collection.count(namespace, at, start)
            assert len(expected) - len(found) == left
            entries = collection.snapshot(namespace, at, start, page)
            found += map(shown, entries)
            if page is None or not entries:
                break
            start = (entries[-1].namespace, entries[-1].name)
        assert expected == found

    @rule(target=watchers, resource=RESOURCES, back=st.integers(-2, 40))
    def watch(self, resource: str, back: int) -> Any:  # noqa: ANN401  hypothesis' own type
        """Start a watch at any version, those to come too."""
        after = self.model.version - back
        if after < self.store.collection(resource).floor:
            with pytest.raises(TooOldError):
                self.store.collection(resource).watch(after)
            return multiple()
        watcher = self.store.collection(resource).watch(after)
        return self.generation, Reading(watcher, resource, after)

    @rule(pair=watchers, limit=st.integers(1, 12))
    def read(self, pair: tuple[int, Reading], limit: int) -> None:
        """A watcher reads what comes next, all of it, or learns that it is too late."""
        generation, reading = pair
        if generation != self.generation or reading.is_lost:
            return
        expected = self.model.changes(reading.resource, reading.known)
        collection = self.store.collection(reading.resource)
        if expected and expected[0].resource_version <= collection.floor:
            with pytest.raises(TooOldError):
                reading.watcher.read(limit)
            reading.is_lost = True
            return
        found = reading.watcher.read(limit)
        assert [
            (step.resource_version, step.type, step.shown(), step.old) for step in expected[:limit]
        ] == [(c.resource_version, c.type, shown(c.entry), c.old and shown(c.old)) for c in found]
        if found:
            reading.known = found[-1].resource_version
        if len(found) == len(expected):
            reading.known = max(reading.known, self.model.version)
        assert reading.known == reading.watcher.position

    @rule(pair=consumes(watchers))
    def stop(self, pair: tuple[int, Reading]) -> None:
        """Close a watcher."""
        pair[1].watcher.close()

    @invariant()
    def heads_are_the_newest(self) -> None:
        """Heads are ahead of what readers see, by just what is pending."""
        assert self.model.version == self.store.resource_version
        for resource in ("pods", "slices"):
            newest = self.model.objects(resource, with_pending=True)
            assert in_order(newest, None) == [shown(e) for e in self.store.heads(resource)]
            assert in_order(newest, "a") == [shown(e) for e in self.store.heads(resource, "a")]
            published = self.model.objects(resource)
            for namespace in ("", "a-b"):
                head = self.store.head(resource, namespace, "y")
                entry = self.store.collection(resource).get(namespace, "y")
                assert newest.get((namespace, "y")) == (head and shown(head))
                assert published.get((namespace, "y")) == (entry and shown(entry))

    @invariant()
    def window_is_as_wide_as_told(self) -> None:
        """At least the window's changes are kept, and not many more."""
        for resource in ("pods", "slices"):
            floor = self.store.collection(resource).floor
            kept = len(self.model.changes(resource, floor))
            assert kept <= WINDOW + WINDOW // 8
            assert floor == 0 or kept >= WINDOW

    def teardown(self) -> None:
        """Leave nothing behind."""
        if self.gated is not None:
            self.gated.outcomes.clear()
            self.gated.gate.set()
        self.run(self.store.close())
        self.loop.close()


class MemoryMachine(StoreMachine):
    """The same without a backend."""

    def inner(self) -> Backend | None:
        """None: in memory only."""
        return None


class SqliteMachine(StoreMachine):
    """The same on a real file."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        super().__init__()

    def inner(self) -> Backend | None:
        """The file, opened anew."""
        return SqliteBackend(self.folder / "store.db")

    def teardown(self) -> None:
        """Leave no file behind."""
        super().teardown()
        shutil.rmtree(self.folder)


TestStoreMachine = StoreMachine.TestCase
TestMemoryMachine = MemoryMachine.TestCase
TestSqliteMachine = SqliteMachine.TestCase
TestSqliteMachine.settings = settings(max_examples=15)
