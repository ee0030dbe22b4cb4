"""What the access log says by which a request is found elsewhere, and why it fared so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from apfproxy.settings import AccessLogSettings, AudienceSettings, TracingSettings
from tests.proxy.fakes import GET, OK, Bench

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG = AccessLogSettings(path="-")
MADE = re.compile(rb"^Audit-I[dD]: ([0-9a-f-]{36})\r$", re.MULTILINE)
NAMED = GET.replace(b"\r\n\r\n", b"\r\nUser-Agent: kubectl\r\nAudit-ID: mine\r\n\r\n")
POST = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"traceparent: 00-{TRACE_ID}-00f067aa0ba902b7-%s\r\n"
BEGUN = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
CROWD = "when it came, 1 of 1 seats were in use and 0 requests waited"


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(access_log=LOG) as result:
        yield result


def made_in(data: bytes) -> str:
    (found,) = MADE.findall(data)
    return str(found.decode())


@pytest.mark.parametrize("request_", [GET, POST], ids=["without-body", "with-body"])
def test_made_audit_id(bench: Bench, request_: bytes) -> None:
    client = bench.client()
    found = []
    for _ in range(2):
        bench.send(client, request_)
        forwarded = bench.upstreams[0].take()
        bench.send(bench.upstreams[0], OK)
        found.append((made_in(forwarded), made_in(client.take())))
        assert forwarded.count(b"\r\n\r\n") == 1
        assert forwarded.partition(b"\r\n\r\n")[2] == request_.partition(b"\r\n\r\n")[2]
    ids = [line["auditId"] for line in bench.logged()]

    assert [(each, each) for each in ids] == found
    assert 2 == len(set(ids))


@pytest.mark.parametrize("own", [b"mine", b"i" * 100], ids=["short", "long"])
def test_audit_id_of_the_client(bench: Bench, own: bytes) -> None:
    client = bench.ask(NAMED.replace(b"mine", own))
    forwarded = bench.upstreams[0].take()
    bench.send(bench.upstreams[0], OK)
    (line,) = bench.logged()

    assert 1 == forwarded.lower().count(b"audit-id")
    assert b"\r\nAudit-Id: %b\r\n" % own in client.take()
    assert (own[:64].decode(), "kubectl") == (line["auditId"], line["userAgent"])


@pytest.mark.parametrize(
    ("parent", "users", "rate", "whose"),
    [
        pytest.param("X-Any: a\r\n", (), 1_000_000, "proxy", id="of-the-proxy"),
        pytest.param(PARENT % "01", (), 1_000_000, "proxy", id="of-the-proxy-with-a-link"),
        pytest.param(PARENT % "01", ("*",), 0, "client", id="of-the-client"),
        pytest.param(PARENT % "01", (), 0, "", id="not-believed"),
        pytest.param(PARENT % "00", ("*",), 0, "", id="not-sampled"),
    ],
)
def test_trace_id(parent: str, users: tuple[str, ...], rate: int, whose: str) -> None:
    settings = TracingSettings(
        parents_from=AudienceSettings(users=users), sampling_rate_per_million=rate
    )
    with Bench(access_log=LOG, tracing=settings) as bench:
        bench.ask(GET.replace(b"\r\n\r\n", f"\r\n{parent}\r\n".encode()))
        bench.send(bench.upstreams[0], OK)
        (line,) = bench.logged()
        found = [f"{trace.trace_id:032x}" for trace in bench.traces] or [""]

    assert [line.get("traceId", "")] == found
    assert whose == {"": "", TRACE_ID: "client"}.get(found[0], "proxy")
    assert (TRACE_ID in line.get("traceparent", "")) == ("traceparent" in parent)


@pytest.mark.parametrize("settings", [None, replace(LOG, audit_ids=False)], ids=["no-log", "off"])
def test_no_audit_ids(settings: AccessLogSettings | None) -> None:
    with Bench(access_log=settings) as bench:
        client = bench.ask(GET)
        forwarded = bench.upstreams[0].take()
        bench.send(bench.upstreams[0], OK)
        named = bench.ask(NAMED)
        bench.send(bench.upstreams[0], OK)
        assert b"audit-id" not in (forwarded + client.take() + named.take()).lower()
        if settings is not None:
            assert [None, "mine"] == [line.get("auditId") for line in bench.logged()]


def why_of(bench: Bench) -> list[tuple[str, str | None]]:
    return [(line["reason"], line.get("why")) for line in bench.logged()]


def test_why_it_was_rejected(bench: Bench) -> None:
    bench.ask(GET)
    bench.ask(GET.replace(b" HTTP", b"?timeout=2200ms HTTP"))
    bench.ask(GET)
    bench.ask(GET)
    bench.ask(GET)
    bench.wait(0.55)

    assert [
        ("queue-full", "when it came, 1 of 1 seats were in use and 3 requests waited"),
        ("time-out", CROWD),
    ] == why_of(bench)


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
def test_why_it_failed(bench: Bench, answer: bytes, end: str, reason: str, why: str) -> None:
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], answer)
    if end == "leave":
        bench.end(client)
    elif end == "end":
        bench.end(bench.upstreams[0])
    elif end == "wait":
        bench.wait(61)
    ((its_reason, its_why),) = why_of(bench)

    assert (reason, why) == (its_reason, (its_why or "")[: len(why)])


def test_why_it_was_malformed(bench: Bench) -> None:
    bench.ask(b"\0")
    ((reason, why),) = why_of(bench)

    assert ("malformed", True) == (reason, bool(why and why.startswith("malformed request: ")))


def test_left_while_waiting(bench: Bench) -> None:
    bench.ask(GET)
    bench.end(bench.ask(GET))

    assert [("cancelled", f"the client left while it waited for seats; {CROWD}")] == why_of(bench)
