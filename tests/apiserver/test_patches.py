"""Tests of `apfproxy.apiserver.patches`."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA
from apfproxy.apiserver.patches import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    Patch,
    applied,
)

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

LIVE = {
    "kind": "FlowSchema",
    "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
    "metadata": {"name": "f"},
    "spec": {"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": 5},
}


def test_patches_are_json() -> None:
    """What cannot be parsed is refused before any object is looked at."""
    with pytest.raises(StatusError) as error:
        Patch(FLOW_SCHEMA, FLOW_SCHEMA.storage, MERGE_PATCH, b"{", "Strict")

    assert 400 == error.value.code


@pytest.mark.parametrize(
    ("patch_type", "data"),
    [
        (MERGE_PATCH, b'{"kind": "Pod"}'),
        (MERGE_PATCH, b'{"apiVersion": "v9"}'),
        (JSON_PATCH, b'[{"op": "replace", "path": "/kind", "value": "Pod"}]'),
    ],
)
def test_patches_to_another_kind(patch_type: str, data: bytes) -> None:
    """What makes an object of another kind or version is refused as a patch."""
    patch = Patch(FLOW_SCHEMA, FLOW_SCHEMA.storage, patch_type, data, "Warn")
    with pytest.raises(StatusError) as error:
        patch.change(LIVE)

    causes = error.value.status()["details"]["causes"]
    assert 422 == error.value.code
    assert [("patch", "FieldValueInvalid")] == [(one["field"], one["reason"]) for one in causes]


def test_the_kind_of_a_strategic_merge_patch() -> None:
    """A strategic merge patch may name any kind: that of its path counts."""
    data = b'{"kind": "Pod", "spec": {"matchingPrecedence": 7}}'
    patch = Patch(FLOW_SCHEMA, FLOW_SCHEMA.storage, STRATEGIC_MERGE_PATCH, data, "Strict")

    assert 7 == patch.change(LIVE)["spec"]["matchingPrecedence"]
    assert () == patch.warnings


def changed(patch_type: str, data: bytes, validation: str = "Warn") -> tuple[Object, Patch]:
    """What a patch makes of the object."""
    patch = Patch(FLOW_SCHEMA, FLOW_SCHEMA.storage, patch_type, data, validation)
    return patch.change(copy.deepcopy(LIVE)), patch


@pytest.mark.parametrize(
    ("patch_type", "data"),
    [
        (MERGE_PATCH, b'{"spec": {"matchingPrecedence": 7, "bogus": 1, "bogus": 2}}'),
        (STRATEGIC_MERGE_PATCH, b'{"spec": {"matchingPrecedence": 7, "bogus": 1, "bogus": 2}}'),
    ],
)
def test_what_is_lost(patch_type: str, data: bytes) -> None:
    """Repeated and unknown fields are an error, a warning or nothing."""
    found, patch = changed(patch_type, data)
    _, ignoring = changed(patch_type, data, "Ignore")
    with pytest.raises(StatusError) as error:
        changed(patch_type, data, "Strict")

    assert 7 == found["spec"]["matchingPrecedence"]
    assert ('duplicate field "spec.bogus"', 'unknown field "spec.bogus"') == patch.warnings
    assert () == ignoring.warnings
    assert 422 == error.value.code


def test_json_patch() -> None:
    """Operations are done in order, and members that none has are told."""
    data = b'[{"op": "replace", "path": "/spec/matchingPrecedence", "value": 7, "x": 1}]'
    found, patch = changed(JSON_PATCH, data)

    assert 7 == found["spec"]["matchingPrecedence"]
    assert 1 == len(patch.warnings)


@pytest.mark.parametrize(
    ("patch_type", "data", "code"),
    [
        pytest.param(JSON_PATCH, b'[{"op": "remove", "path": "/nope"}]', 422, id="no-such-path"),
        pytest.param(JSON_PATCH, b"{}", 400, id="no-list"),
        pytest.param(MERGE_PATCH, b"[]", 400, id="no-object"),
        pytest.param(MERGE_PATCH, b'{"spec": {"rules": 7}}', 422, id="wrong-type"),
        pytest.param(STRATEGIC_MERGE_PATCH, b"7", 400, id="number"),
    ],
)
def test_patches_that_do_not_fit(patch_type: str, data: bytes, code: int) -> None:
    """400 for what is no patch, 422 for one that cannot be done."""
    with pytest.raises(StatusError) as error:
        changed(patch_type, data)

    assert code == error.value.code


def test_applied() -> None:
    """A configuration is what the client wrote, as it wrote it."""
    data = b"kind: FlowSchema\napiVersion: flowcontrol.apiserver.k8s.io/v1\nspec: {rules: []}\n"
    found, warnings = applied(FLOW_SCHEMA, FLOW_SCHEMA.storage, data, "Strict")

    assert {"rules": []} == found["spec"]
    assert [] == warnings


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
def test_applied_twice(validation: str) -> None:
    """A field that is there twice is an error, a warning or nothing."""
    data = b"kind: FlowSchema\napiVersion: flowcontrol.apiserver.k8s.io/v1\nspec: {}\nspec: {}\n"
    if validation == "Strict":
        with pytest.raises(StatusError, match="strict decoding") as error:
            applied(FLOW_SCHEMA, FLOW_SCHEMA.storage, data, validation)
        assert 400 == error.value.code
        return
    _, warnings = applied(FLOW_SCHEMA, FLOW_SCHEMA.storage, data, validation)

    assert (['duplicate field "spec"'] if validation == "Warn" else []) == warnings


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"a: [", "error decoding YAML", id="no-yaml"),
        pytest.param(b"- a", "error decoding YAML", id="no-object"),
        pytest.param(b"", "invalid object type: /, Kind=$", id="empty"),
        pytest.param(
            b"kind: FlowSchema", "invalid object type: /, Kind=FlowSchema", id="no-version"
        ),
        pytest.param(b"apiVersion: v1", "invalid object type: /v1, Kind=$", id="no-kind"),
        pytest.param(
            b"apiVersion: v1\nkind: Pod", "invalid object type: /v1, Kind=Pod", id="other-kind"
        ),
    ],
)
def test_what_cannot_be_applied(data: bytes, message: str) -> None:
    """A configuration says what it is, and is of the kind of its path."""
    with pytest.raises(StatusError, match=message) as error:
        applied(FLOW_SCHEMA, FLOW_SCHEMA.storage, data, "Warn")

    assert 400 == error.value.code


@pytest.mark.parametrize("patch_type", [MERGE_PATCH, STRATEGIC_MERGE_PATCH])
def test_unknown_fields_are_told_in_order(patch_type: str) -> None:
    """What is merged is in the order of its keys, whatever the order in the object."""
    _, patch = changed(patch_type, b'{"metadata": {"bogus": 1}, "apart": 1}')

    assert ('unknown field "apart"', 'unknown field "metadata.bogus"') == patch.warnings
