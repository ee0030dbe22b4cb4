"""ResourceSlices: their rules, versions, and what the server adds and takes away."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.resource import RESOURCE_SLICE, validate_device, validate_slice
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
        ({"driver": "_" * 64}, "driver TooLong, driver Invalid"),
        (pool(name="a/" * 127), "pool.name TooLong, pool.name Invalid"),
        ({"allNodes": False}, "allNodes Invalid"),
        (
            {**NONE, "nodeSelector": {}},
            "nodeSelector.nodeSelectorTerms Required, nodeSelector.nodeSelectorTerms Invalid",
        ),
        ({**NONE, "perDeviceNodeSelection": True, **devices(1)}, "devices[0] Required"),
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
    spec = {key: value for key, value in {**SPEC, **fields}.items() if value is not None}
    assert expected == causes(validate_slice({"metadata": STORED, "spec": spec}), "spec")


ATTRIBUTES = {f"a{i}": {"int": i} for i in range(32)}


def attribute(name: str = "a", **values: object) -> dict[str, Any]:
    return {"attributes": {name: values or {"int": 1}}}


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ({"attributes": ATTRIBUTES}, ""),
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
        ("1.2.3-" + "a." * 50_000, True),  # it is too long in any case
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


RULES = RESOURCE_SLICE.rules


def test_capital_letters_of_drivers_are_warned_of() -> None:
    told = [RULES.warnings({"spec": {"driver": each}}, None) for each in ("a.b", "A.b")]
    assert [0, 1] == [*map(len, told)]
