"""Tests of the kinds of core/v1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.apiserver.core.namespaces import NAMESPACE
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.schema.reading import canonical, read
from apfproxy.apiserver.schema.types import List, Map, Scalar, Struct
from tests.apiserver.core.pods import pod
from tests.conformance.vectors import load

if TYPE_CHECKING:
    import random

    from apfproxy.apiserver.kind import Kind


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
        "spec.host": "n",
        "spec.restartPolicy": "Always",
        "spec.schedulerName": "default-scheduler",
        "spec.serviceAccountName": "",
        "spec.hostNetwork": "true",
        "status.phase": "Running",
        "status.podIP": "10.0.0.1",
        "status.podIPs": "",
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


TEXTS = ("", "a", "A", "v", "Always", "Never", "None", "Exists", "Localhost", "..", "::1", "Ready")
KEYS = ("a", "cpu", "memory", "hugepages-2Mi", "x.y/z")
SCALARS: dict[Scalar, tuple[object, ...]] = {
    Scalar.STRING: TEXTS,
    Scalar.BOOLEAN: (False, True),
    Scalar.INT32: (0, 1, -1, 80),
    Scalar.INT64: (0, 1, -1, 2**62),
    Scalar.QUANTITY: ("0", "1", "1n", "-5", "2Gi", "1.5"),
    Scalar.TIME: (None, "2026-01-01T00:00:00Z"),
    Scalar.INT_OR_STRING: (0, 1, "a"),
    Scalar.ANY: ({},),
}


def made(kind: Any, chance: random.Random, depth: int = 0) -> Any:  # noqa: ANN401  any type
    """Some value of a type, with some of its fields."""
    if isinstance(kind, List):
        return [made(kind.item, chance, depth + 1) for _ in range(chance.randrange(3))]
    if isinstance(kind, Map):
        return {key: made(kind.value, chance, depth + 1) for key in chance.sample(KEYS, 2)}
    if isinstance(kind, Struct):
        return {
            field.name: made(field.type, chance, depth + 1)
            for field in kind.fields
            if (depth == 0 or chance.random() < 1 / 3) and field.name != "managedFields"
        }
    return chance.choice(SCALARS[kind])


@given(st.randoms(use_true_random=False), st.sampled_from([POD, NAMESPACE]))
@settings(max_examples=60, deadline=None)
def test_anything_is_judged(chance: random.Random, kind: Kind) -> None:
    """Whatever clients send gets defaults once, errors and a row, and spoils nothing stored."""
    schema, rules = kind.storage.schema, kind.rules
    new, old = (read(schema, made(schema, chance)).obj for _ in range(2))
    for obj in (new, old):
        obj["metadata"]["name"] = "x"
        kind.storage.set_defaults(obj)
    rules.admit_create(old)
    rules.prepare_create(old)
    stored = canonical(schema, old)
    again = canonical(schema, old)
    kind.storage.set_defaults(again)
    again = canonical(schema, again)
    assert stored == again

    errors = rules.validate(stored)
    for prepare, validate in (
        (rules.prepare_update, rules.validate_update),
        (rules.prepare_status, rules.validate_status),
    ):
        changed = canonical(schema, new)
        prepare(changed, stored)
        errors += validate(changed, stored)
    assert stored == again
    assert all(str(error) for error in errors)
    assert len(kind.columns) == len(kind.cells(new, 0))
