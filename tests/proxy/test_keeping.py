"""Bounds for what is kept."""

from __future__ import annotations

import pytest

from apfproxy.proxy.keeping import drop_older_half


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("a", "", id="one"),
        pytest.param("abc", "c", id="odd"),
        pytest.param("abcd", "cd", id="even"),
    ],
)
def test_drops_what_was_put_in_first(before: str, after: str) -> None:
    """The older half goes, rounded up, so that there is always room for one more."""
    kept = dict.fromkeys(before, 0)

    drop_older_half(kept)

    assert after == "".join(kept)
