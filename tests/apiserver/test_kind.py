"""Kinds, metadata, and what recorded requests do not show of controllers and events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.apps import DEPLOYMENT, REPLICATION_CONTROLLER, STATEFUL_SET
from apfproxy.apiserver.core.cluster import validate_node_selector
from apfproxy.apiserver.errors import MOST_CAUSES, invalid
from apfproxy.apiserver.events import EVENT_OF_EVENTS
from apfproxy.apiserver.go_values import number
from apfproxy.apiserver.kind import Kind
from apfproxy.apiserver.kinds import KINDS, LEASE
from apfproxy.apiserver.metadata import (
    carry_over,
    count_generation,
    find_condition,
    set_condition,
    validate_conditions,
    validate_stored,
)
from apfproxy.apiserver.schema.reading import canonical
from apfproxy.apiserver.tables import duration
from apfproxy.objects.field_errors import Reason, required
from apfproxy.objects.validation import LARGEST_ANNOTATIONS_BYTES
from tests.apiserver.causes import causes
from tests.apiserver.schema.protobuf_writer import some_object
from tests.apiserver.site import APPLY, MERGE

if TYPE_CHECKING:
    import random

    from apfproxy.objects.types import Object
    from tests.apiserver.site import Site


SPEC = {
    "selector": {"matchLabels": {"a": "b"}},
    "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}},
}


def made(kind: Kind, metadata: Object | None = None, **parts: object) -> Object:
    names = {"name": "x", "namespace": "n", "resourceVersion": "1", **(metadata or {})}
    obj = canonical(kind.storage.schema, {"metadata": names, **parts})
    kind.storage.set_defaults(obj)
    return canonical(kind.storage.schema, obj)


def test_plurals() -> None:
    assert "networkpolicies" == Kind("", "NetworkPolicy", LEASE.versions).plural


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_rows(kind: Kind) -> None:
    obj = canonical(kind.storage.schema, {"metadata": {"name": "x"}})
    assert len(kind.columns) == len(kind.cells(obj, 0))
    assert set(kind.selectable_fields) <= kind.selectable(obj).keys()
    assert all(isinstance(value, str) for value in kind.selectable(obj).values())


def test_controllers() -> None:
    for kind, field, type_ in (
        (DEPLOYMENT, "strategy", "Recreate"),
        (STATEFUL_SET, "updateStrategy", "OnDelete"),
    ):
        assert {"type": type_} == made(kind, spec={field: {"type": type_}})["spec"][field]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}
    old = made(REPLICATION_CONTROLLER, spec={"template": template})
    other = made(REPLICATION_CONTROLLER, spec={"selector": {"z": "y", "a": "b"}})
    assert ({"a": "b"}, {"a": "b"}) == (old["spec"]["selector"], old["metadata"]["labels"])
    assert "a=b,z=y" == REPLICATION_CONTROLLER.cells(other, 0)[-1]


def test_updates_of_deployments() -> None:
    rules, old = DEPLOYMENT.rules, made(DEPLOYMENT, {"generation": 1, "labels": {"c": "d"}})
    new = made(DEPLOYMENT, {"annotations": {"a": "b"}})
    rules.prepare_update(new, old)
    assert 2 == new["metadata"]["generation"]
    rules.prepare_status(new, old)
    assert {"c": "d"} == new["metadata"]["labels"]
    rules.prepare_status(new, made(DEPLOYMENT))
    assert "labels" not in new["metadata"]


@given(chance=st.randoms(use_true_random=False))
def test_events_in_both_forms(chance: random.Random) -> None:
    """An event says the same in both forms, and is itself again after the way back."""
    version = EVENT_OF_EVENTS.versions[0]
    event = canonical(version.schema, some_object(version.schema, chance, 0.5))
    assert event == version.from_storage(version.to_storage(event))


@pytest.mark.parametrize(
    ("plural", "change", "fields"),
    [
        ("deployments", {"selector": {"matchLabels": {"a": "c"}}}, ["spec.selector"]),
        ("replicasets", {"selector": {"matchLabels": {"a": "c"}}}, ["spec.selector"]),
        ("statefulsets", {"replicas": -1, "serviceName": "x"}, ["spec.replicas", "spec"]),
        ("statefulsets", {"replicas": 2, "minReadySeconds": 1, "ordinals": {"start": 1}}, []),
        ("statefulsets", {"selector": {"matchExpressions": []}}, []),
    ],
)
async def test_what_is_immutable(
    site: Site, plural: str, change: Object, fields: list[str]
) -> None:
    path = f"/apis/apps/v1/namespaces/default/{plural}"
    await site.send("POST", path, {"metadata": {"name": "x"}, "spec": SPEC})
    found = await site.send("PATCH", f"{path}/x", {"spec": change}, content_type=MERGE)

    assert fields == [field for field, _ in (found.causes if found.status != 200 else [])]


async def test_no_scale_is_applied(site: Site) -> None:
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    await site.send("POST", deployments, {"metadata": {"name": "d"}, "spec": SPEC})
    scale = await site.send("PATCH", f"{deployments}/d/scale", {}, content_type=APPLY)
    assert 415 == scale.status


def namespace(phase: str = "Active", **metadata: object) -> Object:
    return {
        "metadata": {"name": "a", "resourceVersion": "1", **metadata},
        "spec": {},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("by", "key", "operator", "values", "expected"),
    [
        ("matchExpressions", "zone", "In", ["a"], []),
        ("matchExpressions", "zone", "In", [], [("values", Reason.REQUIRED)]),
        ("matchExpressions", "zone", "DoesNotExist", ["a"], [("values", Reason.FORBIDDEN)]),
        ("matchExpressions", "zone", "Gt", ["1"], []),
        ("matchExpressions", "zone", "Lt", ["1", "2"], [("values", Reason.REQUIRED)]),
        ("matchExpressions", "zone", "Is", ["a"], [("operator", Reason.INVALID)]),
        ("matchExpressions", "zone", "In", ["a", "b c"], [("values[1]", Reason.INVALID)]),
        ("matchFields", "metadata.name", "In", ["node-1"], []),
        ("matchFields", "metadata.name", "In", ["a", "b"], [("values", Reason.REQUIRED)]),
        ("matchFields", "metadata.name", "Exists", [], [("operator", Reason.INVALID)]),
        ("matchFields", "metadata.uid", "In", ["a"], [("key", Reason.INVALID)]),
        ("matchFields", "metadata.name", "NotIn", ["A_"], [("values[0]", Reason.INVALID)]),
    ],
)
def test_node_selectors(
    by: str, key: str, operator: str, values: list[str], expected: list[tuple[str, Reason]]
) -> None:
    one = {"key": key, "operator": operator, "values": values}
    errors = validate_node_selector({"nodeSelectorTerms": [{by: [one]}]}, "s")
    assert expected == [
        (error.field.removeprefix(f"s.nodeSelectorTerms[0].{by}[0]."), error.reason)
        for error in errors
    ]
    assert [Reason.REQUIRED] == [error.reason for error in validate_node_selector({}, "s")]


OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}
STORED: dict[str, Any] = {
    "name": "a",
    "uid": "1",
    "resourceVersion": "5",
    "generation": 2,
    "creationTimestamp": "2024-01-01T00:00:00Z",
}
DELETED: dict[str, Any] = {
    **STORED,
    "deletionTimestamp": "2024-01-02T00:00:00Z",
    "deletionGracePeriodSeconds": 30,
    "finalizers": ["a/b"],
}


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("annotations", {"a": "x" * (LARGEST_ANNOTATIONS_BYTES - 1)}, ""),
        ("annotations", {"a": "x" * LARGEST_ANNOTATIONS_BYTES}, "TooLong"),
        ("ownerReferences", [{**OWNER, "apiVersion": "a/b/v1"}], "apiVersion Invalid"),
        ("ownerReferences", [{**OWNER, "apiVersion": "/"}], "apiVersion Invalid"),
        (
            "managedFields",
            [{"manager": "é" * 64 + "\n", "fieldsType": "V2", "subresource": "x" * 257}],
            (
                "[0].operation Invalid, [0].fieldsType Invalid, [0].manager TooLong,"
                " [0].manager Invalid, [0].subresource TooLong"
            ),
        ),
    ],
)
def test_new_objects(field: str, value: object, expected: str) -> None:
    found = validate_stored({"name": "a", field: value}, is_namespaced=False)
    assert expected == causes(found, f"metadata.{field}")


@pytest.mark.parametrize("version", [None, "", "0"])
def test_what_an_update_may_leave_out(version: str | None) -> None:
    """Timestamps are put right in silence; a wrong uid or period is left for validation."""
    new = {"name": "a", "resourceVersion": version, "generation": 9}
    wrong = {"uid": "2", "creationTimestamp": "x", "deletionGracePeriodSeconds": 1}
    carry_over(new, DELETED)
    carry_over(wrong, {"uid": "1", "creationTimestamp": "y"})
    assert {name: value for name, value in DELETED.items() if name != "finalizers"} == new
    assert {"uid": "2", "creationTimestamp": "y", "deletionGracePeriodSeconds": 1} == wrong


@pytest.mark.parametrize(("old", "expected"), [({"generation": 2}, {"generation": 3}), ({}, {})])
def test_generation(old: dict[str, int], expected: dict[str, int]) -> None:
    new = {"metadata": {"generation": 7}, "spec": 2 if old else 1}
    count_generation(new, {"metadata": old, "spec": 1})
    assert expected == new["metadata"]


READY = {
    "type": "Ready",
    "status": "True",
    "lastTransitionTime": "2006-01-02T15:04:05Z",
    "reason": "Fine",
    "message": "",
}


@pytest.mark.parametrize(
    ("type_", "value", "time", "place"),
    [
        ("New", "True", "now", 2),
        ("Ready", "True", "2006-01-02T15:04:05Z", 0),
        ("Ready", "False", "now", 0),
    ],
)
def test_conditions_are_set(type_: str, value: str, time: str, place: int) -> None:
    before = [READY, {**READY, "type": "Last"}]
    status: dict[str, Any] = {"conditions": [*before]}
    kept = status["conditions"]

    set_condition(status, {"type": type_, "status": value, "message": "new"}, "now")

    changed = {"type": type_, "status": value, "message": "new", "lastTransitionTime": time}
    assert changed == find_condition(status, type_)
    assert changed == status["conditions"][place]
    assert before == kept


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"observedGeneration": -1}, "observedGeneration Invalid"),
        ({"reason": "no good"}, "reason Invalid"),
        ({"reason": "a" * 1025}, "reason TooLong"),
        ({"lastTransitionTime": None}, "lastTransitionTime Required"),
        ({"message": "a" * 32769}, "message TooLong"),
    ],
)
def test_conditions_are_judged(change: dict[str, object], expected: str) -> None:
    wrong = validate_conditions({"conditions": [{**READY, **change}]})
    assert expected == causes(wrong, "status.conditions[0]")


def test_very_many_causes() -> None:
    error = invalid("", "Pod", "a", [required("spec.x")] * (MOST_CAUSES + 2))
    assert error.message.endswith("spec.x: Required value, and 2 more]")
    assert MOST_CAUSES == len(error.status()["details"]["causes"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**63, "9.223372036854776e+18"), (10**400, "Infinity"), (0.0, "0"), (-0.5, "-0.5"),
        (100000.5, "100000.5"), (1234567.0, "1.234567e+06"), (1e21, "1e+21"), (-2.5e-7, "-2.5e-07"),
    ],
)  # fmt: skip
def test_number(value: float, expected: str) -> None:
    assert expected == number(value)


MINUTE_S, HOUR_S, DAY_S, YEAR_S = 60, 3600, 24 * 3600, 365 * 24 * 3600


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-2.5, "<invalid>"), (-1.5, "0s"), (0.9, "0s"), (59, "59s"), (119, "119s"), (120, "2m"),
        (121, "2m1s"), (10 * MINUTE_S, "10m"), (179 * MINUTE_S + 59, "179m"), (3 * HOUR_S, "3h"),
        (3 * HOUR_S + 5 * MINUTE_S, "3h5m"),
        (8 * HOUR_S + 59 * MINUTE_S, "8h"),
        (47 * HOUR_S, "47h"), (2 * DAY_S, "2d"), (2 * DAY_S + HOUR_S, "2d1h"),
        (8 * DAY_S + HOUR_S, "8d"), (729 * DAY_S, "729d"), (2 * YEAR_S, "2y"),
        (2 * YEAR_S + DAY_S, "2y1d"), (8 * YEAR_S + DAY_S, "8y"),
    ],
)  # fmt: skip
def test_duration(seconds: float, expected: str) -> None:
    assert expected == duration(seconds)
