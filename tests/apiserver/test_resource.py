"""ResourceSlices: their rules, versions, and what the server adds and takes away."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apfproxy.apiserver.resource import (
    RESOURCE_SLICE,
    validate_device,
    validate_slice,
    validate_slice_update,
)
from tests.apiserver.causes import causes

COUNTERS = {"memory": {"value": "1Gi"}}
SPEC: dict[str, Any] = {
    "driver": "gpu.example.com",
    "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
    "nodeName": "n1",
}
STORED = {
    "name": "s",
    "uid": "u",
    "resourceVersion": "1",
    "creationTimestamp": "2026-01-01T00:00:00Z",
}
ONE_TERM = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}
TAINT = {"key": "example.com/broken", "effect": "NoSchedule"}
NONE = {"nodeName": None}


def pool(**fields: object) -> dict[str, Any]:
    return {"pool": {**SPEC["pool"], **fields}}


def devices(count: int, **fields: object) -> dict[str, Any]:
    return {"devices": [{"name": f"d{index}", **fields} for index in range(count)]}


def sets(count: int, field: str = "name", counters: object = COUNTERS) -> list[dict[str, Any]]:
    return [{field: f"s{index}", "counters": counters} for index in range(count)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ""),
        ({"driver": None}, "driver Required"),
        ({"driver": "GPU.example.com"}, ""),
        ({"driver": "Bad Driver"}, "driver Invalid"),
        ({"driver": "a" * 63}, ""),
        ({"driver": "_" * 64}, "driver TooLong, driver Invalid"),
        ({"pool": None}, "pool.name Required, pool.resourceSliceCount Invalid"),
        (pool(generation=-1), "pool.generation Invalid"),
        (pool(name="a.b/c"), ""),
        (pool(name="/A"), "pool.name Invalid, pool.name Invalid"),
        (pool(name="a/" * 127), "pool.name TooLong, pool.name Invalid"),
        (NONE, "Required"),
        ({"nodeName": "n 1"}, "nodeName Invalid"),
        ({"nodeName": ""}, "nodeName Invalid, Required"),
        ({"allNodes": True}, "Invalid"),
        ({"allNodes": False}, "allNodes Invalid"),
        ({**NONE, "nodeSelector": ONE_TERM}, ""),
        (
            {**NONE, "nodeSelector": {}},
            "nodeSelector.nodeSelectorTerms Required, nodeSelector.nodeSelectorTerms Invalid",
        ),
        ({**NONE, "perDeviceNodeSelection": True, **devices(1)}, "devices[0] Required"),
        ({"devices": [{"name": "d"}, {"name": "d"}]}, "devices[1] Duplicate"),
        (devices(128), ""),
        (devices(129), "devices TooMany"),
        (devices(64, taints=[TAINT]), ""),
        (devices(65, taints=[TAINT]), "devices TooMany"),
        (devices(65, consumesCounters=sets(1, "counterSet")), "devices TooMany"),
        ({**devices(1), "sharedCounters": sets(1)}, "Invalid"),
        ({"sharedCounters": sets(8)}, ""),
        ({"sharedCounters": sets(9)}, "sharedCounters TooMany"),
        ({"sharedCounters": sets(1, counters={"A": 1})}, "sharedCounters[0].counters Invalid"),
        ({"sharedCounters": sets(1, counters=dict.fromkeys(map(str, range(32))))}, ""),
        (
            {"sharedCounters": sets(1, counters=dict.fromkeys(map(str, range(33))))},
            "sharedCounters[0].counters TooMany",
        ),
        (
            {"sharedCounters": [*sets(1), {"name": "s0"}, {}]},
            (
                "sharedCounters[1].counters Required, sharedCounters[2].name Required,"
                " sharedCounters[2].counters Required, sharedCounters[1] Duplicate"
            ),
        ),
    ],
)
def test_specifications(fields: dict[str, Any], expected: str) -> None:
    """Each rule that is broken is reported with its path; None takes a field away."""
    spec = {key: value for key, value in {**SPEC, **fields}.items() if value is not None}

    assert expected == causes(validate_slice({"metadata": STORED, "spec": spec}), "spec")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"driver": "other.example.com"}, "driver Invalid"),
        (pool(name="other"), "pool.name Invalid"),
        ({"nodeName": "n2"}, "nodeName Invalid"),
        ({**pool(generation=2), **devices(3)}, ""),
        ({"driver": ""}, "driver Required, driver Invalid"),
    ],
)
def test_slices_stay_where_they_are(changes: dict[str, Any], expected: str) -> None:
    old = {"metadata": STORED, "spec": SPEC}
    new = {"metadata": STORED, "spec": {**copy.deepcopy(SPEC), **changes}}

    assert expected == causes(validate_slice_update(new, old), "spec")


ATTRIBUTES = {f"a{i}": {"int": i} for i in range(32)}


def attribute(name: str = "a", **values: object) -> dict[str, Any]:
    return {"attributes": {name: values or {"int": 1}}}


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ({}, ""),
        ({"name": ""}, "name Invalid"),
        ({"attributes": ATTRIBUTES}, ""),
        ({"attributes": ATTRIBUTES, "capacity": {"c": {}}}, "Invalid"),
        ({**attribute("1"), "capacity": {"2": {}}}, "attributes Invalid, capacity Invalid"),
        *(
            (attribute(key), expected)
            for key, expected in {
                "_a1": "",
                "Dra.example.com/model": "",
                "a/b/c": "",
                "": "attributes Invalid",
                "a-b": "attributes Invalid",
                "\u00e9": "attributes Invalid",
                "a" * 32: "",
                "a" * 33: "attributes TooLong",
                "/a": "attributes Invalid",
                "a/": "attributes Invalid",
                "/": "attributes Invalid, attributes Invalid",
                "a_b/c": "attributes Invalid",
                f"{'a' * 64}/{'b' * 33}": "attributes TooLong, attributes TooLong",
            }.items()
        ),
        (attribute(bool=False), ""),
        (attribute(string="x" * 64), ""),
        ({"attributes": {"a": {}}}, "attributes[a] Invalid"),
        (attribute(int=1, bool=True), "attributes[a] Invalid"),
        (attribute(string="\u00e9" * 33), "attributes[a].string TooLong"),
        (attribute(version=f"1.2.3-{'x' * 60}"), "attributes[a].version TooLong"),
        ({"attributes": {"x" * 95: {}}}, f"attributes TooLong, attributes[{'x' * 95}] Invalid"),
        (
            {"attributes": {"x" * 97: {}}},
            f"attributes TooLong, attributes[{'x' * 47}...{'x' * 46}] Invalid",
        ),
        ({"taints": [TAINT, {**TAINT, "value": "yes", "effect": "None"}] * 8}, ""),
        ({"taints": [TAINT] * 17}, "taints TooMany"),
        ({"taints": [{**TAINT, "key": ""}]}, "taints[0].key Invalid, taints[0].key Invalid"),
        (
            {"taints": [{"key": "k", "value": "a b"}]},
            "taints[0].value Invalid, taints[0].effect Required",
        ),
        ({"taints": [{**TAINT, "effect": "Prefer"}]}, "taints[0].effect NotSupported"),
        ({"consumesCounters": sets(2, "counterSet")}, ""),
        ({"consumesCounters": sets(3, "counterSet")}, "consumesCounters TooMany"),
        ({"nodeName": "n1"}, "Invalid"),
        ({"allNodes": False}, "Invalid"),
        ({"bindingConditions": ["a"], "bindingFailureConditions": ["b"]}, ""),
        ({"bindingConditions": ["a"]}, "bindingFailureConditions Invalid"),
        ({"bindingFailureConditions": ["a"]}, "bindingConditions Invalid"),
        (
            {"bindingConditions": ["a", "a"], "bindingFailureConditions": ["b", "b"]},
            "bindingConditions[1] Duplicate, bindingFailureConditions[1] Duplicate",
        ),
        (
            {"bindingConditions": ["a"], "bindingFailureConditions": ["a", "b c"]},
            "bindingFailureConditions[1] Invalid, bindingFailureConditions[0] Invalid",
        ),
        (
            {"bindingConditions": list("abcde"), "bindingFailureConditions": ["x"]},
            "bindingConditions TooMany",
        ),
    ],
)
def test_devices(device: dict[str, Any], expected: str) -> None:
    found = validate_device({"name": "d", **device}, "p", chooses_nodes=False)

    assert expected == causes(found, "p")


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ({"nodeName": "n1"}, ""),
        ({"nodeSelector": ONE_TERM}, ""),
        ({"allNodes": True}, ""),
        ({}, "Required"),
        ({"nodeName": "N 1"}, "nodeName Invalid"),
        ({"nodeName": ""}, "nodeName Invalid, Required"),
        ({"allNodes": False}, "allNodes Invalid, Required"),
        ({"nodeSelector": {}}, "nodeSelector.nodeSelectorTerms Required"),
        ({"nodeName": "n1", "allNodes": True}, "Invalid"),
    ],
)
def test_devices_that_choose_nodes(device: dict[str, Any], expected: str) -> None:
    found = validate_device({"name": "d", **device}, "p", chooses_nodes=True)

    assert expected == causes(found, "p")


PRE_RELEASES = "-alpha -0 -alpha.1 -0a -00- -- +001 -x.7.z+build.1-2"
NO_VERSIONS = (
    "1 1.2 1.2.3.4 v1.2.3 01.2.3 1.2.03 1.0.0- 1.0.0-01 1.0.0-a.01 1.0.0-01+b 1.0.0-a..b 1.0.0+"
    " 1.0.0+a_b \u0661.0.0"
)


@pytest.mark.parametrize(
    ("version", "is_right"),
    [
        ("0.0.0", True),
        *((f"1.20.3{each}", True) for each in PRE_RELEASES.split()),
        *((each, False) for each in [*NO_VERSIONS.split(), "", "1.0.0\n", "1.0.0 "]),
        ("1.2.3-" + "a." * 10_000, False),
    ],
)
def test_semantic_versions(version: str, is_right: bool) -> None:
    device = {"name": "d", **attribute(version=version)}
    found = causes(validate_device(device, "", chooses_nodes=False))

    assert is_right is ("version Invalid" not in found)


def ranged(default: str, **fields: str) -> dict[str, Any]:
    return {"default": default, "validRange": fields}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, ""),
        ({"default": None}, ""),
        ({"default": "99"}, ""),
        ({"default": "1", "validValues": ["1"], "validRange": {}}, "Forbidden"),
        ({"default": None, "validValues": ["1"]}, "default Required"),
        ({"validRange": {"min": "1"}}, "default Required"),
        ({"default": "1000m", "validValues": ["1", "2", "10"]}, ""),
        ({"default": "3", "validValues": ["1", "2"]}, "validValues Invalid"),
        ({"default": "2", "validValues": ["2", "1"]}, "validValues[1] Invalid"),
        ({"default": "1", "validValues": ["1", "11"]}, "validValues[1] Invalid"),
        # Kubernetes rounds amounts away from zero to compare them.
        ({"default": "1", "validValues": ["500m", "1"]}, "validValues[1] Duplicate"),
        ({"default": "-2", "validValues": ["-2", "-1500m"]}, "validValues[1] Duplicate"),
        (
            {"default": "1", "validValues": [f"{n}" for n in range(11)]},
            "validValues TooMany, validValues Invalid",
        ),
        (ranged("4", min="2", max="10", step="2"), ""),
        (ranged("1", max="2"), "validRange.min Required"),
        (ranged("11", min="11"), "validRange.min Invalid"),
        (ranged("1", min="2"), "validRange.min Invalid"),
        (ranged("6", min="5", max="4"), "validRange.max Invalid, validRange.max Invalid"),
        (ranged("1", min="1", max="11"), "validRange.max Invalid"),
        (ranged("1", min="1", step="0"), "validRange.step Invalid"),
        (ranged("5", min="5", step="6"), "validRange.step Invalid"),
        (
            ranged("4", min="1", max="6", step="2"),
            "validRange.step Invalid, validRange.step Invalid",
        ),
    ],
)
def test_policies(policy: Any, expected: str) -> None:  # noqa: ANN401  JSON
    """Amounts that may be requested fit the capacity, the default and each other.

    A device that is allocated once is allocated whole.
    """
    capacity = {"c": {"value": "10", "requestPolicy": policy}}
    device = {"name": "d", "capacity": capacity}
    shared = {**device, "allowMultipleAllocations": True}
    path = "p.capacity[c].requestPolicy"

    assert expected == causes(validate_device(shared, "p", chooses_nodes=False), path)
    found = causes(validate_device(device, "p", chooses_nodes=False), path)
    assert found == ("" if policy is None else "Forbidden")


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
    """In v1beta1 devices are described in `basic`, and empty values, errors in v1, are none."""
    in_beta, in_v1 = {"kind": "k", "spec": beta}, {"kind": "k", "spec": v1}
    before = copy.deepcopy((in_beta, in_v1))

    assert (in_v1, in_beta) == (BETA.to_storage(in_beta), BETA.from_storage(in_v1))
    assert before == (in_beta, in_v1)
    empty = {"spec": {"nodeName": "", "allNodes": False}}
    assert {"spec": {}} == BETA.to_storage(empty) == BETA.from_storage(empty)


def sample() -> dict[str, Any]:
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


def test_capital_letters_of_drivers_are_warned_of() -> None:
    told = [RULES.warnings({"spec": {"driver": each}}, None) for each in ("a.b", "A.b")]

    assert [0, 1] == [*map(len, told)]
