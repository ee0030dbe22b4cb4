"""Tests of defaults and conversion of objects as JSON has them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.apiserver.flowcontrol.kinds import FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION
from apfproxy.apiserver.schema.reading import read
from apfproxy.objects.reading import SHARES
from apfproxy.objects.validation import PRESERVE_ZERO

QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


def level(version: str, spec: dict[str, Any], annotations: dict[str, str]) -> dict[str, Any]:
    """A PriorityLevelConfiguration of a version, with its defaults."""
    served = PRIORITY_LEVEL_CONFIGURATION.version(version)
    assert served is not None
    metadata = {"name": "a", "annotations": annotations}
    obj = read(served.schema, {"metadata": metadata, "spec": spec}).obj
    served.set_defaults(obj)
    return obj


@pytest.mark.parametrize(("given", "expected"), [(None, 1000), (0, 1000), (7, 7)])
@pytest.mark.parametrize("version", ["v1", "v1beta3"])
def test_flow_schema(version: str, given: int | None, expected: int) -> None:
    """A FlowSchema without a precedence gets 1000."""
    served = FLOW_SCHEMA.version(version)
    assert served is not None
    obj = read(served.schema, {"spec": {"matchingPrecedence": given}}).obj

    served.set_defaults(obj)

    assert expected == obj["spec"]["matchingPrecedence"]


@pytest.mark.parametrize(
    ("version", "given", "annotations", "expected"),
    [
        ("v1", None, {}, 30),
        ("v1", 0, {}, 0),
        ("v1beta3", None, {}, 30),
        ("v1beta3", 0, {}, 30),
        ("v1beta3", 5, {PRESERVE_ZERO: ""}, 5),
        ("v1beta3", 0, {PRESERVE_ZERO: ""}, 0),
        ("v1beta3", None, {PRESERVE_ZERO: ""}, 0),
    ],
)
def test_shares(
    version: str, given: int | None, annotations: dict[str, str], expected: int
) -> None:
    """Zero shares mean the default in v1beta3, unless the annotation says otherwise."""
    spec = {"type": "Limited", "limited": {SHARES: given}}

    assert expected == level(version, spec, annotations)["spec"]["limited"][SHARES]


@pytest.mark.parametrize("version", ["v1", "v1beta3"])
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"type": "Exempt"}, {"type": "Exempt"}),
        ({"exempt": {}}, {"type": "", "exempt": {SHARES: 0, "lendablePercent": 0}}),
        (
            {"exempt": {SHARES: 1, "lendablePercent": 2}},
            {"type": "", "exempt": {SHARES: 1, "lendablePercent": 2}},
        ),
        (
            {"limited": {}},
            {
                "type": "",
                "limited": {SHARES: 30, "lendablePercent": 0, "limitResponse": {"type": ""}},
            },
        ),
        (
            {"limited": {"lendablePercent": 3, "limitResponse": {"queuing": {}}}},
            {
                "type": "",
                "limited": {
                    SHARES: 30,
                    "lendablePercent": 3,
                    "limitResponse": {"type": "", "queuing": QUEUING},
                },
            },
        ),
    ],
)
def test_other_defaults(version: str, spec: dict[str, Any], expected: dict[str, Any]) -> None:
    """Parts that are there get their defaults."""
    assert expected == level(version, spec, {})["spec"]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, {}),
        ({"a": "b"}, {"a": "b"}),
        ({PRESERVE_ZERO: "x"}, {}),
        ({PRESERVE_ZERO: "", "a": "b"}, {"a": "b"}),
    ],
)
def test_to_storage(annotations: dict[str, str], expected: dict[str, str]) -> None:
    """The annotation is not stored."""
    served = PRIORITY_LEVEL_CONFIGURATION.versions[1]
    obj = level("v1beta3", {"type": "Limited", "limited": {SHARES: 0}}, annotations)

    assert expected == served.to_storage(obj)["metadata"].get("annotations", {})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"exempt": {}}, {"a": "b"}),
        ({"limited": {SHARES: 1}}, {"a": "b"}),
        ({"limited": {SHARES: 0}}, {"a": "b", PRESERVE_ZERO: ""}),
    ],
)
def test_from_storage(spec: dict[str, Any], expected: dict[str, str]) -> None:
    """Zero shares get the annotation in v1beta3; the stored object stays as it is."""
    served = PRIORITY_LEVEL_CONFIGURATION.versions[1]
    obj = level("v1", spec, {"a": "b"})
    before = copy.deepcopy(obj)

    shown = served.from_storage(obj)

    assert (expected, before) == (shown["metadata"]["annotations"], obj)
    assert before == served.to_storage(shown)


@settings(max_examples=50, deadline=None)
@given(
    shares=st.none() | st.integers(0, 50),
    annotations=st.dictionaries(st.sampled_from("abc"), st.text("xyz")),
)
def test_round_trip(shares: int | None, annotations: dict[str, str]) -> None:
    """An object survives the way to v1beta3 and back, zero shares included."""
    served = PRIORITY_LEVEL_CONFIGURATION.versions[1]
    obj = level("v1", {"type": "Limited", "limited": {SHARES: shares}}, annotations)
    shown = read(served.schema, served.from_storage(obj)).obj
    served.set_defaults(shown)

    assert obj == served.to_storage(shown)
