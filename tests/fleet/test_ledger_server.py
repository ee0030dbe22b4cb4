"""The records of workers in their parent process."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.fleet import ledger_server
from apfproxy.fleet.ledger_server import LedgerServer
from apfproxy.fleet.parent_messages import MAX_LINE_BYTES
from apfproxy.fleet.parent_store import ParentStore
from apfproxy.fleet.record import VERSION, Member, Record, decode, encode
from apfproxy.fleet.store import Stored
from tests.end_to_end.scene import until
from tests.fleet.agreement import Told

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NOTHING = Stored(None, "")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LedgerServer]:
    """A parent that serves."""
    server = LedgerServer()
    await server.start(path_of(tmp_path))
    yield server
    await server.close()


def path_of(folder: Path) -> str:
    """Of the socket."""
    return str(folder / "ledger.sock")


class RawClient:
    """A connection on which anything can be said."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    @classmethod
    async def of(cls, folder: Path, *, greets: bool = True) -> RawClient:
        """A connection to the server."""
        client = cls(*await asyncio.open_unix_connection(path_of(folder)))
        if greets:
            assert {"protocol": 1} == await client.ask(protocol=1)
        return client

    async def ask(self, **fields: object) -> Any:  # noqa: ANN401 - JSON
        """Say something; the next line that comes."""
        return await self.say(json.dumps(fields).encode() + b"\n")

    async def say(self, data: bytes) -> Any:  # noqa: ANN401 - JSON
        """Say these bytes; the next line that comes, None at the end."""
        self.writer.write(data)
        line = await self._reader.readline()
        return json.loads(line) if line else None

    async def is_ended(self) -> bool:
        """Whether the server has ended it."""
        return b"" == await self._reader.read()


def record(*keys: str) -> bytes:
    """A record with members of these keys."""
    members = {key: Member(beat=1, lease_ms=1000, limit=10, claim=5) for key in keys}
    return encode(Record(version=VERSION, born="a", writes=1, members=members))


@pytest.mark.usefixtures("server")
async def test_is_private(tmp_path: Path) -> None:
    """Only this user may connect."""
    assert 0o600 == stat.S_IMODE(os.stat(path_of(tmp_path)).st_mode)  # noqa: PTH116


async def test_close(tmp_path: Path) -> None:
    """At the end nothing is left, and closing again is harmless."""
    server = LedgerServer()
    await server.close()
    await server.start(path_of(tmp_path))
    client = await RawClient.of(tmp_path)
    await server.close()
    await server.close()

    assert await client.is_ended()
    assert [] == list(os.scandir(tmp_path))
    client.writer.close()


async def test_drop(server: LedgerServer, tmp_path: Path) -> None:
    """A dead worker's members leave all records at once, and the others are told."""
    stores = [ParentStore(path_of(tmp_path), key) for key in ("a", "b", "c")]
    contents = record("w-1#1", "w-1#2", "w-2#1"), record("w-1#1"), record("w-2#1")
    for store, data in zip(stores, contents, strict=True):
        await store.swap(data, await store.read())
    told = [Told(each) for each in stores]
    server.drop("w-1")
    await told[0].reaches(1)
    found = [(await each.read()).data or b"" for each in stores]

    assert [["w-2#1"], [], ["w-2#1"]] == [list(decode(each).members) for each in found]
    assert [1, 1, 0] == [each.count for each in told]
    for store in stores:
        await store.close()


async def test_drop_is_a_write(server: LedgerServer, tmp_path: Path) -> None:
    """Whoever has not seen it cannot bring the member back."""
    store = ParentStore(path_of(tmp_path), "a")
    seen = await store.swap(record("w-1#1"), await store.read())
    server.drop("w-1")

    assert not (await store.swap(record("w-1#1", "w-2#1"), seen.stored)).is_done
    await store.close()


async def test_drop_from_no_record(
    server: LedgerServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is no record stays as it is."""
    store = ParentStore(path_of(tmp_path), "a")
    written = await store.swap(b"garbage", await store.read())
    server.drop("w-1")

    assert written.stored == await store.read()
    assert "cannot take w-1 out of the record a: it has no record of a fleet" in caplog.text
    await store.close()


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n", "cannot read a line: JSON is malformed", id="http"),
        pytest.param(b"\xff\xfe\n", "cannot read a line: ", id="no-text"),
        pytest.param(b'{"number":1}\n', "cannot read a line: Object missing", id="no-fields"),
        pytest.param(b"[" * 100_000 + b"\n", "cannot read a line: ", id="deep"),
        pytest.param(
            b'{"number":1,"verb":"read","key":""}\n', "cannot read a line: Expected", id="no-key"
        ),
        pytest.param(b"x" * (MAX_LINE_BYTES + 1), "a line is too long", id="long"),
        pytest.param(b"x" * (MAX_LINE_BYTES + 1) + b"\n", "a line is too long", id="long-ended"),
    ],
)
async def test_bad_client(data: bytes, problem: str, tmp_path: Path) -> None:
    """A client that breaks the rules is told why and ended; the others go on."""
    store, client = ParentStore(path_of(tmp_path), "a"), await RawClient.of(tmp_path)
    await store.read()
    said = await client.say(data)

    assert said["error"].startswith(problem)
    assert await client.is_ended()
    assert NOTHING == await store.read()
    client.writer.close()
    await store.close()


@pytest.mark.usefixtures("server")
async def test_newer_client(tmp_path: Path) -> None:
    """A worker of newer code hears what the parent speaks, and may say more than that knows."""
    client = await RawClient.of(tmp_path, greets=False)

    assert {"protocol": 1} == await client.ask(protocol=7, later="x")
    assert {"number": 4} == await client.ask(number=4, verb="read", key="a", later=1)
    assert {"number": 5, "error": "knows no 'merge'"} == await client.ask(
        number=5, verb="merge", key="a"
    )
    assert {"number": 6, "error": "knows no 'swap'"} == await client.ask(
        number=6, verb="swap", key="a"
    )
    client.writer.close()


@pytest.mark.usefixtures("server")
async def test_byte_by_byte(tmp_path: Path) -> None:
    """Lines may come in any pieces, and several at once."""
    client = await RawClient.of(tmp_path, greets=False)
    for byte in b'{"protocol":1':
        client.writer.write(bytes([byte]))
        await client.writer.drain()
        await asyncio.sleep(0)

    assert {"protocol": 1} == await client.say(b'}\n{"number":1,"verb":"read","key":"a"}\n')
    assert {"number": 1} == await client.say(b"")
    client.writer.close()


@pytest.mark.usefixtures("server")
async def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records, what a client listens to, and connections are bounded."""
    monkeypatch.setattr(ledger_server, "MAX_RECORDS", 2)
    monkeypatch.setattr(ledger_server, "MAX_CONNECTIONS", 2)
    one, other = await RawClient.of(tmp_path), await RawClient.of(tmp_path)
    third = await RawClient.of(tmp_path, greets=False)

    assert {"error": "has too many connections"} == await third.ask(protocol=1)
    for number, key in enumerate(("a", "b", "c")):
        said = await one.ask(number=number, verb="swap", key=key, data="MQ==")
    assert {"number": 2, "error": "has 2 records already"} == said
    for number, key in enumerate(("a", "b", "c")):
        said = await other.ask(number=number, verb="listen", key=key)
    assert {"error": "listens to too much"} == said
    assert await other.is_ended()
    for each in (one, other, third):
        each.writer.close()


async def test_slow_reader(server: LedgerServer, tmp_path: Path) -> None:
    """A client that does not read what it asked for is ended."""
    client = await RawClient.of(tmp_path)
    whole = {"verb": "swap", "key": "a", "data": "x" * (1 << 20)}
    assert (await client.ask(number=1, **whole))["done"]
    question = json.dumps({"number": 2, "verb": "read", "key": "a"}).encode() + b"\n"
    client.writer.write(question * 10)

    await until(lambda: "1 connections" not in repr(server))
    client.writer.close()


async def test_repr(server: LedgerServer) -> None:
    """It says what it has."""
    assert "<LedgerServer: 0 records, 0 connections>" == repr(server)
