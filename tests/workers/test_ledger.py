"""The records by which workers share seats, over their links."""

from __future__ import annotations

import contextlib
import socket
from functools import partial
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.signals import Signals
from apfproxy.fleet.record import MAX_RECORD_BYTES, VERSION, Member, Record, decode, encode
from apfproxy.fleet.store import LedgerStore, Stored, StoreError
from apfproxy.settings import FleetSettings
from apfproxy.workers import ledger as module
from apfproxy.workers.ledger import READ, SWAP, Ledger
from apfproxy.workers.link import Link, Urgent
from apfproxy.workers.place import STORE
from apfproxy.workers.worker import ParentLink
from tests.fleet.agreement import Told, agrees
from tests.workers.scripts import sent_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.workers.link import Handlers

NOTHING = Stored(None, "")


@contextlib.contextmanager
def stores(*keys: str) -> Iterator[tuple[Ledger, list[LedgerStore]]]:
    """The ledger, and the record of each key, as a worker each has it: w-1, w-2, ..."""
    links: dict[str, Link] = {}

    def tell(key: str, member: str) -> None:
        for name, link in links.items():
            if name != member:
                link.send(Urgent(key))

    ledger, found = Ledger(tell), []
    with Signals() as signals, contextlib.ExitStack() as closing:
        for number, key in enumerate(keys, start=1):
            name = f"w-{number}"
            ours, theirs = socket.socketpair()
            handlers: Handlers = {READ: ledger.read, SWAP: partial(ledger.swap, name)}
            links[name] = Link(ours, print, lambda: None, handlers)
            worker = ParentLink(sent_settings(theirs.detach()), signals)
            closing.callback(links[name].close)
            closing.callback(worker.close)
            found.append(worker.open_store(FleetSettings(store=STORE), key))
        yield ledger, found


def record(*keys: str) -> bytes:
    members = {key: Member(beat=1, lease_ms=1000, limit=10, claim=5) for key in keys}
    return encode(Record(version=VERSION, born="a", writes=1, members=members))


async def test_agreement() -> None:
    with stores("a", "a") as (_, (one, other)):
        await agrees(one, other)


async def test_urgent() -> None:
    """The others are told, of their key only; the writer is not, nor who has closed."""
    with stores("a", "a", "b", "a") as (_, found):
        told = [Told(each) for each in found]
        await found[3].close()
        first = await found[0].swap(b"1", await found[0].read(), is_urgent=True)
        await told[1].reaches(1)
        await found[0].swap(b"2", first.stored)
        for each in found:
            await each.read()  # what was said before has arrived
        of_other = await found[2].read()

    assert [0, 1, 0, 0] == [each.count for each in told]
    assert NOTHING == of_other


async def test_drop(caplog: pytest.LogCaptureFixture) -> None:
    """A dead worker's members leave all records at once, and the others are told."""
    with stores("a", "b", "c", "d") as (ledger, found):
        contents = record("w-9#1", "w-9#2", "w-2#1"), record("w-9#1"), record("w-2#1"), b"garbage"
        swapped = [
            await store.swap(data, NOTHING) for store, data in zip(found, contents, strict=True)
        ]
        told = [Told(each) for each in found]
        ledger.drop("w-9")
        await told[0].reaches(1)
        now = [(await each.read()).data or b"" for each in found]
        late = await found[0].swap(record("w-9#1"), swapped[0].stored)

    assert [["w-2#1"], [], ["w-2#1"]] == [list(decode(each).members) for each in now[:3]]
    assert [1, 1, 0, 0] == [each.count for each in told]
    assert not late.is_done
    assert "cannot take w-9 out of the record d: it has no record of a fleet" in caplog.text


async def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records, their keys and their sizes are bounded."""
    monkeypatch.setattr(module, "MAX_RECORDS", 1)
    with stores("a", "b", "c" * 513) as (ledger, (one, other, long)):
        await one.swap(b"1", NOTHING)
        with pytest.raises(StoreError, match="the parent process: has 1 records already"):
            await other.swap(b"1", NOTHING)
        with pytest.raises(StoreError, match="the parent process: Expected `str` of length <= 512"):
            await long.read()
        with pytest.raises(StoreError, match="more than"):
            await other.swap(b"x" * (MAX_RECORD_BYTES + 1), NOTHING)

    assert "<Ledger of 1 records>" == repr(ledger)


async def test_clusters_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RECORDS", 2)
    with stores("kept", *"abcdef") as (ledger, (kept, *gone)):
        await kept.swap(record("w-1#1"), NOTHING)
        for each in gone:
            joined = await each.swap(record("w-1#1"), NOTHING)
            assert joined.is_done
            left = await each.swap(record(), joined.stored)
            again = await each.swap(record("w-2#1"), left.stored)
            await each.swap(record(), again.stored)
        members = decode((await kept.read()).data or b"").members

    assert ["w-1#1"] == list(members)
    assert "<Ledger of 2 records>" == repr(ledger)
