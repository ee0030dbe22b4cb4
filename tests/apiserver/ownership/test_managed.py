"""Tests of who owns which fields after a write."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.ownership.field_set import FieldSet, difference, intersection
from apfproxy.apiserver.ownership.managed import (
    ANNOTATION,
    APPLY,
    MOST_ANNOTATIONS,
    REPLICAS,
    UPDATE,
    Identity,
    Managers,
    Writer,
    apply,
    cap_updaters,
    entry_of,
    keep_times,
    update_managed,
)
from apfproxy.apiserver.ownership.typed import everything, node_of
from apfproxy.objects.documents import LONGEST_PATHS
from tests.apiserver.ownership.schemas import (
    LATER,
    THING,
    TIME,
    VERSION,
    Object,
    configuration,
    rows,
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
    return Writer(manager, THING, **{"api_version": VERSION, "time": TIME, **how})


def updated(live: Object | None, new: Object, manager: str = "m", **how: Any) -> Object:  # noqa: ANN401  any option
    new = copy.deepcopy(new)
    update_managed(writer(manager, **how), live, new)
    return new


def applied(live: Object | None, patch: Object, manager: str = "m", **how: Any) -> Object:  # noqa: ANN401  any option
    force = how.pop("force", False)
    return apply(writer(manager, **how), live, patch, force=force)


def owners(obj: Object) -> str:
    """Owners with the second of their entries and the names of their fields of the spec."""
    return " ".join(
        f"{entry['manager']}@{entry.get('time', '')[17:-1]}:"
        + ",".join(entry["fieldsV1"].get("f:spec", {})).replace("f:", "")
        for entry in obj["metadata"].get("managedFields", [])
    )


def written(steps: str) -> Object:
    """The object after writes (`update`, `apply`, `force`, `disown`) a second apart."""
    obj: Object | None = None
    for second, step in enumerate(steps.split(";")):
        action, manager, text = step.split(maxsplit=2)
        spec, time = msgspec.yaml.decode(text), f"2026-01-01T00:00:{second:02}Z"
        if action in {"update", "disown"}:
            obj = updated(obj, thing(**spec), manager, time=time)
            if action == "disown":
                del obj["metadata"]["managedFields"]
        else:
            patch = configuration(**spec)
            obj = applied(obj, patch, manager, time=time, force=action == "force")
    assert obj is not None
    return obj


def all_owned(obj: Object) -> list[FieldSet]:
    return [entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])]


def with_entries(obj: Object, entries: object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}


@pytest.mark.parametrize(
    ("steps", "expected"),
    rows("""
no keys      | update a {size: 1}; update b {size: 2, ports: [{name: x}]} | a@00:size
again        | apply a {size: 1}; apply a {size: 1}              | a@00:size
gives up     | apply a {size: 1, title: x}; apply a {title: x}   | a@01:title
gives all    | apply a {size: 1}; apply b {size: 1}; apply a {}  | b@:size
keeps others | apply a {size: 1, title: x}; apply b {size: 1}; apply a {title: x}
| b@:size a@00:title
first apply  | disown a {size: 1, title: x}; apply b {size: 1}
| b@:size before-first-apply@01:size,title
"""),
)
def test_owners_after_writes(steps: str, expected: str) -> None:
    assert sorted(expected.split()) == sorted(owners(written(steps)).split())


def test_entries_of_versions_and_subresources_are_apart() -> None:
    first = updated(None, thing(size=1))
    second = updated(first, thing(size=1, title="a"), api_version="example.com/v2")
    last = {**thing(size=1, title="a"), "status": {"phase": "x"}}
    third = updated(second, last, subresource="status")
    known = frozenset({"example.com/v2"})
    patch = {**configuration(), "status": {"phase": "y"}}

    assert 3 == len(all_owned(third))
    assert "m@00:title" == owners(updated(third, last, known=known))
    assert "m@00:title" == owners(applied(third, configuration(), known=known))
    with pytest.raises(StatusError, match='with "m" with subresource "status" using example'):
        applied(third, patch)


@pytest.mark.parametrize(
    ("managers", "before", "after", "expected"),
    [
        ("a", 1, 2, "s@:replicas a@00:size"),
        ("a", 1, 1, "a@:replicas a@00:size"),
        ("ab", 1, 1, "b@00:replicas a@:replicas a@00:size"),
        ("ab", 1, 0, "a@00:size"),
        ("a", 0, 2, "a@00:size"),
        ("b", 1, 0, ""),
    ],
)
def test_scale(managers: str, before: int, after: int, expected: str) -> None:
    """The writer of the replicas has them in an entry without a time."""
    fields: Object = {"f:size": {}, **({"f:replicas": {}} if before else {})}
    entry = {**SENT, "manager": "a", "time": TIME, "fieldsV1": {"f:spec": fields}}
    other = {**entry, "manager": "b", "operation": "Apply", "fieldsV1": REPLICAS}
    entries = [{"a": entry, "b": other}[name] for name in managers]
    live = with_entries(thing(size=1, replicas=before), entries)
    new = updated(live, thing(size=1, replicas=after), "s", subresource="scale")

    assert expected == owners(new)


INVALID: list[Any] = [
    None,
    {},
    [1],
    [{**SENT, "operation": "x"}],
    [{**SENT, "apiVersion": ""}],
    [SENT, {**SENT, "fieldsType": "V2"}],
    [{**SENT, "fieldsV1": []}],
]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ([SENT], "sent@:title m@00:isOn"),
        ([], ""),
        ([{}], ""),
        *((each, "m@00:isOn one@00:size,title") for each in INVALID),
    ],
)
def test_clients_may_send_managed_fields(sent: object, expected: str) -> None:
    live = updated(None, thing(size=1, title="a"), "one")
    new = with_entries(thing(size=1, title="a", isOn=True), sent)
    stored = live["metadata"]["managedFields"]
    assert expected == owners(updated(live, new))
    assert "m@00:isOn one@00:size,title" == owners(updated(live, new, subresource="status"))
    assert "m@00:size one@00:title" == owners(
        updated(live, with_entries(thing(size=2, title="a"), stored))
    )


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


# Sorted as text, m10 and m11 come before m2.
@pytest.mark.parametrize(
    ("managers", "count", "ancient"),
    [
        (updaters(*[("v1", TIME)] * 10), 10, ""),
        (updaters(("v1", LATER), ("v2", ""), *[("v1", TIME)] * 10), 10, f"m10 m11 m2 {TIME}"),
        (
            updaters(("v1", TIME), ("v1", LATER), *[("v1", MARCH)] * 8, ancient_changes=""),
            10,
            f"ancient-changes m0 {TIME}",
        ),
        (
            updaters(("v1", TIME), *[("v1", MARCH)] * 9, ancient_changes=LATER),
            10,
            f"ancient-changes m0 {LATER}",
        ),
        (updaters(*[(f"v{i}", TIME) for i in range(12)]), 12, ""),
    ],
    ids=["ten", "two-too-many", "older-bucket", "younger-bucket", "of-many-versions"],
)
def test_the_oldest_updaters_are_merged(managers: Managers, count: int, ancient: str) -> None:
    applier = Identity("a", APPLY, "", "")
    managers = {**managers, applier: entry_of(applier, "v1", TIME, {"f:a": {}})}
    cap_updaters(managers)
    bucket = managers.get(Identity("ancient-changes", UPDATE, "v1", ""), {"fieldsV1": {}})
    shown = [*bucket["fieldsV1"], bucket.get("time", "")]
    assert count + 1 == len(managers)
    assert ancient == " ".join(shown).replace("f:", "")


def annotated(text: str, **spec: object) -> Object:
    metadata = {"name": "one", "annotations": {ANNOTATION: text, "a": "b"}}
    return updated(None, {**thing(**spec), "metadata": metadata}, "client-side")


LAST = json.dumps(configuration(size=1, title="a", isOn=True))


def test_kubectl_takes_over_from_client_side_apply() -> None:
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
    ["", "{", "[" * 5000, "[]", LAST.replace("/v1", "/v2"), LAST.replace('"isOn"', '"bogus"')],
    ids=["empty", "no-json", "deep", "no-object", "other-version", "other-types"],
)
def test_an_annotation_that_cannot_be_read_allows_nothing(text: str) -> None:
    with pytest.raises(StatusError, match=r"spec\.size"):
        applied(annotated(text, size=1), configuration(size=2), "kubectl")
    new = applied(annotated(text, size=1), configuration(size=1), "kubectl")
    assert (configuration(size=1) if text else None) == json.loads(
        new["metadata"]["annotations"].get(ANNOTATION) or "null"
    )


def test_an_annotation_that_is_too_large_goes() -> None:
    large = configuration(title="x" * MOST_ANNOTATIONS)
    assert {"a": "b"} == applied(annotated("{}"), large, "kubectl")["metadata"]["annotations"]
    assert "annotations" not in applied(thing(), configuration(), "kubectl")["metadata"]


def test_what_cannot_be_applied_is_refused() -> None:
    # Entries that a client has made up can claim a key and not the item.
    item: FieldSet = {".": {}, "f:protocol": {}}
    claims = [
        {**SENT, "operation": APPLY, "manager": manager}
        | {"fieldsV1": {"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': fields}}}}
        for manager, fields in (("m", {"f:port": {}, **item}), ("other", item))
    ]
    claimed = with_entries(thing(ports=[{"port": 80, "protocol": "TCP"}]), claims)

    with pytest.raises(StatusError, match=r'failed to compare objects: .* omits key field "port"'):
        applied(claimed, configuration(size=0))
    with pytest.raises(StatusError, match=r"metadata.managedFields must be nil"):
        applied(None, with_entries(configuration(), []))
    with pytest.raises(StatusError, match=r"errors:\n  \.spec\.x: .*\n  \.spec\.y: field not"):
        applied(None, configuration(x=1, y=2))
    with pytest.raises(StatusError, match=r"object \(/; /v1, Kind=Thing\): .metadata: exp"):
        applied(None, {**configuration(), "apiVersion": "v1", "metadata": 1})


def test_messages_about_long_keys_are_bounded() -> None:
    """A long key is not told again for each of thousands of fields below it."""
    groups = {"k" * (LONGEST_PATHS // 4): {f"x{number}": 1 for number in range(1000)}}
    with pytest.raises(StatusError, match=r"k\.x3: field not declared in schema$"):
        applied(None, configuration(groups=groups))

    fields: FieldSet = {f"f:{'k' * LONGEST_PATHS}": {"f:left": {}, "f:right": {}}}
    claims = {**SENT, "fieldsV1": {"f:spec": {"f:groups": fields}}}
    one, two = ({"k" * LONGEST_PATHS: dict.fromkeys(("left", "right"), each)} for each in "ab")
    claimed = with_entries(thing(groups=one), [claims])
    with pytest.raises(StatusError, match=r"with 1 conflict: conflict with \"sent\""):
        applied(claimed, configuration(groups=two))


@pytest.mark.parametrize(
    ("change", "second"),
    [
        ({}, "00"),
        ({"metadata": {"resourceVersion": "2"}}, "00"),
        ({"metadata": {"labels": {"a": "b"}}}, "01"),
        ({"spec": {}}, "01"),
        ({"entry": {"manager": "x"}}, "01"),
    ],
)
def test_times_are_kept_where_nothing_has_changed(change: dict[str, Any], second: str) -> None:
    old = applied(None, configuration(size=1))
    new = {**copy.deepcopy(old), "spec": change.get("spec", old["spec"])}
    new["metadata"].update(change.get("metadata", {}))
    new["metadata"]["managedFields"][0].update({"time": LATER} | change.get("entry", {}))
    keep_times(new, old)
    assert f"@{second}:" in owners(new)


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
