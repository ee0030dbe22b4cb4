"""Tests of managed fields entries."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apfproxy.apiserver.ownership.entries import (
    APPLY,
    UPDATE,
    Identity,
    Managers,
    Owned,
    cap_updaters,
    entries_of,
    identity,
    managers_of,
    sent_managers,
)
from apfproxy.apiserver.ownership.field_set import FieldSetError
from tests.apiserver.ownership.schemas import LATER, TIME, VERSION


def entry(**changes: object) -> dict[str, Any]:
    """An entry, with changes; None takes a field away."""
    result = {
        "manager": "m",
        "operation": UPDATE,
        "apiVersion": VERSION,
        "time": TIME,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:size": {}}},
        **changes,
    }
    return {name: value for name, value in result.items() if value is not None}


ENTRIES = [
    entry(operation=APPLY, manager="b"),
    entry(operation=APPLY, manager="a", time=LATER),
    entry(manager=None, time=None),
    entry(apiVersion="example.com/v0"),
    entry(),
    entry(subresource="status"),
    entry(manager="a", time=LATER),
]


def test_entries_are_read_and_written_in_order() -> None:
    """Appliers come first; then age, manager, version and subresource decide."""
    for way in (ENTRIES, ENTRIES[::-1]):
        assert ENTRIES == entries_of(managers_of(way))
        assert ENTRIES == entries_of(sent_managers(copy.deepcopy(way)))


def test_fields_of_an_entry_are_written_as_go_does() -> None:
    """A new entry has its fields in the order of Kubernetes, and its set in order too."""
    key = identity("", UPDATE, VERSION, "status")
    written = entries_of({key: Owned({"f:b": {}, "f:a": {}}, VERSION, TIME)})

    expected = entry(manager="unknown", fieldsV1={"f:a": {}, "f:b": {}}, subresource="status")
    assert repr([expected]) == repr(written)


def test_appliers_have_one_entry_for_all_versions() -> None:
    """Who applies in another version has the same entry."""
    assert identity("m", APPLY, "v1", "") == identity("m", APPLY, "v2", "")
    assert identity("m", UPDATE, "v1", "") != identity("m", UPDATE, "v2", "")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param({}, "must be a list", id="no-list"),
        pytest.param([1], "an entry has no", id="no-entry"),
        pytest.param([entry(operation="Patch")], "an entry has no", id="operation"),
        pytest.param([entry(apiVersion="")], "an entry has no", id="version"),
        pytest.param([entry(fieldsType=None)], "an entry has no", id="no-type"),
        pytest.param([entry(), entry(fieldsType="V2")], "an entry has no", id="type"),
        pytest.param([entry(fieldsV1=[])], "must be an object", id="fields"),
    ],
)
def test_invalid_entries_are_refused(raw: object, message: str) -> None:
    """What a client sends is checked."""
    with pytest.raises(FieldSetError, match=message):
        sent_managers(raw)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param(Identity("m", APPLY, "", ""), '"m"', id="applier"),
        pytest.param(Identity("m", UPDATE, "v1", ""), '"m" using v1', id="updater"),
        pytest.param(
            Identity("m", UPDATE, "v1", "status"),
            '"m" with subresource "status" using v1',
            id="subresource",
        ),
    ],
)
def test_managers_are_shown_as_kubernetes_does(key: Identity, expected: str) -> None:
    """Messages about conflicts name updaters with their version."""
    assert expected == key.shown


def updaters(*versions_and_times: tuple[str, str]) -> Managers:
    """Updaters `m0`, `m1`, ... that own a field each."""
    return {
        Identity(f"m{i}", UPDATE, version, ""): Owned({f"f:{i}": {}}, version, time)
        for i, (version, time) in enumerate(versions_and_times)
    }


def shown(managers: Managers) -> dict[str, tuple[set[str], str]]:
    """Manager and version to the names of fields, and the time."""
    return {
        f"{key.manager} {key.api_version}": (set(owned.fields), owned.time)
        for key, owned in managers.items()
    }


def test_ten_updaters_are_kept_apart() -> None:
    """Up to ten updaters, and any number of appliers, keep their entries."""
    managers = updaters(*[("v1", TIME)] * 10)
    managers[Identity("a", APPLY, "", "")] = Owned({"f:a": {}}, "v1", TIME)
    before = dict(managers)
    cap_updaters(managers)

    assert before == managers


def test_the_oldest_updaters_are_merged() -> None:
    """More than ten become ten, by merging the oldest of one version."""
    managers = updaters(("v1", LATER), ("v2", ""), *[("v1", TIME)] * 10)
    cap_updaters(managers)

    assert 10 == len(managers)
    # Sorted as text, m10 and m11 come before m2.
    assert ({"f:10", "f:11", "f:2"}, TIME) == shown(managers)["ancient-changes v1"]
    assert ({"f:1"}, "") == shown(managers)["m1 v2"]


def test_what_is_ancient_takes_in_more() -> None:
    """The entry of the oldest changes, once there, is the one that others are merged into."""
    managers = updaters(("v1", TIME), ("v1", LATER), *[("v1", "2026-02-01T00:00:00Z")] * 8)
    managers[Identity("ancient-changes", UPDATE, "v1", "")] = Owned({"f:old": {}}, "v1", "")
    cap_updaters(managers)

    assert 10 == len(managers)
    assert ({"f:old", "f:0"}, TIME) == shown(managers)["ancient-changes v1"]


def test_a_younger_ancient_entry_takes_in_what_is_older() -> None:
    """The oldest entry goes into that of the oldest changes, although that is younger."""
    managers = updaters(("v1", TIME), *[("v1", "2026-02-01T00:00:00Z")] * 9)
    managers[Identity("ancient-changes", UPDATE, "v1", "")] = Owned({"f:old": {}}, "v1", LATER)
    cap_updaters(managers)

    assert 10 == len(managers)
    assert ({"f:old", "f:0"}, LATER) == shown(managers)["ancient-changes v1"]


def test_updaters_of_many_versions_cannot_be_merged() -> None:
    """Entries of different versions stay, however many there are."""
    managers = updaters(*[(f"v{i}", TIME) for i in range(12)])
    cap_updaters(managers)

    assert 12 == len(managers)
