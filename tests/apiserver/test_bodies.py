"""Tests of `apfproxy.apiserver.bodies`."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.bodies import media_type


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
