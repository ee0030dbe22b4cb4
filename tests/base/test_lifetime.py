"""Tests for what tokens say of their lifetime."""

from __future__ import annotations

import pytest

from apfproxy.base.tls_files import Lifetime, lifetime
from tests.authn.signing import unsigned


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param({"iat": 100, "exp": 3700}, Lifetime(100, 3700), id="issued"),
        pytest.param({"nbf": 90, "exp": 3700}, Lifetime(90, 3700), id="not-before"),
        pytest.param({"exp": 3700.5}, Lifetime(0, 3700.5), id="expires-only"),
        pytest.param({"iat": 5000, "exp": 3700}, Lifetime(3700, 3700), id="issued-too-late"),
        pytest.param({"iat": "100", "exp": 3700}, Lifetime(0, 3700), id="issued-as-text"),
        pytest.param({"iat": 100}, None, id="no-end"),
        pytest.param({"exp": True}, None, id="bool"),
        pytest.param({"exp": "3700"}, None, id="text"),
        pytest.param({"exp": 1e300}, None, id="far"),
        pytest.param({"exp": -1}, None, id="before-1970"),
        pytest.param([3700], None, id="no-object"),
    ],
)
def test_claims(claims: object, expected: Lifetime | None) -> None:
    """From its issue to its end; None without an end that is a time."""
    assert expected == lifetime(unsigned(claims))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"opaque",
        b"a.b",
        b"a.b.c",
        b"e30.e30.",
        b"e30.!!.",
        b"e30.eyJleHAiOiAzNzAwLCAiZXhwIjogMX0.",
        b"e30.e30.a.b",
    ],
)
def test_other_tokens(text: bytes) -> None:
    """What is no such token has no lifetime that is known."""
    assert lifetime(text) is None
