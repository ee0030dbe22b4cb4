"""Tests of sums, defaults and classes of requests and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.api.core.resources import (
    default_pod_resources,
    is_overcommit_allowed,
    qos_class,
    round_up,
    total,
)

if TYPE_CHECKING:
    from apfproxy.api.quantity import Quantity

Spec = dict[str, Any]


def part(requests: Spec | None = None, limits: Spec | None = None, **fields: object) -> Spec:
    """A container of some resources."""
    amounts = {"requests": requests, "limits": limits}
    return {"resources": {which: each for which, each in amounts.items() if each}, **fields}


def test_fine_quantities_are_rounded_up() -> None:
    """What is finer than a thousandth becomes the next thousandth."""
    amounts = {"a": "1n", "b": "1500u", "c": "2", "d": "1e3", "e": "1.5", "f": "2m"}
    round_up(amounts)

    expected = {"a": "1m", "b": "2m", "c": "2", "d": "1e3", "e": "1.5", "f": "2m"}
    assert expected == amounts


def test_overcommitment() -> None:
    """Neither huge pages nor resources of others can be promised twice."""
    names = ("cpu", "hugepages-2Mi", "example.com/gpu", "x.kubernetes.io/y")

    assert [True, False, False, True] == [is_overcommit_allowed(name) for name in names]


def test_total() -> None:
    """Init containers count one at a time, with the sidecars that run already."""
    cpus = [part({"cpu": "1"}), part({"cpu": "500m"})]
    init = [
        part({"cpu": "2"}),
        part({"cpu": "1"}, restartPolicy="Always"),
        part({"cpu": "3", "memory": "1Ki"}),
    ]

    assert {"cpu": "1500m"} == texts(total({"containers": cpus}, "requests"))
    assert {"cpu": "4", "memory": "1Ki"} == texts(
        total({"containers": cpus, "initContainers": init}, "requests")
    )
    assert {} == total({"containers": None}, "limits")


def test_totals_are_written_as_their_parts() -> None:
    """A sum has the suffixes of the first of its parts that is not zero."""
    parts = [part({"memory": each}) for each in ("0", "1Gi", "1M", "0")]

    assert {"memory": "1074741824"} == texts(total({"containers": parts}, "requests"))
    assert {"memory": "2Gi"} == texts(
        total({"containers": [parts[0], *[parts[1]] * 2]}, "requests")
    )


def texts(amounts: dict[str, Quantity]) -> dict[str, str]:
    """Quantities as they are written."""
    return {name: str(amount) for name, amount in amounts.items()}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param(None, None, id="none"),
        pytest.param({"requests": {"cpu": "9"}}, {"requests": {"cpu": "9"}}, id="no-limits"),
        pytest.param(
            {"limits": {"cpu": "4", "memory": "8"}},
            {
                "limits": {"cpu": "4", "memory": "8"},
                "requests": {"cpu": "1", "memory": "8"},
            },
            id="requests-of-containers-then-limits",
        ),
        pytest.param(
            {"limits": {"cpu": "4"}, "requests": {"cpu": "2"}},
            {"limits": {"cpu": "4"}, "requests": {"cpu": "2"}},
            id="given",
        ),
    ],
)
def test_resources_of_pods(resources: Spec | None, expected: Spec | None) -> None:
    """What is requested for a pod as a whole follows from its containers and its limits."""
    spec: Spec = {"containers": [part({"cpu": "1", "example.com/a": "1"})]}
    if resources is not None:
        spec["resources"] = resources
    default_pod_resources(spec)

    assert expected == spec.get("resources")


def test_resources_of_pods_without_any_to_request() -> None:
    """Limits of resources that a pod as a whole cannot request request nothing."""
    spec: Spec = {"containers": [part()], "resources": {"limits": {"example.com/a": "1"}}}
    default_pod_resources(spec)

    assert {"limits": {"example.com/a": "1"}} == spec["resources"]


def test_huge_pages_of_pods() -> None:
    """Huge pages of containers limit the pod, too."""
    pages = {"hugepages-2Mi": "4"}
    spec: Spec = {"containers": [part(pages, pages)], "resources": {}}
    default_pod_resources(spec)
    assert {"limits": pages, "requests": pages} == spec["resources"]

    spec["resources"] = {"limits": {"hugepages-2Mi": "8"}}
    default_pod_resources(spec)
    assert {"hugepages-2Mi": "8"} == spec["resources"]["limits"]


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
        (
            {"containers": [part()], "resources": {"requests": BOTH, "limits": BOTH}},
            "Guaranteed",
        ),
    ],
)
def test_qos_class(spec: Spec, expected: str) -> None:
    """A pod is guaranteed what it requests if that is its limit, in all containers."""
    assert expected == qos_class(spec)
