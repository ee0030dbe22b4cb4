"""The forms of names and labels."""

from __future__ import annotations

import pytest

from apfproxy.objects.names import (
    check_dns_label,
    check_dns_subdomain,
    check_label_value,
    check_qualified_name,
    well_formed,
)
from apfproxy.objects.validation import validate_metadata


@pytest.mark.parametrize(
    ("value", "mistakes"),
    [
        ("a", 0),
        ("a-b.c1", 0),
        ("a" * 253, 0),
        ("a" * 254, 1),
        ("A" * 254, 2),
        ("", 1),
        (".a", 1),
        ("a..b", 1),
        ("a.", 1),
        ("-a", 1),
        ("a-", 1),
        ("a_b", 1),
        ("a\n", 1),
        ("ä", 1),
    ],
)
def test_dns_subdomain(value: str, mistakes: int) -> None:
    """Labels of lower case between dots, 253 bytes at most."""
    assert mistakes == len(check_dns_subdomain(value))


@pytest.mark.parametrize(
    ("value", "mistakes"),
    [("a", 0), ("a" * 63, 0), ("a" * 64, 1), ("A" * 64, 2), ("", 1), ("a.b", 1), ("a-", 1)],
)
def test_dns_label(value: str, mistakes: int) -> None:
    """One label of lower case, 63 bytes at most."""
    assert mistakes == len(check_dns_label(value))


def test_dots_are_named() -> None:
    """A subdomain where a label belongs is told what it has too much."""
    assert check_dns_label("a.b") == ["must not contain dots"]


@pytest.mark.parametrize(
    ("value", "mistakes"),
    [("a", 0), ("a-", 0), ("a.-", 0), ("-", 1), ("a.", 1), ("A-", 0), ("AA-", 1), ("a--", 0)],
)
def test_name_prefix(value: str, mistakes: int) -> None:
    """A prefix may end in a dash, and is then judged without its last two characters."""
    found = validate_metadata({"generateName": value, "name": "a"}, is_namespaced=False)
    assert mistakes == len(found)


@pytest.mark.parametrize(
    ("value", "mistakes"),
    [
        ("a", 0),
        ("A_b.c-D", 0),
        ("example.com/a", 0),
        ("a" * 63, 0),
        ("a" * 64, 1),
        ("_" * 64, 2),
        ("", 2),
        ("/a", 1),
        ("/", 3),
        ("a/", 2),
        ("Example.com/a", 1),
        ("a/b/c", 1),
        ("/a/", 1),
        ("a b", 1),
    ],
)
def test_qualified_name(value: str, mistakes: int) -> None:
    """A name of 63 bytes at most, perhaps after a subdomain and a slash."""
    assert mistakes == len(check_qualified_name(value))


@pytest.mark.parametrize(
    ("value", "mistakes"), [("", 0), ("A.b_c-d", 0), ("a" * 64, 1), ("-" * 64, 2), ("a ", 1)]
)
def test_label_value(value: str, mistakes: int) -> None:
    """Empty, or as a label's name."""
    assert mistakes == len(check_label_value(value))


def test_well_formed() -> None:
    """Only what no encoding holds is replaced."""
    assert well_formed("a\ud800b\U0001f600\udc00") == "a\ufffdb\U0001f600\ufffd"
    assert well_formed("aäß") == "aäß"
