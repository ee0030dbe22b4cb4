"""Exchanges at a level that counts the tokens of completions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.admin.top_flows import TopFlows
from apfproxy.settings import HTTP_API, OBSERVE, AccessLogSettings, TracingSettings
from tests.proxy.fakes import Bench

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.flowcontrol.meters import TokenMeter

ASK = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
BODY = b'{"usage":{"prompt_tokens":5,"completion_tokens":70}}'
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(BODY),
    BODY,
)
USAGE = b'data: {"usage":{"prompt_tokens":5,"completion_tokens":4}}\n\ndata: [DONE]\n\n'


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.fixture
def counting() -> Iterator[Bench]:
    with Bench(preset=HTTP_API) as bench:
        count_tokens(bench)
        yield bench


def count_tokens(bench: Bench) -> None:
    bench.controller.reads_completions = True


def meter_of(bench: Bench) -> TokenMeter | None:
    counters = [each.tokens for each in bench.controller.flow_schema_counters()]
    return next(filter(None, counters), None)


def test_tokens_of_a_stream_are_counted_and_timed(counting: Bench) -> None:
    client = counting.ask(ASK)
    upstream = counting.upstreams[0]
    counting.wait(2)
    counting.send(upstream, STREAM)
    meter = meter_of(counting)
    assert meter is not None
    assert 1 == meter.open_streams
    counting.wait(1)
    counting.send(upstream, chunk(b"data: {}\n\n"))
    assert 3_000_000_000 == meter.first_token_ns.sum == meter.first_token_executing_ns.sum
    counting.wait(0.5)
    counting.send(upstream, chunk(b"data: {}\n\n"))
    assert 2 == meter.completion_tokens
    counting.wait(0.5)
    counting.send(upstream, chunk(b"data: {}\n\ndata: {}\n\n" + USAGE))
    assert 5 == meter.completion_tokens
    assert 4 == sum(meter.between_tokens_ns.counts)
    assert 1_000_000_000 == meter.between_tokens_ns.sum
    counting.send(upstream, b"0\r\n\r\n")

    assert client.take().endswith(b"0\r\n\r\n")
    assert (0, 1, 5, 5) == told(meter), "the token too much is made good by the next ones"
    counting.send(counting.ask(ASK), b"")
    counting.send(counting.upstreams[-1], WHOLE)
    assert (0, 2, 10, 74) == told(meter)
    counting.assert_at_rest()


def told(meter: TokenMeter) -> tuple[int, int, int, int]:
    return meter.open_streams, meter.completions, meter.prompt_tokens, meter.completion_tokens


@pytest.mark.parametrize("how", ["client", "upstream", "deadline"])
@pytest.mark.parametrize("enforcement", ["enforce", OBSERVE])
def test_a_stream_that_is_cut_has_the_tokens_that_came(how: str, enforcement: str) -> None:
    with Bench(preset=HTTP_API, enforcement=enforcement) as bench:
        count_tokens(bench)
        client = bench.ask(ASK)
        bench.send(bench.upstreams[0], STREAM + chunk(b"data: {}\n\ndata: {}\n\n"))
        meter = meter_of(bench)
        assert meter is not None
        assert (1, 0, 0, 2) == told(meter)
        if how == "client":
            client.end()
        elif how == "upstream":
            bench.upstreams[0].end()
        else:
            bench.wait(3600)

        assert (0, 1, 0, 2) == told(meter)


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (ASK, WHOLE.replace(b"200 OK", b"400 No")),
        (ASK, WHOLE.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")),
        (b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n", WHOLE),
    ],
)
def test_other_responses_have_no_tokens(counting: Bench, request_: bytes, response: bytes) -> None:
    counting.ask(request_)
    counting.send(counting.upstreams[0], response)

    assert meter_of(counting) is None


def test_other_levels_count_no_tokens() -> None:
    with Bench(preset=HTTP_API) as bench:
        bench.ask(ASK)
        bench.send(bench.upstreams[0], WHOLE)

        assert meter_of(bench) is None


def test_the_log_has_the_tokens() -> None:
    with Bench(preset=HTTP_API, access_log=AccessLogSettings(path="-")) as bench:
        count_tokens(bench)
        client = bench.client()
        for response in (WHOLE, STREAM + chunk(b"data: {}\n\n") + b"0\r\n\r\n", WHOLE[:-30]):
            bench.send(client, ASK)
            bench.send(bench.upstreams[-1], response)
        client.end()

        assert [(5, 70), (None, 1), None] == [
            (line["promptTokens"], line["completionTokens"]) if "promptTokens" in line else None
            for line in bench.logged()
        ]


def test_the_trace_has_the_tokens() -> None:
    with Bench(preset=HTTP_API, tracing=TracingSettings(sampling_rate_per_million=10**6)) as bench:
        count_tokens(bench)
        bench.ask(ASK)
        bench.send(bench.upstreams[0], WHOLE)
        (trace,) = bench.traces

        assert trace.record is not None
        assert (5, 70) == (trace.record.prompt_tokens, trace.record.completion_tokens)


def test_flows_have_their_tokens() -> None:
    with Bench(preset=HTTP_API) as bench:
        count_tokens(bench)
        top_flows = bench.context.flow_control.top_flows = TopFlows(5, bench.clock)
        bench.ask(ASK)
        bench.send(bench.upstreams[0], WHOLE)

        assert [70.0] == [flow.tokens for flow in top_flows.state().flows]
        top_flows.close()
