"""The forms of names and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.objects.names import (
    check_dns_label,
    check_dns_subdomain,
    check_label_value,
    check_qualified_name,
    well_formed,
)
from apfproxy.objects.validation import validate_metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.objects.field_errors import FieldError


def check_prefix(value: str) -> list[FieldError]:
    return validate_metadata({"generateName": value, "name": "a"}, is_namespaced=False)


@pytest.mark.parametrize(
    ("check", "mistakes", "values"),
    [
        (check_dns_subdomain, 0, ["a", "a-b.c1", "a" * 253]),
        (
            check_dns_subdomain,
            1,
            ["", ".a", "a..b", "a.", "-a", "a-", "a_b", "a\n", "ä", "a" * 254],
        ),
        (check_dns_subdomain, 2, ["A" * 254]),
        (check_dns_label, 0, ["a", "a" * 63]),
        (check_dns_label, 1, ["a" * 64, "", "a.b", "a-"]),
        (check_dns_label, 2, ["A" * 64]),
        # A prefix may end in a dash, and is then judged without its last two characters.
        (check_prefix, 0, ["a", "a-", "a.-", "A-", "a--"]),
        (check_prefix, 1, ["-", "a.", "AA-"]),
        (check_qualified_name, 0, ["a", "A_b.c-D", "example.com/a", "a" * 63]),
        (check_qualified_name, 1, ["a" * 64, "/a", "Example.com/a", "a/b/c", "/a/", "a b"]),
        (check_qualified_name, 2, ["_" * 64, "", "a/"]),
        (check_qualified_name, 3, ["/"]),
        (check_label_value, 0, ["", "A.b_c-d"]),
        (check_label_value, 1, ["a" * 64, "a "]),
        (check_label_value, 2, ["-" * 64]),
    ],
)
def test_mistakes(check: Callable[[str], list[object]], mistakes: int, values: list[str]) -> None:
    assert dict.fromkeys(values, mistakes) == {value: len(check(value)) for value in values}


def test_dots_are_named() -> None:
    assert check_dns_label("a.b") == ["must not contain dots"]


def test_well_formed() -> None:
    assert well_formed("a\ud800b\U0001f600\udc00") == "a\ufffdb\U0001f600\ufffd"
    assert well_formed("aäß") == "aäß"
