"""v1beta3 and v1 say the same in different words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.api.flowcontrol.conversion import PRESERVE_ZERO
from apfproxy.api.flowcontrol.wire import from_wire, to_wire
from tests.api.flowcontrol.objects import LIMITED, V1BETA3, flow_schema, priority_level

if TYPE_CHECKING:
    from apfproxy.api.flowcontrol.types import FlowControlObject


def read(wire: dict[str, Any]) -> FlowControlObject:
    """The valid object that the JSON holds."""
    obj = from_wire(wire, strict=True)
    assert not isinstance(obj, list), obj
    return obj


@pytest.mark.parametrize("annotated", [False, True])
@pytest.mark.parametrize(("shares", "kept"), [(None, 0), (0, 0), (7, 7)])
def test_shares_of_v1beta3(shares: int | None, kept: int, annotated: bool) -> None:
    """Zero and absent shares mean the default, or zero where the annotation says so."""
    wire = priority_level(version=V1BETA3, limited={**LIMITED, "nominalConcurrencyShares": shares})
    wire["metadata"]["annotations"] = {"a": "b", **({PRESERVE_ZERO: ""} if annotated else {})}

    found = to_wire(read(wire))

    assert (kept if annotated or kept else 30) == found["spec"]["limited"][
        "nominalConcurrencyShares"
    ]
    assert found["metadata"]["annotations"] == {"a": "b"}


def test_level_without_limits() -> None:
    """An exempt level has nothing to convert."""
    wire = priority_level("exempt", V1BETA3, type="Exempt", limited=None, exempt={})

    assert wire["spec"]["type"] == to_wire(read(wire), "v1beta3")["spec"]["type"]


def test_flow_schemas_are_the_same() -> None:
    """A FlowSchema changes nothing but its apiVersion."""
    wire = {**flow_schema(), "apiVersion": V1BETA3}
    obj = read(wire)

    assert {**to_wire(obj), "apiVersion": V1BETA3} == to_wire(obj, "v1beta3")
    assert obj == read(flow_schema())


@settings(max_examples=50, deadline=None)
@given(
    shares=st.none() | st.integers(0, 50),
    annotations=st.dictionaries(st.sampled_from("abc"), st.text("xyz")),
)
def test_round_trip(shares: int | None, annotations: dict[str, str]) -> None:
    """An object survives the way to v1beta3 and back, zero shares included."""
    wire = priority_level(limited={**LIMITED, "nominalConcurrencyShares": shares})
    wire["metadata"]["annotations"] = annotations
    obj = read(wire)

    assert obj == read(to_wire(obj, "v1beta3"))
    assert obj == read(to_wire(obj, "v1"))


def test_annotation_stays_as_it_is() -> None:
    """Zero shares need the annotation in v1beta3 only."""
    obj = read(priority_level(limited={**LIMITED, "nominalConcurrencyShares": 0}))

    assert to_wire(obj, "v1beta3")["metadata"]["annotations"] == {PRESERVE_ZERO: ""}
    assert "annotations" not in to_wire(obj, "v1")["metadata"]
