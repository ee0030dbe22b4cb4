"""Requests of one connection: by what it is known, and what it forgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.proxy import client_kinds as client_kinds_module
from apfproxy.proxy.header_blocks import MAX_REPEATED_BYTES
from tests.proxy.fakes import GET, OK, POST, Bench, FakeTransport, connection_of, status

if TYPE_CHECKING:
    from apfproxy.proxy.request import Request


def ask(bench: Bench, client: FakeTransport, head: bytes, times: int) -> list[Request]:
    """Have a head answered so many times; the requests it became."""
    found = []
    for _ in range(times):
        bench.send(client, head)
        exchange = connection_of(client).exchange
        assert exchange is not None
        found.append(exchange.request)
        bench.send(bench.upstreams[0], OK)
        assert b"200" == status(client.take())
    return found


@pytest.mark.parametrize(
    ("head", "different"),
    [
        pytest.param(GET, 2, id="short"),
        pytest.param(GET[:-2] + b"A: %b\r\n\r\n" % (b"a" * MAX_REPEATED_BYTES), 5, id="long"),
        pytest.param(POST + b"\r\nbody", 5, id="body"),
        pytest.param(POST.replace(b"4", b"0") + b"\r\n", 2, id="empty-body"),
    ],
)
def test_a_repeated_head_is_not_parsed(bench: Bench, head: bytes, different: int) -> None:
    """From the third time on a short head without a body is the same request again."""
    client = bench.client()

    assert different == len(set(map(id, ask(bench, client, head, 5))))
    bench.end(client)
    bench.assert_at_rest()


def test_what_a_connection_is_known_by_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks is authenticated again, and connections hold no more than the cache."""
    monkeypatch.setattr(client_kinds_module, "MAX_KEPT_FIELDS", 2)
    with Bench() as bench:
        client = bench.client()
        for forget in (
            bench.context.forget_authentications,
            connection_of(client).forget_header_blocks,
        ):
            before = ask(bench, client, GET, 3)
            forget()
            assert before[-1] is not ask(bench, client, GET, 1)[0]
        assert 1 == len(connection_of(client)._reader._known)  # noqa: SLF001  nothing else tells
        other = bench.client()
        for number in range(2):
            head = GET[:-2] + b"A: %d\r\n\r\n" % number
            ask(bench, other, head, 2)

        assert [] == connection_of(client)._reader._known  # noqa: SLF001
        bench.end(client)
        bench.end(other)
