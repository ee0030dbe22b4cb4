"""Which users get the debug headers X-Apfproxy-*, and what they say."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from apfproxy.proxy.reasons import Audience
from apfproxy.request.attributes import ANONYMOUS, User
from apfproxy.settings import OBSERVE, AudienceSettings, DownstreamSettings
from tests.proxy.fakes import GET, OK, Bench, FakeTransport, status

if TYPE_CHECKING:
    from collections.abc import Iterator


ANN = User("ann", ("dev", "system:authenticated"))


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
    """Users and groups are named; `*` stands for every user."""
    audience = Audience(AudienceSettings(users=users, groups=groups))

    assert told == [audience.has(ANN), audience.has(ANONYMOUS)]
    assert (not users and not groups) == audience.is_empty


EVERYBODY = AudienceSettings(users=("*",))


REFUSING = b"GET /refusing HTTP/1.1\r\nHost: h\r\n\r\n"


FIELD = re.compile(rb"^X-Apfproxy-([^:]*): (.*)\r$", re.MULTILINE)


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A data plane with one seat, whose answers tell everybody."""
    with Bench(downstream=DownstreamSettings(explain_answers_to=EVERYBODY)) as result:
        yield result


def told(client: FakeTransport) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in FIELD.findall(client.take())}


def test_after_a_wait(bench: Bench) -> None:
    """The time in the queue counts, the execution does not."""
    first = bench.ask(GET)
    second = bench.ask(GET)
    bench.wait(0.25)
    bench.send(bench.upstreams[0], OK)
    bench.wait(0.5)
    bench.send(bench.upstreams[0], OK)

    assert ("0.000ms", "250.000ms") == (told(first)["Waited"], told(second)["Waited"])


def test_rejected(bench: Bench) -> None:
    """A 429 names its reason; one after a wait also how long that was."""
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


def test_failed(bench: Bench) -> None:
    """An answer of the proxy's own for another reason names that."""
    client = bench.ask(GET)
    bench.end(bench.upstreams[0])

    assert "upstream" == told(client)["Reason"]


def test_observed() -> None:
    """A request that would have been rejected says so in the upstream's answer."""
    downstream = DownstreamSettings(explain_answers_to=EVERYBODY)
    with Bench(downstream=downstream, enforcement=OBSERVE, idle_upstreams=2) as bench:
        first, second = bench.ask(REFUSING), bench.ask(REFUSING)
        for upstream in bench.upstreams:
            bench.send(upstream, OK)
        found = sorted(told(client).get("Reason", "") for client in (first, second))

    assert ["", "concurrency-limit"] == found


def test_reload(bench: Bench) -> None:
    """Who is told may change; a client that is connected notices with its next request."""
    client = bench.client()
    found = []
    for users in ((), ("*",), ()):
        explained = AudienceSettings(users=users)
        downstream = replace(bench.settings.downstream, explain_answers_to=explained)
        settings = replace(bench.settings, downstream=downstream)
        bench.context.configure(settings)
        bench.send(client, GET)
        bench.send(bench.upstreams[0], OK)
        found.append(bool(told(client)))

    assert [False, True, False] == found


def test_upstream_cannot_tell(bench: Bench) -> None:
    """Fields of this name in the upstream's answer are taken out."""
    forged = b"x-apfproxy-waited: 9ms\r\nX-Apfproxy-Reason: x\r\n\r\n"
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], OK.replace(b"\r\n\r\n", b"\r\n" + forged, 1))

    assert {"Flow-Schema", "Priority-Level", "Seats", "Waited"} == told(client).keys()


@pytest.mark.parametrize("groups", [("system:authenticated",), ("system:unauthenticated",)])
def test_groups(groups: tuple[str, ...]) -> None:
    """Those who are not named are told nothing but the UIDs."""
    downstream = DownstreamSettings(explain_answers_to=AudienceSettings(groups=groups))
    with Bench(downstream=downstream) as bench:
        client = bench.client()
        answers = []
        for _ in range(2):
            bench.send(client, GET)
            bench.send(bench.upstreams[0], OK)
            answers.append(client.take())

    for answer in answers:
        assert b"X-Kubernetes-PF-FlowSchema-UID: " in answer
        assert (groups == ("system:unauthenticated",)) == (b"X-Apfproxy-" in answer)
