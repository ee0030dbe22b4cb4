"""The fixed specifications are those of the bootstrap files."""

from __future__ import annotations

from apfproxy.api.flowcontrol.bootstrap import mandatory_objects
from apfproxy.api.flowcontrol.fixed_specs import FLOW_SCHEMAS, PRIORITY_LEVELS
from apfproxy.api.flowcontrol.types import FlowSchema


def test_fixed_specs_are_those_of_the_files() -> None:
    """Code and files say the same about the mandatory objects."""
    objects = mandatory_objects()

    assert {
        obj.metadata.name: obj.spec for obj in objects if isinstance(obj, FlowSchema)
    } == FLOW_SCHEMAS
    assert {
        obj.metadata.name: obj.spec for obj in objects if not isinstance(obj, FlowSchema)
    } == PRIORITY_LEVELS
