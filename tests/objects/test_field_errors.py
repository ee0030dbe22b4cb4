"""Errors read as Kubernetes words them."""

from __future__ import annotations

import pytest

from apfproxy.objects.field_errors import (
    LONGEST_VALUE,
    FieldError,
    Reason,
    forbidden,
    invalid,
    not_supported,
    required,
    shown,
    too_long,
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (required("a"), "a: Required value"),
        (required("a.b", "must be"), "a.b: Required value: must be"),
        (invalid("a[0]", ["*", "b"], "no"), 'a[0]: Invalid value: ["*","b"]: no'),
        (invalid("a", -1, "no"), "a: Invalid value: -1: no"),
        (forbidden("a", "no"), "a: Forbidden: no"),
        (
            not_supported("a", "c", ("y", "x")),
            'a: Unsupported value: "c": supported values: "x", "y"',
        ),
        (FieldError("a", Reason.TOO_LONG, "may be 3", "xyzzy"), "a: Too long: may be 3"),
        (FieldError("a", Reason.DUPLICATE, value="x"), 'a: Duplicate value: "x"'),
        (too_long("a", 1), "a: Too long: may not be more than 1 byte"),
        (FieldError("", Reason.INVALID, "no", "x\ny"), 'Invalid value: "x\\ny": no'),
    ],
)
def test_text(error: FieldError, text: str) -> None:
    """An error is one line: path, kind of error, value where it helps, detail."""
    assert text == str(error)


def test_long_values_are_cut() -> None:
    assert len(shown("x" * 100_000)) == LONGEST_VALUE
    assert len(shown("x" * 10_000)) > 10_000
    assert shown("x" * 100_000).endswith("x...")
