"""Tests of the structs that objects of all kinds share."""

from __future__ import annotations

import pytest

from apfproxy.api.schema.shared_structs import OBJECT_META, object_struct
from apfproxy.api.schema.types import Field, Scalar, Struct

SPEC = Struct("ThingSpec", (Field("a", Scalar.STRING),), "x.v1")
STATUS = Struct("ThingStatus", (Field("b", Scalar.STRING),), "x.v1")


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        (SPEC, STATUS, ["kind", "apiVersion", "metadata", "x", "spec", "status"]),
        (None, STATUS, ["kind", "apiVersion", "metadata", "x", "status"]),
        (SPEC, None, ["kind", "apiVersion", "metadata", "x", "spec"]),
    ],
)
def test_object(spec: Struct | None, status: Struct | None, expected: list[str]) -> None:
    """An object has its type, metadata, what is its own, and the parts it is said to have."""
    extra = (Field("x", Scalar.STRING),)

    thing = object_struct("Thing", "x.v1", spec, status, "A thing.", extra=extra, is_required=True)

    assert expected == list(thing.by_name)
    assert OBJECT_META is thing.by_name["metadata"].type
    assert (spec is not None) == any(field.is_required for field in thing.fields)
