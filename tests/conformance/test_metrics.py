"""Every flow-control metric of kube-apiserver is exposed as it exposes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from apfproxy.flowcontrol.passage import WorkEstimator
from apfproxy.flowcontrol.ticket import RejectReason, WorkEstimate
from apfproxy.objects.types import QueuingConfiguration
from apfproxy.request.attributes import parse_attributes
from tests.admin.scene import MS, POD, Scene
from tests.conformance import vectors
from tests.support.builders import flow_schema, group_subject, priority_level

if TYPE_CHECKING:
    from prometheus_client.core import Metric

DEPRECATED = {
    "apiserver_flowcontrol_request_concurrency_in_use",
    "apiserver_flowcontrol_request_concurrency_limit",
}
REFERENCE = {
    metric["name"]: metric for metric in vectors.load("metrics") if metric["name"] not in DEPRECATED
}
OPEN = "open"


@pytest.fixture(scope="module")
def exposed() -> dict[str, Metric]:
    """Families by name, after requests of all kinds executed, waited, timed out, were rejected."""
    scene = Scene(
        (
            priority_level(
                "queued",
                queuing=QueuingConfiguration(queues=8, hand_size=2, queue_length_limit=1),
            ),
            flow_schema("everyone", "queued", group_subject("everyone")),
            priority_level("rejecting"),
            flow_schema("strict", "rejecting", group_subject("strict")),
        ),
        server_concurrency_limit=2,
    )
    queue_set = scene.controller.levels["queued"].queue_set
    first = scene.ticket("ann", estimate=WorkEstimate(1, 1, 5 * MS))
    second = scene.ticket("ann")
    scene.ticket("bob", group="strict")
    assert scene.ask("bob", group="strict") is RejectReason.CONCURRENCY_LIMIT
    while scene.ask("ann") is not RejectReason.QUEUE_FULL:
        pass
    scene.clock.run_until(2 * MS)
    queue_set.withdraw(second, RejectReason.TIME_OUT)
    queue_set.finish(first)
    watch = scene.ticket("root", POD + b"?watch=1", group="system:masters")
    scene.controller.levels["exempt"].queue_set.finish(watch, is_watch=True)
    scene.ask("eve", group="system:unauthenticated")
    write = parse_attributes("DELETE", POD)
    WorkEstimator(lambda _: None, lambda _: 3).estimate(write, 0, first.flow.counters)
    scene.clock.run_until(20 * MS)
    scene.controller.adjust_limits()
    page = b"".join(scene.metrics())
    return {
        family.name + ("_total" if family.type == "counter" else ""): family
        for family in text_string_to_metric_families(page.decode())
    }


def values_of(family: Metric, label: str) -> set[str]:
    return {sample.labels[label] for sample in family.samples}


@pytest.mark.parametrize("name", REFERENCE)
def test_type(exposed: dict[str, Metric], name: str) -> None:
    assert REFERENCE[name]["type"] == exposed[name].type


@pytest.mark.parametrize("name", REFERENCE)
def test_labels(exposed: dict[str, Metric], name: str) -> None:
    labels = REFERENCE[name]["labels"]

    assert exposed[name].samples
    for sample in exposed[name].samples:
        assert set(labels) == set(sample.labels) - {"le"}
    for label, values in labels.items():
        if values != OPEN:
            assert set(values) == values_of(exposed[name], label)


@pytest.mark.parametrize("name", [name for name in REFERENCE if "buckets" in REFERENCE[name]])
def test_buckets(exposed: dict[str, Metric], name: str) -> None:
    series: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for sample in exposed[name].samples:
        labels = {**sample.labels}
        what = labels.pop("le", sample.name.removeprefix(name))
        series.setdefault(tuple(sorted(labels.items())), []).append(what)

    assert series
    for found in series.values():
        assert [*REFERENCE[name]["buckets"], "_count", "_sum"] == found


@pytest.mark.parametrize("name", sorted(DEPRECATED))
def test_deprecated_metrics_are_left_out(exposed: dict[str, Metric], name: str) -> None:
    assert name not in exposed


def test_open_labels_name_what_is_configured(exposed: dict[str, Metric]) -> None:
    executing = exposed["apiserver_flowcontrol_current_executing_requests"]

    assert {"queued", "rejecting", "exempt", "catch-all"} == values_of(executing, "priority_level")
    assert {"everyone", "strict", "exempt", "catch-all"} == values_of(executing, "flow_schema")
