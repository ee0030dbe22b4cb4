"""Tests that a writer that is killed loses nothing that it was told is kept.

The writer runs in a process of its own: `python -m tests.apiserver.store.test_sqlite_crash FILE`.
For each line on its standard input, a seed, it forks one that opens the file and writes at full
speed; every write that is answered becomes a line on standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.store.sqlite import SqliteBackend
from apfproxy.apiserver.store.store import Store
from tests.forking import fork_for_each_line, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from apfproxy.apiserver.store.entries import Entry

KILLS = 50
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


@pytest.mark.e2e
def test_nothing_answered_is_lost(tmp_path: Path) -> None:
    """Killed 50 times at random points, the store has every answered write, whole and in order."""
    path = tmp_path / "store.db"
    chance = random.Random(20)  # noqa: S311  nothing secret
    state = State(1)
    answered_before = found = 0
    with subprocess.Popen(  # noqa: S603  names what it starts itself
        [sys.executable, "-m", "tests.apiserver.store.test_sqlite_crash", str(path)],
        cwd=Path(__file__).parents[3],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for seed in range(KILLS):
            writer.stdin.write(f"{seed}\n")
            writer.stdin.flush()
            # None: in the midst of opening the file, at first of making it.
            patience = chance.choice([0, chance.randrange(100), chance.randrange(350)])
            lines: list[dict[str, Any]] = []
            pid = 0
            is_killed = False
            while not lines or "status" not in lines[-1]:
                lines.append(json.loads(writer.stdout.readline()))
                # The first answers may come before the parent of the writer says its number.
                pid = lines[-1].get("pid", pid)
                if pid and len(lines) > patience and not is_killed:
                    os.kill(pid, signal.SIGKILL)
                    is_killed = True
            answered = [Write(**line) for line in lines if "key" in line]
            seen, after = read_back(path, state.resource_version)

            assert {"status": signal.SIGKILL} == lines[-1]
            assert [] == problems(state, answered, seen, after)
            answered_before += len(answered)
            found += len(seen)
            state = after
        writer.stdin.close()

    assert answered_before > 1000
    assert found >= answered_before


@pytest.mark.parametrize(
    ("answered", "seen", "kept", "count"),
    [
        pytest.param(None, Write(6, "a", "x"), Write(6, "a", "x"), 0, id="kept-unanswered"),
        pytest.param(Write(6, "a", None), Write(6, "a", None), None, 0, id="deleted"),
        pytest.param(Write(6, "a", "x"), None, Write(5, "a", "w"), 1, id="lost"),
        pytest.param(
            Write(6, "a", "x"), Write(6, "a", "y"), Write(6, "a", "y"), 1, id="other-value"
        ),
        pytest.param(None, Write(7, "a", "x"), Write(7, "a", "x"), 1, id="gap"),
        pytest.param(None, Write(6, "a", "x"), Write(5, "a", "w"), 1, id="not-applied"),
        pytest.param(Write(4, "a", "x"), None, Write(5, "a", "w"), 1, id="reused"),
    ],
)
def test_problems(
    answered: Write | None, seen: Write | None, kept: Write | None, count: int
) -> None:
    """The check sees what it is there for."""
    before = State(5, {"a": Write(5, "a", "w")})
    after = State(seen.resource_version if seen else 5, {kept.key: kept} if kept else {})
    found = problems(before, [answered] if answered else [], [seen] if seen else [], after)

    assert count == len(found), found


if __name__ == "__main__":
    fork_for_each_line(lambda seed: asyncio.run(write_all(Path(sys.argv[1]), seed)))
