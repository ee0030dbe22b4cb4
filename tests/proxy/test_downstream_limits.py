"""What one connection may ask for: the length of a body, and requests ahead of their answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apfproxy.settings import DownstreamSettings, LimitSettings
from tests.proxy.fakes import CHUNKED_POST, GET, OK, POST, Bench, FakeTransport, body, status

CHUNKED = CHUNKED_POST + b"\r\n"
SIZED = POST + b"\r\n"


def limited(**limits: Any) -> Bench:  # noqa: ANN401  settings by their names
    """A data plane with limits."""
    return Bench(downstream=DownstreamSettings(limits=LimitSettings(**limits)))


def answers(data: bytes) -> list[bytes]:
    """The status codes of answers."""
    return [part[:3] for part in data.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize(
    ("request_", "is_refused"),
    [
        pytest.param(SIZED + b"body", False, id="sized-fits"),
        pytest.param(SIZED.replace(b"4", b"5") + b"bodyy", True, id="sized"),
        pytest.param(SIZED.replace(b"4", b"5"), True, id="sized-before-it-comes"),
        pytest.param(CHUNKED + b"4\r\nbody\r\n0\r\n\r\n", False, id="chunked-fits"),
        pytest.param(CHUNKED + b"2\r\nbo\r\n3\r\ndyy\r\n0\r\n\r\n", True, id="chunked"),
    ],
)
def test_length_of_a_body(request_: bytes, *, is_refused: bool) -> None:
    """One that is too long gets a 413 with the limit, and nothing of it is forwarded."""
    with limited(max_body_bytes=4) as bench:
        client = bench.ask(request_)
        answer = client.take()

        assert is_refused is (b"413" == status(answer))
        assert is_refused is (b"" == bench.upstreams[0].take())
        if is_refused:
            assert "longer than 4 bytes" in json.loads(body(answer))["message"]
            assert client.has_eof
            bench.assert_at_rest()
        else:
            bench.send(bench.upstreams[0], OK)
            assert b"200" == status(client.take())


def test_chunked_body_that_grows_too_long() -> None:
    """What was forwarded is cut, so that the upstream takes it for nothing whole."""
    with limited(max_body_bytes=4) as bench:
        client = bench.ask(CHUNKED + b"4\r\nbody\r\n")
        assert b"" == client.take()
        bench.send(client, b"1\r\ny\r\n")

        assert b"413" == status(client.take())
        assert "abort" == bench.upstreams[0].ended_by
        bench.assert_at_rest()


@pytest.mark.parametrize("reads", [1, 2, 3], ids=["at-once", "in-two-reads", "in-three-reads"])
@pytest.mark.parametrize(("number", "is_refused"), [(3, False), (4, True)])
def test_pipelined_requests(number: int, reads: int, *, is_refused: bool) -> None:
    """One request more than the limit gets a 400 that names it, behind all other answers."""
    with limited(max_pipelined_requests=3) as bench:
        sent = GET * number
        client = bench.client()
        size = -(-len(sent) // reads)
        for start in range(0, len(sent), size):
            bench.send(client, sent[start : start + size])
        for _ in range(3):
            bench.send(bench.upstreams[0], OK)
        received = client.take()

        assert [b"200"] * 3 + [b"400"] * is_refused == answers(received)
        assert is_refused is (b"maxPipelinedRequests" in received)
        assert is_refused is client.has_eof
        bench.assert_at_rest()


def ask_and_answer(bench: Bench, client: FakeTransport, sent: bytes) -> bytes:
    """Send something, and have the upstream answer one request."""
    bench.send(client, sent)
    bench.send(bench.upstreams[0], OK)
    return client.take()


def test_one_request_ahead_for_ever() -> None:
    """What has been waited for does not count; the limit is one of requests at a time."""
    with limited(max_pipelined_requests=2) as bench:
        client = bench.ask(GET)

        assert [b"200"] * 9 == answers(
            b"".join(ask_and_answer(bench, client, GET) for _ in "a" * 9)
        )
        bench.end(client)
