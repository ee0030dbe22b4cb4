"""The record of a fleet: what its members share, and what each of them may use.

It is JSON, which a store holds as it is and swaps as a whole.  Others may write to the
store, too, so a record is read with its types, its bounds and its version, and refused as a whole
where it has others.

A member's key is its name, `#` and an epoch that its process draws at the start: two processes of
one name, such as one and its successor, are two members.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

VERSION: Final = 1

MAX_RECORD_BYTES: Final = 1 << 20
"""Twenty members of eight levels take 6 KB."""

MAX_MEMBERS: Final = 512
MAX_LEVELS: Final = 2048
MAX_SEATS: Final = (1 << 31) - 1
MAX_COUNT: Final = (1 << 53) - 1
"""JSON's readers agree on it; at four writes a second it lasts for ever."""
MAX_LEASE_MS: Final = 600_000

Seats = Annotated[int, msgspec.Meta(ge=0, le=MAX_SEATS)]
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=262)]


class RecordError(ValueError):
    """The bytes are no record; the message says why, in one line."""


class RecordFullError(Exception):
    """There is no room in the record for what a member has to write."""


class Member(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Holds what one member says of itself; absolute values, never differences.

    Attributes:
        beat: How often it has written; what others see it live by.
        lease_ms: For how long the others leave it its claim after they saw its last beat.
        limit: The seats of the server, as its settings have them.
        configuration: A digest of its priority levels, to see who has others.
        claim: Seats that it may use; the claims of all never sum above the limit.
        used: Seats that its requests hold.
        demand: Seats that they hold and wait for, by the name of the level; zeros are left out.
    """

    beat: Count
    lease_ms: Annotated[int, msgspec.Meta(ge=1, le=MAX_LEASE_MS)]
    limit: Seats
    configuration: Annotated[str, msgspec.Meta(max_length=64)] = ""
    claim: Seats = 0
    used: Seats = 0
    demand: Annotated[dict[Name, Seats], msgspec.Meta(max_length=MAX_LEVELS)] = {}


def member_key(name: str, epoch: int) -> str:
    """The key of a member; `epoch` is below 2**32."""
    return f"{name}#{epoch:08x}"


def member_name(key: str) -> str:
    return key.rpartition("#")[0] or key


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The record.

    Attributes:
        version: `VERSION`.
        born: Who wrote the first one, and when in its life: so a record that was lost is told from
            the one that takes its place.
        writes: How often it was written.
        members: By key.
    """

    version: int
    born: Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
    writes: Count
    members: Annotated[dict[Key, Member], msgspec.Meta(max_length=MAX_MEMBERS)]


_ENCODER = msgspec.json.Encoder(order="sorted")
_DECODER = msgspec.json.Decoder(Record)


def encode(record: Record) -> bytes:
    return _ENCODER.encode(record)


def decode(data: bytes) -> Record:
    """The record of some bytes; RecordError if they are none of ours."""
    if len(data) > MAX_RECORD_BYTES:
        raise RecordError(f"it has {len(data)} bytes, more than {MAX_RECORD_BYTES}; delete it")
    try:
        record = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise RecordError(f"it has no record of a fleet: {why}; delete it to begin one") from error
    if record.version != VERSION:
        raise RecordError(
            f"it has version {record.version}, and this program writes {VERSION}; have all members"
            " of one version, or give the others a fleet of another name"
        )
    return record


def without(record: Record, name: str) -> Record:
    members = {key: each for key, each in record.members.items() if member_name(key) != name}
    if len(members) == len(record.members):
        return record
    return msgspec.structs.replace(record, members=members)


def left(record: Record, key: str) -> Record:
    members = {each: entry for each, entry in record.members.items() if each != key}
    return msgspec.structs.replace(record, members=members)
