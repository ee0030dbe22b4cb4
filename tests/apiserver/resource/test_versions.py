"""Tests of the versions of ResourceSlices, and of what these get and lose."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apfproxy.apiserver.resource.versions import drop_disabled_fields, from_v1, stamp_taints, to_v1

NOW = "2026-01-02T03:04:05Z"
EARLIER = "2026-01-01T00:00:00Z"
METADATA = {"name": "s"}
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
    in_beta, in_v1 = {"metadata": METADATA, "spec": beta}, {"metadata": METADATA, "spec": v1}
    before = copy.deepcopy((in_beta, in_v1))

    assert in_v1 == to_v1(in_beta)
    assert in_beta == from_v1(in_v1)
    assert before == (in_beta, in_v1)


@pytest.mark.parametrize("spec", [{"nodeName": ""}, {"allNodes": False}])
def test_empty_values_mean_nothing_in_beta(spec: dict[str, Any]) -> None:
    """They are absent in v1, where they would be errors."""
    assert {"spec": {}} == to_v1({"spec": spec})
    assert {"spec": {}} == from_v1({"spec": spec})


def test_devices_without_description_get_an_empty_one() -> None:
    """A device of v1 always has a `basic` in v1beta1."""
    bare = to_v1({"spec": {"devices": [{"name": "d"}]}})

    assert {"spec": {"devices": [{"name": "d", "basic": {}}]}} == from_v1(bare)


def test_taints_get_a_time() -> None:
    """A time that is there already stays."""
    taints = [{"key": "a"}, {"key": "b", "timeAdded": EARLIER}]
    slice_ = {"spec": {"devices": [{"name": "d"}, {"name": "e", "taints": taints}]}}
    stamp_taints(slice_, NOW)

    assert [NOW, EARLIER] == [taint["timeAdded"] for taint in taints]


def test_slices_without_devices_stay_as_they_are() -> None:
    """There is nothing to be set or dropped."""
    slice_: dict[str, dict[str, object]] = {"spec": {}}
    stamp_taints(slice_, NOW)
    drop_disabled_fields(slice_)

    assert {"spec": {}} == slice_


def test_fields_behind_gates_are_dropped() -> None:
    """Kubernetes 1.36 does not have them by default."""
    device = {
        "name": "d",
        "attributes": {"a": {"ints": [1], "strings": ["x"]}, "b": {"int": 1}},
        "nodeAllocatableResourceMappings": {"cpu": {}},
    }
    drop_disabled_fields({"spec": {"devices": [device, {"name": "e"}]}})

    assert {"name": "d", "attributes": {"a": {}, "b": {"int": 1}}} == device
