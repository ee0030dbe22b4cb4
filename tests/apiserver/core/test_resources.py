"""Tests of classes of service."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.core.pods import qos_class

Spec = dict[str, Any]


def part(requests: Spec | None = None, limits: Spec | None = None, **fields: object) -> Spec:
    """A container of some resources."""
    amounts = {"requests": requests, "limits": limits}
    return {"resources": {which: each for which, each in amounts.items() if each}, **fields}


BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [part()]}, "BestEffort"),
        ({"containers": [part({"cpu": "0"})]}, "BestEffort"),
        ({"containers": [part({"example.com/a": "1"})]}, "BestEffort"),
        ({"containers": [part({"cpu": "1"})]}, "Burstable"),
        ({"containers": [part(BOTH, BOTH)]}, "Guaranteed"),
        ({"containers": [part(BOTH, BOTH), part()]}, "Burstable"),
        ({"containers": [part({"cpu": "500m", "memory": "1Gi"}, BOTH)]}, "Burstable"),
        ({"containers": [part(BOTH, BOTH)], "initContainers": [part()]}, "Burstable"),
        ({"containers": None}, "BestEffort"),
    ],
)
def test_qos_class(spec: Spec, expected: str) -> None:
    """A pod is guaranteed what it requests if that is its limit, in all containers."""
    assert expected == qos_class(spec)
