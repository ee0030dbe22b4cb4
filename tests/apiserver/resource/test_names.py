"""Tests of the names that ResourceSlices use."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.resource.names import (
    shortened,
    validate_driver,
    validate_key,
    validate_pool_name,
)
from tests.apiserver.resource.causes import INVALID, REQUIRED, TOO_LONG, causes


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("gpu.example.com", []),
        ("GPU.example.com", []),
        ("", [REQUIRED]),
        ("Bad Driver", [INVALID]),
        ("a" * 63, []),
        ("a" * 64, [TOO_LONG]),
        ("_" * 64, [TOO_LONG, INVALID]),
    ],
)
def test_drivers(name: str, reasons: list[str]) -> None:
    """A driver's name is a DNS subdomain of at most 63 bytes, in any case."""
    assert [("p", reason) for reason in reasons] == causes(validate_driver(name, "p"))


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("pool", []),
        ("a.b/c", []),
        ("", [REQUIRED]),
        ("A_b", [INVALID]),
        ("a//b", [INVALID]),
        ("/", [INVALID, INVALID]),
        ("a/" * 127, [TOO_LONG, INVALID]),
    ],
)
def test_pools(name: str, reasons: list[str]) -> None:
    """A pool's name is made of DNS subdomains."""
    assert [("p", reason) for reason in reasons] == causes(validate_pool_name(name, "p"))


@pytest.mark.parametrize(
    ("key", "reasons"),
    [
        ("model", []),
        ("_a1", []),
        ("dra.example.com/model", []),
        ("Example.com/model", []),
        ("a/b/c", []),
        ("", [INVALID]),
        ("1a", [INVALID]),
        ("a-b", [INVALID]),
        ("\u00e9", [INVALID]),
        ("a" * 32, []),
        ("a" * 33, [TOO_LONG]),
        ("/a", [INVALID]),
        ("a/", [INVALID]),
        ("/", [INVALID, INVALID]),
        ("a_b/c", [INVALID]),
        (f"{'a' * 64}/{'b' * 33}", [TOO_LONG, TOO_LONG]),
    ],
)
def test_keys(key: str, reasons: list[str]) -> None:
    """An attribute's name is an identifier, perhaps after a domain and a slash."""
    assert [("p", reason) for reason in reasons] == causes(validate_key(key, "p"))


def test_long_keys_are_shortened() -> None:
    """Paths show the beginning and the end."""
    assert "x" * 96 == shortened("x" * 96)
    assert "x" * 47 + "..." + "x" * 46 == shortened("x" * 97)
