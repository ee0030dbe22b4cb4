"""The built-in objects are those of Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.objects.decode import bootstrap_objects, built_in, mandatory_objects
from apfproxy.objects.types import FlowControlObject, FlowSchema, kind_of
from apfproxy.objects.validation import FLOW_SCHEMAS, PRIORITY_LEVELS
from tests.conformance import vectors
from tests.objects.objects import as_written

if TYPE_CHECKING:
    from pathlib import Path


def by_name(objects: tuple[FlowControlObject, ...]) -> dict[tuple[str, str], object]:
    """Metadata and specification of objects, by kind and name."""
    shown = [(kind_of(obj), as_written(obj)) for obj in objects]
    return {
        (kind, wire["metadata"]["name"]): (wire["metadata"], wire["spec"]) for kind, wire in shown
    }


def test_bootstrap_objects() -> None:
    """They equal the mandatory and suggested objects of the reference."""
    expected = {
        (kind, wire["metadata"]["name"]): (wire["metadata"], wire["spec"])
        for kind, wires in (
            ("FlowSchema", vectors.load("classification")[0]["flow_schemas"]),
            ("PriorityLevelConfiguration", vectors.load("limits")[0]["priority_levels"]),
        )
        for wire in wires
    }

    assert expected == by_name(bootstrap_objects())


def test_edited_file(tmp_path: Path) -> None:
    """A broken file of ours is an error that names it."""
    (tmp_path / "mandatory.yaml").write_text("kind: FlowSchema\n")

    with pytest.raises(ValueError, match=r"mandatory\.yaml:1: FlowSchema: apiVersion"):
        built_in("mandatory.yaml", tmp_path)


def test_fixed_specs_are_those_of_the_files() -> None:
    """Code and files say the same about the mandatory objects."""
    objects = mandatory_objects()

    assert {
        obj.metadata.name: obj.spec for obj in objects if isinstance(obj, FlowSchema)
    } == FLOW_SCHEMAS
    assert {
        obj.metadata.name: obj.spec for obj in objects if not isinstance(obj, FlowSchema)
    } == PRIORITY_LEVELS
