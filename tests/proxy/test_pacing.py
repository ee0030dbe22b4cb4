"""Responses of a flow get no more bytes a second than its FlowSchema says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from apfproxy.flowcontrol.load_meter import LoadMeter
from apfproxy.http.read_buffer import ANSWER_READ_BYTES
from apfproxy.proxy import pacing
from apfproxy.settings import (
    ENFORCE,
    HTTP_API,
    KUBERNETES_API,
    OBSERVE,
    DownstreamSettings,
    LimitSettings,
    UpstreamSettings,
)
from tests.proxy.fakes import CHUNKED_OK, GET, OBJECTS, OK, WATCH, Bench, connection_of
from tests.proxy.test_tunnel import AGREED, EXEC, FRAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.proxy.fakes import FakeTransport

RATE = 100_000
PIECE = RATE // 10
TENANT = GET.replace(b"Host", b"X-Tenant: a\r\nHost")


def notes(rate: bytes) -> bytes:
    return b"apfproxy.io/distinguisher: header:x-tenant, apfproxy.io/bytes-per-second: '%b'" % rate


def paced(
    rate: bytes = b"100k",
    *,
    preset: str = KUBERNETES_API,
    enforcement: str = ENFORCE,
    abandoned_wait_s: float = 0,
    downstream: DownstreamSettings | None = None,
) -> Bench:
    bench = Bench(
        seats=9,
        idle_upstreams=9,
        preset=preset,
        enforcement=enforcement,
        upstream=UpstreamSettings(abandoned_wait_s=abandoned_wait_s),
        downstream=downstream,
    )
    bench.annotate(notes(rate))
    return bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    with paced() as result:
        yield result


def sized(size: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"~" * size


def asked(bench: Bench, request: bytes = TENANT) -> tuple[FakeTransport, FakeTransport]:
    """A client whose request is under way, and the upstream that has it."""
    client = bench.ask(request)
    while bench.connecting:
        bench.connect()
    [upstream] = [each for each in bench.upstreams if each.take()]
    return client, upstream


def begun(
    bench: Bench, size: int = 5 * RATE, request: bytes = TENANT
) -> tuple[FakeTransport, FakeTransport]:
    client, upstream = asked(bench, request)
    bench.send(upstream, sized(size))
    return client, upstream


def owing(bench: Bench, size: int = 1000 * RATE) -> None:
    """Have the flow owe what an earlier response had; by default for longer than tests wait."""
    client, _ = begun(bench, PIECE)
    limits = bench.controller._flow_limits["queued"]  # noqa: SLF001  as if that had had more
    assert limits.byte_rate is not None
    limits.byte_rate.correct("a", bench.clock.now_ns(), size)
    client.take()


def run(bench: Bench, duration_s: float) -> None:
    for _ in range(round(duration_s * 100)):
        bench.wait(0.01)


def received(client: FakeTransport) -> int:
    return client.written.count(b"~")


def assert_rest(bench: Bench) -> None:
    run(bench, 1)
    bench.assert_at_rest()
    assert {} == bench.context.pacing.responses
    bench.clock.run_until(bench.clock.now_ns() + 10**10)
    assert {} == dict(bench.context.pacing._lines)  # noqa: SLF001  nothing else tells


@pytest.mark.parametrize(
    ("rate", "piece"), [(RATE, PIECE), (1000, 1024), (1_000_000, ANSWER_READ_BYTES // 2)]
)
def test_a_large_response_takes_its_time(rate: int, piece: int) -> None:
    """At once it gets what a second is worth; a low rate sends no single bytes."""
    with paced(b"%d" % rate) as bench:
        client, _ = begun(bench, 5 * rate)
        was, pieces = 0, set[int]()
        for passed in range(450):
            # A head is a part of a read, and a timer is late by a step.
            more, due = piece + rate // 100 + 300, min(rate * (passed / 100 + 1), 5 * rate)
            assert due - more < received(client) < due + more
            pieces.add(received(client) - was if passed else piece)
            was = received(client)
            bench.wait(0.01)
        run(bench, 2)

        assert 5 * rate == received(client)
        assert {0, piece} <= pieces
        [counters] = [c for c in bench.controller.flow_schema_counters() if c.paced_ns]
        assert 3e9 < counters.paced_ns < 5e9
        assert 9 == bench.pool.idle_count
        assert_rest(bench)


def test_responses_of_a_flow_take_turns(bench: Bench) -> None:
    """A response that comes late has its turn as well; another flow is not touched."""
    pairs = [begun(bench) for _ in range(2)]
    run(bench, 1)
    late, _ = begun(bench, PIECE // 2)
    other, _ = begun(bench, 90_000, TENANT.replace(b": a", b": b"))
    assert (0, 90_000) == (received(late), received(other))
    before = [received(client) for client, _ in pairs]
    for passed in range(1, 300):
        bench.wait(0.01)
        more = [received(client) - was for (client, _), was in zip(pairs, before, strict=True)]
        assert abs(more[0] - more[1]) <= 2 * PIECE
        # Three reads came before it, of those that waited and of the one under way.
        assert bool(received(late)) or sum(more) <= 3 * PIECE
        assert sum(more) + received(late) <= RATE * passed / 100 + 2 * PIECE
    assert sum(more) > 2.9 * RATE - 2 * PIECE
    for client, _ in pairs:
        bench.end(client)
    assert_rest(bench)


def test_small_responses_count_together(bench: Bench) -> None:
    client = bench.client()
    for done in range(1, 61):
        bench.send(client, TENANT)
        [upstream] = [each for each in bench.upstreams if each.take()]
        bench.send(upstream, sized(5000))
        while received(client) < 5000 * done:
            bench.wait(0.01)
        assert 5000 * done <= RATE * (bench.clock.now_ns() / 1e9) + 5001
    assert 2 < bench.clock.now_ns() / 1e9 < 3.5
    assert_rest(bench)


SCHEMA = b"metadata: {name: queued}\nspec:\n  matchingPrecedence"
CHUNK = b"5\r\nxxxxx\r\n"


@pytest.mark.parametrize(
    ("request_", "answer", "waits"),
    [
        pytest.param(TENANT.replace(b"GET", b"HEAD"), OK[:-2], False, id="head"),
        pytest.param(TENANT, b"HTTP/1.1 204 No Content\r\n\r\n", False, id="204"),
        pytest.param(TENANT, b"HTTP/1.1 304 Not Modified\r\n\r\n", False, id="304"),
        pytest.param(TENANT, b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 204 No\r\n\r\n", False, id="103"),
        pytest.param(TENANT, OK, True, id="sized"),
        pytest.param(TENANT, CHUNKED_OK + CHUNK + b"0\r\n\r\n", True, id="chunked"),
        pytest.param(TENANT, CHUNKED_OK + CHUNK, True, id="begun"),
        pytest.param(TENANT, b"HTTP/1.1 200 OK\r\n\r\nxxx", True, id="until-the-end"),
        pytest.param(WATCH.replace(b"Host", b"X-Tenant: a\r\nHost"), CHUNKED_OK, True, id="watch"),
    ],
)
def test_who_waits(bench: Bench, request_: bytes, answer: bytes, waits: bool) -> None:
    owing(bench)
    client, upstream = asked(bench, request_)
    bench.send(upstream, answer)
    assert waits == (not client.written)
    # Nothing is said of its server by that.
    assert 0 == sum(each.count_awaiting() for each in bench.pool.endpoints)
    bench.apply(OBJECTS)  # without a rate
    run(bench, 1.1)
    assert b"HTTP/1.1" in client.take()
    bench.end(client)
    assert_rest(bench)


@pytest.mark.parametrize("new", [b"10M", b"", None], ids=["changed", "removed", "no-schema"])
def test_a_reload_counts_for_those_under_way(bench: Bench, new: bytes | None) -> None:
    client, _ = begun(bench, 3 * RATE)
    before = received(client)
    if new is None:
        bench.apply(OBJECTS.replace(SCHEMA, SCHEMA.replace(b"queued", b"other")))
    elif new:
        bench.annotate(notes(new))
    else:
        bench.apply(OBJECTS)
    run(bench, 1.1)
    assert (True, 3 * RATE) == (before < 2 * RATE, received(client))
    assert_rest(bench)


@pytest.mark.parametrize("preset", [KUBERNETES_API, HTTP_API])
@pytest.mark.parametrize("answer", [OK, sized(2000)[:-1]])
def test_no_time_runs_out_while_the_proxy_waits(preset: str, answer: bytes) -> None:
    """Neither the server nor the client is to blame: all times are longer by the wait."""
    limits = LimitSettings(slow_reader_grace_s=1)
    with paced(preset=preset, downstream=DownstreamSettings(limits=limits)) as bench:
        meter = bench.context.load_meter = LoadMeter()
        owing(bench)
        client, upstream = asked(bench)
        bench.send(upstream, answer)
        for _ in range(9):
            bench.wait(100)
        assert (b"", 1) == (client.take(), bench.use()[0])
        bench.wait(101)
        assert client.take().startswith(b"HTTP/1.1 200 OK")
        assert {} == bench.context.slow_readers.by_level
        assert 0 == sum(each.failures_in_row for each in bench.pool.endpoints)
        # Once it does not wait, its own time goes on.
        for _ in range(9):
            bench.wait(100)
        assert ("abort" == client.ended_by) == (answer is not OK)
        assert not meter.distress
        assert [] == list(meter.take())
        assert_rest(bench)


def test_a_client_that_is_slow_as_well(bench: Bench) -> None:
    client, upstream = begun(bench)
    connection_of(client).pause_writing()
    run(bench, 2)
    before = received(client)
    assert not upstream.reads
    connection_of(client).resume_writing()
    run(bench, 3)
    assert before + RATE < received(client)
    assert_rest(bench)


def end(bench: Bench, client: FakeTransport, upstream: FakeTransport) -> None:
    del upstream
    bench.end(client)


def lose(bench: Bench, client: FakeTransport, upstream: FakeTransport) -> None:
    del client
    bench.end(upstream, ConnectionResetError("reset"))


def fail(bench: Bench, client: FakeTransport, upstream: FakeTransport) -> None:
    del client
    bench.loop.errors = []
    vars(upstream.protocol)["held"] = 1  # a bug
    bench.apply(OBJECTS)
    run(bench, 1.1)
    assert 1 == len(bench.loop.errors)
    bench.loop.errors = None


@pytest.mark.parametrize("how", [end, lose, fail])
@pytest.mark.parametrize("abandoned_wait_s", [0.0, 60.0])
@pytest.mark.parametrize("answer", [OK, sized(9)[:-1], CHUNKED_OK + CHUNK])
def test_one_that_ends_leaves_the_line(
    how: Callable[[Bench, FakeTransport, FakeTransport], None],
    abandoned_wait_s: float,
    answer: bytes,
) -> None:
    with paced(abandoned_wait_s=abandoned_wait_s) as bench:
        owing(bench)
        (client, upstream), (other, other_upstream) = asked(bench), asked(bench)
        bench.send(upstream, answer)
        bench.send(other_upstream, OK)
        how(bench, client, upstream)
        # What came before it was lost is passed on.
        assert (how is lose) == client.take().startswith(b"HTTP/1.1 200 OK")
        bench.apply(OBJECTS)
        run(bench, 1.1)
        assert other.take().endswith(b"ok")
        bench.wait(100)
        assert_rest(bench)


def test_what_is_read_for_no_one_goes_on(bench: Bench) -> None:
    """A response that is abandoned while it waits holds its seats until it is through."""
    bench.context.in_force.abandoned_wait_ns = 10**11
    owing(bench)
    client, upstream = asked(bench)
    bench.send(upstream, sized(9)[:-4])
    bench.end(client)
    bench.send(upstream, b"xxxx")
    assert (1, 1) == (bench.use()[0], len(bench.context.abandoned))
    bench.apply(OBJECTS)
    run(bench, 1.1)
    assert {} == bench.context.abandoned
    assert 0 == bench.counters.abandoned_given_up
    assert_rest(bench)


def test_tunnels_count(bench: Bench) -> None:
    request = EXEC.replace(b"Host: h", b"Host: h\r\nX-Tenant: a")
    client, upstream = asked(bench, request)
    bench.send(upstream, AGREED + b"~" * 2 * RATE)
    for passed in range(100):
        assert received(client) <= RATE * (passed / 100 + 1) + PIECE
        bench.send(client, FRAME)
        bench.wait(0.01)
    assert 100 * FRAME == upstream.take()
    run(bench, 1.1)
    assert 2 * RATE == received(client)
    bench.end(client)
    bench.end(upstream)
    assert_rest(bench)


def test_an_end_that_comes_at_once_follows_what_is_held(bench: Bench) -> None:
    """As TLS says it, however the transport is paused."""
    owing(bench)
    client, upstream = asked(bench, EXEC.replace(b"Host: h", b"Host: h\r\nX-Tenant: a"))
    bench.send(upstream, AGREED)
    bench.send(upstream, b"~" * 10)
    assert 0 == received(client)
    upstream.protocol.eof_received()
    assert (10, True) == (received(client), client.has_eof)
    bench.end(client)
    bench.end(upstream)
    assert_rest(bench)


def test_what_is_observed_does_not_wait() -> None:
    with paced(enforcement=OBSERVE) as bench:
        client, _ = begun(bench)
        assert 5 * RATE == received(client)
        bench.assert_at_rest()


def test_a_high_rate_gives_several_turns_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "LEAST_PAUSE_NS", 10**7)
    with paced(b"30M") as bench:
        owing(bench, 30_100_000)
        pairs = [begun(bench, 100_000) for _ in range(9)]
        assert not any(received(client) for client, _ in pairs)
        bench.wait(0.01)
        assert sum(map(bool, (received(client) for client, _ in pairs))) >= 3
        run(bench, 1)
        assert 900_000 == sum(received(client) for client, _ in pairs)
        assert_rest(bench)


def test_another_request_gets_the_connection_within_the_last_read() -> None:
    """One that waits for a connection has it at once, and is paced as the one before was."""
    settings = UpstreamSettings(max_connections=1)
    with Bench(seats=9, upstream=replace(settings)) as bench:
        bench.annotate(notes(b"100k"))
        owing(bench)
        first, upstream = asked(bench)
        second = bench.ask(TENANT)
        bench.send(upstream, OK)
        assert b"" == bytes(upstream.written) == bytes(first.written)
        bench.annotate(notes(b"1G"))
        run(bench, 1.1)
        assert first.take().endswith(b"ok")
        bench.send(upstream, sized(2 * RATE))
        assert 2 * RATE == received(second)
        assert_rest(bench)
