"""Descriptions of structure."""

from __future__ import annotations

from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.policy import EVICTIONS
from apfproxy.apiserver.schema.shared_structs import DELETE_OPTIONS
from apfproxy.apiserver.schema.types import List, Map, Struct, Type

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
    """A field without one would be lost, but for what the envelope has."""
    wrong = [
        f"{name}.{field.name}"
        for name, struct in STRUCTS.items()
        for field in struct.fields
        if not field.number and not (struct in ROOTS and field.name in {"kind", "apiVersion"})
    ]

    assert [] == wrong


def test_numbers_are_unique() -> None:
    """No two fields of a message share a number."""
    numbers = {
        name: [field.number for field in struct.fields if field.number]
        for name, struct in STRUCTS.items()
    }

    assert [] == [name for name, found in numbers.items() if len(set(found)) != len(found)]
