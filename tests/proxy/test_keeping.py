"""Bounds for what is kept."""

from __future__ import annotations

import pytest

from apfproxy.proxy.keeping import Kept


@pytest.mark.parametrize(
    ("offered", "kept"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("abc", "", id="once-each"),
        pytest.param("aba", "a", id="one-twice"),
        pytest.param("abcabcab", "abc", id="each-twice"),
        pytest.param("aabbccdd", "abcd", id="full"),
        pytest.param("aabbccddee", "cde", id="the-older-half-goes"),
        pytest.param("aabcdefghiijj", "aij", id="those-that-came-once-push-nothing-out"),
        pytest.param("abcdefghia", "", id="too-long-ago"),
    ],
)
def test_keeps_what_comes_again(offered: str, kept: str) -> None:
    """Of four at most, those that came twice lately are kept."""
    values: Kept[str, str] = Kept(4)
    for key in offered:
        values.offer(key, key.upper())

    assert dict(zip(kept, kept.upper(), strict=True)) == values.values
    assert f"<Kept, {len(kept)} of 4>" == repr(values)


def test_odd_bound() -> None:
    """The larger half goes, so there is always room for one more."""
    values: Kept[int, int] = Kept(1)
    for key in (1, 1, 2, 2):
        values.offer(key, key)

    assert {2: 2} == values.values
