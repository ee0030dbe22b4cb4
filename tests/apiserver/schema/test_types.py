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
    if isinstance(kind, List | Map):
        return structs_of(kind.item if isinstance(kind, List) else kind.value, found)
    if isinstance(kind, Struct):
        name = f"{kind.package}.{kind.name}"
        if name in found:
            assert found[name].by_name.keys() == kind.by_name.keys(), f"two structs {name}"
            return found
        found[name] = kind
        for field in kind.fields:
            structs_of(field.type, found)
    return found


def test_numbers() -> None:
    """Every field has one of its own in protobuf, but for what the envelope has."""
    structs: dict[str, Struct] = {}
    for root in ROOTS:
        structs_of(root, structs)

    for name, struct in structs.items():
        lost = [field.name for field in struct.fields if not field.number]
        assert set(lost) <= ({"kind", "apiVersion"} if struct in ROOTS else set()), name
        numbers = [field.number for field in struct.fields if field.number]
        assert len(set(numbers)) == len(numbers), name
