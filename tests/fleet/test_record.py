"""The record of a fleet: what is read, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.fleet.record import (
    MAX_COUNT,
    MAX_LEASE_MS,
    MAX_LEVELS,
    MAX_MEMBERS,
    MAX_RECORD_BYTES,
    MAX_SEATS,
    VERSION,
    Member,
    Record,
    RecordError,
    decode,
    encode,
    member_key,
    member_name,
    without,
)

NAMES = st.text(min_size=1, max_size=20)
SEATS = st.integers(0, MAX_SEATS)
MEMBERS = st.builds(
    Member,
    beat=st.integers(0, MAX_COUNT),
    lease_ms=st.integers(1, MAX_LEASE_MS),
    limit=SEATS,
    configuration=st.text(max_size=64),
    claim=SEATS,
    used=SEATS,
    demand=st.dictionaries(NAMES, SEATS, max_size=4),
)
RECORDS = st.builds(
    Record,
    version=st.just(VERSION),
    born=st.text(min_size=1, max_size=300),
    writes=st.integers(0, MAX_COUNT),
    members=st.dictionaries(NAMES, MEMBERS, max_size=4),
)
EMPTY = Record(version=VERSION, born="a", writes=0, members={})
MEMBER: dict[str, Any] = {"beat": 1, "leaseMs": 5000, "limit": 600}


def document(**changes: object) -> dict[str, Any]:
    return {"version": VERSION, "born": "a", "writes": 1, "members": {"a#1": MEMBER}} | changes


def with_member(**changes: object) -> dict[str, Any]:
    return document(members={"a#1": MEMBER | changes})


@given(record=RECORDS)
def test_what_is_written_is_read(record: Record) -> None:
    data = encode(record)
    assert record == decode(data)
    assert data == encode(decode(data))


@given(data=st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    problem = ""
    try:
        decode(data)
    except RecordError as error:
        problem = str(error)
    assert len(problem.splitlines()) <= 1


OTHERS: list[Any] = [
    *({"born": each} for each in ("", "a" * 301, 7)),
    {"version": "1"},
    *({"writes": each} for each in (-1, MAX_COUNT + 1)),
    {"members": []},
    *({"members": each} for each in ({"a": 1}, {"": MEMBER}, {"a" * 263: MEMBER})),
    {"members": {f"a{each}": MEMBER for each in range(MAX_MEMBERS + 1)}},
]
OTHER_MEMBERS: list[Any] = [
    *({"beat": each} for each in (-1, MAX_COUNT + 1, 1.5, True, None)),
    *({"leaseMs": each} for each in (0, MAX_LEASE_MS + 1)),
    {"limit": MAX_SEATS + 1},
    *({"claim": each} for each in (-1, "7")),
    {"configuration": "a" * 65},
    *({"demand": each} for each in ({"a": -1}, {"a": 10**400}, {"": 1})),
    {"demand": {f"a{each}": 1 for each in range(MAX_LEVELS + 1)}},
]


@pytest.mark.parametrize(
    "found",
    [[], None, {}, *(document(**each) for each in OTHERS)]
    + [with_member(**each) for each in OTHER_MEMBERS],
)
def test_wrong(found: object) -> None:
    with pytest.raises(RecordError, match=r"^it has no record of a fleet: [^\n]*$"):
        decode(json.dumps(found).encode())


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff\xfe", id="no-text"),
        pytest.param(b'{"version":1,"born":"\xff","writes":1,"members":{}}', id="half-a-character"),
        pytest.param(encode(EMPTY)[:-1], id="cut"),
        pytest.param(encode(EMPTY) + b"}", id="trailing"),
        pytest.param(b'{"x":' * 100_000 + b"1" + b"}" * 100_000, id="deep-object"),
        pytest.param(b'{"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}", id="deep-list"),
        pytest.param(b'{"version":NaN,"born":"a","writes":1,"members":{}}', id="not-a-number"),
    ],
)
def test_hostile_bytes(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode(data)


def test_too_long() -> None:
    with pytest.raises(RecordError, match=f"it has {MAX_RECORD_BYTES + 1} bytes"):
        decode(b" " * (MAX_RECORD_BYTES + 1))


def test_another_version() -> None:
    """Records of other versions are refused with what to do; so members of two take no part."""
    with pytest.raises(RecordError, match="it has version 2, and this program writes 1; have all"):
        decode(json.dumps(document(version=2)).encode())


def test_unknown_fields() -> None:
    assert decode(json.dumps(document()).encode()) == decode(
        json.dumps(with_member(later=[1]) | {"later": {}}).encode()
    )


def test_keys() -> None:
    assert "a#0000002a" == member_key("a", 42)
    assert "a" == member_name("a#0000002a")
    assert "a#b" == member_name(member_key("a#b", 7))
    assert "a" == member_name("a")


@given(record=RECORDS, name=NAMES, lives=st.integers(0, 2))
def test_without(record: Record, name: str, lives: int) -> None:
    others = {key: each for key, each in record.members.items() if member_name(key) != name}
    own = {member_key(name, life): Member(beat=1, lease_ms=1, limit=1) for life in range(lives)}
    before = msgspec.structs.replace(record, members=own | others)
    left = without(before, name)
    assert others == left.members
    assert (left is before) == (not lives)
