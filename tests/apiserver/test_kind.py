"""Kinds, and what recorded requests do not show of controllers, events and the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.apps import DEPLOYMENT, REPLICATION_CONTROLLER, STATEFUL_SET
from apfproxy.apiserver.core.cluster import validate_node_selector
from apfproxy.apiserver.events import EVENT_OF_EVENTS
from apfproxy.apiserver.kind import Kind
from apfproxy.apiserver.kinds import KINDS, LEASE
from apfproxy.apiserver.schema.reading import canonical
from apfproxy.objects.field_errors import Reason
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
