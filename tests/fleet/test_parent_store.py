"""The store of workers, as these see it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from apfproxy.fleet.ledger_server import LedgerServer
from apfproxy.fleet.parent_store import ParentStore
from apfproxy.fleet.record import MAX_RECORD_BYTES
from apfproxy.fleet.store import Stored, StoreError
from tests.end_to_end.scene import until
from tests.fleet.agreement import Told, agrees, loses_no_write
from tests.fleet.scripted_parent import scripted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NOTHING = Stored(None, "")
GREETING = b'{"protocol":1}\n'


@pytest.fixture
async def path(tmp_path: Path) -> AsyncIterator[str]:
    """Where a parent serves."""
    server, path = LedgerServer(), str(tmp_path / "ledger.sock")
    await server.start(path)
    yield path
    await server.close()


async def test_agreement(path: str) -> None:
    """Two workers swap as two members should."""
    one, other = ParentStore(path, "a"), ParentStore(path, "a")

    await agrees(one, other)
    await one.close()
    await other.close()


async def test_swaps_at_once(path: str) -> None:
    """Of many workers' writes none is lost."""
    stores = [ParentStore(path, "a") for _ in range(8)]

    await loses_no_write([*stores])
    for each in stores:
        await each.close()


async def test_questions_at_once(path: str) -> None:
    """One store may be asked several things at a time, even before it is connected."""
    store = ParentStore(path, "a")
    found = await asyncio.gather(*(store.read() for _ in range(10)))

    assert [NOTHING] * 10 == found
    await store.close()


async def test_keys_are_apart(path: str) -> None:
    """Each cluster has a record of its own."""
    one, other = ParentStore(path, "a/b"), ParentStore(path, "a/c")
    await one.swap(b"1", NOTHING)

    assert NOTHING == await other.read()
    await one.close()
    await other.close()


async def test_urgent(path: str) -> None:
    """The others are told, of their key only; the writer is not."""
    one, other, third = (ParentStore(path, key) for key in ("a", "a", "b"))
    told = {each: Told(each) for each in (one, other, third)}
    for each in told:
        await each.read()
    first = await one.swap(b"1", await one.read(), is_urgent=True)
    await told[other].reaches(1)
    await one.swap(b"2", first.stored)
    for each in told:
        await each.read()  # what was said before has arrived

    assert [0, 1, 0] == [each.count for each in told.values()]
    for each in told:
        await each.close()


async def test_no_parent(tmp_path: Path) -> None:
    """Without a parent there is an error, and later an answer."""
    path = str(tmp_path / "ledger.sock")
    store = ParentStore(path, "a")
    with pytest.raises(StoreError, match=r"the parent process does not answer: No such file"):
        await store.read()
    server = LedgerServer()
    await server.start(path)

    assert NOTHING == await store.read()
    await store.close()
    await server.close()


async def test_parent_ends(tmp_path: Path) -> None:
    """Whoever waits for an answer is told that the parent has ended; another may take its place."""
    path = str(tmp_path / "ledger.sock")
    store, server = ParentStore(path, "a"), LedgerServer()
    async with scripted(path, GREETING, b""):
        with pytest.raises(StoreError, match="has closed the connection"):
            await store.read()
    await server.start(path)

    assert NOTHING == await store.read()
    await store.close()
    await server.close()


async def test_versions_of_another_parent(tmp_path: Path) -> None:
    """What was seen in a parent that has ended is no version of the next one."""
    path = str(tmp_path / "ledger.sock")
    store, first = ParentStore(path, "a"), LedgerServer()
    await first.start(path)
    seen = await store.swap(b"1", NOTHING)
    await first.close()
    second, other = LedgerServer(), ParentStore(path, "a")
    await second.start(path)
    written = await other.swap(b"2", NOTHING)

    assert not (await store.swap(b"3", seen.stored)).is_done
    assert written.stored == await store.read()
    for each in (store, other, second):
        await each.close()


async def test_cancelled(tmp_path: Path) -> None:
    """A question that is given up disturbs no other one."""
    path = str(tmp_path / "ledger.sock")
    answers = (
        b'{"number":1,"version":"1","data":"MQ=="}\n{"number":2,"version":"2","data":"Mg=="}\n'
    )
    store = ParentStore(path, "a")
    async with scripted(path, GREETING, b"", b"", answers) as parent:
        first = asyncio.create_task(store.read())
        await until(lambda: len(parent.heard) == 3)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first

        assert Stored(b"2", "2") == await store.read()
        await store.close()


async def test_cancelled_while_it_connects(tmp_path: Path) -> None:
    """A connection that is not greeted is given up with the question."""
    path = str(tmp_path / "ledger.sock")
    store = ParentStore(path, "a")
    async with scripted(path, b"", GREETING) as parent:
        first = asyncio.create_task(store.read())
        await parent.loses_it(first.cancel)
        with pytest.raises(asyncio.CancelledError):
            await first
    await store.close()


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        pytest.param([b"HTTP/1.1 400\n"], "says what this worker does not", id="another-server"),
        pytest.param([b"{}\n"], "says what this worker does not understand", id="no-greeting"),
        pytest.param([b'{"protocol":0}\n'], "does not understand", id="no-protocol"),
        pytest.param([GREETING, b"[]\n"], "says what this worker does not", id="wrong-answer"),
        pytest.param([GREETING, b'{"number":1,"error":"is full"}\n'], "is full", id="error"),
        pytest.param([GREETING, b'{"error":"no more"}\n'], "no more", id="refused"),
    ],
)
async def test_wrong_parent(lines: list[bytes], problem: str, tmp_path: Path) -> None:
    """What is no parent, or has an error, is a StoreError."""
    path = str(tmp_path / "ledger.sock")
    store = ParentStore(path, "a")
    async with scripted(path, *lines):
        with pytest.raises(StoreError, match=problem):
            await store.read()
        await store.close()


async def test_too_long(path: str) -> None:
    """A record that nobody could read is not sent."""
    store = ParentStore(path, "a")
    with pytest.raises(StoreError, match="more than"):
        await store.swap(b"x" * (MAX_RECORD_BYTES + 1), NOTHING)
    await store.close()


async def test_close_twice(path: str) -> None:
    """Closing is harmless once done, and before anything was asked."""
    store = ParentStore(path, "a")
    await store.close()
    await store.read()

    assert "<ParentStore a: <connection to the parent: 0 asked>>" == repr(store)
    await store.close()
    await store.close()
    assert "<ParentStore a: not connected>" == repr(store)
