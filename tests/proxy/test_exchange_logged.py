"""The access log, debug headers and traces: by which a request is found, and why it fared so."""

from __future__ import annotations

import re
import uuid
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from apfproxy.proxy.reasons import Audience
from apfproxy.proxy.tracing import BATCH, Traces, made_audit_lines, made_id, read_traces
from apfproxy.request.attributes import ANONYMOUS, User
from apfproxy.settings import (
    AccessLogSettings,
    AudienceSettings,
    DownstreamSettings,
    TracingSettings,
)
from tests.proxy.fakes import GET, OK, Bench, FakeTransport, status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.proxy.tracing import RequestTrace

LOGGING = AccessLogSettings(path="-")
MADE = re.compile(rb"^Audit-I[dD]: ([0-9a-f-]{36})\r$", re.MULTILINE)
NAMED = GET.replace(b"\r\n\r\n", b"\r\nUser-Agent: kubectl\r\nAudit-ID: mine\r\n\r\n")
POST_A = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
BEGUN = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"


@pytest.fixture
def logging() -> Iterator[Bench]:
    with Bench(access_log=LOGGING) as result:
        yield result


def made_in(data: bytes) -> str:
    (found,) = MADE.findall(data)
    return str(found.decode())


@pytest.mark.parametrize("request_", [GET, POST_A], ids=["without-body", "with-body"])
def test_made_audit_id(logging: Bench, request_: bytes) -> None:
    client = logging.client()
    found = []
    for _ in range(2):
        logging.send(client, request_)
        forwarded = logging.upstreams[0].take()
        logging.send(logging.upstreams[0], OK)
        found.append((made_in(forwarded), made_in(client.take())))
        assert forwarded.count(b"\r\n\r\n") == 1
        assert forwarded.partition(b"\r\n\r\n")[2] == request_.partition(b"\r\n\r\n")[2]
    ids = [line["auditId"] for line in logging.logged()]

    assert [(each, each) for each in ids] == found
    assert 2 == len(set(ids))


@pytest.mark.parametrize("own", [b"mine", b"i" * 100], ids=["short", "long"])
def test_audit_id_of_the_client(logging: Bench, own: bytes) -> None:
    client = logging.ask(NAMED.replace(b"mine", own))
    forwarded = logging.upstreams[0].take()
    logging.send(logging.upstreams[0], OK)
    (line,) = logging.logged()

    assert 1 == forwarded.lower().count(b"audit-id")
    assert b"\r\nAudit-Id: %b\r\n" % own in client.take()
    assert (own[:64].decode(), "kubectl") == (line["auditId"], line["userAgent"])


def why_of(logging: Bench) -> list[tuple[str, str | None]]:
    return [(line["reason"], line.get("why")) for line in logging.logged()]


@pytest.mark.parametrize(
    ("answer", "end", "reason", "why"),
    [
        (b"", "leave", "cancelled", "the client left before the server answered"),
        (BEGUN, "leave", "cancelled", "the client left before the end of the answer"),
        (BEGUN, "end", "upstream", "the server broke off: "),
        (b"hello\r\n\r\n", "", "upstream", "the upstream did not answer: malformed answer: it beg"),
        (BEGUN, "wait", "deadline", "its time was over before the end of the answer"),
    ],
)
def test_why_it_failed(logging: Bench, answer: bytes, end: str, reason: str, why: str) -> None:
    client = logging.ask(GET)
    logging.send(logging.upstreams[0], answer)
    if end == "leave":
        logging.end(client)
    elif end == "end":
        logging.end(logging.upstreams[0])
    elif end == "wait":
        logging.wait(61)
    ((its_reason, its_why),) = why_of(logging)

    assert (reason, why) == (its_reason, (its_why or "")[: len(why)])


ANN = User("ann", ("dev", "system:authenticated"))
EVERYBODY = AudienceSettings(users=("*",))
REFUSING = b"GET /refusing HTTP/1.1\r\nHost: h\r\n\r\n"
FIELD = re.compile(rb"^X-Apfproxy-([^:]*): (.*)\r$", re.MULTILINE)


@pytest.mark.parametrize(
    ("users", "groups", "told"),
    [
        ((), (), [False, False]),
        (("ann",), (), [True, False]),
        (("bob", "dev"), (), [False, False]),
        ((), ("dev",), [True, False]),
        ((), ("ann", "*"), [False, False]),
        ((), ("system:unauthenticated",), [False, True]),
        (("*",), (), [True, True]),
    ],
)
def test_audience(users: tuple[str, ...], groups: tuple[str, ...], told: list[bool]) -> None:
    audience = Audience(AudienceSettings(users=users, groups=groups))

    assert told == [audience.has(ANN), audience.has(ANONYMOUS)]
    assert (not users and not groups) == audience.is_empty


@pytest.fixture
def telling() -> Iterator[Bench]:
    downstream = DownstreamSettings(explain_answers_to=EVERYBODY)
    with Bench(access_log=LOGGING, downstream=downstream) as result:
        yield result


def told(client: FakeTransport) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in FIELD.findall(client.take())}


def test_why_it_was_rejected(telling: Bench) -> None:
    telling.ask(GET)
    hurried = telling.ask(GET.replace(b" HTTP", b"?timeout=2200ms HTTP"))
    waiting = [telling.ask(GET) for _ in range(2)]
    full = telling.ask(GET)
    telling.wait(0.55)
    late = hurried.take()

    common = {"Flow-Schema": "queued", "Priority-Level": "queued", "Seats": "1"}
    assert common | {"Waited": "0.000ms", "Reason": "queue-full"} == told(full)
    assert b"429" == status(late)
    assert b"X-Apfproxy-Waited: 550.000ms\r\nX-Apfproxy-Reason: time-out\r\n" in late
    assert [{}, {}] == [told(client) for client in waiting]
    assert [
        ("queue-full", "when it came, 1 of 1 seats were in use and 3 requests waited"),
        ("time-out", "when it came, 1 of 1 seats were in use and 0 requests waited"),
    ] == why_of(telling)


def test_audience_may_change_and_the_upstream_cannot_tell(telling: Bench) -> None:
    forged = b"x-apfproxy-waited: 9ms\r\nX-Apfproxy-Reason: x\r\n\r\n"
    client = telling.client()
    found = []
    for users in ((), ("*",), ()):
        explained = AudienceSettings(users=users)
        downstream = replace(telling.settings.downstream, explain_answers_to=explained)
        telling.context.configure(replace(telling.settings, downstream=downstream))
        telling.send(client, GET)
        telling.send(telling.upstreams[0], OK.replace(b"\r\n\r\n", b"\r\n" + forged, 1))
        found.append(told(client).keys())

    assert [set(), {"Flow-Schema", "Priority-Level", "Seats", "Waited"}, set()] == found


PARENT_ID = "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE_ID}-{PARENT_ID}-01"
UNSAMPLED = f"00-{TRACE_ID}-{PARENT_ID}-00"

ALWAYS = 1_000_000

SENT = re.compile(rb"^Traceparent: 00-([0-9a-f]{32})-([0-9a-f]{16})-01\r$", re.MULTILINE)


def asked_with(*lines: str) -> bytes:
    return GET.replace(b"\r\n\r\n", "\r\n".join(("", *lines, "", "")).encode())


def traced(request: bytes, settings: TracingSettings | None) -> tuple[bytes, list[RequestTrace]]:
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
        TracingSettings(parents_from=EVERYBODY, sampling_rate_per_million=ALWAYS),
    ],
)
def test_untraced_request_goes_on_as_it_came(settings: TracingSettings | None) -> None:
    lines = (f"Traceparent: {UNSAMPLED}", "tracestate: a=b", "baggage: c=d")
    forwarded, traces = traced(asked_with(*lines), settings)

    assert all(f"\r\n{line}\r\n".encode() in forwarded for line in lines)
    assert forwarded.lower().count(b"traceparent") == 1
    assert [] == traces


@pytest.mark.parametrize(
    ("rate", "spelling"), [(0, "traceparent"), (ALWAYS, "traceparent"), (0, "TraceParent")]
)
def test_believed_parent(rate: int, spelling: str) -> None:
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
    theirs = f"00-{TRACE_ID}-{PARENT_ID}-{flags}"
    request = asked_with(f"traceparent: {theirs}", "TraceState: a=b", "baggage: c=d")
    forwarded, (trace,) = traced(request, TracingSettings(sampling_rate_per_million=ALWAYS))
    ((trace_id, _),) = SENT.findall(forwarded)

    assert trace_id == b"%032x" % trace.trace_id != TRACE_ID.encode()
    assert (0, theirs) == (trace.parent_id, trace.link)
    assert b"tracestate" not in forwarded.lower()
    assert b"\r\nbaggage: c=d\r\n" in forwarded


@pytest.mark.parametrize(
    ("drawn", "is_traced"), [(0.0, True), (0.2499, True), (0.25, False), (0.9999, False)]
)
def test_part_that_is_drawn(drawn: float, is_traced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", lambda: drawn)
    _, traces = traced(GET, TracingSettings(sampling_rate_per_million=250_000))

    assert is_traced is bool(traces)


def test_retried_request() -> None:
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


# What logs know a request by.


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            f"Host: a\r\nUSER-AGENT: k/1 (x)\r\nAudit-Id:  x-1\r\nTraceParent: {SAMPLED}\r\n",
            Traces("x-1", SAMPLED, "k/1 (x)"),
        ),
        ("X-User-Agent: b\r\nReferer: audit-id: c\r\nUser-Agent-X: d\r\n", Traces("", "", "")),
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
    assert expected == read_traces(fields.encode("latin-1"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (SAMPLED, SAMPLED),
        (f"01{SAMPLED[2:]}-more", f"01{SAMPLED[2:]}"),
        *((value, "") for value in (f"{SAMPLED}-more", f"01{SAMPLED[2:]}more", SAMPLED.upper())),
        *((value, "") for value in (f"ff{SAMPLED[2:]}", f"00-{'0' * 32}-{PARENT_ID}-01", "x", "")),
        (f"00-{TRACE_ID}-{'0' * 16}-01", ""),
    ],
)
def test_traceparent(value: str, expected: str) -> None:
    assert expected == read_traces(f"traceparent: {value}\r\n".encode()).traceparent


def test_made_ids_are_different_uuids() -> None:
    lines = set(islice(made_audit_lines(), 3 * BATCH))

    assert 3 * BATCH == len(lines)
    for line in lines:
        text = made_id(line)
        assert (4, text) == (uuid.UUID(text).version, str(uuid.UUID(text)))
        assert line == f"Audit-Id: {text}\r\n".encode()
