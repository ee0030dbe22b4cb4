"""Tests of patches from the bodies of requests."""

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


def changed(patch_type: str, data: bytes, validation: str = "Warn") -> tuple[Object, Patch]:
    """What a patch makes of the object."""
    patch = Patch(FLOW_SCHEMA, FLOW_SCHEMA.storage, patch_type, data, validation)
    return patch.change(copy.deepcopy(LIVE)), patch


@pytest.mark.parametrize(
    ("patch_type", "data", "warnings"),
    [
        pytest.param(
            MERGE_PATCH,
            b'{"spec": {"matchingPrecedence": 7, "bogus": 1, "bogus": 2}, "apart": 1}',
            ('duplicate field "spec.bogus"', 'unknown field "apart"', 'unknown field "spec.bogus"'),
            id="merge",
        ),
        pytest.param(
            STRATEGIC_MERGE_PATCH,
            b'{"spec": {"matchingPrecedence": 7}, "metadata": {"bogus": 1}, "apart": 1}',
            ('unknown field "apart"', 'unknown field "metadata.bogus"'),
            id="strategic",
        ),
        pytest.param(
            JSON_PATCH,
            b'[{"op": "replace", "path": "/spec/matchingPrecedence", "value": 7, "x": 1}]',
            ('json patch unknown field "[0].x"',),
            id="json",
        ),
    ],
)
def test_what_is_lost(patch_type: str, data: bytes, warnings: tuple[str, ...]) -> None:
    """Repeated and unknown fields are an error, a warning or nothing, in the order of keys."""
    found, patch = changed(patch_type, data)
    with pytest.raises(StatusError, match="strict decoding error") as error:
        changed(patch_type, data, "Strict")

    assert 7 == found["spec"]["matchingPrecedence"]
    assert warnings == patch.warnings
    assert () == changed(patch_type, data, "Ignore")[1].warnings
    assert 422 == error.value.code


def test_the_kind_of_a_strategic_merge_patch() -> None:
    """A strategic merge patch may name any kind: that of its path counts."""
    data = b'{"kind": "Pod", "spec": {"matchingPrecedence": 7}}'

    assert 7 == changed(STRATEGIC_MERGE_PATCH, data, "Strict")[0]["spec"]["matchingPrecedence"]


@pytest.mark.parametrize(
    ("patch_type", "data", "code"),
    [
        pytest.param(MERGE_PATCH, b"{", 400, id="no-json"),
        pytest.param(MERGE_PATCH, b'{"kind": "Pod"}', 422, id="kind"),
        pytest.param(MERGE_PATCH, b'{"spec": {"rules": 7}}', 422, id="wrong-type"),
        pytest.param(
            JSON_PATCH, b'[{"op": "replace", "path": "/kind", "value": "Pod"}]', 422, id="kind-json"
        ),
        pytest.param(STRATEGIC_MERGE_PATCH, b"7", 400, id="number"),
    ],
)
def test_patches_that_do_not_fit(patch_type: str, data: bytes, code: int) -> None:
    """400 for what is no patch, 422 for one that cannot be done."""
    with pytest.raises(StatusError) as error:
        changed(patch_type, data)

    assert code == error.value.code


APPLIED = b"kind: FlowSchema\napiVersion: flowcontrol.apiserver.k8s.io/v1\nspec: {rules: []}\n"


def test_applied() -> None:
    """A configuration is what the client wrote; a field that is there twice is lost."""
    twice = APPLIED + b"spec: {}\n"
    found, warnings = applied(FLOW_SCHEMA, FLOW_SCHEMA.storage, APPLIED, "Strict")

    assert ({"rules": []}, []) == (found["spec"], warnings)
    for validation, told in (("Warn", ['duplicate field "spec"']), ("Ignore", [])):
        assert told == applied(FLOW_SCHEMA, FLOW_SCHEMA.storage, twice, validation)[1]
    with pytest.raises(StatusError, match="strict decoding") as error:
        applied(FLOW_SCHEMA, FLOW_SCHEMA.storage, twice, "Strict")
    assert 400 == error.value.code


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"a: [", "error decoding YAML", id="no-yaml"),
        pytest.param(b"- a", "error decoding YAML", id="no-object"),
        pytest.param(b"", "invalid object type: /, Kind=$", id="empty"),
        pytest.param(b"apiVersion: v1", "invalid object type: /v1, Kind=$", id="no-kind"),
    ],
)
def test_what_cannot_be_applied(data: bytes, message: str) -> None:
    """A configuration says what it is, and is of the kind of its path."""
    with pytest.raises(StatusError, match=message) as error:
        applied(FLOW_SCHEMA, FLOW_SCHEMA.storage, data, "Warn")

    assert 400 == error.value.code
