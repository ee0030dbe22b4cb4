"""Tests of the kinds of core/v1."""

from __future__ import annotations

from typing import Any

from apfproxy.api.core.kinds import NAMESPACE, POD
from apfproxy.api.schema.reading import canonical, read
from apfproxy.api.schema.types import List, Map, Struct
from tests.api.core.pods import pod
from tests.conformance.vectors import load


def test_a_pod_as_recorded() -> None:
    """A pod is completed as kube-apiserver does."""
    step = next(step for step in load("api_exchanges") if step["id"] == "pod-1")
    expected = step["expect"]["body"]
    obj = read(POD.storage.schema, step["body"]).obj
    POD.storage.set_defaults(obj)
    obj["metadata"]["namespace"] = "default"
    POD.rules.admit_create(obj)
    POD.rules.prepare_create(obj)

    assert [] == POD.rules.validate(obj)
    assert (expected["spec"], expected["status"]) == (obj["spec"], obj["status"])
    assert list(expected["spec"]) == list(canonical(POD.storage.schema, obj)["spec"])


def test_fields_of_pods() -> None:
    """All fields that selectors may name have a value, the empty one where there is none."""
    obj = pod(nodeName="n", hostNetwork=True, status={"phase": "Running", "podIP": "10.0.0.1"})

    assert {
        "spec.nodeName": "n",
        "spec.restartPolicy": "Always",
        "spec.schedulerName": "default-scheduler",
        "spec.serviceAccountName": "",
        "spec.hostNetwork": "true",
        "status.phase": "Running",
        "status.podIP": "10.0.0.1",
        "status.nominatedNodeName": "",
    } == POD.selectable(obj)
    assert ("false", "") == tuple(
        POD.selectable(pod())[name] for name in ("spec.hostNetwork", "status.podIP")
    )
    for kind in (POD, NAMESPACE):
        assert set(kind.selectable_fields) == set(kind.selectable(obj))


def structs(kind: Any, seen: dict[str, Struct]) -> dict[str, Struct]:  # noqa: ANN401  any type
    """All structs below a type, by name."""
    if isinstance(kind, List):
        return structs(kind.item, seen)
    if isinstance(kind, Map):
        return structs(kind.value, seen)
    if isinstance(kind, Struct) and kind.name not in seen:
        seen[kind.name] = kind
        for field in kind.fields:
            structs(field.type, seen)
    return seen


def test_everything_is_described() -> None:
    """Every struct and every field has a sentence for `kubectl explain`, and is there once."""
    found = structs(POD.storage.schema, {}) | structs(NAMESPACE.storage.schema, {})

    assert 120 < len(found)
    assert [] == [one.name for one in found.values() if not one.description]
    assert [] == [
        (one.name, field.name)
        for one in found.values()
        for field in one.fields
        if not field.description and one.package.startswith("io.k8s.api.core")
    ]
    assert [] == [one.name for one in found.values() if len(one.by_name) != len(one.fields)]


def test_list_keys_exist() -> None:
    """What identifies the items of a list is a field of theirs."""
    for one in structs(POD.storage.schema, {}).values():
        for field in one.fields:
            if isinstance(field.type, List) and isinstance(field.type.item, Struct):
                keys = {*field.type.list_keys, field.type.merge_key} - {""}
                assert keys <= field.type.item.by_name.keys(), (one.name, field.name)
