"""Tests of names of container images."""

from __future__ import annotations

import pytest

from apfproxy.api.core.images import pull_policy

SHA = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("library/nginx", "Always"),
        ("localhost:5000/a/b", "Always"),
        ("localhost:5000/a/b:v1", "IfNotPresent"),
        ("registry.example.com/a__b/c-d", "Always"),
        ("[::1]:5000/a", "Always"),
        (f"nginx@{SHA}", "IfNotPresent"),
        (f"nginx:latest@{SHA}", "Always"),
        ("Nginx", "IfNotPresent"),
        ("Registry/nginx", "Always"),
        ("", "IfNotPresent"),
        ("a b", "IfNotPresent"),
        ("0" * 64, "IfNotPresent"),
        ("0" * 63, "Always"),
        ("a" * 256, "IfNotPresent"),
        ("a" * 1001, "IfNotPresent"),
    ],
)
def test_pull_policy(image: str, expected: str) -> None:
    """Only the tag `latest` is pulled always, given or implied."""
    assert expected == pull_policy(image)
