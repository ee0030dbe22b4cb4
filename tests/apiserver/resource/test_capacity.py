"""Tests of the rules of capacities."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.resource.capacity import integer, validate_capacity
from apfproxy.apiserver.schema.quantity import parse
from tests.apiserver.resource.causes import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    REQUIRED,
    TOO_MANY,
    causes,
)

POLICY = "c.requestPolicy"
VALUES = f"{POLICY}.validValues"
RANGE = f"{POLICY}.validRange"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(None, [], id="no-policy"),
        pytest.param({"default": None}, [], id="empty"),
        pytest.param({"default": "99"}, [], id="only-a-default"),
        pytest.param(
            {"default": "1", "validValues": ["1"], "validRange": {"min": "1"}},
            [(POLICY, FORBIDDEN)],
            id="both",
        ),
        pytest.param(
            {"default": None, "validValues": ["1"]},
            [(f"{POLICY}.default", REQUIRED)],
            id="values-without-default",
        ),
        pytest.param(
            {"validRange": {"min": "1"}},
            [(f"{POLICY}.default", REQUIRED)],
            id="range-without-default",
        ),
        pytest.param({"default": "1000m", "validValues": ["1", "2", "10"]}, [], id="values"),
        pytest.param(
            {"default": "3", "validValues": ["1", "2"]}, [(VALUES, INVALID)], id="other-default"
        ),
        pytest.param(
            {"default": "2", "validValues": ["2", "1"]},
            [(f"{VALUES}[1]", INVALID)],
            id="not-sorted",
        ),
        pytest.param(
            {"default": "1", "validValues": ["1", "11"]},
            [(f"{VALUES}[1]", INVALID)],
            id="value-above-the-capacity",
        ),
        pytest.param(
            {"default": "1", "validValues": ["500m", "1"]},
            [(f"{VALUES}[1]", DUPLICATE)],
            id="equal-when-rounded-up",
        ),
        pytest.param(
            {"default": "1", "validValues": [f"{n}" for n in range(11)]},
            [(VALUES, TOO_MANY), (VALUES, INVALID)],
            id="too-many-values",
        ),
        pytest.param({"default": "1", "validRange": {"min": "1"}}, [], id="minimum"),
        pytest.param(
            {"default": "4", "validRange": {"min": "2", "max": "10", "step": "2"}}, [], id="range"
        ),
        pytest.param(
            {"default": "1", "validRange": {"max": "2"}},
            [(f"{RANGE}.min", REQUIRED)],
            id="no-minimum",
        ),
        pytest.param(
            {"default": "11", "validRange": {"min": "11"}},
            [(f"{RANGE}.min", INVALID)],
            id="minimum-above-the-capacity",
        ),
        pytest.param(
            {"default": "1", "validRange": {"min": "2"}},
            [(f"{RANGE}.min", INVALID)],
            id="default-below",
        ),
        pytest.param(
            {"default": "6", "validRange": {"min": "5", "max": "4"}},
            [(f"{RANGE}.max", INVALID), (f"{RANGE}.max", INVALID)],
            id="maximum-below-both",
        ),
        pytest.param(
            {"default": "1", "validRange": {"min": "1", "max": "11"}},
            [(f"{RANGE}.max", INVALID)],
            id="maximum-above-the-capacity",
        ),
        pytest.param(
            {"default": "1", "validRange": {"min": "1", "step": "0"}},
            [(f"{RANGE}.step", INVALID)],
            id="no-step",
        ),
        pytest.param(
            {"default": "5", "validRange": {"min": "5", "step": "6"}},
            [(f"{RANGE}.step", INVALID)],
            id="step-beyond-the-capacity",
        ),
        pytest.param(
            {"default": "4", "validRange": {"min": "1", "max": "6", "step": "2"}},
            [(f"{RANGE}.step", INVALID), (f"{RANGE}.step", INVALID)],
            id="not-on-a-step",
        ),
    ],
)
def test_policies(policy: Any, expected: list[tuple[str, str]]) -> None:  # noqa: ANN401  JSON
    """Amounts that may be requested fit the capacity, the default and each other."""
    capacity = {"value": "10", "requestPolicy": policy}

    assert expected == causes(validate_capacity(capacity, "c", is_shared=True))


def test_only_shared_devices_have_policies() -> None:
    """A device that is allocated once is allocated whole."""
    capacity = {"value": "10", "requestPolicy": {"default": "1"}}

    assert [(POLICY, FORBIDDEN)] == causes(validate_capacity(capacity, "c", is_shared=False))


@pytest.mark.parametrize(
    ("text", "expected"), [("1500m", 2), ("-1500m", -2), ("2", 2), ("1n", 1), ("0", 0)]
)
def test_integers_are_rounded_away_from_zero(text: str, expected: int) -> None:
    """Something never becomes nothing."""
    assert expected == integer(parse(text))
