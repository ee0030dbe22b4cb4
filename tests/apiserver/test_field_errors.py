"""Errors that only objects of a server have read as Kubernetes words them."""

from __future__ import annotations

from apfproxy.apiserver.field_errors import duplicate, too_many


def test_text() -> None:
    assert 'a: Duplicate value: "x"' == str(duplicate("a", "x"))
    assert "a: Too many: 3: must have at most 2 items" == str(too_many("a", 3, 2))
