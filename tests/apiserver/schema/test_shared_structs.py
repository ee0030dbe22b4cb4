"""Tests of the structs that objects of all kinds share."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.schema.shared_structs import OBJECT_META, object_struct
from apfproxy.apiserver.schema.types import Field, Scalar, Struct

SPEC = Struct("ThingSpec", (Field("a", Scalar.STRING),), "x.v1")
STATUS = Struct("ThingStatus", (Field("b", Scalar.STRING),), "x.v1")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (STATUS, ["kind", "apiVersion", "metadata", "spec", "status"]),
        (None, ["kind", "apiVersion", "metadata", "spec"]),
    ],
)
def test_object(status: Struct | None, expected: list[str]) -> None:
    """An object has its type, metadata, and the parts it is said to have."""
    thing = object_struct("Thing", "x.v1", SPEC, status, "A thing.", is_required=True)

    assert expected == list(thing.by_name)
    assert OBJECT_META is thing.by_name["metadata"].type
    assert ["spec"] == [field.name for field in thing.fields if field.is_required]
