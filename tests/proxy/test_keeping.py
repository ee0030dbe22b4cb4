"""Bounds for what is kept."""

from __future__ import annotations

from apfproxy.proxy.keeping import Kept


def test_keeps_what_comes_twice() -> None:
    """What comes once is not kept."""
    kept: Kept[str, int] = Kept(4)
    kept.offer("a", 1)
    kept.offer("b", 2)
    kept.offer("a", 3)

    assert {"a": 3} == kept.values
    assert "<Kept, 1 of 4>" == repr(kept)


def test_the_older_half_makes_room() -> None:
    """There are never more values than the bound; what was put in first goes."""
    kept: Kept[str, int] = Kept(3)
    for key in "aabbccdd":
        kept.offer(key, 0)

    assert ["c", "d"] == list(kept.values)


def test_keys_seen_once_are_forgotten() -> None:
    """A key that comes again after too many others counts as new."""
    kept: Kept[int, int] = Kept(2)
    for key in (1, 2, 3, 4, 5, 1):
        kept.offer(key, 0)

    assert {} == kept.values
