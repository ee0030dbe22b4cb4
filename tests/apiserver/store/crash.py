"""What a crash may and may not do to a store: a writer that gets killed, and the check afterwards.

The writer runs in a process of its own: `python -m tests.apiserver.store.crash FILE`.  For each
line on its standard input, a seed, it forks one that opens the file and writes at full speed; every
write that is answered becomes a line on standard output.  It is left to the reader when to kill it.

The check knows nothing of how answers were got: `problems` fits writes over HTTP as well.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.store.sqlite import SqliteBackend
from apfproxy.apiserver.store.store import Store
from tests.forking import fork_for_each_line, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from apfproxy.apiserver.store.entries import Entry

WINDOW = 800
"""Changes that the store keeps: more than one writer makes, fewer than all, so that it prunes."""

WRITERS = 8
MOST_WRITES = 60
"""Of each of the writers; then they wait to be killed."""


@dataclass(frozen=True)
class Write:
    """A write that was answered, or that a watch tells of; the value is None for a deletion."""

    resource_version: int
    key: str
    value: str | None


@dataclass
class State:
    """A store as its readers see it: the newest version, and by key the last writes."""

    resource_version: int
    objects: dict[str, Write] = field(default_factory=dict)


def problems(
    before: State, answered: Sequence[Write], seen: Iterable[Write], after: State
) -> list[str]:
    """What a crash did that it may not do, after which a watch from `before` tells what is seen."""
    found, by_version = [], {}
    objects, version = dict(before.objects), before.resource_version
    for write in seen:
        if write.resource_version != version + 1:
            found.append(f"watch goes from {version} to {write.resource_version}")
        version = write.resource_version
        by_version[version] = write
        if write.value is None:
            objects.pop(write.key, None)
        else:
            objects[write.key] = write
    if version != after.resource_version:
        found.append(f"watch ends at {version}, the store at {after.resource_version}")
    if objects != after.objects:
        found.append("what the watch tells is not what is there")
    for write in answered:
        if write.resource_version <= before.resource_version:
            found.append(f"{write} got a resource version that was given before")
        elif by_version.get(write.resource_version) != write:
            found.append(f"{write} is lost: {by_version.get(write.resource_version)}")
    if len({write.resource_version for write in answered}) != len(answered):
        found.append("a resource version was given twice")
    return found


def write_of(entry: Entry) -> Write:
    """The write that led to a state, which has to be whole."""
    obj = json.loads(entry.data)
    value = str(obj["spec"]["value"])
    assert obj == {
        "metadata": {
            "name": entry.name,
            "uid": entry.name,
            "resourceVersion": str(entry.resource_version),
        },
        "spec": {"value": value, "filler": value * 40},
    }
    return Write(entry.resource_version, entry.name, value)


def read_back(path: Path, since: int) -> tuple[list[Write], State]:
    """Open a store, and see what a watch from a resource version tells and what is there."""
    store = Store(window=WINDOW, backend=SqliteBackend(path))
    collection = store.collection("things")
    seen = [
        Write(change.entry.resource_version, change.entry.name, None)
        if change.type == "DELETED"
        else write_of(change.entry)
        for change in collection.watch(since).read(10 * WINDOW)
    ]
    objects = {entry.name: write_of(entry) for entry in collection.snapshot()}
    state = State(store.resource_version, objects)
    asyncio.run(store.close())
    return seen, state


async def write_all(path: Path, seed: str) -> int:
    """Write at full speed, say what was answered, then wait to be killed."""
    store = Store(window=WINDOW, backend=SqliteBackend(path))

    async def write(number: int) -> None:
        # Seeded by a string: the same in all processes.
        chance = random.Random(f"{seed} {number}")  # noqa: S311  nothing secret
        for count in range(MOST_WRITES):
            name = f"thing-{number}-{chance.randrange(6)}"
            value = f"{seed}-{number}-{count}"
            obj: dict[str, Any] = {
                "metadata": {"name": name, "uid": name},
                "spec": {"value": value, "filler": value * 40},
            }
            is_there = store.head("things", "", name) is not None
            is_deletion = is_there and chance.random() < 0.3
            hand_over = store.delete if is_deletion else store.put
            entry = await hand_over("things", obj, {})
            say(
                resource_version=entry.resource_version,
                key=name,
                value=None if is_deletion else value,
            )

    await asyncio.gather(*(write(number) for number in range(WRITERS)))
    await asyncio.Event().wait()
    return 0


if __name__ == "__main__":
    fork_for_each_line(lambda seed: asyncio.run(write_all(Path(sys.argv[1]), seed)))
