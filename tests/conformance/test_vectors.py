"""Single decisions are those of Kubernetes, by the reference vectors."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from apfproxy.flowcontrol.allocation import InfeasibleError, Item, allocate
from apfproxy.flowcontrol.classifier import Classifier
from apfproxy.flowcontrol.dealer import Dealer
from apfproxy.flowcontrol.learned_costs import ObjectStats
from apfproxy.flowcontrol.passage import WorkEstimator
from apfproxy.flowcontrol.priority_level import RetryAfter
from apfproxy.objects.types import FlowSchema
from apfproxy.request.attributes import (
    AttributesError,
    RequestAttributes,
    User,
    parse_attributes,
)
from tests.conformance import vectors
from tests.support.objects import without_nulls

Case = dict[str, Any]
OF_USERS = {"flow_schema", "groups", "user"}
NOT_ATTRIBUTES = {"method", "url", "parts"}
"""The namespace, resource, name and subresource among the `parts` are compared."""
HOSTILE = [case for case in vectors.load("hostile_http") if "requestinfo" in case]
FIELDS_OF_HOSTILE = {
    "is_resource": "is_resource_request",
    "group": "api_group",
    "version": "api_version",
}


def each(name: str) -> pytest.MarkDecorator:
    cases = vectors.load(name)
    return pytest.mark.parametrize("case", cases, ids=range(len(cases)))


@each("allocation")
def test_allocation(case: Case) -> None:
    items = [Item(**item) for item in case["items"]]
    if case.get("infeasible"):
        with pytest.raises(InfeasibleError):
            allocate(case["required_sum"], items)
        return
    allocation = allocate(case["required_sum"], items)

    assert pytest.approx(case["allocations"], rel=1e-9, abs=0) == list(allocation.amounts)
    assert pytest.approx(case["fair_proportion"], rel=1e-9, abs=0) == allocation.fair_proportion


@each("classification")
def test_flow_schema(case: Case) -> None:
    flow_schemas = msgspec.convert(without_nulls(case["flow_schemas"]), list[FlowSchema])
    classifier = Classifier(flow_schemas)
    for request in case["requests"]:
        attributes = RequestAttributes(
            **{name: value for name, value in request.items() if name not in OF_USERS}
        )
        user = User(request["user"], tuple(request["groups"]))
        chosen = classifier.classify(user, attributes)

        assert request["flow_schema"] == (chosen.metadata.name if chosen else None)
        assert chosen is None or (Classifier([chosen]).classify(user, attributes) is not None)


@each("dealer")
def test_hand(case: Case) -> None:
    if case.get("invalid"):
        with pytest.raises(ValueError, match="size"):
            Dealer(case["deck_size"], case["hand_size"])
        return

    hand = Dealer(case["deck_size"], case["hand_size"]).deal(int(case["hash"]))
    assert tuple(case["hand"]) == hand


@each("request_info")
def test_attributes(case: Case) -> None:
    target = case["url"].encode()
    if case.get("error"):
        with pytest.raises(AttributesError):
            parse_attributes(case["method"], target)
        return
    attributes = parse_attributes(case["method"], target)

    for field, expected in case.items():
        if field not in NOT_ATTRIBUTES:
            actual = getattr(attributes, field)
            assert expected == (list(actual) if isinstance(actual, tuple) else actual), field


@pytest.mark.parametrize("case", HOSTILE, ids=[case["id"] for case in HOSTILE])
def test_hostile_targets(case: Case) -> None:
    """Targets made to deceive a proxy have the attributes that an upstream acts by."""
    method, target, _ = case["raw"].split("\r\n", 1)[0].encode("latin-1").split(b" ")
    expected = case["requestinfo"]
    if expected is None:
        with pytest.raises(AttributesError):
            parse_attributes(method.decode(), target)
        return
    attributes = parse_attributes(method.decode(), target)

    for field, value in expected.items():
        actual = getattr(attributes, FIELDS_OF_HOSTILE.get(field, field))
        assert as_bytes(value) == as_bytes(actual), field


def as_bytes(value: object) -> object:
    """Text that may be UTF-8 or its bytes as Latin-1, as the bytes on the wire."""
    if not isinstance(value, str):
        return value
    try:
        return value.encode("latin-1").decode().encode()
    except UnicodeError:
        return value.encode()


@each("retry_after")
def test_retry_after(case: list[Case]) -> None:
    retry_after = RetryAfter()
    for second in case:
        for _ in range(second["drops"]):
            retry_after.record_drop(second["unix_s"])
        assert second["retry_after_s"] == retry_after.get()


@each("work_estimate")
def test_work_estimate(case: Case) -> None:
    known = ObjectStats(case["object_count"], case["average_object_bytes"])
    stale = ObjectStats(1_000_000_000, 1_500_000)
    stats = {"known": known, "stale": stale, "not-found": None}[case["stats"]]
    estimator = WorkEstimator(lambda _: stats, lambda _: case["watch_count"])
    attributes = parse_attributes(case["method"], case["url"].encode())
    estimate = estimator.estimate(attributes, case["max_seats"])

    assert case["initial_seats"] == estimate.initial_seats
    assert case["final_seats"] == estimate.final_seats
    assert case["additional_latency_ns"] == estimate.additional_latency_ns
    assert estimator.fixed(attributes) in {None, estimate}
