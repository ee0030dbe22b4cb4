"""Tests of checks of single values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.api.core import checks

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("check", "value", "expected"),
    [
        (checks.check_port_name, "http", 0),
        (checks.check_port_name, "a" * 16, 1),
        (checks.check_port_name, "A", 2),
        (checks.check_port_name, "80", 1),
        (checks.check_port_name, "a--b", 1),
        (checks.check_port_name, "-a", 1),
        (checks.check_port_name, "a-", 1),
        (checks.check_variable_name, "A.b-1 {", 0),
        (checks.check_variable_name, "A=b", 1),
        (checks.check_variable_name, "\u00e9", 1),
        (checks.check_header_name, "X-A", 0),
        (checks.check_header_name, "X_A", 1),
        (checks.check_key, "a.B_c-1", 0),
        (checks.check_key, "a/b", 1),
        (checks.check_key, "..", 1),
        (checks.check_key, "..a", 1),
        (checks.check_key, "a" * 254, 1),
        (checks.check_search_domain, "_a.b_c", 0),
        (checks.check_search_domain, "A", 1),
        (checks.check_search_domain, "a" * 254, 1),
        (checks.check_ip, "10.0.0.1", 0),
        (checks.check_ip, "010.000.0.1", 0),
        (checks.check_ip, "::1", 0),
        (checks.check_ip, "fe80::1%eth0", 1),
        (checks.check_ip, "10.0.0", 1),
        (checks.check_ip, "10..0.0", 1),
        (checks.check_ip, "", 1),
    ],
)
def test_checks(check: Callable[[str], list[str]], value: str, expected: int) -> None:
    """Each check says everything that is wrong with a value."""
    assert expected == len(check(value))


@pytest.mark.parametrize(
    ("value", "expected"), [(1, 0), (65535, 0), (0, 1), (65536, 1), ("http", 0), ("", 2)]
)
def test_port(value: int | str, expected: int) -> None:
    """A port is a number or a name."""
    assert expected == len(checks.port("p", value))


@pytest.mark.parametrize(
    ("check", "value", "expected"),
    [
        (checks.backsteps, "/a/b", 0),
        (checks.backsteps, "a/../../b", 1),
        (checks.descending, "/a", 1),
        (checks.descending, "/a/..", 2),
        (checks.unreserved, "a/b", 0),
        (checks.unreserved, "..a", 1),
        (checks.unreserved, "../a", 1),
    ],
)
def test_paths(check: Callable[[str, str], list[object]], value: str, expected: int) -> None:
    """Paths stay below where they start."""
    assert expected == len(check("p", value))


def test_fields() -> None:
    """Fields are found by name, and errors say where."""
    assert [] == checks.filled({"a": "b"}, "a", "x")
    assert ["x.a: Required value: why"] == [str(e) for e in checks.filled({}, "a", "x", "why")]
    assert ["x.a: Required value"] == [str(e) for e in checks.named({}, "a", "x", checks.check_key)]
    assert [] == checks.named({"a": "b"}, "a", "x", checks.check_key)
    assert [] == checks.one_of({}, "a", "x", ("b",))
    assert ["x.a: Required value"] == [
        str(e) for e in checks.one_of({}, "a", "x", ("b",), is_required=True)
    ]
    for is_required in (False, True):
        assert ['x.a: Unsupported value: "c": supported values: "b"'] == [
            str(e) for e in checks.one_of({"a": "c"}, "a", "x", ("b",), is_required=is_required)
        ]
    assert [] == checks.file_mode({}, "a", "x") + checks.file_mode({"a": 0o777}, "a", "x")
    assert 1 == len(checks.file_mode({"a": 0o1000}, "a", "x"))
