"""Bodies that are waited for before their request takes seats."""

from __future__ import annotations

import pytest

from tests.proxy.fakes import CHUNKED_POST, GET, OK, POST, Bench, status

GATHERED_BYTES = 8


def bench_of() -> Bench:
    """A data plane that waits for a few bytes."""
    return Bench(gathered_body_bytes=GATHERED_BYTES)


def post(length: int) -> bytes:
    """The head of a request with a body of so many bytes."""
    return POST.replace(b"4", b"%d" % length) + b"\r\n"


def test_small_body_is_waited_for() -> None:
    """A request whose body is not there holds no seat, and others go by it."""
    with bench_of() as bench:
        slow = bench.ask(post(4) + b"b")
        quick = bench.ask(GET)
        assert b"GET" in bench.upstreams[0].take()
        bench.send(bench.upstreams[0], OK)
        assert b"200" == status(quick.take())

        bench.send(slow, b"od")
        assert b"" == bench.upstreams[0].take()
        bench.send(slow, b"y")
        assert bench.upstreams[0].take().endswith(b"\r\n\r\nbody")
        bench.send(bench.upstreams[0], OK)
        assert b"200" == status(slow.take())
        bench.end(slow)
        bench.end(quick)
        bench.assert_at_rest()


def test_start_of_a_large_body_is_waited_for() -> None:
    """With enough of it there the request goes on its way, and the rest follows."""
    with bench_of() as bench:
        client = bench.ask(post(20) + b"1234567")
        assert b"" == bench.upstreams[0].take()
        bench.send(client, b"89")
        assert bench.upstreams[0].take().endswith(b"\r\n\r\n123456789")
        bench.send(client, b"01234567890")
        assert b"01234567890" == bench.upstreams[0].take()
        bench.send(bench.upstreams[0], OK)
        bench.end(client)
        bench.assert_at_rest()


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(CHUNKED_POST + b"\r\n1\r\nb\r\n", id="of-no-known-length"),
        pytest.param(POST + b"Expect: 100-continue\r\n\r\n", id="that-is-asked-for"),
        pytest.param(
            POST.replace(b"a/pods", b"a/pods/b/exec") + b"\r\nb", id="of-a-request-without-seats"
        ),
    ],
)
def test_other_bodies_are_not_waited_for(request_: bytes) -> None:
    """A client may wait for an answer to what it has sent."""
    with bench_of() as bench:
        client = bench.ask(request_)
        assert b"POST" in bench.upstreams[0].take()
        bench.end(client)
        bench.assert_at_rest()


def test_body_that_does_not_come() -> None:
    """The client is at fault, and is told so."""
    with bench_of() as bench:
        client = bench.ask(post(4) + b"b")
        bench.wait(61)

        assert b"408" == status(client.take())
        bench.end(client)
        bench.assert_at_rest()


def test_client_that_leaves_meanwhile() -> None:
    """Nothing is left of its request."""
    with bench_of() as bench:
        bench.end(bench.ask(post(4) + b"b"))

        assert b"" == bench.upstreams[0].take()
        bench.assert_at_rest()


def test_next_request_after_such_a_body() -> None:
    """What follows the body is the next request."""
    with bench_of() as bench:
        client = bench.ask(post(4) + b"b")
        bench.send(client, b"ody" + GET)
        assert bench.upstreams[0].take().endswith(b"body")
        bench.send(bench.upstreams[0], OK)

        assert b"GET" in bench.upstreams[0].take()
        bench.send(bench.upstreams[0], OK)
        bench.end(client)
        bench.assert_at_rest()


def test_bodies_that_do_not_come_of_somebody_known() -> None:
    """Equal fields are of a client that is known without being found out: no other way to be."""
    with bench_of() as bench:
        for _ in range(3):
            client = bench.ask(post(4) + b"body")
            bench.send(bench.upstreams[0], OK)
            assert b"200" == status(client.take())
            bench.end(client)
        slow = bench.ask(post(4) + b"b")
        other = bench.ask(post(4) + b"b")
        bench.wait(61)
        answers = [slow.take(), other.take()]

        assert [b"408"] * 2 == [status(answer) for answer in answers]
        assert all(b"X-Kubernetes-PF" not in answer for answer in answers)
        bench.end(slow)
        bench.end(other)
        bench.assert_at_rest()


def test_body_whose_start_stopped_the_reading() -> None:
    """Behind another request so much may wait that no more is read: its rest is, once it begins."""
    with Bench(gathered_body_bytes=32768) as bench:
        head = post(32768)
        client = bench.ask(GET + head + b"x" * 32700)
        assert not client.reads
        bench.upstreams[0].take()
        bench.send(bench.upstreams[0], OK)
        bench.send(client, b"x" * 68)

        assert bench.upstreams[0].take().endswith(b"x" * 32768)
        bench.send(bench.upstreams[0], OK)
        bench.end(client)
        bench.assert_at_rest()
