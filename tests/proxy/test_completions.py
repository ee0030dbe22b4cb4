"""Completions: their bodies are read before they take seats, and whatever they are, they go on."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from apfproxy.request.completion import NEVER_NS
from apfproxy.settings import HTTP_API, OBSERVE, DownstreamSettings, LimitSettings, UpstreamSettings
from tests.proxy.fakes import OBJECTS, OK, Bench, connection_of, status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.request.completion import Completion
    from tests.proxy.fakes import FakeTransport

BODY = json.dumps({"model": "m", "max_tokens": 100, "messages": [{"content": "x" * 300}]}).encode()
LARGE = json.dumps({"messages": [{"content": "x" * 600_000}], "model": "large"}).encode()
LEVEL = b"kind: PriorityLevelConfiguration\nmetadata: {name: queued"


def sized(body: bytes, length: int | None = None, more: bytes = b"") -> bytes:
    size = len(body) if length is None else length
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n%bContent-Length: %d\r\n\r\n"
    return head % (more, size) + body


def chunked(*parts: bytes) -> bytes:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in parts)


def counting(**settings: object) -> Bench:
    bench = Bench(preset=HTTP_API, gathered_body_bytes=32768, **settings)  # type: ignore[arg-type]
    assert 1 == OBJECTS.count(LEVEL)
    bench.apply(OBJECTS.replace(LEVEL, LEVEL + b", annotations: {apfproxy.io/cost: tokens}"))
    return bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    with counting() as result:
        yield result


def completion_of(client: FakeTransport) -> Completion:
    exchange = connection_of(client).exchange
    assert exchange is not None
    assert exchange.passage.completion is not None
    return exchange.passage.completion


@pytest.mark.parametrize("enforcement", ["enforce", OBSERVE])
def test_a_body_that_comes_with_its_head(enforcement: str) -> None:
    with counting(enforcement=enforcement) as bench:
        client = bench.ask(sized(BODY))
        found = completion_of(client)
        assert ("m", 100, -(-len(BODY) // 4)) == (
            found.model, found.most_output, found.prompt_tokens,
        )  # fmt: skip
        bench.send(bench.upstreams[0], OK)
        assert found.is_served
        assert found.estimated == found.tokens == found.prompt_tokens + 100
        bench.assert_at_rest(client)


def test_a_body_that_comes_while_it_has_seats_costs_its_time(bench: Bench) -> None:
    body = LARGE + b" " * (1 << 20)
    client = bench.ask(sized(b"", len(body)))
    bench.send(client, body[:32768])
    assert (1, 0, 0) == bench.use()
    exchange, found = connection_of(client).exchange, completion_of(client)
    assert exchange is not None
    ticket = exchange.passage.ticket
    assert ticket is not None
    assert found.whole_ns == NEVER_NS
    for start in range(32768, len(body), 65536):
        bench.wait(1)
        bench.send(client, body[start : start + 65536])
        bench.upstreams[0].take()
    late_s = len(range(32768, len(body), 65536))
    assert found.whole_ns == bench.clock.now_ns()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    bench.wait(5)
    bench.send(bench.upstreams[0], head % len(SAID) + SAID)

    assert (late_s + 5) * 1_000_000_000 == ticket.worked_ns
    assert 5e9 / 75 == bench.controller.levels["queued"].costs.ns_per_unit
    bench.assert_at_rest(client)


def test_a_field_alone_hides_no_model(bench: Bench) -> None:
    """Most servers take a body for what it is, whatever its Content-Encoding."""
    client = bench.ask(sized(BODY, None, b"Content-Encoding: gzip\r\n"))
    assert ("m", 100) == (completion_of(client).model, completion_of(client).most_output)
    bench.assert_at_rest(client)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_large_body_is_waited_for(bench: Bench, is_chunked: bool) -> None:
    request = chunked(LARGE[:200_000], LARGE[200_000:]) if is_chunked else sized(LARGE)
    client = bench.ask(request[:180_000])
    assert (0, 0, 0) == bench.use()
    for start in range(180_000, len(request), 100_000):
        bench.send(client, request[start : start + 100_000])
    if is_chunked:
        assert (0, 0, 0) == bench.use()
        bench.send(client, b"0\r\n\r\n")

    assert ("large", -(-len(LARGE) // 4)) == (
        completion_of(client).model, completion_of(client).prompt_tokens,
    )  # fmt: skip
    assert (1, 0, 0) == bench.use()
    assert bench.upstreams[0].take().endswith(LARGE[-100:] + b"\r\n0\r\n\r\n" * is_chunked)
    bench.send(bench.upstreams[0], OK)
    bench.assert_at_rest(client)


@pytest.mark.parametrize(
    ("request_", "prompt_bytes"),
    [
        (sized(b"{", 2 << 20), 2 << 20),
        (sized(gzip.compress(BODY), None, b"Content-Encoding: gzip\r\n"), 0),
        (sized(b"{" * 32768, 2 << 20), 2 << 20),
        (sized(b"[1]"), 3),
    ],
)
def test_a_body_that_cannot_be_read_is_served(
    bench: Bench, request_: bytes, prompt_bytes: int
) -> None:
    client = bench.ask(request_)
    if (0, 0, 0) == bench.use():  # a larger one begins as any body does
        bench.send(client, b" " * 32768)
    assert (1, 0, 0) == bench.use()
    found = completion_of(client)
    expected = -(-prompt_bytes // 4) if prompt_bytes else found.prompt_tokens
    assert ("", 0, expected) == (found.model, found.most_output, found.prompt_tokens)
    bench.send(bench.upstreams[0], OK)
    assert b"200" == status(client.take())
    bench.assert_at_rest(client)


def test_a_client_that_waits_to_be_asked_is_asked(bench: Bench) -> None:
    client = bench.ask(sized(b"", len(BODY), b"Expect: 100-continue\r\n"))
    assert b"HTTP/1.1 100 Continue\r\n\r\n" == client.take()
    assert (0, 0, 0) == bench.use()
    bench.send(client, BODY)
    assert "m" == completion_of(client).model
    bench.send(bench.upstreams[0], b"HTTP/1.1 100 Continue\r\n\r\n" + OK)
    assert client.take().endswith(b"\r\n\r\nok")
    bench.assert_at_rest(client)


@pytest.mark.parametrize(
    "request_", [chunked(b" "), chunked(b" " * 40_000), sized(b" " * 40_000, 100_000)]
)
def test_a_slow_body_goes_on_unread(bench: Bench, request_: bytes) -> None:
    client = bench.ask(request_)
    more = b"1770\r\n%b\r\n" % (b" " * 6000) if b"chunked" in request_ else b" " * 5000
    for _ in range(6):
        assert (0, 0, 0) == bench.use()
        bench.send(client, more)
        bench.wait(10)

    assert (1, 0, 0) == bench.use()
    assert ("", False) == (completion_of(client).model, completion_of(client).is_served)
    bench.assert_at_rest(client)


def test_a_body_for_which_there_is_no_room_goes_on_unread() -> None:
    limits = LimitSettings(max_held_bytes=1 << 20)
    with counting(downstream=DownstreamSettings(limits=limits)) as bench:
        client = bench.ask(sized(LARGE)[:40_000])
        assert (1, 0, 0) == bench.use()
        assert "" == completion_of(client).model
        bench.assert_at_rest(client)


@pytest.mark.parametrize("more", [b"", b"Expect: 100-continue\r\n"])
def test_no_body_is_waited_for_where_none_may_be_read(more: bytes) -> None:
    limits = LimitSettings(completion_body_bytes=0)
    with counting(downstream=DownstreamSettings(limits=limits), idle_upstreams=0) as bench:
        client = bench.ask(chunked().replace(b"\r\n\r\n", b"\r\n" + more + b"\r\n"))
        assert (1, 0, 1) == bench.use()
        assert b"" == client.take(), "it is asked for its body once there is a connection"
        bench.assert_at_rest(client)


def test_bodies_that_are_read_leave_room_for_other_requests() -> None:
    """They may fill a quarter of it, and those behind them in the queue begin as any do."""
    limits = LimitSettings(max_held_bytes=1 << 20)
    bench = counting(idle_upstreams=0, downstream=DownstreamSettings(limits=limits))
    with bench:
        body = LARGE.replace(b"x" * 500_000, b"")
        clients = [bench.ask(sized(body)[:200]) for _ in range(4)]
        for client in clients:
            bench.send(client, sized(body)[200:])
        models = [completion_of(client).model for client in clients]

        assert ["large"] * 2 + [""] * 2 == models
        assert (1, 3, 1) == bench.use()
        assert not any(bench.counters.listener.held_refusals.values())
        bench.assert_at_rest(*clients)


@pytest.mark.parametrize("request_", [sized(BODY), sized(BODY)[:-5], chunked(BODY)])
def test_what_no_level_counts_is_not_read(request_: bytes) -> None:
    with Bench(preset=HTTP_API, gathered_body_bytes=8) as bench:
        client = bench.ask(request_)
        exchange = connection_of(client).exchange
        assert exchange is not None
        assert exchange.passage.completion is None
        assert (1, 0, 0) == bench.use()
        bench.assert_at_rest(client)


def test_an_error_is_charged_by_time(bench: Bench) -> None:
    client = bench.ask(sized(BODY))
    found = completion_of(client)
    bench.send(bench.upstreams[0], b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n")

    assert not found.is_served
    bench.assert_at_rest(client)


@pytest.mark.parametrize(("code", "is_served"), [(b"200", True), (b"400", False)])
def test_a_response_without_known_tokens_is_served_before_its_end(
    bench: Bench, code: bytes, *, is_served: bool
) -> None:
    """Else to leave before the last byte would be cheaper than to take it."""
    client = bench.ask(sized(BODY))
    found = completion_of(client)
    head = b"HTTP/1.1 %b X\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n"
    bench.send(bench.upstreams[0], head % code + b"Content-Length: 9\r\n\r\n12345678")
    bench.end(client)

    assert (is_served, found.estimated) == (found.is_served, found.tokens)
    bench.assert_at_rest(client)


SAID = b'{"usage":{"prompt_tokens":5,"completion_tokens":70}}'
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("is_stream", [False, True])
def test_tokens_count_as_the_response_says(bench: Bench, is_stream: bool) -> None:
    client = bench.ask(sized(BODY))
    found = completion_of(client)
    if is_stream:  # until its client has gone
        for part in (EVENTS, b"a\r\ndata: {}\n\n\r\n", b"a\r\ndata: {}\n\n\r\n"):
            bench.send(bench.upstreams[0], part)
        bench.end(client)
    else:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        bench.send(bench.upstreams[0], head % len(SAID) + SAID)

    assert found.is_served
    assert (found.prompt_tokens + 2 if is_stream else 75) == found.tokens
    bench.assert_at_rest(client)


@pytest.mark.parametrize("wait_s", [0.0, 60.0])
def test_a_stream_that_is_left_before_its_first_token_is_charged_by_time(wait_s: float) -> None:
    """Else one that asks and leaves would have all slots of a model that thinks for long."""
    with counting(upstream=UpstreamSettings(abandoned_wait_s=wait_s)) as bench:
        client = bench.ask(sized(BODY))
        exchange, found = connection_of(client).exchange, completion_of(client)
        assert exchange is not None
        bench.send(bench.upstreams[0], EVENTS + b"8\r\n: ping\n\n\r\n")
        bench.wait(9)
        bench.end(client)
        bench.wait(wait_s)

        assert exchange.passage.ticket is not None
        assert (False, -1) == (found.is_served, exchange.passage.ticket.worked_ns)
        bench.assert_at_rest(client)


def test_a_stream_that_ends_without_a_token_has_none(bench: Bench) -> None:
    client = bench.ask(sized(BODY))
    found = completion_of(client)
    bench.send(bench.upstreams[0], EVENTS + b"0\r\n\r\n")

    assert (True, found.prompt_tokens) == (found.is_served, found.tokens)
    bench.assert_at_rest(client)


@pytest.mark.parametrize("is_over", [False, True])
def test_tokens_count_that_come_once_the_client_has_left(is_over: bool) -> None:
    """Its seats are kept meanwhile."""
    with counting(upstream=UpstreamSettings(abandoned_wait_s=60.0)) as bench:
        client = bench.ask(sized(BODY))
        found, upstream = completion_of(client), bench.upstreams[0]
        for part in (EVENTS, b"a\r\ndata: {}\n\n\r\n"):
            bench.send(upstream, part)
        bench.end(client)
        for _ in range(3):
            bench.send(upstream, b"a\r\ndata: {}\n\n\r\n")
        assert (1, 0, 0) == bench.use()
        if is_over:
            bench.wait(60)
        else:
            bench.send(upstream, b"0\r\n\r\n")

        assert found.prompt_tokens + 4 == found.tokens
        bench.assert_at_rest(client)


def test_tokens_so_far_are_charged_where_seats_go_back_early(bench: Bench) -> None:
    client = bench.ask(sized(BODY))
    exchange = connection_of(client).exchange
    assert exchange is not None
    for part in (EVENTS, b"a\r\ndata: {}\n\n\r\n"):
        bench.send(bench.upstreams[0], part)
    bench.wait(1)
    exchange.release_seats(bench.clock.now_ns())

    ticket, found = exchange.passage.ticket, completion_of(client)
    assert ticket is not None
    assert (found.prompt_tokens + 1, 1_000_000_000) == (found.tokens, ticket.worked_ns)
    bench.assert_at_rest(client)


def test_a_flow_that_owes_tokens_gets_429() -> None:
    with Bench(preset=HTTP_API) as bench:
        bench.annotate(b"apfproxy.io/token-rate: '60'")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        for answer in (head % len(SAID) + SAID, b""):
            client = bench.ask(sized(BODY))
            bench.send(bench.upstreams[0], answer)
        refused = client.take()

        assert b"429" == status(refused)
        assert b"\r\nRetry-After: 15\r\n" in refused
        assert b"apfproxy.io/token-rate" in refused
        bench.assert_at_rest(client)


@pytest.mark.parametrize(("path", "is_completion"), [(b"/completions", True), (b"/x", False)])
def test_clients_of_llm_apis_are_told_why(bench: Bench, path: bytes, is_completion: bool) -> None:
    request = sized(BODY, more=b"Accept: application/json\r\n")
    client = bench.ask(request.replace(b"/completions", path))
    bench.end(bench.upstreams[0])
    problem = json.loads(client.take().partition(b"\r\n\r\n")[2])

    assert 502 == problem["status"]
    assert ({"message": problem["detail"]} if is_completion else None) == problem.get("error")
