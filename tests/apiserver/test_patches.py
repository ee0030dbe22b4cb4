"""Tests of applied configurations as clients send them."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA
from apfproxy.apiserver.patches import applied

APPLIED = b"kind: FlowSchema\napiVersion: flowcontrol.apiserver.k8s.io/v1\nspec: {rules: []}\n"


def test_applied() -> None:
    """A configuration is what the client wrote; a field that is there twice is lost."""
    twice = APPLIED + b"spec: {}\n"
    found, warnings = applied(FLOW_SCHEMA, FLOW_SCHEMA.storage, APPLIED, "Strict")

    assert ({"rules": []}, []) == (found["spec"], warnings)
    for validation, told in (("Warn", ['duplicate field "spec"']), ("Ignore", [])):
        assert told == applied(FLOW_SCHEMA, FLOW_SCHEMA.storage, twice, validation)[1]
    with pytest.raises(StatusError, match="strict decoding") as error:
        applied(FLOW_SCHEMA, FLOW_SCHEMA.storage, twice, "Strict")
    assert 400 == error.value.code
