"""Whether an API server that is killed under writes keeps all that it answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.apiserver.store.crash import State, Write, problems

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KILLS = 50
WRITERS = 8
"""Each on a connection of its own, with objects of its own."""
NAMES = 5
"""Objects of each writer."""
MOST_ANSWERS = 160
"""After at most so many, and a moment more, a server is killed."""
MOMENT_S = 0.004
"""In which each of the writers makes a write or two."""
STARTING_S = 0.06
"""About what a server takes to start."""
WATCHES_WITHIN_S = 100
TIMEOUT = aiohttp.ClientTimeout(total=20)
LIVES = 6
"""That the last watch goes back: their changes fit into the window."""

FLOW_CONTROL = "/apis/flowcontrol.apiserver.k8s.io/v1"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
SCHEMAS = f"{FLOW_CONTROL}/flowschemas"
COLLECTIONS = (
    SLICES,
    SCHEMAS,
    f"{FLOW_CONTROL}/prioritylevelconfigurations",
    "/apis/policy/v1/poddisruptionbudgets",
    "/api/v1/namespaces",
    "/api/v1/pods",
)
"""All: their changes together have every resource version that there is."""

SPECS: dict[str, dict[str, Any]] = {
    SLICES: {
        "driver": "gpu.example.com",
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}],
    },
    SCHEMAS: {"priorityLevelConfiguration": {"name": "exempt"}},
}
"""Collections that writers write to.  Of the second one a controller writes the status."""

Object = dict[str, Any]


@dataclass
class Server:
    """A server that is there until it is killed."""

    pid: int
    port: int = 0


class Forker:
    """Starts servers on one file, one after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._running = Server(0)

    async def fork(self) -> Server:
        """Begin to start a server."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        server = Server(0)
        while not server.pid:
            # It may be ready before its parent says that it is there.
            fields = await self._read()
            server.port = fields.get("port", server.port)
            server.pid = fields.get("pid", 0)
        self._running = server
        return server

    async def ready(self, server: Server) -> None:
        """Wait until it answers."""
        while not server.port:
            server.port = (await self._read())["port"]

    async def ended(self) -> int:
        """Wait until it has ended; its wait status."""
        while (status := (await self._read()).get("status")) is None:
            pass
        self._running = Server(0)
        return status

    async def close(self) -> None:
        """Kill the server that runs, if one does, and start no more."""
        if self._running.pid:
            os.kill(self._running.pid, signal.SIGKILL)
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def _read(self) -> dict[str, int]:
        assert self._process.stdout is not None
        fields: dict[str, int] = json.loads(await self._process.stdout.readline())
        return fields


@contextlib.asynccontextmanager
async def forking(path: Path) -> AsyncIterator[Forker]:
    """Have a process that starts servers on a file."""
    with path.with_suffix(".log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.end_to_end.forked_apiserver",
            str(path),
            cwd=Path(__file__).parents[2],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
    forker = Forker(process)
    try:
        yield forker
    finally:
        await forker.close()


def write_of(collection: str, obj: Object, *, is_deleted: bool = False) -> Write:
    """What an answer or an event says of an object."""
    metadata = obj["metadata"]
    key = f"{collection} {metadata.get('namespace', '')}/{metadata['name']}"
    # Lists leave out what all of their objects are.
    stated = {name: value for name, value in obj.items() if name not in {"kind", "apiVersion"}}
    value = None if is_deleted else json.dumps(stated, sort_keys=True)
    return Write(int(metadata["resourceVersion"]), key, value)


class Reader:
    """Sees what a server has."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self._url = f"http://127.0.0.1:{port}"

    async def state(self) -> State:
        """All objects of all collections, at one resource version."""
        state = State(0)
        for collection in COLLECTIONS:
            exact = {
                "resourceVersionMatch": "Exact",
                "resourceVersion": str(state.resource_version),
            }
            async with self._session.get(
                self._url + collection, params=exact if state.resource_version else {}
            ) as response:
                listed = await response.json()
            assert 200 == response.status, listed
            state.resource_version = int(listed["metadata"]["resourceVersion"])
            for item in listed["items"]:
                write = write_of(collection, item)
                state.objects[write.key] = write
        return state

    async def changes(self, after: int, until: int) -> list[Write]:
        """What watches of all collections tell, in order of resource versions."""
        told: asyncio.Queue[Write] = asyncio.Queue()
        watches = [
            asyncio.create_task(self._watch(collection, after, told)) for collection in COLLECTIONS
        ]
        seen: list[Write] = []
        # What never comes is missed by the check.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WATCHES_WITHIN_S):
                while len(seen) < until - after:
                    write = await told.get()
                    if write.resource_version <= until:
                        seen.append(write)
        for watch in watches:
            watch.cancel()
        await asyncio.wait(watches)
        return sorted(seen, key=lambda write: write.resource_version)

    async def _watch(self, collection: str, after: int, told: asyncio.Queue[Write]) -> None:
        params = {"watch": "true", "resourceVersion": str(after)}
        async with self._session.get(self._url + collection, params=params) as response:
            async for line in response.content:
                event = json.loads(line)
                is_deleted = event["type"] == "DELETED"
                told.put_nowait(write_of(collection, event["object"], is_deleted=is_deleted))


@dataclass
class Life:
    """One server's life: what it answered, and when it is killed.

    Attributes:
        number: Of the life.
        patience: Answers until it is killed.
        delay_s: From then on.
        answered: Writes in the order of answers.
        deleted: Keys of deletions that were answered, with the newest resource version that their
            writer knew before.
    """

    server: Server
    number: int
    patience: int
    delay_s: float
    answered: list[Write] = field(default_factory=list)
    deleted: list[tuple[str, int]] = field(default_factory=list)

    def count(self) -> None:
        """Kill the server if it is time."""
        if len(self.answered) + len(self.deleted) == self.patience:
            loop = asyncio.get_running_loop()
            loop.call_later(self.delay_s, os.kill, self.server.pid, signal.SIGKILL)

    def writes(self, seen: list[Write]) -> list[Write]:
        """All that was answered; deletions, whose answers may not tell, as watches tell them."""
        found = list(self.answered)
        for key, known in self.deleted:
            version = next(
                (
                    write.resource_version
                    for write in seen
                    if write.key == key and write.value is None and write.resource_version > known
                ),
                -1,  # lost: a resource version that no write has
            )
            found.append(Write(version, key, None))
        return found


class Record:
    """What was seen of a store, from one server to the next.

    Attributes:
        state: The newest.
        versions: The newest resource version at each look.
        history: All changes.
        answers: Writes that were answered, and found.
        life: Of the last server that was written to.
    """

    def __init__(self) -> None:
        self.state = State(1)
        self.versions = [1]
        self.history: list[Write] = []
        self.answers = 0
        self.life: Life | None = None

    async def check(self, reader: Reader) -> None:
        """Look at the store after a crash."""
        after = await reader.state()
        seen = await reader.changes(self.state.resource_version, after.resource_version)
        answered = self.life.writes(seen) if self.life else []

        assert [] == problems(self.state, answered, seen, after)
        self.answers += len(answered)
        self.history += seen
        self.state = after
        self.versions.append(after.resource_version)
        self.life = None


async def write_all(session: aiohttp.ClientSession, life: Life, state: State) -> None:
    """Write from all writers until the server is killed."""
    await asyncio.gather(*(write(session, life, number, state) for number in range(WRITERS)))


async def write(session: aiohttp.ClientSession, life: Life, number: int, state: State) -> None:
    """Create, replace, patch and delete objects of one writer until the server is killed."""
    chance = random.Random(f"{life.number} {number}")  # noqa: S311  nothing secret
    collection = tuple(SPECS)[number % len(SPECS)]
    url = f"http://127.0.0.1:{life.server.port}{collection}"
    names = [f"writer-{number}-object-{index}" for index in range(NAMES)]
    keys = {name: f"{collection} /{name}" for name in names}
    known = {
        name: state.objects[key].resource_version
        for name, key in keys.items()
        if key in state.objects
    }
    count = 0
    while True:
        count += 1
        name = chance.choice(names)
        annotations = {"value": f"{life.number}-{number}-{count}", "filler": "x" * 500}
        obj = {"metadata": {"name": name, "annotations": annotations}, "spec": SPECS[collection]}
        content_type = "application/json"
        if name not in known:
            method, target = "POST", url
        else:
            method = chance.choice(["PUT", "PATCH", "DELETE"])
            target = f"{url}/{name}"
        if method == "PATCH":
            obj = {"metadata": {"annotations": annotations}}
            content_type = "application/merge-patch+json"
        data = None if method == "DELETE" else json.dumps(obj).encode()
        try:
            async with session.request(
                method, target, data=data, headers={"Content-Type": content_type}
            ) as response:
                answer = await response.json()
        except (aiohttp.ClientError, OSError):
            return  # it is killed: nobody knows what became of this write
        assert response.status in {200, 201}, answer
        if method == "DELETE":
            life.deleted.append((keys[name], known.pop(name)))
        else:
            life.answered.append(write_of(collection, answer))
            known[name] = life.answered[-1].resource_version
        life.count()


async def test_nothing_answered_is_lost(tmp_path: Path) -> None:
    """Killed 50 times at random points, the server has all it answered, and no watch has a gap."""
    chance = random.Random(20)  # noqa: S311  nothing secret
    record = Record()
    async with forking(tmp_path / "store.db") as forker:
        for number in range(KILLS):
            server = await forker.fork()
            if chance.random() < 0.2:
                # In the midst of opening the file, at first of making it and its first objects.
                asyncio.get_running_loop().call_later(
                    chance.random() * STARTING_S, os.kill, server.pid, signal.SIGKILL
                )
            else:
                await forker.ready(server)
                patience = chance.choice([1, chance.randrange(1, MOST_ANSWERS)])
                life = Life(server, number, patience, chance.random() * MOMENT_S)
                async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
                    await record.check(Reader(session, server.port))
                    await write_all(session, life, record.state)
                record.life = life

            assert signal.SIGKILL == await forker.ended()
        server = await forker.fork()
        await forker.ready(server)
        async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
            reader = Reader(session, server.port)
            await record.check(reader)
            since = record.versions[-LIVES]
            told = await reader.changes(since, record.state.resource_version)

    assert "" == (tmp_path / "store.log").read_text(), "no client's end is an error of the server"
    assert [write for write in record.history if write.resource_version > since] == told
    assert record.answers > 1000
    assert len(record.history) >= record.answers
