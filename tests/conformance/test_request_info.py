"""Request attributes against the reference vectors."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.request.attributes import AttributesError, parse_attributes
from tests.conformance import vectors

CASES = vectors.load("request_info")
NOT_ATTRIBUTES = {"method", "url", "parts"}
"""Of a case; `parts` are those of the path, of which the namespace, resource, name and subresource
are compared."""
HOSTILE = [case for case in vectors.load("hostile_http") if "requestinfo" in case]
FIELDS_OF_HOSTILE = {
    "is_resource": "is_resource_request",
    "group": "api_group",
    "version": "api_version",
}


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_attributes(case: dict[str, Any]) -> None:
    """A request has the very attributes that Kubernetes gives it."""
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
def test_hostile_targets(case: dict[str, Any]) -> None:
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
        assert _as_bytes(value) == _as_bytes(actual), field


def _as_bytes(value: object) -> object:
    """Text that may be UTF-8 or its bytes as Latin-1, as the bytes on the wire."""
    if not isinstance(value, str):
        return value
    try:
        return value.encode("latin-1").decode().encode()
    except UnicodeError:
        return value.encode()
