"""Requests whose flow control is only observed."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apfproxy.flowcontrol.observed_passage import ObservedPassage
from apfproxy.request.attributes import ANONYMOUS, parse_attributes
from apfproxy.settings import ENFORCE, OBSERVE, AccessLogSettings
from tests.proxy.fakes import (
    CHUNKED_OK,
    GET,
    LIST,
    LOG,
    OK,
    WATCH,
    Bench,
    FakeTransport,
    status,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


EVERY_POD = parse_attributes("GET", b"/api/v1/pods?watch=1")
REFUSING = b"GET /refusing HTTP/1.1\r\nHost: h\r\n\r\n"
HURRIED = GET.replace(b" HTTP", b"?timeout=2200ms HTTP")
"""Waits for 550 ms at most."""
TICK_S = 0.1
ADDITIONS = [
    b"",
    b'apfproxy.io/long-running-limit: "1"',
    b'apfproxy.io/request-rate: "2", apfproxy.io/request-burst: "2"',
]


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(
        idle_upstreams=5, enforcement=OBSERVE, access_log=AccessLogSettings(path="-")
    ) as result:
        yield result


def counts(bench: Bench) -> dict[str, object]:
    """All that is counted of the requests of one run, waits and execution times included."""
    [counters] = [c for c in bench.controller.flow_schema_counters() if c.flow_schema == "queued"]
    names = [each.name for each in fields(counters) if not each.name.startswith("_")]
    found = {name: getattr(counters, name) for name in names}
    found["wait_executed_ns"] = counters.wait_executed_ns
    found["queue_length_after_enqueue"] = counters.queue_length_after_enqueue
    del found["dispatched_at_once"]  # not yet sorted into these two
    return {
        name: (each.counts, each.sum) if hasattr(each, "counts") else each
        for name, each in found.items()
    }


def ask(bench: Bench, request: bytes) -> tuple[FakeTransport, FakeTransport]:
    """A client that has sent a request, and the connection on which the upstream got it."""
    busy = [upstream for upstream in bench.upstreams if upstream.written]
    client = bench.ask(request)
    if bench.connecting:
        bench.connect()
    got = [upstream for upstream in bench.upstreams if upstream.written and upstream not in busy]
    assert 1 == len(got)
    return client, got[0]


def test_access_log(bench: Bench) -> None:
    asked = [ask(bench, request) for request in (GET, HURRIED, GET, GET, GET)]
    bench.wait(0.6)
    for client, upstream in reversed(asked[1:]):
        bench.send(upstream, OK)
        assert b"200" == status(client.take())
    bench.end(asked[0][0])
    bench.wait(9)

    parsed = bench.logged()
    assert [
        ("queue-full", 200, 1),
        ("", 200, 1),
        ("", 200, 1),
        ("time-out", 200, 1),
        ("cancelled", None, 1),
    ] == [(line["reason"], line["status"], line["seats"]) for line in parsed]
    assert [0.6] * 5 == [line["executionSeconds"] for line in parsed]
    bench.assert_at_rest()


def run(
    arrivals: list[tuple[int, int, bytes]], annotations: bytes, enforcement: str
) -> tuple[dict[str, object], list[bytes]]:
    """What a mix of requests comes to.

    Args:
        arrivals: Ticks since the one before, for which the upstream works at it, and the request.
        annotations: Of the FlowSchema.
        enforcement: Of the proxy.

    Returns:
        What is counted, and what each client got.
    """
    at: dict[int, list[bytes]] = {}
    now = 0
    for gap, duration, request in arrivals:
        now += gap
        at.setdefault(now, []).append(request.replace(b"Host", b"Duration: %d\r\nHost" % duration))
    with Bench(idle_upstreams=len(arrivals), enforcement=enforcement) as bench:
        bench.annotate(annotations)
        due: dict[int, int] = {}
        clients = []
        for tick in range(now + 20 * len(arrivals) + 20):
            for index in [index for index, end in due.items() if end == tick]:
                del due[index]
                bench.send(bench.upstreams[index], OK)
            clients += [bench.ask(request) for request in at.get(tick, ())]
            for index, upstream in enumerate(bench.upstreams):
                sent = upstream.take()
                if sent:
                    duration = int(sent.partition(b"Duration: ")[2].partition(b"\r\n")[0])
                    due[index] = tick + duration
            bench.wait(TICK_S)
        bench.assert_at_rest()
        return counts(bench), [status(client.take()) for client in clients]


WAITING_WATCHES = [(0, 5, HURRIED), (0, 3, WATCH), (4, 3, WATCH)]


@example([*WAITING_WATCHES, (0, 1, WATCH)], ADDITIONS[1])
@example([*[(0, 9, HURRIED)] * 4, (0, 9, WATCH), (1, 1, LOG)], ADDITIONS[1])
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 9), st.sampled_from([HURRIED, WATCH, LOG])),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(ADDITIONS),
)
def test_agrees_with_enforcement(
    arrivals: list[tuple[int, int, bytes]], annotations: bytes
) -> None:
    """Where the upstream takes the same time over each request, the counts are the same."""
    enforced, _ = run(arrivals, annotations, ENFORCE)
    observed, answers = run(arrivals, annotations, OBSERVE)

    assert enforced == observed
    assert [b"200"] * len(arrivals) == answers


ACTS = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from([GET, HURRIED, LIST, WATCH, LOG, REFUSING])),
    st.tuples(st.sampled_from(["answer", "begin", "leave", "break"]), st.integers(0, 9)),
    st.tuples(st.just("wait"), st.sampled_from([0.1, 0.3, 2.0, 20.0])),
)


@given(st.lists(ACTS, max_size=40))
def test_whatever_happens_all_is_given_back(acts: list[tuple[str, object]]) -> None:
    with Bench(idle_upstreams=40, enforcement=OBSERVE) as bench:
        bench.annotate(b'apfproxy.io/long-running-limit: "2"')
        limits = bench.controller.classify(ANONYMOUS, EVERY_POD).limits
        assert limits is not None
        asked: list[tuple[FakeTransport, FakeTransport]] = []
        clients: list[FakeTransport] = []
        for act, value in acts:
            if act == "ask":
                assert isinstance(value, bytes)
                asked.append(ask(bench, value))
                asked[-1][1].take()
                clients.append(asked[-1][0])
            elif act == "wait":
                assert isinstance(value, float)
                bench.wait(value)
            elif asked:
                assert isinstance(value, int)
                client, upstream = asked[value % len(asked)]
                if act == "begin":
                    bench.send(upstream, CHUNKED_OK)
                    continue
                asked.remove((client, upstream))
                if act == "answer":
                    bench.send(upstream, OK)
                elif act == "leave":
                    bench.end(client)
                else:
                    bench.end(upstream, ConnectionResetError())
                    while bench.connecting:  # to try it once more
                        bench.connect()
        for client in clients:
            bench.end(client)
        bench.wait(3600)

        bench.assert_at_rest()
        assert {} == limits.long_running


@pytest.mark.interpreted
def test_an_error_of_a_shadow(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    clients = [bench.ask(GET), bench.ask(GET)]
    upstreams = list(bench.upstreams)
    assert (1, 1, 0) == bench.use()
    with monkeypatch.context() as patch:
        patch.setattr(ObservedPassage, "on_seats", fail)
        for upstream in upstreams:
            if upstream.take():
                bench.send(upstream, OK)
        bench.wait(1)

    assert [b"200", b"200"] == [status(client.take()) for client in clients]
    assert [ZeroDivisionError] == [type(error) for error in bench.passage_errors]
    bench.wait(100)
    bench.assert_at_rest()
