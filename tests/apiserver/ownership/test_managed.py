"""Tests of who owns which fields after a write."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from apfproxy.apiserver.ownership.applied import AppliedTypeError
from apfproxy.apiserver.ownership.conflicts import OwnershipConflicts
from apfproxy.apiserver.ownership.field_set import FieldSet, difference, intersection
from apfproxy.apiserver.ownership.last_applied import ANNOTATION
from apfproxy.apiserver.ownership.managed import (
    AppliedObjectError,
    Writer,
    apply,
    keep_times,
    update_managed,
)
from apfproxy.apiserver.ownership.structure import structure
from apfproxy.apiserver.ownership.typed import everything
from tests.apiserver.ownership.schemas import LATER, THING, TIME, VERSION, configuration, thing
from tests.apiserver.ownership.test_typed import specs

Object = dict[str, Any]

TCP = {"port": 80, "protocol": "TCP"}
TCP_ELEMENT = 'k:{"port":80,"protocol":"TCP"}'


def writer(manager: str, **how: Any) -> Writer:  # noqa: ANN401  any option
    """Who writes, in the usual version and at the usual time."""
    return Writer(manager, THING, **{"api_version": VERSION, "time": TIME, **how})


def updated(live: Object | None, new: Object, manager: str = "m", **how: Any) -> Object:  # noqa: ANN401  any option
    """The new object with its managed fields."""
    new = copy.deepcopy(new)
    update_managed(writer(manager, **how), live, new)
    return new


def applied(live: Object | None, patch: Object, manager: str = "m", **how: Any) -> Object:  # noqa: ANN401  any option
    """What applying gives."""
    force = how.pop("force", False)
    return apply(writer(manager, **how), live, patch, force=force)


def owners(obj: Object) -> dict[str, FieldSet]:
    """Manager, operation and subresource to what they own of the spec, or of all there is."""
    return {
        " ".join(
            [entry["manager"], entry["operation"], *filter(None, [entry.get("subresource")])]
        ): entry["fieldsV1"].get("f:spec", entry["fieldsV1"])
        for entry in obj["metadata"].get("managedFields", [])
    }


def times(obj: Object) -> dict[str, str]:
    """Manager to time; "" for none."""
    return {
        entry["manager"]: entry.get("time", "")
        for entry in obj["metadata"].get("managedFields", [])
    }


def test_who_creates_owns_what_differs_from_nothing() -> None:
    """Structs that are always there, and zero values, belong to nobody."""
    new = updated(None, thing(size=1, always={"left": "a"}, maybe={}, ports=[TCP]))

    assert {
        "m Update": {
            "f:always": {"f:left": {}},
            "f:maybe": {},
            "f:ports": {TCP_ELEMENT: {".": {}, "f:port": {}, "f:protocol": {}}},
            "f:size": {},
        }
    } == owners(new)


def test_who_creates_nothing_owns_nothing() -> None:
    """An object in which nothing is set has no managed fields."""
    new = updated(None, thing())

    assert thing() == new


def test_an_object_may_come_without_metadata() -> None:
    """Metadata is made where it is missing."""
    new = updated(None, {"spec": {"size": 1}})

    assert {"m Update": {"f:size": {}}} == owners(new)


def test_who_updates_takes_what_he_changes() -> None:
    """The others keep the rest, and lose what is gone."""
    first = updated(None, thing(size=1, title="a", isOn=True), "one")
    second = updated(first, thing(size=2, title="a"), "two", time=LATER)

    assert {"one Update": {"f:title": {}}, "two Update": {"f:size": {}}} == owners(second)
    assert {"one": TIME, "two": LATER} == times(second)


def test_who_has_lost_everything_is_listed_no_more() -> None:
    """Empty entries go."""
    first = updated(None, thing(size=1), "one")

    assert {"two Update": {"f:size": {}}} == owners(updated(first, thing(size=2), "two"))


def test_what_nothing_changes_leaves_the_times() -> None:
    """An entry has the time of its last change."""
    first = updated(None, thing(size=1), "one")
    second = updated(first, thing(size=1), "two", time=LATER)

    assert first == second


def test_an_entry_grows_with_every_update() -> None:
    """The time of an entry changes with its fields."""
    first = updated(None, thing(size=1))
    second = updated(first, thing(size=1, title="a"), time=LATER)

    assert {"m Update": {"f:size": {}, "f:title": {}}} == owners(second)
    assert {"m": LATER} == times(second)


def test_entries_of_subresources_and_versions_are_apart() -> None:
    """The same manager has an entry for each."""
    first = updated(None, thing(size=1))
    second = updated(first, thing(size=1, title="a"), api_version="example.com/v2")
    third = updated(
        second, {**thing(size=1, title="a"), "status": {"phase": "x"}}, subresource="status"
    )

    assert [(VERSION, None), (VERSION, "status"), ("example.com/v2", None)] == [
        (entry["apiVersion"], entry.get("subresource"))
        for entry in third["metadata"]["managedFields"]
    ]


def test_entries_of_unknown_versions_are_forgotten() -> None:
    """Who owns fields in a version that the kind does not have owns none after the next write."""
    known = frozenset({VERSION})
    live = updated(None, thing(size=1), "first", api_version="other/v1")

    assert {"second Update": {"f:size": {}}} == owners(
        updated(live, thing(size=2), "second", known=known)
    )
    patch = configuration(title="x")
    assert ["second Apply"] == list(owners(applied(live, patch, "second", known=known)))


def test_reset_fields_are_not_owned_nor_taken() -> None:
    """What a kind of write cannot change it does not own, at the root or below."""
    first = updated(None, thing(size=1, title="a"), "one")
    second = updated(
        first, thing(size=2, title="b", isOn=True), "two", reset=(("spec", "size"), ("status",))
    )
    third = updated(first, thing(size=2), "two", reset=(("spec",),))

    assert {"one Update": {"f:size": {}}, "two Update": {"f:isOn": {}, "f:title": {}}} == owners(
        second
    )
    assert owners(first) == owners(third)


def with_entries(obj: Object, entries: object) -> Object:
    """The object as a client sends it with managed fields."""
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}


SENT = {
    "manager": "sent",
    "operation": "Update",
    "apiVersion": VERSION,
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:spec": {"f:title": {}}},
}


@pytest.mark.parametrize(
    ("sent", "how", "expected"),
    [
        pytest.param([SENT], {}, {"sent": {"f:title": {}}, "m": {"f:isOn": {}}}, id="valid"),
        pytest.param(
            [{**SENT, "operation": "x"}],
            {},
            {"one": {"f:size": {}, "f:title": {}}, "m": {"f:isOn": {}}},
            id="invalid-ones-do-not-count",
        ),
        pytest.param(
            [SENT],
            {"subresource": "scale"},
            {"one": {"f:size": {}, "f:title": {}}, "m": {"f:isOn": {}}},
            id="subresource",
        ),
        pytest.param([], {}, {}, id="empty-resets"),
        pytest.param([{}], {}, {}, id="empty-entry-resets"),
        pytest.param(
            None, {}, {"one": {"f:size": {}, "f:title": {}}, "m": {"f:isOn": {}}}, id="none"
        ),
    ],
)
def test_clients_may_send_managed_fields(
    sent: list[Object] | None, how: dict[str, Any], expected: dict[str, FieldSet]
) -> None:
    """What a client says counts, if it is valid; an object without any stays so."""
    live = updated(None, thing(size=1, title="a"), "one")
    new = updated(live, with_entries(thing(size=1, title="a", isOn=True), sent), **how)

    assert expected == {name.split()[0]: fields for name, fields in owners(new).items()}


def test_entries_that_come_back_as_stored_are_kept() -> None:
    """A client that reads, changes and writes sends the stored entries."""
    live = updated(None, thing(size=1), "one")
    new = updated(live, with_entries(thing(size=2), live["metadata"]["managedFields"]))

    assert {"m Update": {"f:size": {}}} == owners(new)


def test_a_creation_may_bring_entries() -> None:
    """Entries that a client creates an object with lose what is set now."""
    new = updated(None, with_entries(thing(size=1, title="a"), [SENT]))

    assert {"m Update": {"f:size": {}, "f:title": {}}} == owners(new)


def test_a_creation_may_reset() -> None:
    """There is nothing to reset in a creation: account is taken as always."""
    assert {"m Update": {"f:size": {}}} == owners(updated(None, with_entries(thing(size=1), [{}])))


def test_an_object_without_managed_fields_stays_so() -> None:
    """Who updates an object that nobody owns anything of owns nothing of it."""
    assert {} == owners(updated(thing(), thing(size=1)))


def test_items_without_keys_change_nothing() -> None:
    """Where the owner cannot be told, all stays as it was."""
    live = updated(None, thing(size=1), "one")

    assert owners(live) == owners(updated(live, thing(size=2, ports=[{"name": "a"}])))


def test_only_ten_updaters_are_kept() -> None:
    """The oldest ones are merged."""
    obj = updated(None, thing(limits={"m0": "1"}), "m0")
    for i in range(1, 12):
        limits = {**obj["spec"]["limits"], f"m{i}": "1"}
        obj = updated(obj, thing(limits=limits), f"m{i}", time=f"2026-01-01T00:00:{i:02d}Z")

    assert 10 == len(owners(obj))
    assert {"f:limits": {".": {}, "f:m0": {}, "f:m1": {}, "f:m2": {}}} == owners(obj)[
        "ancient-changes Update"
    ]


def test_who_applies_owns_what_he_says() -> None:
    """A creation by applying has what the configuration has."""
    obj = applied(None, configuration(size=0, limits={"a": "1"}, ports=[{"port": 80}]))

    assert thing(limits={"a": "1"}, ports=[{"port": 80}])["spec"] == obj["spec"]
    assert {
        "m Apply": {
            "f:limits": {"f:a": {}},
            "f:ports": {TCP_ELEMENT: {".": {}, "f:port": {}}},
            "f:size": {},
        }
    } == owners(obj)
    assert {"m": TIME} == times(obj)


def test_an_apply_of_nothing_owns_nothing() -> None:
    """A configuration without fields of its own makes an object without managed fields."""
    assert {"metadata": {"name": "one"}, "spec": thing()["spec"], "status": {}} == {
        name: value
        for name, value in applied(None, configuration()).items()
        if name not in {"apiVersion", "kind"}
    }


def test_applying_the_same_again_changes_nothing() -> None:
    """An apply without effect leaves the object as it is, times included."""
    patch = configuration(size=1, ports=[{"port": 80}])
    first = applied(None, patch)

    assert first == applied(first, patch, time=LATER)


def test_others_may_apply_the_same() -> None:
    """Both own it; an entry that changes nothing in the object has no time."""
    first = applied(None, configuration(size=1), "one")
    second = applied(first, configuration(size=1), "two", time=LATER)

    assert {"one Apply": {"f:size": {}}, "two Apply": {"f:size": {}}} == owners(second)
    assert {"one": TIME, "two": ""} == times(second)


def test_changing_what_others_own_is_a_conflict() -> None:
    """The error names every field, its owner, and how he wrote it."""
    live = applied(None, configuration(size=1, limits={"a": "1"}), "one")
    live = updated(live, {**live, "spec": {**live["spec"], "title": "a"}}, "two")

    with pytest.raises(OwnershipConflicts) as caught:
        applied(live, configuration(size=2, limits={"a": "2"}, title="b"), "three")

    assert [
        ('"one"', ".spec.limits.a"),
        ('"one"', ".spec.size"),
        (f'"two" using {VERSION}', ".spec.title"),
    ] == sorted(caught.value.conflicts)


def test_force_takes_what_others_own() -> None:
    """The others lose what is changed, and keep the rest."""
    live = applied(None, configuration(size=1, title="a"), "one")
    new = applied(live, configuration(size=2, title="a"), "two", force=True, time=LATER)

    assert 2 == new["spec"]["size"]
    assert {
        "one Apply": {"f:title": {}},
        "two Apply": {"f:size": {}, "f:title": {}},
    } == owners(new)
    assert {"one": TIME, "two": LATER} == times(new)


def test_what_is_no_longer_applied_goes() -> None:
    """Unless somebody else owns it."""
    live = applied(None, configuration(size=1, title="a", limits={"a": "1", "b": "1"}), "one")
    live = applied(live, configuration(title="a"), "two")
    new = applied(live, configuration(limits={"b": "1"}), "one", time=LATER)

    assert {"title": "a", "limits": {"b": "1"}, "always": {}, "ports": None} == new["spec"]
    assert {"one Apply": {"f:limits": {"f:b": {}}}, "two Apply": {"f:title": {}}} == owners(new)


def test_giving_up_what_others_own_leaves_the_object() -> None:
    """Only the set becomes smaller; the object has not changed, so that the time stays."""
    live = applied(None, configuration(size=1, title="a"), "one")
    live = applied(live, configuration(size=1), "two")
    new = applied(live, configuration(title="a"), "one", time=LATER)

    assert live["spec"] == new["spec"]
    assert {"one Apply": {"f:title": {}}, "two Apply": {"f:size": {}}} == owners(new)
    assert {"one": TIME, "two": ""} == times(new)


def test_giving_up_everything_ends_the_entry() -> None:
    """Who applies nothing any more is not listed."""
    live = applied(None, configuration(size=1, title="a"), "one")
    live = applied(live, configuration(size=1), "two")

    assert {"two Apply": {"f:size": {}}} == owners(applied(live, configuration(), "one"))


def test_applying_in_another_version_has_the_same_entry() -> None:
    """The entry takes the new version, and the time if the object has changed."""
    live = applied(None, configuration(size=1))
    patch = {**configuration(size=1), "apiVersion": "example.com/v2"}
    entries = applied(live, patch, api_version="example.com/v2")["metadata"]["managedFields"]

    assert ["example.com/v2"] == [entry["apiVersion"] for entry in entries]


def test_what_was_there_before_the_first_apply_has_an_owner() -> None:
    """An object without managed fields is taken to have been written by one manager."""
    live = thing(size=1, title="a")

    assert {
        "before-first-apply Update": {"f:size": {}, "f:title": {}},
        "m Apply": {"f:size": {}},
    } == owners(applied(live, configuration(size=1)))
    with pytest.raises(OwnershipConflicts, match="before-first-apply"):
        applied(live, configuration(size=2))


def test_reset_fields_are_not_applied_for() -> None:
    """What this kind of write cannot change belongs not to who applies it."""
    patch = {**configuration(size=1, title="a"), "status": {"phase": "x"}}
    new = applied(None, patch, reset=(("status",), ("spec", "size")))

    assert {"m Apply": {"f:title": {}}} == owners(new)


def test_kubectl_takes_over_from_client_side_apply() -> None:
    """What the annotation says, and nobody has changed since, kubectl may change."""
    last = json.dumps(configuration(size=1, title="a"))
    live: Object = thing(size=1, title="b", isOn=True)
    live["metadata"] = {"name": "one", "annotations": {ANNOTATION: last}}
    live = updated(None, live, "kubectl-client-side-apply")

    new = applied(live, configuration(size=2), "kubectl")

    assert 2 == new["spec"]["size"]
    assert configuration(size=2) == json.loads(new["metadata"]["annotations"][ANNOTATION])
    assert last == live["metadata"]["annotations"][ANNOTATION]
    with pytest.raises(OwnershipConflicts) as caught:
        applied(live, configuration(size=2, title="c"), "kubectl")
    assert [(f'"kubectl-client-side-apply" using {VERSION}', ".spec.title")] == (
        caught.value.conflicts
    )
    with pytest.raises(OwnershipConflicts):
        applied(live, configuration(size=2), "other")


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        pytest.param(
            with_entries(configuration(), []), "metadata.managedFields must be nil", id="managed"
        ),
    ],
)
def test_what_is_no_configuration_is_refused(patch: Object, message: str) -> None:
    """A configuration is of the right kind and version, and has no managed fields."""
    with pytest.raises(AppliedObjectError, match=message):
        applied(None, patch)


def test_what_has_not_the_types_of_its_kind_is_refused() -> None:
    """Unknown fields fail the whole apply."""
    with pytest.raises(AppliedTypeError, match=r"\.spec\.bogus: field not declared in schema"):
        applied(None, configuration(bogus=1))


def test_what_leaves_an_item_without_its_key_is_refused() -> None:
    """Entries that a client has made up can claim a key and not the item."""
    claims: list[tuple[str, FieldSet]] = [
        ("m", {".": {}, "f:port": {}, "f:protocol": {}}),
        ("other", {".": {}, "f:protocol": {}}),
    ]
    sent = [
        {
            **SENT,
            "operation": "Apply",
            "manager": manager,
            "fieldsV1": {"f:spec": {"f:ports": {TCP_ELEMENT: fields}}},
        }
        for manager, fields in claims
    ]
    live = with_entries(thing(ports=[TCP]), sent)

    with pytest.raises(AppliedTypeError, match="failed to compare objects: "):
        applied(live, configuration(size=0))


def test_an_apply_changes_no_argument() -> None:
    """The result shares nothing that its user may change."""
    live = applied(None, configuration(words=["a"], limits={"a": "1"}), "one")
    patch = configuration(pairs=[{"left": "a"}])
    before = copy.deepcopy((live, patch))
    new = applied(live, patch, "two")
    new["spec"]["words"].append("b")
    new["spec"]["pairs"][0]["left"] = "b"
    new["spec"]["limits"]["b"] = "1"
    new["metadata"]["managedFields"].clear()

    assert before == (live, patch)


def test_times_are_kept_where_nothing_has_changed() -> None:
    """A write that came to nothing is none."""
    old = applied(None, configuration(size=1))
    new = copy.deepcopy(old)
    new["metadata"]["resourceVersion"] = "2"
    new["metadata"]["managedFields"][0]["time"] = LATER
    keep_times(new, old)

    assert {"m": TIME} == times(new)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"spec": {}}, id="spec"),
        pytest.param({"metadata": {"labels": {"a": "b"}}}, id="labels"),
        pytest.param({"entry": {"manager": "x"}}, id="owner"),
        pytest.param({"more": [SENT]}, id="more-owners"),
    ],
)
def test_times_change_where_anything_has(change: dict[str, Any]) -> None:
    """A change of the object or of its owners has its time."""
    old = applied(None, configuration(size=1))
    new = {**copy.deepcopy(old), "spec": change.get("spec", old["spec"])}
    new["metadata"].update(change.get("metadata", {}))
    new["metadata"]["managedFields"][0].update(time=LATER, **change.get("entry", {}))
    new["metadata"]["managedFields"] += change.get("more", [])
    keep_times(new, old)

    assert LATER == new["metadata"]["managedFields"][0]["time"]


def test_objects_without_managed_fields_have_no_times() -> None:
    """Nothing is kept where nothing is."""
    new = thing()
    keep_times(new, thing(size=1))

    assert thing() == new


def all_owned(obj: Object) -> list[FieldSet]:
    """The set of each entry."""
    return [entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])]


@given(specs, specs, specs)
def test_nobody_owns_what_is_not_there(one: Object, two: Object, three: Object) -> None:
    """After any updates and a forced apply, all that is owned is in the object."""
    obj = updated(updated(None, thing(**one), "a"), thing(**two), "b")
    there = everything(structure(THING), obj)

    assert [{}] * len(all_owned(obj)) == [difference(fields, there) for fields in all_owned(obj)]

    obj = applied(obj, configuration(**three), "c", force=True)
    there = everything(structure(THING), obj)

    assert [{}] * len(all_owned(obj)) == [difference(fields, there) for fields in all_owned(obj)]


@given(specs, specs)
def test_updaters_own_nothing_twice(one: Object, two: Object) -> None:
    """What one updater takes the other has lost."""
    obj = updated(updated(None, thing(**one), "a"), thing(**two), "b")
    sets = all_owned(obj)

    assert len(sets) < 2 or {} == intersection(*sets)


@given(specs, specs)
def test_applying_twice_is_applying_once(live: Object, patch: Object) -> None:
    """A forced apply repeated neither conflicts nor changes anything."""
    base = updated(None, thing(**live), "a")
    once = applied(base, configuration(**patch), "b", force=True)

    assert once == applied(once, configuration(**patch), "b", time=LATER)


@given(st.dictionaries(st.sampled_from("abcd"), st.sampled_from("12"), min_size=1))
def test_who_owns_nothing_in_common_does_not_conflict(limits: dict[str, str]) -> None:
    """Appliers of different keys leave each other alone."""
    assume(any(key in limits for key in "ab"))
    one = {key: value for key, value in limits.items() if key in "ab"}
    two = {key: value for key, value in limits.items() if key not in "ab"}
    obj = applied(applied(None, configuration(limits=one), "one"), configuration(limits=two), "two")

    assert limits == obj["spec"]["limits"]
