"""Tests of the numbers of fields in protobuf."""

from __future__ import annotations

import pytest

from apfproxy.api.policy.schema import EVICTIONS
from apfproxy.api.schema.meta import DELETE_OPTIONS
from apfproxy.api.schema.protobuf import numbers_of
from apfproxy.api.schema.types import List, Map, Struct, Type
from apfproxy.apiserver.kinds import KINDS

ROOTS = (
    *(version.schema for kind in KINDS for version in kind.versions),
    *EVICTIONS.values(),
    DELETE_OPTIONS,
)
"""What clients send."""


def structs_of(kind: Type, found: dict[str, Struct]) -> dict[str, Struct]:
    """All structs that values of a type may have, added to what was found before."""
    if isinstance(kind, List):
        return structs_of(kind.item, found)
    if isinstance(kind, Map):
        return structs_of(kind.value, found)
    if isinstance(kind, Struct) and (name := f"{kind.package}.{kind.name}") not in found:
        found[name] = kind
        for field in kind.fields:
            structs_of(field.type, found)
    return found


STRUCTS: dict[str, Struct] = {}
for root in ROOTS:
    structs_of(root, STRUCTS)


def test_every_field_has_a_number() -> None:
    """A field without one would be lost; one that the schema has not would never be read."""
    wrong = {}
    for name, struct in STRUCTS.items():
        expected = {field.name for field in struct.fields}
        if struct in ROOTS:
            expected -= {"kind", "apiVersion"}  # which the envelope has
        if expected != numbers_of(struct).keys():
            wrong[name] = expected ^ numbers_of(struct).keys()

    assert {} == wrong


def test_numbers_are_unique() -> None:
    """No two fields of a message share a number, nor a field and an embedded message."""
    wrong = {}
    for name, struct in STRUCTS.items():
        numbers = numbers_of(struct).values()
        plain = {number for number in numbers if isinstance(number, int)}
        embedded = {number[0] for number in numbers if isinstance(number, tuple)}
        if len(set(numbers)) != len(numbers) or plain & embedded:
            wrong[name] = sorted(plain & embedded)

    assert {} == wrong


@pytest.mark.parametrize(
    ("package", "struct", "field", "expected"),
    [
        ("io.k8s.apimachinery.pkg.apis.meta.v1", "ObjectMeta", "managedFields", 17),
        ("io.k8s.api.core.v1", "PodSpec", "hostnameOverride", 41),
        ("io.k8s.api.core.v1", "Volume", "secret", (2, 6)),
        ("io.k8s.api.core.v1", "Probe", "exec", (1, 1)),
        ("io.k8s.api.core.v1", "ConfigMapKeySelector", "name", (1, 1)),
        ("io.k8s.api.core.v1", "EphemeralContainer", "stdin", (1, 16)),
        ("io.k8s.api.resource.v1beta1", "Device", "basic", 2),
        ("io.k8s.api.flowcontrol.v1beta3", "FlowSchemaSpec", "rules", 4),
    ],
)
def test_samples(package: str, struct: str, field: str, expected: int | tuple[int, ...]) -> None:
    """Some numbers, as `generated.proto` has them."""
    assert expected == numbers_of(STRUCTS[f"{package}.{struct}"])[field]
