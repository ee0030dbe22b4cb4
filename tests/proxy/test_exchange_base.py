"""Requests that wait for seats, get them, are refused them, and give them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.proxy.fakes import GET, OK, Bench, body, broken, connection_of, status

if TYPE_CHECKING:
    from apfproxy.flowcontrol.ticket import Flow, Ticket


def test_the_next_in_the_queue_takes_the_seat() -> None:
    """The end of one request is the start of the next, on the same connection."""
    with Bench() as bench:
        clients = [bench.ask(GET) for _ in range(3)]
        assert (1, 2, 0) == bench.use()
        for client in clients:
            assert b"" == client.take()
            bench.send(bench.upstreams[0], OK)
            assert b"200" == status(client.take())

        assert 1 == len(bench.upstreams)
        bench.assert_at_rest()


def test_full_queue_refuses(bench: Bench) -> None:
    """One executes, three wait, and the fifth is told to come back."""
    named = GET.replace(b"\r\n\r\n", b"\r\nAudit-ID: mine\r\n\r\n")
    clients = [bench.ask(named) for _ in range(5)]
    answer = clients[4].take()

    assert (1, 3, 0) == bench.use()
    assert b"429" == status(answer)
    assert b"\r\nRetry-After: 1\r\n" in answer
    assert b"\r\nAudit-Id: mine\r\n" in answer
    assert b"\r\nCache-Control: no-cache, private\r\n" in answer
    assert b"\r\nDate: " in answer
    assert b"Connection" not in answer
    assert body(answer) == b"Too many requests, please try again later.\n"
    for client in clients:
        bench.end(client)
    bench.assert_at_rest()


def test_level_without_a_queue_refuses(bench: Bench) -> None:
    """What does not fit is refused at once; the answer to HEAD has no body."""
    first = bench.ask(b"GET /refusing HTTP/1.1\r\nHost: h\r\n\r\n")
    second = bench.ask(b"HEAD /refusing HTTP/1.1\r\nHost: h\r\n\r\n")
    answer = second.take()

    assert b"429" == status(answer)
    assert b"Content-Length: 43\r\n" in answer
    assert b"X-Kubernetes-PF-FlowSchema-UID: schema-uid\r\n" in answer
    assert b"" == body(answer)
    bench.end(first)
    bench.assert_at_rest()


def test_wait_limit(bench: Bench) -> None:
    """A quarter of the request's time is the most that it waits."""
    first = bench.ask(GET)
    second = bench.ask(GET.replace(b" HTTP", b"?timeout=20s HTTP"))
    bench.wait(4.9)
    assert b"" == second.take()
    bench.wait(0.2)

    assert b"429" == status(second.take())
    assert (1, 0, 0) == bench.use()
    assert not bench.upstreams[0].ended_by
    bench.end(first)
    bench.assert_at_rest()


def test_an_error_after_the_wait_limit(bench: Bench) -> None:
    """It comes when flow control has let go of the request, and yet ends the connection."""
    errors = bench.loop.errors = []
    first, second = bench.ask(GET), bench.ask(GET.replace(b" HTTP", b"?timeout=20s HTTP"))
    connection_of(second).write = broken
    bench.wait(5)

    assert [ZeroDivisionError] == [type(error) for error in errors]
    assert "abort" == second.ended_by
    bench.end(first)
    bench.assert_at_rest()


def test_client_leaves_its_queue(bench: Bench) -> None:
    """It takes its place along, and no timer of it is left."""
    first, second, third = (bench.ask(GET) for _ in range(3))
    bench.end(second)
    assert (1, 1, 0) == bench.use()
    bench.upstreams[0].take()
    bench.send(bench.upstreams[0], OK)
    assert b"200" == status(first.take())
    bench.send(bench.upstreams[0], OK)
    assert b"200" == status(third.take())
    bench.wait(30)

    assert 1 == bench.counters.client_aborts
    assert b"" == second.take()
    bench.assert_at_rest()


def test_deadline_in_the_queue(bench: Bench) -> None:
    """The request's own time ends it where the wait limit has not."""
    first = bench.ask(GET)
    second = bench.ask(GET.replace(b" HTTP", b"?timeout=20s HTTP"))
    connection_of(second).deadline_ns = bench.clock.now_ns() + 1
    bench.wait(0.001)

    assert b"504" == status(second.take())
    bench.end(first)
    bench.assert_at_rest()


class BrokenObserver:
    """Gathers nothing, and has a bug."""

    def on_seats_back(self, ticket: Ticket, now_ns: int) -> None:
        """Fail."""
        raise ZeroDivisionError((ticket, now_ns))

    def on_no_seats(self, flow: Flow, waited_ns: int, *, is_rejected: bool) -> None:
        """Fail."""
        raise ZeroDivisionError((flow, waited_ns, is_rejected))


@pytest.mark.parametrize("is_answered", [True, False], ids=["answered", "left"])
def test_an_error_before_the_seats_are_back(bench: Bench, is_answered: bool) -> None:
    """They come back all the same, and so does a place in a queue."""
    errors = bench.loop.errors = []
    bench.context.flow_control.top_flows = BrokenObserver()
    client, waiting = bench.ask(GET), bench.ask(GET)
    assert (1, 1, 0) == bench.use()
    bench.end(waiting)
    assert (1, 0, 0) == bench.use()
    if is_answered:
        bench.send(bench.upstreams[0], OK)
    else:
        bench.end(client)

    assert (0, 0, 0) == bench.use()
    assert client.ended_by
    assert {ZeroDivisionError} == {type(error) for error in errors}
