"""Which users get the debug headers X-Apfproxy-*, and what they say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from apfproxy.proxy.reasons import Audience
from apfproxy.request.attributes import ANONYMOUS, User
from apfproxy.settings import OBSERVE, AudienceSettings, DownstreamSettings
from tests.proxy.fakes import GET, OK, Bench, FakeTransport, status

if TYPE_CHECKING:
    from collections.abc import Iterator


ANN = User("ann", ("dev", "system:authenticated"))
EVERYBODY = AudienceSettings(users=("*",))
REFUSING = b"GET /refusing HTTP/1.1\r\nHost: h\r\n\r\n"
FIELD = re.compile(rb"^X-Apfproxy-([^:]*): (.*)\r$", re.MULTILINE)


@pytest.mark.parametrize(
    ("users", "groups", "told"),
    [
        pytest.param((), (), [False, False], id="nobody"),
        pytest.param(("ann",), (), [True, False], id="user"),
        pytest.param(("bob", "dev"), (), [False, False], id="no-user"),
        pytest.param((), ("dev",), [True, False], id="group"),
        pytest.param((), ("ann", "*"), [False, False], id="no-group"),
        pytest.param((), ("system:unauthenticated",), [False, True], id="anonymous"),
        pytest.param(("*",), (), [True, True], id="everybody"),
    ],
)
def test_audience(users: tuple[str, ...], groups: tuple[str, ...], told: list[bool]) -> None:
    audience = Audience(AudienceSettings(users=users, groups=groups))

    assert told == [audience.has(ANN), audience.has(ANONYMOUS)]
    assert (not users and not groups) == audience.is_empty


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A data plane with one seat, whose responses tell everybody."""
    with Bench(downstream=DownstreamSettings(explain_answers_to=EVERYBODY)) as result:
        yield result


def told(client: FakeTransport) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in FIELD.findall(client.take())}


def test_waited_is_the_time_in_the_queue(bench: Bench) -> None:
    first, second = bench.ask(GET), bench.ask(GET)
    for wait_s in (0.25, 0.5):
        bench.wait(wait_s)
        bench.send(bench.upstreams[0], OK)

    assert ("0.000ms", "250.000ms") == (told(first)["Waited"], told(second)["Waited"])


def test_rejected_request_is_told_the_reason(bench: Bench) -> None:
    bench.ask(GET)
    hurried = bench.ask(GET.replace(b" HTTP", b"?timeout=2200ms HTTP"))
    waiting = [bench.ask(GET) for _ in range(2)]
    full = bench.ask(GET)
    bench.wait(0.55)
    late = hurried.take()

    assert {
        "Flow-Schema": "queued",
        "Priority-Level": "queued",
        "Seats": "1",
        "Waited": "0.000ms",
        "Reason": "queue-full",
    } == told(full)
    assert b"429" == status(late)
    assert b"X-Apfproxy-Waited: 550.000ms\r\nX-Apfproxy-Reason: time-out\r\n" in late
    assert [{}, {}] == [told(client) for client in waiting]


def test_failed_request_is_told_the_reason(bench: Bench) -> None:
    client = bench.ask(GET)
    bench.end(bench.upstreams[0])

    assert "upstream" == told(client)["Reason"]


def test_observed_request_is_told_the_reason_for_which_it_would_have_been_rejected() -> None:
    downstream = DownstreamSettings(explain_answers_to=EVERYBODY)
    with Bench(downstream=downstream, enforcement=OBSERVE, idle_upstreams=2) as bench:
        first, second = bench.ask(REFUSING), bench.ask(REFUSING)
        for upstream in bench.upstreams:
            bench.send(upstream, OK)

        assert ["", "concurrency-limit"] == sorted(
            told(client).get("Reason", "") for client in (first, second)
        )


def test_audience_may_change_and_the_upstream_cannot_tell(bench: Bench) -> None:
    """A client that is connected notices; the upstream's fields of these names are taken out."""
    forged = b"x-apfproxy-waited: 9ms\r\nX-Apfproxy-Reason: x\r\n\r\n"
    client = bench.client()
    found = []
    for users in ((), ("*",), ()):
        explained = AudienceSettings(users=users)
        downstream = replace(bench.settings.downstream, explain_answers_to=explained)
        bench.context.configure(replace(bench.settings, downstream=downstream))
        bench.send(client, GET)
        bench.send(bench.upstreams[0], OK.replace(b"\r\n\r\n", b"\r\n" + forged, 1))
        found.append(told(client).keys())

    assert [set(), {"Flow-Schema", "Priority-Level", "Seats", "Waited"}, set()] == found
