"""Tests of the rules of ResourceSlices."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apfproxy.apiserver.resource.validation import (
    validate_slice,
    validate_slice_update,
    validate_spec,
)
from tests.apiserver.resource.causes import DUPLICATE, INVALID, REQUIRED, TOO_MANY, causes

COUNTERS = {"memory": {"value": "1Gi"}}
SPEC: dict[str, Any] = {
    "driver": "gpu.example.com",
    "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
    "nodeName": "n1",
}
ONE_TERM = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}
NO_CHOICE = {"nodeName": None}


def check(**fields: Any) -> list[tuple[str, str]]:  # noqa: ANN401  any JSON value
    """The errors of a specification that is otherwise right; None takes a field away."""
    merged = {**SPEC, **fields}
    return causes(validate_spec({key: value for key, value in merged.items() if value is not None}))


def devices(count: int, **fields: object) -> list[dict[str, Any]]:
    """Devices with names of their own."""
    return [{"name": f"d{index}", **fields} for index in range(count)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, [], id="right"),
        pytest.param({"driver": None}, [("spec.driver", REQUIRED)], id="no-driver"),
        pytest.param(
            {"pool": None},
            [("spec.pool.name", REQUIRED), ("spec.pool.resourceSliceCount", INVALID)],
            id="no-pool",
        ),
        pytest.param(
            {"pool": {"name": "p", "generation": -1, "resourceSliceCount": 1}},
            [("spec.pool.generation", INVALID)],
            id="negative-generation",
        ),
        pytest.param(NO_CHOICE, [("spec", REQUIRED)], id="no-nodes"),
        pytest.param({"nodeName": "n 1"}, [("spec.nodeName", INVALID)], id="bad-node"),
        pytest.param(
            {"nodeName": ""}, [("spec.nodeName", INVALID), ("spec", REQUIRED)], id="empty-node"
        ),
        pytest.param({"allNodes": True}, [("spec", INVALID)], id="two-choices"),
        pytest.param({"allNodes": False}, [("spec.allNodes", INVALID)], id="false"),
        pytest.param({**NO_CHOICE, "nodeSelector": ONE_TERM}, [], id="selector"),
        pytest.param(
            {**NO_CHOICE, "nodeSelector": {"nodeSelectorTerms": None}},
            [
                ("spec.nodeSelector.nodeSelectorTerms", REQUIRED),
                ("spec.nodeSelector.nodeSelectorTerms", INVALID),
            ],
            id="no-term",
        ),
        pytest.param(
            {**NO_CHOICE, "perDeviceNodeSelection": True, "devices": devices(1)},
            [("spec.devices[0]", REQUIRED)],
            id="devices-have-to-choose",
        ),
        pytest.param(
            {"devices": [{"name": "d"}, {"name": "d"}]},
            [("spec.devices[1]", DUPLICATE)],
            id="same-name",
        ),
        pytest.param({"devices": devices(128)}, [], id="as-many-as-allowed"),
        pytest.param({"devices": devices(129)}, [("spec.devices", TOO_MANY)], id="too-many"),
        pytest.param(
            {"devices": [*devices(64), {"name": "t", "taints": [{"key": "k", "effect": "None"}]}]},
            [("spec.devices", TOO_MANY)],
            id="too-many-with-taints",
        ),
        pytest.param(
            {"devices": devices(65, consumesCounters=[{"counterSet": "s", "counters": COUNTERS}])},
            [("spec.devices", TOO_MANY)],
            id="too-many-with-counters",
        ),
        pytest.param(
            {"devices": devices(1), "sharedCounters": [{"name": "s", "counters": COUNTERS}]},
            [("spec", INVALID)],
            id="devices-and-counters",
        ),
        pytest.param(
            {"sharedCounters": [{"name": "s", "counters": COUNTERS}, {"name": "s"}]},
            [
                ("spec.sharedCounters[1].counters", REQUIRED),
                ("spec.sharedCounters[1]", DUPLICATE),
            ],
            id="bad-counters",
        ),
        pytest.param(
            {"sharedCounters": [{"name": f"s{i}", "counters": COUNTERS} for i in range(9)]},
            [("spec.sharedCounters", TOO_MANY)],
            id="too-many-sets",
        ),
    ],
)
def test_specifications(fields: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """Each rule that is broken is reported with its path."""
    assert expected == check(**fields)


def test_metadata_is_judged_too() -> None:
    """A slice's name is a DNS subdomain."""
    slice_ = {"metadata": {"name": "Not this"}, "spec": SPEC}

    assert [("metadata.name", INVALID)] == causes(validate_slice(slice_))


def stored() -> dict[str, Any]:
    """A slice as it is stored."""
    metadata = {
        "name": "s",
        "uid": "u",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {"metadata": metadata, "spec": copy.deepcopy(SPEC)}


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("driver", "other.example.com", "spec.driver"),
        ("pool", {**SPEC["pool"], "name": "other"}, "spec.pool.name"),
        ("nodeName", "n2", "spec.nodeName"),
    ],
)
def test_slices_stay_where_they_are(field: str, value: object, path: str) -> None:
    """The driver, the pool and the node cannot be changed."""
    new = stored()
    new["spec"][field] = value

    assert [(path, INVALID)] == causes(validate_slice_update(new, stored()))


def test_the_rest_may_change() -> None:
    """Devices come and go, and the pool's generation is counted."""
    new = stored()
    new["spec"]["pool"]["generation"] = 2
    new["spec"]["devices"] = devices(3)

    assert [] == validate_slice_update(new, stored())
