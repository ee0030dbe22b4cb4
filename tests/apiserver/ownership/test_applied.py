"""Tests of the types of applied configurations."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.ownership.applied import AppliedTypeError, check_types, shown_kind
from apfproxy.apiserver.schema.shared_structs import OBJECT_META, TYPE_META
from apfproxy.apiserver.schema.types import Field, Scalar, Struct
from tests.apiserver.ownership.schemas import THING, configuration

OPEN_SPEC = Struct("OpenSpec", (Field("title", Scalar.STRING),), keeps_unknown=True)
OBJECT = "failed to create typed patch object (/one; example.com/v1, Kind=Thing): "


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"size": 1.0, "title": "a", "isOn": True}, id="scalars"),
        pytest.param({"size": None, "always": None, "ports": None, "limits": None}, id="nulls"),
        pytest.param({"limits": {"a": 1, "b": "1"}, "any": {"x": [1]}, "when": "now"}, id="any"),
        pytest.param(
            {"ports": [{"port": 1}, {"port": 1, "protocol": "UDP"}], "names": ["a", "b"]},
            id="items",
        ),
        pytest.param({"pairs": [{"left": "a"}, {"left": "a"}]}, id="atomic-items"),
    ],
)
def test_what_fits_is_let_through(spec: dict[str, Any]) -> None:
    """Values of the right types, and nulls, are right."""
    check_types(configuration(**spec), THING)


def test_fields_that_are_kept_have_any_type() -> None:
    """What an open struct does not know fits; what it knows has its type."""
    schema = Struct("Open", (*TYPE_META, Field("metadata", OBJECT_META), Field("spec", OPEN_SPEC)))

    check_types(configuration(more={"a": [1, {}]}), schema)
    with pytest.raises(AppliedTypeError, match="expected string"):
        check_types(configuration(title=1), schema)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"x": 1}, ".spec.x: field not declared in schema", id="unknown"),
        pytest.param(
            {"size": "1"}, ".spec.size: expected numeric (int or float), got string", id="int"
        ),
        pytest.param(
            {"size": True},
            ".spec.size: expected numeric (int or float), got bool",
            id="bool-is-no-number",
        ),
        pytest.param(
            {"title": 1},
            ".spec.title: expected string, got &value.valueUnstructured{Value:1}",
            id="string",
        ),
        pytest.param({"isOn": 1}, ".spec.isOn: expected boolean, got &{1}", id="boolean"),
        pytest.param({"when": {}}, ".spec.when: expected any scalar, got &{map[]}", id="time"),
        pytest.param({"always": []}, ".spec.always: expected map, got &{[]}", id="struct"),
        pytest.param({"limits": "a"}, ".spec.limits: expected map, got &{a}", id="map"),
        pytest.param({"words": {}}, ".spec.words: expected list, got &{map[]}", id="list"),
        pytest.param(
            {"choices": {"a": 1}},
            ".spec.choices.a: expected string, got &value.valueUnstructured{Value:1}",
            id="below",
        ),
        pytest.param(
            {"pairs": [{}, {"x": 1}]}, ".spec.pairs[1].x: field not declared in schema", id="atomic"
        ),
        pytest.param(
            {"ports": [{"name": "a"}]},
            ".spec.ports: element 0: associative list with keys has an element that omits key "
            'field "port" (and doesn\'t have default value)',
            id="no-key",
        ),
        pytest.param(
            {"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]},
            '.spec.ports: duplicate entries for key [port=1,protocol="TCP"]',
            id="duplicate",
        ),
        pytest.param(
            {"ports": [{"port": 1, "x": 2}]},
            '.spec.ports[port=1,protocol="TCP"].x: field not declared in schema',
            id="in-an-item",
        ),
    ],
)
def test_what_does_not_fit_is_told(spec: dict[str, Any], expected: str) -> None:
    """The message names the object, the path and what is wrong."""
    with pytest.raises(AppliedTypeError) as caught:
        check_types(configuration(**spec), THING)

    assert OBJECT + expected == str(caught.value)


def test_all_that_is_wrong_is_told() -> None:
    """Several errors are a list."""
    with pytest.raises(AppliedTypeError) as caught:
        check_types(configuration(x=1, y=2), THING)

    assert (
        f"{OBJECT}errors:\n  .spec.x: field not declared in schema"
        "\n  .spec.y: field not declared in schema"
    ) == str(caught.value)


def test_metadata_may_be_of_any_type() -> None:
    """An object whose names cannot be read is still named."""
    with pytest.raises(AppliedTypeError, match=r"\(/; example.com/v1, Kind=Thing\): .metadata"):
        check_types({**configuration(), "metadata": 1}, THING)


def test_kinds_are_shown_as_kubernetes_does() -> None:
    """The core group is an empty one."""
    assert "policy/v1, Kind=A /v1, Kind=Pod" == f"{shown_kind('policy/v1', 'A')} " + shown_kind(
        "v1", "Pod"
    )
