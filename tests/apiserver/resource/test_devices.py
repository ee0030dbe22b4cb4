"""Tests of the rules of devices."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.resource.devices import validate_counter_sets, validate_device
from tests.apiserver.resource.causes import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    causes,
)

COUNTERS = {"memory": {"value": "1Gi"}}
TAINT = {"key": "example.com/broken", "effect": "NoSchedule"}
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}


def check(device: dict[str, Any], *, chooses_nodes: bool = False) -> list[tuple[str, str]]:
    """The errors of a device that is otherwise right."""
    return causes(validate_device({"name": "d", **device}, "p", chooses_nodes=chooses_nodes))


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        pytest.param({}, [], id="bare"),
        pytest.param({"name": "D_"}, [("p.name", INVALID)], id="bad-name"),
        pytest.param({"name": ""}, [("p.name", INVALID)], id="no-name"),
        pytest.param(
            {
                "attributes": {f"a{i}": {"int": i} for i in range(16)},
                "capacity": {f"c{i}": {"value": "1"} for i in range(17)},
            },
            [("p", INVALID)],
            id="too-many-attributes-and-capacities",
        ),
        pytest.param(
            {"attributes": {"1": {"int": 1}}, "capacity": {"2": {"value": "1"}}},
            [("p.attributes", INVALID), ("p.capacity", INVALID)],
            id="bad-keys",
        ),
        pytest.param(
            {"capacity": {"c": {"value": "1", "requestPolicy": {"default": "1"}}}},
            [("p.capacity[c].requestPolicy", FORBIDDEN)],
            id="policy-of-a-device-that-is-not-shared",
        ),
        pytest.param(
            {
                "allowMultipleAllocations": True,
                "capacity": {"c": {"value": "1", "requestPolicy": {"default": "1"}}},
            },
            [],
            id="policy-of-a-shared-device",
        ),
    ],
)
def test_devices(device: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """A device has a DNS label as its name, and at most 32 attributes and capacities."""
    assert expected == check(device)


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ({"int": 0}, []),
        ({"bool": False}, []),
        ({"string": ""}, []),
        ({"string": "x" * 64}, []),
        ({"version": "1.2.3"}, []),
        ({}, [("p.attributes[a]", INVALID)]),
        ({"int": 1, "bool": True}, [("p.attributes[a]", INVALID)]),
        ({"string": "x" * 65}, [("p.attributes[a].string", TOO_LONG)]),
        ({"string": "\u00e9" * 33}, [("p.attributes[a].string", TOO_LONG)]),
        ({"version": "1.0"}, [("p.attributes[a].version", INVALID)]),
        ({"version": f"1.2.3-{'x' * 60}"}, [("p.attributes[a].version", TOO_LONG)]),
    ],
)
def test_attributes(attribute: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """An attribute has one value, which is not long."""
    assert expected == check({"attributes": {"a": attribute}})


@pytest.mark.parametrize(
    ("taints", "expected"),
    [
        pytest.param([TAINT, {**TAINT, "value": "yes", "effect": "None"}], [], id="right"),
        pytest.param([TAINT] * 16, [], id="as-many-as-allowed"),
        pytest.param([TAINT] * 17, [("p.taints", TOO_MANY)], id="too-many"),
        pytest.param([{**TAINT, "key": ""}], [("p.taints[0].key", INVALID)] * 2, id="no-key"),
        pytest.param([{**TAINT, "value": "a b"}], [("p.taints[0].value", INVALID)], id="bad-value"),
        pytest.param([{"key": "k"}], [("p.taints[0].effect", REQUIRED)], id="no-effect"),
        pytest.param(
            [{**TAINT, "effect": "PreferNoSchedule"}],
            [("p.taints[0].effect", NOT_SUPPORTED)],
            id="other-effect",
        ),
    ],
)
def test_taints(taints: list[Any], expected: list[tuple[str, str]]) -> None:
    """A taint is a label with an effect."""
    assert expected == check({"taints": taints})


@pytest.mark.parametrize(
    ("consumptions", "expected"),
    [
        pytest.param([{"counterSet": "s", "counters": COUNTERS}], [], id="right"),
        pytest.param(
            [{"counterSet": f"s{i}", "counters": COUNTERS} for i in range(3)],
            [("p.consumesCounters", TOO_MANY)],
            id="too-many",
        ),
        pytest.param(
            [{}],
            [
                ("p.consumesCounters[0].counterSet", REQUIRED),
                ("p.consumesCounters[0].counters", REQUIRED),
            ],
            id="empty",
        ),
        pytest.param(
            [{"counterSet": "S", "counters": COUNTERS}] * 2,
            [
                ("p.consumesCounters[0].counterSet", INVALID),
                ("p.consumesCounters[1].counterSet", INVALID),
                ("p.consumesCounters[1]", DUPLICATE),
            ],
            id="same-bad-set",
        ),
    ],
)
def test_consumptions(consumptions: list[Any], expected: list[tuple[str, str]]) -> None:
    """A device takes from two sets at most, and once from each."""
    assert expected == check({"consumesCounters": consumptions})


@pytest.mark.parametrize(
    ("count", "expected"), [(0, REQUIRED), (1, None), (32, None), (33, TOO_MANY)]
)
def test_counters(count: int, expected: str | None) -> None:
    """A set has from 1 to 32 counters."""
    counters = {f"c{index}": {"value": "1"} for index in range(count)}

    found = causes(validate_counter_sets([{"name": "s", "counters": counters}], "name", "p"))
    assert [("p[0].counters", expected)] * bool(expected) == found


def test_names_of_counters() -> None:
    """They are DNS labels; the map is blamed."""
    sets = [{"name": "s", "counters": {"A": {"value": "1"}}}]

    assert [("p[0].counters", INVALID)] == causes(validate_counter_sets(sets, "name", "p"))


@pytest.mark.parametrize(
    ("device", "chooses_nodes", "expected"),
    [
        pytest.param({"nodeName": "n1"}, False, [("p", INVALID)], id="not-to-choose"),
        pytest.param({"allNodes": False}, False, [("p", INVALID)], id="not-even-false"),
        pytest.param({"nodeName": "n1"}, True, [], id="name"),
        pytest.param({"nodeSelector": TERMS}, True, [], id="selector"),
        pytest.param({"allNodes": True}, True, [], id="all"),
        pytest.param({}, True, [("p", REQUIRED)], id="none"),
        pytest.param({"nodeName": "N 1"}, True, [("p.nodeName", INVALID)], id="bad-name"),
        pytest.param(
            {"nodeName": ""}, True, [("p.nodeName", INVALID), ("p", REQUIRED)], id="empty-name"
        ),
        pytest.param(
            {"allNodes": False}, True, [("p.allNodes", INVALID), ("p", REQUIRED)], id="false"
        ),
        pytest.param(
            {"nodeSelector": {"nodeSelectorTerms": None}},
            True,
            [("p.nodeSelector.nodeSelectorTerms", REQUIRED)],
            id="empty-selector",
        ),
        pytest.param({"nodeName": "n1", "allNodes": True}, True, [("p", INVALID)], id="two"),
    ],
)
def test_nodes(
    device: dict[str, Any], expected: list[tuple[str, str]], *, chooses_nodes: bool
) -> None:
    """A device says which nodes reach it if, and only if, it has to."""
    assert expected == check(device, chooses_nodes=chooses_nodes)


@pytest.mark.parametrize(
    ("conditions", "failures", "expected"),
    [
        pytest.param(["a"], ["b"], [], id="right"),
        pytest.param(["a"], None, [("p.bindingFailureConditions", INVALID)], id="no-failures"),
        pytest.param(None, ["a"], [("p.bindingConditions", INVALID)], id="only-failures"),
        pytest.param(
            ["a", "a"],
            ["b", "b"],
            [
                ("p.bindingConditions[1]", DUPLICATE),
                ("p.bindingFailureConditions[1]", DUPLICATE),
            ],
            id="repeated",
        ),
        pytest.param(["a"], ["a"], [("p.bindingFailureConditions[0]", INVALID)], id="in-both"),
        pytest.param(["a b"], ["c"], [("p.bindingConditions[0]", INVALID)], id="not-a-condition"),
        pytest.param(list("abcde"), ["x"], [("p.bindingConditions", TOO_MANY)], id="too-many"),
    ],
)
def test_conditions(
    conditions: list[str] | None, failures: list[str] | None, expected: list[tuple[str, str]]
) -> None:
    """Conditions for binding come with conditions for failing, which are others."""
    fields = {"bindingConditions": conditions, "bindingFailureConditions": failures}
    device = {name: value for name, value in fields.items() if value is not None}

    assert expected == check(device)
