"""Tests of `apfproxy.apiserver.bodies`."""

from __future__ import annotations

import pytest

from apfproxy.api.flowcontrol.kinds import FLOW_SCHEMA
from apfproxy.apiserver.bodies import decode, expected_of, media_type, parse


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        pytest.param("", "application/json", id="none"),
        pytest.param("application/yaml", "application/yaml", id="plain"),
        pytest.param("Application/JSON; charset=utf-8", "application/json", id="parameters"),
    ],
)
def test_media_type(content_type: str, expected: str) -> None:
    """Case and parameters make no difference; none means JSON."""
    assert expected == media_type(content_type)


@pytest.mark.parametrize(
    ("content_type", "data"), [("application/json", b"null"), ("application/yaml", b"")]
)
def test_null_is_an_empty_object(content_type: str, data: bytes) -> None:
    """A body of null, which an empty one is in YAML, is an object that says nothing."""
    expected = expected_of(FLOW_SCHEMA, FLOW_SCHEMA.storage)
    obj = decode(expected, parse(content_type, data, "FlowSchema"), "Strict").obj

    assert ("FlowSchema", {}) == (obj["kind"], obj["metadata"])
