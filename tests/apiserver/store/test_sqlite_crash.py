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
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from apfproxy.apiserver.store.sqlite import SqliteBackend
from apfproxy.apiserver.store.store import Store
from tests.forking import fork_for_each_line, say

if TYPE_CHECKING:
    from apfproxy.apiserver.store.entries import Entry

KILLS = 50
WINDOW = 800
"""Changes that the store keeps: more than one writer makes, fewer than all, so that it prunes."""

WRITERS = 8
MOST_WRITES = 60
"""Each of the writers makes so many at most; then they wait to be killed."""


class Write(NamedTuple):
    """A write that was answered, or that a watch tells of; the value is None for a deletion."""

    resource_version: int
    key: str
    value: str | None


def thing(name: str, value: str) -> dict[str, Any]:
    filler = value * 40  # so that a state may be half written
    return {"metadata": {"name": name, "uid": name}, "spec": {"value": value, "filler": filler}}


def write_of(entry: Entry) -> Write:
    """The write that led to a state, which has to be whole."""
    obj = json.loads(entry.data)
    version, value = int(obj["metadata"].pop("resourceVersion")), str(obj["spec"]["value"])
    assert (entry.resource_version, thing(entry.name, value)) == (version, obj)
    return Write(version, entry.name, value)


def read_back(path: Path, since: int) -> tuple[list[Write], set[Write]]:
    """Open a store, and see what a watch from a resource version tells and what is there."""
    store = Store(window=WINDOW, backend=SqliteBackend(path))
    collection = store.collection("things")
    seen = [
        Write(change.resource_version, change.entry.name, None)
        if change.type == "DELETED"
        else write_of(change.entry)
        for change in collection.watch(since).read(10 * WINDOW)
    ]
    assert store.resource_version == (seen[-1].resource_version if seen else since)
    asyncio.run(store.close())
    return seen, set(map(write_of, collection.snapshot()))


async def write_all(path: Path, seed: str) -> int:
    """Write at full speed, say what was answered, then wait to be killed."""
    store = Store(window=WINDOW, backend=SqliteBackend(path))

    async def write(number: int) -> None:
        # Seeded by a string: the same in all processes.
        chance = random.Random(f"{seed} {number}")  # noqa: S311  nothing secret
        for count in range(MOST_WRITES):
            name = f"thing-{number}-{chance.randrange(6)}"
            value = f"{seed}-{number}-{count}"
            is_there = store.head("things", "", name) is not None
            is_deletion = is_there and chance.random() < 0.3
            hand_over = store.delete if is_deletion else store.put
            entry = await hand_over("things", thing(name, value), {})
            written = None if is_deletion else value
            say(resource_version=entry.resource_version, key=name, value=written)

    await asyncio.gather(*(write(number) for number in range(WRITERS)))
    await asyncio.Event().wait()
    return 0


@pytest.mark.e2e
def test_nothing_answered_is_lost(tmp_path: Path) -> None:
    """Killed 50 times at random points, the store has every answered write, whole and in order."""
    path = tmp_path / "store.db"
    chance = random.Random(20)  # noqa: S311  nothing secret
    history = [Write(1, "", None)]
    answered_before = 0
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
            last = history[-1].resource_version
            seen, there = read_back(path, last)

            assert {"status": signal.SIGKILL} == lines[-1]
            assert [*range(last + 1, last + 1 + len(seen))] == [each[0] for each in seen]
            assert set(answered) <= set(seen), "none is lost or has a version of another one"
            history += seen
            assert there == {
                each for each in {each.key: each for each in history}.values() if each.value
            }
            answered_before += len(answered)
        writer.stdin.close()

    assert answered_before > 1000


if __name__ == "__main__":
    fork_for_each_line(lambda seed: asyncio.run(write_all(Path(sys.argv[1]), seed)))
