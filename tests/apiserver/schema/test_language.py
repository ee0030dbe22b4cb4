"""Structs that are declared as text, and those that clients send."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.policy import EVICTIONS
from apfproxy.apiserver.schema.shared_structs import DELETE_OPTIONS, OBJECT_META
from apfproxy.apiserver.schema.types import (
    List,
    Map,
    SchemaError,
    Struct,
    Type,
    structs,
)

PART = Struct("Part", (), "p", "A part.")
OTHERS = {"Part": PART, "ObjectMeta": OBJECT_META}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A", "no name, colon and description: A"),
        ("A: x.\nA: y.", "A is declared twice: A: y."),
        ("A +x: y.", r"no mark \+x is known: A \+x: y."),
        ("A: x.\n  1 a string", "no name, type and description: 1 a string"),
        ("A: x.\n  1 a string +x=1  y.", r"no mark \+x is known: 1 a string"),
        ("A: x.\n  1 a B  y.", "no type B is known, .*: 1 a B  y."),
        ("A: x.\n  1 a []A  y.", r"no type A is known, or it contains itself: 1 a \[\]A  y."),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        structs("p", text)


ROOTS = (
    *(version.schema for kind in KINDS for version in kind.versions),
    *EVICTIONS.values(),
    DELETE_OPTIONS,
)


def structs_of(kind: Type, found: dict[str, Struct]) -> dict[str, Struct]:
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
