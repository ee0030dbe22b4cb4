"""Tests of `apfproxy.apiserver.patch.errors`."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.patch.errors import REJECTED, PatchError


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PatchError(400, "a"), (400, "BadRequest", "a")),
        (PatchError(500, "a"), (500, "", "a")),
        (PatchError(422), (422, "Invalid", REJECTED)),
    ],
)
def test_patch_error(error: PatchError, expected: tuple[int, str, str]) -> None:
    """An error has what a Status needs; of what does not fit, nothing is said."""
    assert expected == (error.code, error.reason, str(error))
