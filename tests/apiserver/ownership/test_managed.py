"""Tests of who owns which fields after a write."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.ownership.field_set import FieldSet, difference, intersection
from apfproxy.apiserver.ownership.managed import (
    ANNOTATION,
    APPLY,
    MOST_ANNOTATIONS,
    UPDATE,
    Identity,
    Managers,
    Writer,
    apply,
    cap_updaters,
    entry_of,
    keep_times,
    managers_of,
    record,
    sent_managers,
    update_managed,
)
from apfproxy.apiserver.ownership.typed import everything, node_of
from tests.apiserver.ownership.schemas import (
    LATER,
    THING,
    TIME,
    VERSION,
    Object,
    configuration,
    of_paths,
    specs,
    thing,
)

SENT = {
    "manager": "sent",
    "operation": "Update",
    "apiVersion": VERSION,
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:spec": {"f:title": {}}},
}


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


def owners(obj: Object) -> dict[str, str]:
    """Manager to the names of the fields of the spec that it owns."""
    return {
        entry["manager"]: " ".join(entry["fieldsV1"].get("f:spec", {})).replace("f:", "")
        for entry in obj["metadata"].get("managedFields", [])
    }


def times(obj: Object) -> dict[str, str]:
    """Manager to time; "" for none."""
    return {
        entry["manager"]: entry.get("time", "")
        for entry in obj["metadata"].get("managedFields", [])
    }


def all_owned(obj: Object) -> list[FieldSet]:
    """The set of each entry."""
    return [entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])]


def with_entries(obj: Object, entries: object) -> Object:
    """The object as a client sends it with managed fields."""
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}


def test_who_creates_owns_what_differs_from_nothing() -> None:
    """Structs that are always there, and zero values, belong to nobody."""
    new = updated(None, {"spec": thing(size=1, maybe={}, ports=None)["spec"]}, "")

    assert {"unknown": "maybe size"} == owners(new)
    assert {"unknown": TIME} == times(new)
    assert thing() == updated(None, thing())


def test_who_updates_takes_what_he_changes() -> None:
    """The others keep the rest, lose what is gone, and are listed while they own anything."""
    first = updated(None, thing(size=1, title="a", isOn=True), "one")
    second = updated(first, thing(size=2, title="a"), "two", time=LATER)
    third = updated(second, thing(size=2, title="b"), "two", time=LATER)

    assert {"one": "title", "two": "size"} == owners(second)
    assert {"one": TIME, "two": LATER} == times(second)
    assert {"two": "size title"} == owners(third)
    assert first == updated(first, thing(size=1, title="a", isOn=True), "two", time=LATER)


def test_entries_of_subresources_and_versions_are_apart() -> None:
    """The same manager has an entry for each; unknown versions are forgotten."""
    first = updated(None, thing(size=1))
    second = updated(first, thing(size=1, title="a"), api_version="example.com/v2")
    last = {**thing(size=1, title="a"), "status": {"phase": "x"}}
    third = updated(second, last, subresource="status")

    entries = third["metadata"]["managedFields"]
    assert [(VERSION, None), (VERSION, "status"), ("example.com/v2", None)] == [
        (entry["apiVersion"], entry.get("subresource")) for entry in entries
    ]
    known = frozenset({"example.com/v2"})
    assert {"m": "title", "x": "size"} == owners(
        updated(third, {**last, "spec": {**last["spec"], "size": 2}}, "x", known=known)
    ) | {"x": "size"}
    assert ["example.com/v2"] == [
        entry["apiVersion"]
        for entry in applied(third, configuration(), known=known)["metadata"]["managedFields"]
    ]


def test_reset_fields_are_neither_owned_nor_taken() -> None:
    """What a kind of write cannot change it does not own, at the root or below."""
    first = updated(None, thing(size=1, title="a"), "one")
    reset = (("spec", "size"), ("status",))
    patch = {**configuration(size=1, title="a"), "status": {"phase": "x"}}

    assert {"one": "size", "two": "isOn title"} == owners(
        updated(first, thing(size=2, title="b", isOn=True), "two", reset=reset)
    )
    assert owners(first) == owners(updated(first, thing(size=2), "two", reset=(("spec",),)))
    assert [{"f:spec": {"f:title": {}}}] == all_owned(applied(None, patch, reset=reset))


@pytest.mark.parametrize(
    ("sent", "how", "expected"),
    [
        pytest.param([SENT], {}, {"sent": "title", "m": "isOn"}, id="valid"),
        pytest.param(
            [{**SENT, "operation": "x"}], {}, {"one": "size title", "m": "isOn"}, id="invalid"
        ),
        pytest.param(
            [SENT],
            {"subresource": "scale"},
            {"one": "size title", "m": "isOn"},
            id="subresource",
        ),
        pytest.param([], {}, {}, id="empty-resets"),
        pytest.param([{}], {}, {}, id="empty-entry-resets"),
        pytest.param(None, {}, {"one": "size title", "m": "isOn"}, id="none"),
    ],
)
def test_clients_may_send_managed_fields(
    sent: list[Object] | None, how: dict[str, Any], expected: dict[str, str]
) -> None:
    """What a client says counts, if it is valid; an object without any stays so."""
    live = updated(None, thing(size=1, title="a"), "one")
    new = updated(live, with_entries(thing(size=1, title="a", isOn=True), sent), **how)

    assert expected == owners(new)


def test_entries_of_creations_and_those_that_come_back() -> None:
    """A creation's entries lose what is set now; stored entries that are sent again are kept."""
    live = updated(None, thing(size=1), "one")
    again = updated(live, with_entries(thing(size=2), live["metadata"]["managedFields"]))

    assert {"m": "size"} == owners(again)
    assert {"m": "size title"} == owners(
        updated(None, with_entries(thing(size=1, title="a"), [SENT]))
    )
    assert {"m": "size"} == owners(updated(None, with_entries(thing(size=1), [{}])))
    assert {} == owners(updated(thing(), thing(size=1)))
    assert owners(live) == owners(updated(live, thing(size=2, ports=[{"name": "a"}])))


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({}, id="no-list"),
        pytest.param([1], id="no-entry"),
        pytest.param([{**SENT, "apiVersion": ""}], id="version"),
        pytest.param([SENT, {**SENT, "fieldsType": "V2"}], id="type"),
        pytest.param([{**SENT, "fieldsV1": []}], id="fields"),
    ],
)
def test_invalid_entries_are_refused(raw: object) -> None:
    """What a client sends is checked: all of it counts, or nothing."""
    with pytest.raises(ValueError, match=r"must be|an entry has no"):
        sent_managers(raw)


def test_entries_are_read_and_written_in_order() -> None:
    """Appliers come first; then age, manager, version and subresource decide."""
    names = ["manager", "operation", "apiVersion", "time", "subresource"]
    cells = [
        ("b", APPLY, VERSION, TIME),
        ("a", APPLY, VERSION, LATER),
        ("", UPDATE, VERSION, ""),
        ("m", UPDATE, "example.com/v0", TIME),
        ("m", UPDATE, VERSION, TIME),
        ("m", UPDATE, VERSION, TIME, "status"),
        ("a", UPDATE, VERSION, LATER),
    ]
    entries = [
        {name: cell for name, cell in zip(names, row, strict=False) if cell}
        | {"fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}
        for row in cells
    ]
    metadata: Object = {}
    for way in (entries, entries[::-1]):
        for managers in (managers_of(way), sent_managers(copy.deepcopy(way))):
            record(metadata, managers)
            assert entries == metadata["managedFields"]


def updaters(*versions_and_times: tuple[str, str], **more: str) -> Managers:
    """Updaters `m0`, `m1`, ... of a field each, and others of version 1 by name and time."""
    rows = [(f"m{i}", *each) for i, each in enumerate(versions_and_times)]
    rows += [(name.replace("_", "-"), "v1", time) for name, time in more.items()]
    keys = {Identity(name, UPDATE, version, ""): time for name, version, time in rows}
    return {
        key: entry_of(key, key.api_version, time, {f"f:{key.manager}": {}})
        for key, time in keys.items()
    }


MARCH = "2026-03-01T00:00:00Z"


@pytest.mark.parametrize(
    ("managers", "count", "ancient"),
    [
        pytest.param(updaters(*[("v1", TIME)] * 10), 10, "", id="ten"),
        # Sorted as text, m10 and m11 come before m2.
        pytest.param(
            updaters(("v1", LATER), ("v2", ""), *[("v1", TIME)] * 10),
            10,
            f"m10 m11 m2 {TIME}",
            id="two-too-many",
        ),
        pytest.param(
            updaters(("v1", TIME), ("v1", LATER), *[("v1", MARCH)] * 8, ancient_changes=""),
            10,
            f"ancient-changes m0 {TIME}",
            id="older-bucket",
        ),
        pytest.param(
            updaters(("v1", TIME), *[("v1", MARCH)] * 9, ancient_changes=LATER),
            10,
            f"ancient-changes m0 {LATER}",
            id="younger-bucket",
        ),
        pytest.param(
            updaters(*[(f"v{i}", TIME) for i in range(12)]), 12, "", id="of-many-versions"
        ),
    ],
)
def test_the_oldest_updaters_are_merged(managers: Managers, count: int, ancient: str) -> None:
    """More than ten become ten, by merging the oldest of one version; appliers do not count."""
    applier = Identity("a", APPLY, "", "")
    managers = {**managers, applier: entry_of(applier, "v1", TIME, {"f:a": {}})}
    cap_updaters(managers)

    bucket = managers.get(Identity("ancient-changes", UPDATE, "v1", ""), {"fieldsV1": {}})
    shown = [*bucket["fieldsV1"], bucket.get("time", "")]
    assert count + 1 == len(managers)
    assert ancient == " ".join(shown).replace("f:", "")


def test_who_applies_owns_what_he_says() -> None:
    """An apply of nothing owns nothing; the same again changes nothing, times included."""
    patch = configuration(size=0, limits={"a": "1"}, ports=[{"port": 80}])
    obj = applied(None, patch)

    assert thing(limits={"a": "1"}, ports=[{"port": 80}])["spec"] == obj["spec"]
    assert {"m": "limits ports size"} == owners(obj)
    assert obj == applied(obj, patch, time=LATER)
    assert "managedFields" not in applied(None, configuration())["metadata"]
    assert {} == owners(applied(None, {**configuration(), "metadata": {}}))


def test_others_may_apply_the_same() -> None:
    """Both own it; an entry that changes nothing in the object has no time."""
    first = applied(None, configuration(size=1, title="a"), "one")
    second = applied(first, configuration(size=1), "two", time=LATER)
    third = applied(second, configuration(title="a"), "one", time=LATER)

    assert {"one": TIME, "two": ""} == times(second)
    assert second["spec"] == third["spec"]
    assert {"one": "title", "two": "size"} == owners(third)
    assert {"two": "size"} == owners(applied(second, configuration(), "one"))


def test_what_is_no_longer_applied_goes() -> None:
    """Unless somebody else owns it."""
    live = applied(None, configuration(size=1, title="a", limits={"a": "1", "b": "1"}), "one")
    live = applied(live, configuration(title="a"), "two")
    new = applied(live, configuration(limits={"b": "1"}), "one", time=LATER)

    assert {"title": "a", "limits": {"b": "1"}, "always": {}, "ports": None} == new["spec"]
    assert {"one": "limits", "two": "title"} == owners(new)


def test_changing_what_others_own_is_a_conflict() -> None:
    """Every field is named with its owner, and how he wrote it; force takes what is changed."""
    live = applied(None, configuration(size=1, limits={"a": "1"}, isOn=True), "one")
    live = updated(live, {**live, "spec": {**live["spec"], "title": "a"}}, "two")
    patch = configuration(size=2, limits={"a": "2"}, title="b", isOn=True)

    with pytest.raises(StatusError) as caught:
        applied(live, patch, "three")

    assert (
        'Apply failed with 3 conflicts: conflicts with "one":\n- .spec.limits.a\n- .spec.size\n'
        f'conflicts with "two" using {VERSION}:\n- .spec.title'
    ) == caught.value.message
    assert 409 == caught.value.code
    forced = applied(live, patch, "three", force=True, time=LATER)
    assert {"one": "isOn", "three": "isOn limits size title"} == owners(forced)
    assert {"one": TIME, "three": LATER} == times(forced)


def test_subresources_are_told_in_conflicts() -> None:
    """The owner of a status is named with it."""
    live = {**thing(size=1), "status": {"phase": "x"}}
    live = updated(updated(None, thing(size=1)), live, "s", subresource="status")
    patch = {**configuration(), "status": {"phase": "y"}}

    with pytest.raises(StatusError, match='with "s" with subresource "status" using example'):
        applied(live, patch)


def test_what_was_there_before_the_first_apply_has_an_owner() -> None:
    """An object without managed fields is taken to have been written by one manager."""
    live = thing(size=1, title="a")

    assert {"before-first-apply": "size title", "m": "size"} == owners(
        applied(live, configuration(size=1))
    )
    with pytest.raises(StatusError, match="before-first-apply"):
        applied(live, configuration(size=2))


def annotated(text: str, **spec: object) -> Object:
    """An object with the annotation of client-side apply, by whom that is done."""
    metadata = {"name": "one", "annotations": {ANNOTATION: text, "a": "b"}}
    return updated(None, {**thing(**spec), "metadata": metadata}, "client-side")


LAST = json.dumps(configuration(size=1, title="a", isOn=True))


def test_kubectl_takes_over_from_client_side_apply() -> None:
    """What the annotation says, and nobody has changed since, kubectl may change."""
    live = annotated(LAST, size=1, title="b")
    patch = configuration(size=2)
    patch["metadata"]["annotations"] = {ANNOTATION: LAST, "c": "d"}
    new = applied(live, patch, "kubectl")

    assert 2 == new["spec"]["size"]
    assert {ANNOTATION: LAST, "a": "b"} == live["metadata"]["annotations"]
    assert {
        ANNOTATION: '{"apiVersion":"example.com/v1","kind":"Thing",'
        '"metadata":{"annotations":{"c":"d"},"name":"one"},"spec":{"size":2}}\n',
        "a": "b",
        "c": "d",
    } == new["metadata"]["annotations"]
    with pytest.raises(StatusError, match=r'1 conflict: .*"client-side" using .*: .spec.title'):
        applied(live, configuration(size=2, title="c"), "kubectl")
    with pytest.raises(StatusError):
        applied(live, configuration(size=2), "other")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="no-json"),
        pytest.param("[" * 5000, id="deep"),
        pytest.param("[]", id="no-object"),
        pytest.param(LAST.replace("/v1", "/v2"), id="other-version"),
        pytest.param(LAST.replace('"isOn"', '"bogus"'), id="other-types"),
    ],
)
def test_an_annotation_that_cannot_be_read_allows_nothing(text: str) -> None:
    """Nor is an empty one renewed."""
    with pytest.raises(StatusError, match=r"spec\.size"):
        applied(annotated(text, size=1), configuration(size=2), "kubectl")
    new = applied(annotated(text, size=1), configuration(size=1), "kubectl")
    assert (configuration(size=1) if text else None) == json.loads(
        new["metadata"]["annotations"].get(ANNOTATION) or "null"
    )


def test_an_annotation_that_is_too_large_goes() -> None:
    """What could not be stored is left out; who has no annotation gets none."""
    large = configuration(title="x" * MOST_ANNOTATIONS)

    assert {"a": "b"} == applied(annotated("{}"), large, "kubectl")["metadata"]["annotations"]
    assert "annotations" not in applied(thing(), configuration(), "kubectl")["metadata"]


TCP: FieldSet = {".": {}, "f:port": {}, "f:protocol": {}}
CLAIMS = [
    {
        **SENT,
        "operation": "Apply",
        "manager": manager,
        "fieldsV1": {"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': fields}}},
    }
    for manager, fields in (("m", TCP), ("other", {".": {}, "f:protocol": {}}))
]


@pytest.mark.parametrize(
    ("live", "patch", "code", "message"),
    [
        pytest.param(
            None,
            with_entries(configuration(), []),
            400,
            "metadata.managedFields must be nil",
            id="managed",
        ),
        pytest.param(
            None,
            configuration(x=1, y=2),
            500,
            "failed to create typed patch object (/one; example.com/v1, Kind=Thing): errors:"
            "\n  .spec.x: field not declared in schema\n  .spec.y: field not declared in schema",
            id="types",
        ),
        pytest.param(
            None,
            {**configuration(), "apiVersion": "v1", "metadata": 1},
            500,
            "failed to create typed patch object (/; /v1, Kind=Thing): .metadata: expected map,"
            " got &{1}",
            id="no-metadata",
        ),
        # Entries that a client has made up can claim a key and not the item.
        pytest.param(
            with_entries(thing(ports=[{"port": 80, "protocol": "TCP"}]), CLAIMS),
            configuration(size=0),
            500,
            "failed to compare objects: associative list with keys has an element that omits key"
            ' field "port" (and doesn\'t have default value)',
            id="no-key",
        ),
    ],
)
def test_what_cannot_be_applied_is_refused(
    live: Object | None, patch: Object, code: int, message: str
) -> None:
    """The error says why."""
    with pytest.raises(StatusError) as caught:
        applied(live, patch)

    assert (code, message) == (caught.value.code, caught.value.message)


@given(specs, specs)
def test_times_are_kept_where_nothing_has_changed(one: Object, two: Object) -> None:
    """A write that came to nothing is none; any other change has its time."""
    old = updated(None, thing(**one))
    new = {**copy.deepcopy(old), "spec": thing(**two)["spec"]}
    new["metadata"]["resourceVersion"] = "2"
    for entry in new["metadata"].get("managedFields", []):
        entry["time"] = LATER
    keep_times(new, old)

    assert (TIME if old["spec"] == new["spec"] else LATER) == times(new).get("m", LATER) or (
        not times(old)
    )


@given(specs, specs, specs)
def test_writes_keep_account(one: Object, two: Object, three: Object) -> None:
    """After updates and a forced apply, all that is owned is there, by one updater alone.

    Repeating the apply neither conflicts nor changes anything, and no write changes its arguments.
    """
    first = updated(None, thing(**one), "a")
    before = copy.deepcopy(first)
    second = updated(first, thing(**two), "b")
    third = applied(second, configuration(**three), "c", force=True)

    assert before == first
    assert len(all_owned(second)) < 2 or {} == intersection(*all_owned(second))
    for obj in (first, second, third):
        there = everything(node_of(THING), obj)
        assert all(difference(fields, there) == {} for fields in all_owned(obj))
    before = copy.deepcopy(third)
    again = applied(third, configuration(**three), "c", time=LATER)
    assert before == again
    again["metadata"].clear()
    again["spec"].clear()
    assert before == third


def test_times_of_owners() -> None:
    """Another owner is a change, too."""
    old = applied(None, configuration(size=1))
    new = copy.deepcopy(old)
    new["metadata"]["managedFields"][0].update(time=LATER, manager="x")
    keep_times(new, old)

    assert {"x": LATER} == times(new)
    assert of_paths(("f:spec", "f:size")) == all_owned(new)[0]
