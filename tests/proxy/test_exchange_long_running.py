"""Exchanges that last, that are not served, that teach or that are the last ones."""

from __future__ import annotations

import pytest

from apfproxy.proxy.watch_seats import INITIAL_EVENTS_END
from tests.proxy.fakes import (
    CHUNKED_OK,
    GET,
    LIST,
    LOG,
    OK,
    WATCH,
    Bench,
    body,
    connection_of,
    status,
)


def test_watch_gives_its_seat_back_when_it_is_silent(bench: Bench) -> None:
    """It then goes on for as long as both sides like."""
    client = bench.ask(WATCH)
    assert (1, 0, 0) == bench.use()
    bench.send(bench.upstreams[0], CHUNKED_OK + b"5\r\nevent\r\n")
    assert (1, 0, 0) == bench.use()
    assert ", 1 watches," in repr(bench.costs)
    bench.wait(0.25)
    assert (0, 0, 0) == bench.use()
    bench.wait(3600)
    bench.send(bench.upstreams[0], b"5\r\nevent\r\n")
    assert b"5\r\nevent\r\n5\r\nevent\r\n" == body(client.take())
    bench.send(bench.upstreams[0], b"0\r\n\r\n")

    assert b"0\r\n\r\n" == client.take()
    bench.assert_at_rest()


def test_watch_gives_its_seat_back_at_the_bookmark(bench: Bench) -> None:
    """The next in the queue is dispatched by it."""
    client = bench.ask(WATCH.replace(b"watch=1", b"watch=1&sendInitialEvents=true"))
    waiting = bench.ask(GET)
    bench.send(bench.upstreams[0], b"HTTP/1.1 200 OK\r\n\r\n")
    assert (1, 1, 0) == bench.use()
    bench.send(bench.upstreams[0], INITIAL_EVENTS_END)
    assert (1, 0, 1) == bench.use()
    bench.end(client)
    bench.end(waiting)

    bench.assert_at_rest()


@pytest.mark.parametrize(
    "seconds", [pytest.param(0.0, id="with-its-seat"), pytest.param(1.0, id="without-its-seat")]
)
def test_client_leaves_a_watch(bench: Bench, seconds: float) -> None:
    """Nothing of it is left: no seat, no timer, no count."""
    client = bench.ask(WATCH)
    bench.send(bench.upstreams[0], CHUNKED_OK)
    bench.wait(seconds)
    bench.end(client)

    bench.assert_at_rest()
    bench.wait(100)
    bench.assert_at_rest()


def test_watch_that_is_refused_by_the_upstream(bench: Bench) -> None:
    """An answer that is whole at once never was a watch."""
    client = bench.ask(WATCH)
    bench.send(bench.upstreams[0], OK.replace(b"200 OK", b"403 Forbidden"))

    assert b"403" == status(client.take())
    bench.assert_at_rest()


def test_watch_can_be_ended(bench: Bench) -> None:
    """Its client resumes it, so it ends as if it were through, but between two events only."""
    client = bench.ask(WATCH)
    connection_of(client).end_watch()
    assert b"" == client.take()
    bench.send(bench.upstreams[0], CHUNKED_OK + b"5\r\neve")
    client.take()
    connection_of(client).end_watch()
    assert b"" == client.take()
    bench.send(bench.upstreams[0], b"nt\r\n")
    assert b"2\r\nnt\r\n" == client.take()
    connection_of(client).end_watch()

    assert b"0\r\n\r\n" == client.take()
    assert client.has_eof
    bench.assert_at_rest()


def test_log_cannot_be_ended(bench: Bench) -> None:
    """Its client would take what it has for all there is."""
    client = bench.ask(LOG)
    bench.send(bench.upstreams[0], CHUNKED_OK + b"4\r\nline\r\n")
    client.take()
    connection_of(client).end_watch()

    assert (b"", "") == (client.take(), client.ended_by)
    bench.send(bench.upstreams[0], b"0\r\n\r\n")
    assert b"0\r\n\r\n" == client.take()
    bench.assert_at_rest()


def test_sized_answer_is_not_made_whole(bench: Bench) -> None:
    """An end can be put only to an answer that says where it ends in its body."""
    client = bench.ask(WATCH)
    bench.send(bench.upstreams[0], b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1")
    connection_of(client).end_watch()

    assert b"1" == body(client.take())
    assert client.has_eof
    bench.assert_at_rest()


def test_long_running_request_takes_no_seat(bench: Bench) -> None:
    """It has no deadline once its answer has begun."""
    clients = [bench.ask(LOG), bench.ask(GET)]
    bench.connect()
    assert (1, 0, 0) == bench.use()
    for upstream in bench.upstreams:
        bench.send(upstream, CHUNKED_OK)
    bench.wait(3600)

    assert ["", "abort"] == [client.ended_by for client in clients]
    bench.end(clients[0])
    bench.assert_at_rest()


def test_upgrade_that_is_not_served(bench: Bench) -> None:
    """It means nothing: the request is a normal one."""
    client = bench.ask(b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n")
    assert b"upgrade" not in bench.upstreams[0].take().lower()
    bench.send(bench.upstreams[0], OK)

    assert b"200" == status(client.take())
    assert not client.has_eof
    bench.assert_at_rest()


@pytest.mark.parametrize("is_whole", [True, False], ids=["in-one-read", "in-two-reads"])
@pytest.mark.parametrize(
    ("code", "learned"),
    [pytest.param(b"200", 1, id="success"), pytest.param(b"403", 0, id="refusal")],
)
def test_lists_teach_their_cost(bench: Bench, is_whole: bool, code: bytes, learned: int) -> None:
    """Only an answer with objects says anything about them, however it comes."""
    client = bench.ask(LIST)
    head = b"HTTP/1.1 " + code + b" X\r\nContent-Length: 4\r\n\r\n"
    for piece in [head + b"body"] if is_whole else [head + b"bo", b"dy"]:
        bench.send(bench.upstreams[0], piece)

    assert code == status(client.take())
    assert repr(bench.costs).startswith(f"<LearnedCosts of {learned} lists")
    bench.assert_at_rest()


def test_draining_says_that_the_connection_closes(bench: Bench) -> None:
    """An answer that begins from then on is the last one."""
    client = bench.ask(GET + GET)
    bench.context.listener.is_draining = True
    bench.send(bench.upstreams[0], OK)

    assert b"\r\nConnection: close\r\n" in client.take()
    assert client.has_eof
    bench.assert_at_rest()
