"""The records by which a machine's workers share the seats, in the memory of their parent."""

from __future__ import annotations

import contextlib
import logging
import secrets
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from apfproxy.fleet.record import MAX_RECORD_BYTES, RecordError, decode, encode, without
from apfproxy.workers.link import LinkError

if TYPE_CHECKING:
    from collections.abc import Callable

READ: Final = "ledger.read"
SWAP: Final = "ledger.swap"
"""The questions, whose arguments are a `Swap`; a `Held` replies."""
MAX_RECORDS: Final = 2048
"""One of each cluster, of which there are at most 1000, and some of those that are leaving."""
FORGET_FROM: Final = 64
"""Whenever there are twice as many records, those without members are forgotten."""
MAX_KEY: Final = 512

log = logging.getLogger(__name__)

Key = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_KEY)]


class Swap(msgspec.Struct, frozen=True, omit_defaults=True):
    """A read, or a write if the record still has that version."""

    key: Key
    version: str = ""
    data: Annotated[bytes, msgspec.Meta(max_length=MAX_RECORD_BYTES)] = b""
    is_urgent: bool = False


class Held(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record by now; without the data where the worker has written them itself."""

    version: str = ""
    data: bytes | None = None
    is_done: bool = False


NOTHING: Final = Held()


class Ledger:
    """`tell` tells all workers but one (by its name as a member) that a record has urgent news."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        # Not the same after a restart, so that no version of before is taken for one of now.
        self._life = secrets.token_hex(4)
        self._writes = 0
        self._records: dict[str, Held] = {}
        self._forget_at = FORGET_FROM
        self._tell = tell

    async def read(self, arguments: bytes) -> bytes:
        key = msgspec.msgpack.decode(arguments, type=Swap).key
        return msgspec.msgpack.encode(self._records.get(key, NOTHING))

    async def swap(self, member: str, arguments: bytes) -> bytes:
        """LinkError if there are too many records."""
        asked = msgspec.msgpack.decode(arguments, type=Swap)
        held = self._records.get(asked.key, NOTHING)
        if asked.version != held.version:
            return msgspec.msgpack.encode(held)
        if held is NOTHING and len(self._records) >= min(self._forget_at, MAX_RECORDS):
            self._forget()
            if len(self._records) >= MAX_RECORDS:
                raise LinkError(f"has {MAX_RECORDS} records already")
        version = self._write(asked.key, asked.data)
        if asked.is_urgent:
            self._tell(asked.key, member)
        return msgspec.msgpack.encode(Held(version, is_done=True))

    def drop(self, member: str) -> None:
        """Take a member's entries out of all records, and tell the others."""
        for key, held in tuple(self._records.items()):
            try:
                record = decode(held.data or b"")
            except RecordError as error:
                log.warning("cannot take %s out of the record %s: %s", member, key, error)
                continue
            left = without(record, member)
            if left is not record:
                self._write(key, encode(left))
                self._tell(key, member)

    def _forget(self) -> None:
        """Forget the records of clusters that are gone, whose members have all left."""
        for key, held in tuple(self._records.items()):
            with contextlib.suppress(RecordError):
                if not decode(held.data or b"").members:
                    del self._records[key]
        self._forget_at = max(2 * len(self._records), FORGET_FROM)

    def _write(self, key: str, data: bytes) -> str:
        self._writes += 1
        version = f"{self._life}.{self._writes}"
        self._records[key] = Held(version, data)
        return version

    def __repr__(self) -> str:
        return f"<Ledger of {len(self._records)} records>"
