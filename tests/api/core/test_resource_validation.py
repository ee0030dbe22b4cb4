"""Tests of what is wrong with requests and limits."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.api.core.pod_validation import validate_pod
from apfproxy.api.core.resource_validation import validate_name, validate_resources
from tests.api.core.pods import causes, container, pod, pod_of

Spec = dict[str, Any]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}, [], id="right"),
        pytest.param({"limits": {"cpu": "-1"}}, ["limits[cpu]", "requests[cpu]"], id="negative"),
        pytest.param(
            {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}, ["requests"], id="above-limit"
        ),
        pytest.param(
            {"limits": {"x.y/z": "2"}, "requests": {"x.y/z": "1"}}, ["requests"], id="below-limit"
        ),
        pytest.param({"limits": {"x.y/z": "2"}, "requests": {"x.y/z": "2"}}, [], id="device"),
        pytest.param(
            {"limits": {"x.y/z": "500m"}}, ["limits[x.y/z]", "requests[x.y/z]"], id="half-a-device"
        ),
        pytest.param({"requests": {"gold": "1"}}, ["requests[gold]"], id="unknown"),
        pytest.param({"requests": {"pods": "1"}}, ["requests[pods]"], id="not-of-containers"),
        pytest.param(
            {"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"hugepages-2Mi": "4Mi"}},
            [""],
            id="huge-pages-alone",
        ),
        pytest.param({"limits": {"hugepages-2Mi": "4Mi", "cpu": "1"}}, [], id="huge-pages"),
        pytest.param(
            {"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}},
            ["limits[hugepages-2Mi]", "requests[hugepages-2Mi]"],
            id="half-a-huge-page",
        ),
        pytest.param(
            {"limits": {"hugepages-x": "3Mi", "cpu": "1"}},
            ["limits[hugepages-x]", "requests[hugepages-x]"],
            id="huge-pages-of-no-size",
        ),
        pytest.param(
            {"limits": {"hugepages-0": "3Mi", "cpu": "1"}},
            ["limits[hugepages-0]", "requests[hugepages-0]"],
            id="huge-pages-of-size-zero",
        ),
    ],
)
def test_resources(resources: Spec, expected: list[str]) -> None:
    """Amounts are not negative, devices whole, and requests within limits."""
    errors = validate_pod(pod_of({"resources": resources}))
    paths = [f"resources.{field}".rstrip(".") for field in expected]

    assert sorted(paths) == sorted(field for field, _ in causes(errors))


def test_devices_need_limits() -> None:
    """What cannot be promised twice has to be limited."""
    assert ["r.limits: Required value: Limit must be set for non overcommitable resources"] == [
        str(error) for error in validate_resources({"requests": {"x.y/z": "1"}}, "r")
    ]


@pytest.mark.parametrize(
    ("name", "is_right"),
    [
        ("cpu", True),
        ("hugepages-1Gi", True),
        ("a.kubernetes.io/b", True),
        ("x.y/z", True),
        ("x y", False),
        ("requests.cpu", False),
        ("requests.x.y/z", False),
        ("a" * 250 + "/z", False),
    ],
)
def test_names(name: str, is_right: bool) -> None:
    """Resources are known, or have a domain."""
    assert is_right == (not validate_name(name, "f"))


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([{"name": "gpu"}], []),
        ([{}], [("resources.claims[0]", "required"), ("resources.claims[0]", "not found")][:1]),
        ([{"name": "no"}], [("resources.claims[0]", "not found")]),
        ([{"name": "gpu"}, {"name": "gpu"}], [("resources.claims[1]", "duplicate")]),
        ([{"name": "gpu", "request": "a"}, {"name": "gpu", "request": "b"}], []),
        (
            [{"name": "gpu", "request": "a"}, {"name": "gpu", "request": "a"}],
            [("resources.claims[1]", "duplicate")],
        ),
    ],
)
def test_claims(claims: list[Spec], expected: list[tuple[str, str]]) -> None:
    """A container uses claims of its pod, each once."""
    obj = pod(
        containers=[container(resources={"claims": claims})],
        resourceClaims=[{"name": "gpu", "resourceClaimName": "a"}],
    )

    assert expected == causes(validate_pod(obj))


@pytest.mark.parametrize(
    ("resources", "parts", "expected"),
    [
        ({"limits": {"cpu": "2"}}, {"limits": {"cpu": "1"}}, []),
        ({"claims": [{"name": "a"}]}, {}, [("resources.claims", "forbidden")]),
        (
            {"limits": {"ephemeral-storage": "1"}},
            {},
            [("resources.limits[ephemeral-storage]", "invalid")],
        ),
        (
            {"requests": {"cpu": "500m"}},
            {"requests": {"cpu": "1"}},
            [("resources.requests[cpu]", "invalid")],
        ),
        ({"limits": {"cpu": "2"}}, {"requests": {"x.y/z": "1"}, "limits": {"x.y/z": "1"}}, []),
        (
            {"limits": {"cpu": "1"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "2"}},
            [
                ("resources.containers[0][cpu].limits", "invalid"),
            ],
        ),
    ],
)
def test_resources_of_pods(resources: Spec, parts: Spec, expected: list[tuple[str, str]]) -> None:
    """A pod as a whole has enough for its containers."""
    obj = pod(containers=[container(resources=parts)], resources=resources)

    assert expected == causes(validate_pod(obj))
