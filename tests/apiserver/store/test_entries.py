"""Tests of what the store holds."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.store.entries import Entry, TooOldError, key_of


def test_keys_order_as_those_of_etcd() -> None:
    """A namespace with a suffix comes before the namespace itself, as `-` comes before `/`."""
    entry = Entry("pods", "team-a", "x", 1, "u", {}, {}, b"{}")

    assert "team-a/x" == entry.key
    assert ["/x", "team-a/x", "team/a", "team0/a"] == sorted(
        [key_of("team0", "a"), key_of("team", "a"), entry.key, key_of("", "x")]
    )


def test_entries_never_change() -> None:
    """Readers share them."""
    entry = Entry("pods", "", "x", 1, "u", {}, {}, b"{}")

    with pytest.raises(AttributeError):
        entry.name = "y"  # type: ignore[misc]  # what must not work


def test_too_old_says_what_is_not() -> None:
    """The message is the one that Kubernetes gives."""
    error = TooOldError(3, 8)

    assert ("too old resource version: 3 (8)", 3, 8) == (
        str(error),
        error.resource_version,
        error.floor,
    )
