"""Objects that are left to kube-apiserver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from apfproxy.lint.managed import AUTO_UPDATE, managed
from apfproxy.objects.decode import bootstrap_objects
from loadtest.objects import priority_level

if TYPE_CHECKING:
    from apfproxy.objects.types import FlowControlObject


def annotated(obj: FlowControlObject, value: str) -> FlowControlObject:
    """The object with the annotation."""
    return replace(obj, metadata=replace(obj.metadata, annotations={AUTO_UPDATE: value}))


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(annotated(priority_level("a"), "true"), ["delete"], id="of-ones-own"),
        pytest.param(annotated(priority_level("system"), "true"), ["undo"], id="suggested"),
        pytest.param(annotated(priority_level("system"), "false"), [], id="kept"),
        pytest.param(annotated(priority_level("catch-all"), "true"), [], id="mandatory"),
        pytest.param(priority_level("system"), [], id="without-annotation"),
    ],
)
def test_managed(obj: FlowControlObject, expected: list[str]) -> None:
    """What the annotation does depends on whether the server suggests the object."""
    assert expected == [each.message.split()[3] for each in managed([obj])]


def test_built_in() -> None:
    """The built-in objects are as the server has them."""
    assert [] == list(managed(bootstrap_objects()))
