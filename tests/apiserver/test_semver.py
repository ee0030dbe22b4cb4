"""Tests of semantic versions."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.semver import is_semver


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0",
        "1.2.3",
        "10.20.30-alpha",
        "1.0.0-0",
        "1.0.0-alpha.1",
        "1.0.0-0a",
        "1.0.0-00-",
        "1.0.0--",
        "1.0.0+001",
        "1.0.0-x.7.z+build.1-2",
    ],
)
def test_versions(text: str) -> None:
    """Three numbers, perhaps with a pre-release and a build."""
    assert is_semver(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1.2",
        "1.2.3.4",
        "v1.2.3",
        "01.2.3",
        "1.2.03",
        "1.0.0-",
        "1.0.0-01",
        "1.0.0-a.01",
        "1.0.0-01+b",
        "1.0.0-a..b",
        "1.0.0+",
        "1.0.0+a_b",
        "1.0.0\n",
        "1.0.0 ",
        "\u0661.0.0",
        "1.2.3-" + "a." * 10_000,
    ],
)
def test_others(text: str) -> None:
    """Nothing may be missing, added or padded with zeros."""
    assert not is_semver(text)
