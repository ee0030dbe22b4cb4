"""Tests of the conversion of ResourceSlices between versions."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apfproxy.api.resource.conversion import from_v1, to_v1

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
