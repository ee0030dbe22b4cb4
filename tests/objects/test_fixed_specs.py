"""The fixed specifications are those of the bootstrap files."""

from __future__ import annotations

from apfproxy.objects.bootstrap import mandatory_objects
from apfproxy.objects.fixed_specs import FLOW_SCHEMAS, PRIORITY_LEVELS
from apfproxy.objects.types import FlowSchema


def test_fixed_specs_are_those_of_the_files() -> None:
    """Code and files say the same about the mandatory objects."""
    objects = mandatory_objects()

    assert {
        obj.metadata.name: obj.spec for obj in objects if isinstance(obj, FlowSchema)
    } == FLOW_SCHEMAS
    assert {
        obj.metadata.name: obj.spec for obj in objects if not isinstance(obj, FlowSchema)
    } == PRIORITY_LEVELS
