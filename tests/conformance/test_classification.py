"""Classification against the reference vectors."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from apfproxy.flowcontrol.classifier import Classifier
from apfproxy.objects.types import FlowSchema
from apfproxy.request.attributes import RequestAttributes, User
from tests.conformance import vectors
from tests.support.objects import without_nulls

CASES = vectors.load("classification")


OTHER_FIELDS = {"flow_schema", "groups", "user"}
"""Of a request, beside its attributes."""


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_flow_schema(case: dict[str, Any]) -> None:
    """Every request gets the FlowSchema that Kubernetes gives it."""
    flow_schemas = msgspec.convert(without_nulls(case["flow_schemas"]), list[FlowSchema])
    classifier = Classifier(flow_schemas)
    for request in case["requests"]:
        attributes = RequestAttributes(
            **{name: value for name, value in request.items() if name not in OTHER_FIELDS}
        )
        user = User(request["user"], tuple(request["groups"]))

        chosen = classifier.classify(user, attributes)

        assert request["flow_schema"] == (chosen.metadata.name if chosen else None)
        assert chosen is None or (Classifier([chosen]).classify(user, attributes) is not None)
