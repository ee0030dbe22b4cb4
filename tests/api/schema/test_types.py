"""Descriptions of structure."""

from __future__ import annotations

from apfproxy.api.schema.types import Field, Scalar, Struct, changed, pointer, required


def test_makers() -> None:
    """What is required is written always; what is a pointer may be absent."""
    assert Field("a", Scalar.STRING, "b", is_pointer=True) == pointer("a", Scalar.STRING, "b")
    expected = Field("a", Scalar.STRING, "b", is_always_written=True, is_required=True)
    assert expected == required("a", Scalar.STRING, "b")


def test_changed() -> None:
    """A changed struct has the fields in their old order, new ones last, and may move."""
    a, b, c = (Field(name, Scalar.STRING) for name in "abc")
    number = Field("a", Scalar.INT32)
    struct = Struct("S", (a, b), "one")
    found = changed(struct, number, c, package="two")

    assert (number, b, c) == found.fields
    assert {"a": number, "b": b, "c": c} == found.by_name
    assert ("<Struct one.S>", "<Struct two.S>") == (repr(struct), repr(found))
    assert "<Struct one.S>" == repr(changed(struct, number))
