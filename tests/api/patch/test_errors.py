"""Tests of `apfproxy.api.patch.errors`."""

from __future__ import annotations

import pytest

from apfproxy.api.patch.errors import REJECTED, PatchError, rejected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PatchError(400, "a"), (400, "BadRequest", "a", "a")),
        (PatchError(500, "a", "b"), (500, "", "a", "b")),
        (rejected("b"), (422, "Invalid", REJECTED, "b")),
    ],
)
def test_patch_error(error: PatchError, expected: tuple[int, str, str, str]) -> None:
    """An error has what a Status needs, and the cause for a log."""
    assert expected == (error.code, error.reason, str(error), error.cause)
