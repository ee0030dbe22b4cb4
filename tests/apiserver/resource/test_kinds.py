"""ResourceSlices as a kind: versions, and what the server adds and takes away."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apfproxy.apiserver.resource import RESOURCE_SLICE

NOW = "2026-01-02T03:04:05Z"
EARLIER = "2026-01-01T00:00:00Z"
RULES = RESOURCE_SLICE.rules
BETA = RESOURCE_SLICE.versions[1]
DEVICE = {"attributes": {"model": {"string": "H200"}}, "nodeName": "n2"}


@pytest.mark.parametrize(
    ("beta", "v1"),
    [
        ({}, {}),
        ({"nodeName": "n1"}, {"nodeName": "n1"}),
        ({"allNodes": True}, {"allNodes": True}),
        ({"devices": [{"name": "d", "basic": DEVICE}]}, {"devices": [{"name": "d", **DEVICE}]}),
        ({"devices": [{"name": "d", "basic": {}}]}, {"devices": [{"name": "d"}]}),
    ],
)
def test_slices_are_converted_there_and_back(beta: dict[str, Any], v1: dict[str, Any]) -> None:
    """Devices of v1beta1 are described in `basic`."""
    in_beta, in_v1 = {"kind": "k", "spec": beta}, {"kind": "k", "spec": v1}
    before = copy.deepcopy((in_beta, in_v1))

    assert (in_v1, in_beta) == (BETA.to_storage(in_beta), BETA.from_storage(in_v1))
    assert before == (in_beta, in_v1)


@pytest.mark.parametrize("spec", [{"nodeName": ""}, {"allNodes": False}])
def test_empty_values_mean_nothing_in_beta(spec: dict[str, Any]) -> None:
    """They are absent in v1, where they would be errors."""
    assert {"spec": {}} == BETA.to_storage({"spec": spec})
    assert {"spec": {}} == BETA.from_storage({"spec": spec})


def sample() -> dict[str, Any]:
    """A slice with fields behind gates that 1.36 has off by default."""
    device = {
        "name": "d",
        "attributes": {"a": {"ints": [1], "strings": ["x"]}, "b": {"int": 1}},
        "nodeAllocatableResourceMappings": {"cpu": {}},
        "taints": [{"key": "a"}, {"key": "b", "timeAdded": EARLIER}],
    }
    return {"metadata": {"generation": 1}, "spec": {"devices": [{"name": "e"}, device]}}


def test_fields_behind_gates_are_dropped_and_taints_get_a_time() -> None:
    """A time that is there already stays."""
    obj = sample()
    RULES.stamp(obj, NOW)
    RULES.prepare_create(obj)

    device = obj["spec"]["devices"][1]
    assert [NOW, EARLIER] == [taint.pop("timeAdded") for taint in device["taints"]]
    attributes = {"a": {}, "b": {"int": 1}}
    assert {"name": "d", "attributes": attributes, "taints": [{"key": "a"}, {"key": "b"}]} == device


def test_generation_counts_changes_of_the_specification() -> None:
    """Fields that are dropped count as well, as they are dropped afterwards."""
    old, new = sample(), sample()
    RULES.prepare_create(old)
    same = copy.deepcopy(old)
    RULES.prepare_update(same, old)
    RULES.prepare_update(new, old)

    assert (old["spec"], 1) == (same["spec"], same["metadata"]["generation"])
    assert (old["spec"], 2) == (new["spec"], new["metadata"]["generation"])


@pytest.mark.parametrize(("driver", "warnings"), [("gpu.example.com", 0), ("Gpu.example.com", 1)])
def test_capital_letters_are_warned_of(driver: str, warnings: int) -> None:
    assert warnings == len(RULES.warnings({"spec": {"driver": driver}}, None))
