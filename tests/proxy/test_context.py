"""What all connections share."""

from __future__ import annotations

import pytest

from apfproxy.proxy import context as context_module
from apfproxy.proxy.context import MAX_KEPT_HEAD_BYTES, Heads
from apfproxy.settings import Address, UpstreamSettings
from tests.proxy.fakes import GET, OK, POST, Bench, connection_of

GET_10 = b"GET / HTTP/1.0\r\n\r\n"


def heads_of(bench: Bench) -> Heads:
    """The heads of clients of which nothing is known."""
    return bench.context.heads_of("10.0.0.1")


@pytest.mark.parametrize(
    ("upstream", "host"),
    [
        pytest.param(UpstreamSettings(), b"127.0.0.1:80", id="address"),
        pytest.param(UpstreamSettings(address=Address(host="::1", port=8)), b"[::1]:8", id="ipv6"),
        pytest.param(UpstreamSettings(host_header="api"), b"api", id="set"),
    ],
)
def test_host_of_the_origin(upstream: UpstreamSettings, host: bytes) -> None:
    """A request without a Host gets the origin's address, or what the settings say."""
    with Bench(upstream=upstream) as bench:
        client = bench.ask(GET_10)
        assert b"\r\nHost: " + host + b"\r\n" in bench.origins[0].take()
        bench.end(client)


@pytest.mark.parametrize(
    ("request_", "kept"),
    [
        pytest.param(GET, 1, id="alone"),
        pytest.param(GET + GET[:9], 0, id="with-the-next-one"),
        pytest.param(POST + b"\r\n", 0, id="before-a-body"),
        pytest.param(POST.replace(b"4", b"0") + b"\r\n", 1, id="empty-body"),
        pytest.param(GET[:-2] + b"A: " + b"b" * MAX_KEPT_HEAD_BYTES + b"\r\n\r\n", 0, id="long"),
    ],
)
def test_keeps_heads_that_will_come_again(bench: Bench, request_: bytes, kept: int) -> None:
    """A head that is a read of its own is known by its bytes once it came twice."""
    client = bench.ask(request_)
    assert {} == heads_of(bench).kept
    bench.end(client)
    client = bench.ask(request_)

    assert kept == len(heads_of(bench).kept)
    assert f"<Heads, {kept} kept>" == repr(heads_of(bench))
    bench.end(client)


def test_known_head_is_used_again(bench: Bench) -> None:
    """The same object, so what is known of it is kept too."""
    client = bench.ask(GET)
    heads = []
    for _ in range(3):
        exchange = connection_of(client).exchange
        assert exchange is not None
        heads.append(exchange.head)
        bench.send(bench.origins[0], OK)
        bench.send(client, GET)

    assert heads[1] is heads[2]
    bench.end(client)
    bench.assert_at_rest()


def test_kept_heads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ever new heads do not fill the memory."""
    monkeypatch.setattr(context_module, "MAX_KEPT_HEADS", 4)
    with Bench() as bench:
        heads = heads_of(bench)
        counts = []
        for i in range(7):
            for _ in range(2):
                heads.read(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % i, is_alone=True)
            counts.append(len(heads.kept))

    assert [1, 2, 3, 4, 3, 4, 3] == counts


def test_suffixes_are_shared_and_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections of one address have one object; many addresses do not fill the memory."""
    monkeypatch.setattr(context_module, "MAX_KEPT_HEADS", 2)
    intern = bench.context.intern
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
    bench.context.when_connections_close(lambda: counts.append(len(bench.context.connections)))
    for client in clients[1:]:
        bench.end(client)

    assert [1, 0] == counts
    assert "<Context with 0 connections>" == repr(bench.context)
