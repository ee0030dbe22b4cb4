"""Tests of `apfproxy.apiserver.patches`."""

from __future__ import annotations

import pytest

from apfproxy.api.flowcontrol.kinds import FLOW_SCHEMA
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.patches import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    Patch,
)

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
