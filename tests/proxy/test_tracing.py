"""Which requests are traced, what the upstream learns of it, and what logs know a request by."""

from __future__ import annotations

import re
import uuid
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.proxy.tracing import (
    BATCH,
    Traces,
    audit_line,
    made_audit_lines,
    made_id,
    new_id,
    read_traces,
)
from apfproxy.settings import AudienceSettings, TracingSettings
from tests.proxy.fakes import GET, OK, Bench

if TYPE_CHECKING:
    from apfproxy.proxy.tracing import RequestTrace

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT_ID = "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE_ID}-{PARENT_ID}-01"
UNSAMPLED = f"00-{TRACE_ID}-{PARENT_ID}-00"

EVERYBODY = AudienceSettings(users=("*",))
ALWAYS = 1_000_000

SENT = re.compile(rb"^Traceparent: 00-([0-9a-f]{32})-([0-9a-f]{16})-01\r$", re.MULTILINE)


def asked_with(*lines: str) -> bytes:
    return GET.replace(b"\r\n\r\n", "\r\n".join(("", *lines, "", "")).encode())


def traced(request: bytes, settings: TracingSettings | None) -> tuple[bytes, list[RequestTrace]]:
    """What the server gets of a request, and the traces once it is answered."""
    with Bench(tracing=settings) as bench:
        bench.ask(request)
        forwarded = bench.upstreams[0].take()
        bench.send(bench.upstreams[0], OK)
        bench.assert_at_rest()
        return forwarded, bench.traces


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(None, id="off"),
        pytest.param(TracingSettings(), id="not-believed"),
        pytest.param(
            TracingSettings(parents_from=EVERYBODY, sampling_rate_per_million=ALWAYS),
            id="not-sampled",
        ),
    ],
)
def test_untraced_request_goes_on_as_it_came(settings: TracingSettings | None) -> None:
    """Nothing is drawn where the client has decided for the whole trace."""
    lines = (f"Traceparent: {UNSAMPLED}", "tracestate: a=b", "baggage: c=d")
    forwarded, traces = traced(asked_with(*lines), settings)

    assert all(f"\r\n{line}\r\n".encode() in forwarded for line in lines)
    assert forwarded.lower().count(b"traceparent") == 1
    assert [] == traces


@pytest.mark.parametrize(
    ("rate", "spelling"), [(0, "traceparent"), (ALWAYS, "traceparent"), (0, "TraceParent")]
)
def test_believed_parent(rate: int, spelling: str) -> None:
    """The trace goes on: the server's parent is a span of the proxy, with the client's state."""
    request = asked_with(f"{spelling}: {SAMPLED}", "tracestate: a=b", "Content-Length: 16")
    settings = TracingSettings(parents_from=EVERYBODY, sampling_rate_per_million=rate)
    forwarded, (trace,) = traced(request + b"traceparent: 1\r\n", settings)
    (attempt,) = trace.attempts

    assert [(TRACE_ID.encode(), b"%016x" % attempt.span_id)] == SENT.findall(forwarded)
    assert forwarded.lower().count(b"traceparent") == 2
    assert b"\r\ntracestate: a=b\r\n" in forwarded
    assert forwarded.endswith(b"\r\n\r\ntraceparent: 1\r\n")
    assert (TRACE_ID, PARENT_ID) == (f"{trace.trace_id:032x}", f"{trace.parent_id:016x}")
    assert "" == trace.link


@pytest.mark.parametrize("flags", ["01", "00"])
def test_parent_of_anybody(flags: str) -> None:
    """A trace begins here, with a link to the client's, whose state does not belong to it."""
    theirs = f"00-{TRACE_ID}-{PARENT_ID}-{flags}"
    request = asked_with(f"traceparent: {theirs}", "TraceState: a=b", "baggage: c=d")
    forwarded, (trace,) = traced(request, TracingSettings(sampling_rate_per_million=ALWAYS))
    ((trace_id, _),) = SENT.findall(forwarded)

    assert trace_id == b"%032x" % trace.trace_id != TRACE_ID.encode()
    assert (0, theirs) == (trace.parent_id, trace.link)
    assert b"tracestate" not in forwarded.lower()
    assert b"\r\nbaggage: c=d\r\n" in forwarded


@pytest.mark.parametrize("lines", [(), ("traceparent: nonsense",)], ids=["none", "malformed"])
def test_no_parent(lines: tuple[str, ...]) -> None:
    """A trace begins here, and nothing of what was no parent goes on."""
    settings = TracingSettings(parents_from=EVERYBODY, sampling_rate_per_million=ALWAYS)
    forwarded, (trace,) = traced(asked_with(*lines, "tracestate: a=b"), settings)

    assert 1 == len(SENT.findall(forwarded)) == forwarded.lower().count(b"traceparent")
    assert b"tracestate" not in forwarded
    assert (0, "") == (trace.parent_id, trace.link)


@pytest.mark.parametrize(
    ("drawn", "is_traced"), [(0.0, True), (0.2499, True), (0.25, False), (0.9999, False)]
)
def test_part_that_is_drawn(drawn: float, is_traced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of requests without a parent that counts so many per million."""
    monkeypatch.setattr("random.random", lambda: drawn)
    _, traces = traced(GET, TracingSettings(sampling_rate_per_million=250_000))

    assert is_traced is bool(traces)


def test_retried_request() -> None:
    """Each attempt has a span of its own, of the same trace."""
    with Bench(tracing=TracingSettings(sampling_rate_per_million=ALWAYS)) as bench:
        client = bench.ask(GET)
        bench.send(bench.upstreams[0], OK)
        bench.upstreams[0].take()
        bench.send(client, GET)
        first = bench.upstreams[0].take()
        bench.end(bench.upstreams[0])
        bench.connect()
        second = bench.upstreams[-1].take()
        bench.send(bench.upstreams[-1], OK)
        trace = bench.traces[-1]

    sent = [(b"%032x" % trace.trace_id, b"%016x" % each.span_id) for each in trace.attempts]
    assert sent == SENT.findall(first + second)
    assert 2 == len(set(sent))
    assert ["the connection was closed early", ""] == [each.problem for each in trace.attempts]


def test_ids() -> None:
    assert {1} == {new_id(1) for _ in range(64)}


# What logs know a request by.


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            f"Host: a\r\nUSER-AGENT: k/1 (x)\r\nAudit-Id:  x-1\r\nTraceParent: {SAMPLED}\r\n",
            Traces("x-1", SAMPLED, "k/1 (x)"),
        ),
        (
            "X-User-Agent: b\r\nReferer: audit-id: c\r\nUser-Agent-X: d\r\n",
            Traces("", "", ""),
        ),
        (
            "Audit-ID: a\r\nAudit-ID: b\r\nUser-Agent: c\r\nUser-Agent: d\r\n"
            + f"traceparent: {SAMPLED}\r\n" * 2,
            Traces("a", "", "c"),
        ),
        ("User-Agent: \x80\r\n", Traces("", "", "\N{REPLACEMENT CHARACTER}")),
    ],
    ids=["all", "none", "several", "no-text"],
)
def test_fields(fields: str, expected: Traces) -> None:
    """As in kube-apiserver the first of a name counts; several traceparents are none."""
    assert expected == read_traces(fields.encode("latin-1"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(SAMPLED, SAMPLED, id="version-0"),
        pytest.param(f"{SAMPLED}-more", "", id="version-0-with-more"),
        pytest.param(f"01{SAMPLED[2:]}-more", f"01{SAMPLED[2:]}", id="later"),
        pytest.param(f"01{SAMPLED[2:]}more", "", id="later-without-dash"),
        pytest.param(f"ff{SAMPLED[2:]}", "", id="version-ff"),
        pytest.param(SAMPLED.upper(), "", id="upper-case"),
        pytest.param(f"00-{'0' * 32}-00f067aa0ba902b7-01", "", id="no-trace"),
        pytest.param(f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01", "", id="no-span"),
        pytest.param("x", "", id="nonsense"),
        pytest.param("", "", id="empty"),
    ],
)
def test_traceparent(value: str, expected: str) -> None:
    assert expected == read_traces(f"traceparent: {value}\r\n".encode()).traceparent


@given(st.binary())
def test_any_bytes(fields: bytes) -> None:
    """Whatever the fields are, no line end comes out of them."""
    assert "\n" not in "".join(read_traces(fields))


def test_made_ids_are_different_uuids() -> None:
    lines = set(islice(made_audit_lines(), 3 * BATCH))

    assert 3 * BATCH == len(lines)
    for line in lines:
        text = made_id(line)
        assert (4, text) == (uuid.UUID(text).version, str(uuid.UUID(text)))
        assert line == audit_line(text) == f"Audit-Id: {text}\r\n".encode()


def test_each_request_of_a_connection_is_decided_about_by_itself() -> None:
    with Bench(tracing=TracingSettings(parents_from=EVERYBODY)) as bench:
        client = bench.client()
        for _ in range(3):
            bench.send(client, asked_with(f"traceparent: {SAMPLED}"))
            bench.send(bench.upstreams[0], OK)

    assert {int(TRACE_ID, 16)} == {trace.trace_id for trace in bench.traces}
    assert 3 == len({trace.span_id for trace in bench.traces})
