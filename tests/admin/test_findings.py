"""Texts that sentences are made of."""

from __future__ import annotations

from apfproxy.admin.findings import MAX_PROBLEM, cut, listed


def test_listed() -> None:
    """Three are named, the others counted."""
    assert ["", "a", "a, b, c", "a, b, c and 2 more"] == [
        listed(texts) for texts in ([], ["a"], list("abc"), list("abcde"))
    ]


def test_cut() -> None:
    """A long problem ends with an ellipsis."""
    assert "a" * MAX_PROBLEM == cut("a" * MAX_PROBLEM)
    assert "a" * (MAX_PROBLEM - 1) + "…" == cut("a" * (MAX_PROBLEM + 1))
