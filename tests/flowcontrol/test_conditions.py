"""Tests of conditions, and of FlowSchemas that have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from apfproxy.flowcontrol.classifier import Classifier
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.mismatch import mismatches, unmet
from apfproxy.objects.conditions import MATCH_HEADER, MATCH_METHODS, Condition
from apfproxy.request.attributes import parse_attributes
from apfproxy.request.user import User
from loadtest.objects import flow_schema, group_subject, priority_level
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from apfproxy.objects.types import FlowSchema

ALICE = User("alice", ("dev",))
POST = parse_attributes("POST", b"/orders")
PODS = parse_attributes("POST", b"/api/v1/namespaces/x/pods")
BATCH = {"x-priority": "batch"}


def schema(name: str, precedence: int, **annotations: str) -> FlowSchema:
    """A FlowSchema for group `dev`; `_` in names of annotations stands for `-`."""
    found = flow_schema(name, "a", group_subject("dev"), precedence=precedence)
    named = {f"apfproxy.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return replace(found, metadata=replace(found.metadata, annotations=named))


@pytest.mark.parametrize(
    ("condition", "headers", "expected"),
    [
        pytest.param(Condition(), {}, None, id="nothing-asked"),
        pytest.param(
            Condition(is_broken=True),
            BATCH,
            (MATCH_HEADER, "a condition cannot be read, and so is never met"),
            id="broken",
        ),
        pytest.param(Condition(frozenset({"post", "put"})), {}, None, id="method"),
        pytest.param(
            Condition(frozenset({"get", "head"})),
            {},
            (MATCH_METHODS, "POST is not GET or HEAD"),
            id="other-method",
        ),
        pytest.param(Condition(header="x-priority"), BATCH, None, id="any-value"),
        pytest.param(
            Condition(header="x-priority"),
            {"x-priority": " "},
            (MATCH_HEADER, "the request has no header x-priority"),
            id="no-value",
        ),
        pytest.param(Condition(None, "x-priority", frozenset({"batch"})), BATCH, None, id="value"),
        pytest.param(
            Condition(None, "x-priority", frozenset({"Batch", "a"})),
            BATCH,
            (MATCH_HEADER, "x-priority is batch, not Batch or a"),
            id="other-case",
        ),
        pytest.param(
            Condition(None, "x-priority", frozenset({"a"})),
            {"x-priority": "b" * 999},
            (MATCH_HEADER, "x-priority is another, not a"),
            id="long-value",
        ),
    ],
)
def test_unmet(
    condition: Condition, headers: dict[str, str], expected: tuple[str, str] | None
) -> None:
    """The annotation that fails, and why."""

    def header_of(name: str) -> str:
        return headers.get(name, "")

    assert expected == unmet(condition, POST, header_of)


def test_methods_are_of_other_urls() -> None:
    """Requests for resources have verbs."""
    assert unmet(Condition(frozenset({"get"})), PODS, lambda _: "") is None


@pytest.mark.parametrize(
    ("headers", "expected"), [(BATCH, "batch"), ({"x-priority": "b"}, "rest"), ({}, "rest")]
)
def test_classified_by_a_header(headers: dict[str, str], expected: str) -> None:
    """A FlowSchema whose condition is not met leaves the request to the next."""
    schemas = [schema("batch", 1, match_header="X-Priority: batch"), schema("rest", 2)]

    def header_of(name: str) -> str:
        return headers.get(name, "")

    chosen = Classifier(schemas).classify(ALICE, POST, header_of)

    assert chosen is not None
    assert expected == chosen.metadata.name
    failed = mismatches(schemas[0], ALICE, POST, header_of)
    assert (expected == "rest") == bool(failed)
    assert ["metadata.annotations[apfproxy.io/match-header]"] * len(failed) == [
        each.field for each in failed
    ]


def test_a_condition_that_cannot_be_read_matches_nothing() -> None:
    """Without it the FlowSchema would match everything; the problem says so."""
    controller = Controller(VirtualClock(), 10, 0)
    digest = controller.digest(
        [priority_level("a"), schema("broken", 2, match_methods="post"), schema("rest", 3)]
    )
    controller.commit(digest)

    assert "rest" == controller.classify(ALICE, POST).flow_schema.metadata.name
    (problem,) = digest.problems
    assert "as it is, the FlowSchema matches no request" in problem


def test_the_controller_asks_for_headers() -> None:
    """As it does where flows are told apart by one."""
    controller = Controller(VirtualClock(), 10, 0)
    schemas = [schema("batch", 2, match_header="X-Priority: batch"), schema("rest", 3)]
    controller.commit(controller.digest([priority_level("a"), *schemas]))

    found = controller.classify(ALICE, POST, lambda name: BATCH[name])

    assert "batch" == found.flow_schema.metadata.name
