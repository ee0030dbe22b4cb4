"""Tests of `apfproxy.apiserver.plain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.plain import checks, named_cells, plain_struct
from apfproxy.apiserver.schema.reading import canonical
from apfproxy.objects.field_errors import forbidden, required

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

CREATED = "1970-01-01T00:00:00Z"


def obj(**metadata: object) -> Object:
    """An object with little in it."""
    return {"metadata": {"name": "x", "namespace": "n", "resourceVersion": "1", **metadata}}


def test_checks() -> None:
    """Metadata is checked, and what a kind checks beside it, of changes too."""
    own, change = required("own"), forbidden("change", "not this")
    validate, validate_update = checks(check=lambda _: [own], check_change=lambda *_: [change])

    assert [own] == validate(obj())
    assert ["metadata.name", "own"] == [error.field for error in validate(obj(name="A_b"))]
    assert [own, change] == validate_update(obj(), obj())
    assert "metadata.uid" in [error.field for error in validate_update(obj(uid="1"), obj(uid="2"))]


def test_cells() -> None:
    """A row begins with the name and ends with the age."""
    cells = named_cells(lambda each: (each["metadata"]["namespace"],))

    assert ("x", "n", "61s") == cells(obj(creationTimestamp=CREATED), 61.0)


def test_struct() -> None:
    """The struct has type and metadata, and nothing else."""
    struct = plain_struct("Thing", "io.example", "A thing.")

    assert {"kind": "Thing", "metadata": {"name": "x"}} == canonical(
        struct, {"kind": "Thing", "metadata": {"name": "x"}, "spec": {}}
    )
