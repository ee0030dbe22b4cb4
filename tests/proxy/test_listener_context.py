"""What all connections of a listener share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.proxy import listener_context as context_module

if TYPE_CHECKING:
    import pytest

    from tests.proxy.fakes import Bench


def test_suffixes_are_shared_and_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections of one address have one object; many addresses do not fill the memory."""
    monkeypatch.setattr(context_module, "MAX_KEPT_SUFFIXES", 2)
    intern = bench.listener.intern
    first = intern(b"a" * 2)
    assert first is intern(b"aa"[:1] * 2)
    intern(b"b")

    assert b"c" == intern(b"c")
    assert first == intern(b"a" * 2)


def test_tells_of_closed_connections(bench: Bench) -> None:
    """Who waits for the last one looks after each."""
    counts: list[int] = []
    clients = [bench.client() for _ in range(3)]
    bench.end(clients[0])
    bench.listener.on_connection_closed = lambda: counts.append(len(bench.listener.connections))
    for client in clients[1:]:
        bench.end(client)

    assert [1, 0] == counts
