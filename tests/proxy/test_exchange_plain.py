"""Exchanges with an API that is not Kubernetes: users, upgrades, streams that never end."""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.authn.authenticator import Authenticator, Rules
from apfproxy.authn.secret_files import ApiKeys, BasicKeys
from apfproxy.flowcontrol.load_meter import LoadMeter
from apfproxy.settings import (
    HTTP_API,
    LLM_API,
    OBSERVE,
    PASS_THROUGH,
    AccessLogSettings,
    ApiKeySettings,
    AuthenticationSettings,
    DownstreamSettings,
    LimitSettings,
    UnverifiedSettings,
    UpstreamSettings,
)
from tests.proxy.fakes import OK, Bench, FakeTransport, connection_of, status
from tests.support.credentials import basic, digest, sha256

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.settings import Network
    from tests.proxy.fakes import FakeTransport
    from tests.support.clocks import VirtualClock

CHAT = (
    b"GET /chat HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket, SPDY/3.1\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
SWITCHING = b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n"
)
ENDLESS = STREAM.replace(b"text/event-stream", b"text/plain")
PLAIN_GET = b"GET /api/v1/pods?watch=1&timeout=soon HTTP/1.1\r\nHost: h\r\n\r\n"


@pytest.fixture
def plain() -> Iterator[Bench]:
    with Bench(preset=HTTP_API) as result:
        yield result


@pytest.mark.parametrize("enforcement", ["enforce", OBSERVE])
def test_a_web_socket_takes_a_seat_until_it_is_open(enforcement: str) -> None:
    with Bench(preset=HTTP_API, enforcement=enforcement) as bench:
        client = bench.ask(CHAT)
        connection = connection_of(client)
        bench.connect()
        upstream = bench.upstreams[-1]
        assert (1, 0, 0) == bench.use()
        assert b"\r\nUpgrade: websocket\r\n" in upstream.take()
        bench.send(upstream, SWITCHING)

        assert b"101" == status(client.take())
        assert (0, 0, 0) == bench.use()
        assert connection.exchange is not None
        assert connection.exchange.has_websocket
        bench.wait(3600)
        bench.send(upstream, b"hello")
        assert b"hello" == client.take()
        bench.assert_at_rest(client, upstream)
        assert [] == bench.passage_errors


@pytest.mark.parametrize("enforcement", ["enforce", OBSERVE])
def test_an_event_stream_gives_its_seat_back(enforcement: str) -> None:
    limits = LimitSettings(slow_reader_grace_s=1.0)
    downstream = DownstreamSettings(limits=limits)
    with Bench(preset=HTTP_API, enforcement=enforcement, downstream=downstream) as bench:
        client = bench.ask(PLAIN_GET)
        bench.send(bench.upstreams[0], STREAM)
        assert (0, 0, 0) == bench.use()
        client.protocol.pause_writing()
        bench.send(bench.upstreams[0], b"5\r\ndata:\r\n")
        for _ in range(20):
            bench.wait(1)
            for look in tuple(bench.context.slow_readers.watched.values()):
                look(1_000_000_000)
        client.protocol.resume_writing()
        bench.wait(3600)
        assert not client.is_closing()
        bench.send(bench.upstreams[0], b"0\r\n\r\n")

        assert client.take().endswith(b"5\r\ndata:\r\n5\r\ndata:\r\n0\r\n\r\n")
        bench.assert_at_rest()
        assert [] == bench.passage_errors


CHAT_POST = b"POST /chat HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
SIZED = ENDLESS.replace(
    b"Transfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n", b"Content-Length: 9\r\n\r\ndata:"
)
HOLD, RELEASE = "hold", "release"


@pytest.mark.parametrize(
    ("request_", "response", "said", "is_held"),
    [
        (PLAIN_GET, STREAM, "", False),
        (PLAIN_GET, STREAM, HOLD, True),
        (PLAIN_GET, ENDLESS, "", True),
        (PLAIN_GET, ENDLESS, RELEASE, False),
        (PLAIN_GET, SIZED, RELEASE, True),
        (CHAT_POST, STREAM, "", True),
        (CHAT_POST, STREAM, RELEASE, False),
        (CHAT_POST, ENDLESS, HOLD, True),
    ],
)
def test_streams_keep_their_seats_or_not(
    plain: Bench, request_: bytes, response: bytes, said: str, is_held: bool
) -> None:
    """Seats that are kept come back at the end; a stream without them may stand still for ever."""
    if said:
        plain.annotate(f"apfproxy.io/stream-seats: {said}".encode())
    client = plain.ask(request_)
    plain.send(plain.upstreams[0], response)
    assert (int(is_held), 0, 0) == plain.use()
    for _ in range(10):
        plain.wait(50)
        plain.send(plain.upstreams[0], b"x" if response is SIZED else b"5\r\ndata:\r\n")
        if response is SIZED:
            break
    assert not client.is_closing()
    assert (int(is_held), 0, 0) == plain.use()
    for _ in range(6):
        plain.wait(15)
    assert is_held == client.is_closing()

    plain.assert_at_rest() if is_held else plain.assert_at_rest(client)


@pytest.mark.parametrize(("request_", "count"), [(PLAIN_GET, 0), (CHAT_POST, 1)])
def test_streams_without_seats_say_nothing_of_the_limit(
    plain: Bench, request_: bytes, count: int
) -> None:
    """One may last for hours as its client likes; one with a seat is the server's work."""
    meter = plain.context.load_meter = LoadMeter()
    client = plain.ask(request_)
    plain.send(plain.upstreams[0], STREAM)
    plain.send(plain.upstreams[0], b"0\r\n\r\n")

    assert count == len(meter.take())
    plain.assert_at_rest(client)


def test_time_for_which_a_stream_may_stand_still() -> None:
    with Bench(preset=HTTP_API, upstream=UpstreamSettings(stream_idle_timeout_s=300.0)) as bench:
        client = bench.ask(CHAT_POST)
        bench.send(bench.upstreams[0], STREAM)
        bench.wait(290)
        bench.send(bench.upstreams[0], b"5\r\ndata:\r\n")
        bench.wait(290)
        assert not client.is_closing()
        for _ in range(5):
            bench.wait(75)
        assert client.is_closing()
        bench.assert_at_rest()


def test_times_of_models() -> None:
    """One may think for as long as clients wait, and stand still between two tokens."""
    with Bench(preset=LLM_API) as bench:
        client = bench.ask(CHAT_POST)
        bench.wait(590)
        bench.send(bench.upstreams[0], STREAM)
        for _ in range(7):
            bench.wait(590)
            bench.send(bench.upstreams[0], b"5\r\ndata:\r\n")
        assert not client.is_closing()
        bench.send(bench.upstreams[0], b"0\r\n\r\n")
        assert client.take().endswith(b"0\r\n\r\n")
        bench.assert_at_rest(client)


@pytest.mark.parametrize("enforcement", ["enforce", OBSERVE])
def test_streams_without_seats_are_limited(enforcement: str) -> None:
    """They count as long-running requests; ordinary requests of the flow are not rejected."""
    with Bench(preset=HTTP_API, enforcement=enforcement, seats=9, idle_upstreams=3) as bench:
        bench.annotate(b'apfproxy.io/long-running-limit: "1"')

        def ask(response: bytes) -> FakeTransport:
            client = bench.ask(PLAIN_GET)
            [upstream] = [each for each in bench.upstreams if each.take()]
            bench.send(upstream, response)
            return client

        first, second = ask(STREAM), ask(STREAM)
        refused = second.take()
        assert (b"429" if enforcement == "enforce" else b"200") == status(refused)
        assert b"200" == status(ask(OK).take())

        bench.assert_at_rest(first, second)
        assert [] == bench.passage_errors


UPLOAD = b"PUT /file HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
PIECE = b"3e8\r\n" + b"x" * 1000 + b"\r\n"


def flow(bench: Bench, sender: FakeTransport, *, times: int, every_s: float) -> None:
    for _ in range(times):
        bench.send(sender, PIECE)
        bench.wait(every_s)


def test_an_upload_that_flows_has_no_limit(plain: Bench) -> None:
    client = plain.ask(UPLOAD)
    flow(plain, client, times=200, every_s=2)
    assert b"" == client.take()
    plain.send(client, b"0\r\n\r\n")
    plain.wait(59)
    plain.send(plain.upstreams[0], OK)

    assert b"200" == status(client.take())
    plain.assert_at_rest()


def test_an_upload_that_stands_still(plain: Bench) -> None:
    plain.context.in_force.min_body_rate_bytes = 0
    client = plain.ask(UPLOAD)
    flow(plain, client, times=10, every_s=16)
    for code in (b"", b"", b"", b"408"):
        plain.wait(15)
        assert code == status(client.take())
    plain.assert_at_rest()


@pytest.mark.parametrize(("bytes_", "is_cut"), [(1, True), (20_000, False)])
def test_an_answer_whose_client_is_slow(plain: Bench, bytes_: int, *, is_cut: bool) -> None:
    client = plain.ask(PLAIN_GET)
    plain.send(plain.upstreams[0], ENDLESS)
    client.protocol.pause_writing()
    for _ in range(8):
        client.protocol.resume_writing()
        plain.send(plain.upstreams[0], b"%x\r\n%b\r\n" % (bytes_, b"x" * bytes_))
        client.protocol.pause_writing()
        plain.wait(15)

    assert is_cut == client.is_closing()
    plain.assert_at_rest(client)


CHALLENGE = b'WWW-Authenticate: Basic realm="apfproxy"\r\n'
KEYS = f"{sha256('k1')},alice,,batch\n{sha256('k2')},bob,\n"
PROXY, CLIENT, OTHER = "10.9.0.1", "192.0.2.1", "192.0.2.2"
PROXIES: tuple[Network, ...] = (ipaddress.ip_network("10.9.0.0/16"),)


def named_get(*lines: str, target: str = "/") -> bytes:
    head = [f"GET {target} HTTP/1.1", "Host: h", *lines, "", ""]
    return "\r\n".join(head).encode("utf-8", "surrogateescape")


class Naming(Bench):
    """A data plane that tells clients apart by all that there is, and knows two keys."""

    def __init__(self) -> None:
        keys = ApiKeys("k.csv")
        keys.take(KEYS.encode())

        def authenticator(clock: VirtualClock) -> Authenticator:
            rules = Rules(assertion=PASS_THROUGH, challenges=CHALLENGE)
            return Authenticator(clock, rules, keys=keys, passwords=BasicKeys(keys))

        super().__init__(
            seats=100,
            downstream=DownstreamSettings(trusted_proxies=PROXIES),
            upstream=UpstreamSettings(identity=PASS_THROUGH),
            authentication=AuthenticationSettings(
                api_keys=ApiKeySettings(file="k.csv", is_basic=True),
                unverified=UnverifiedSettings(
                    secret_headers=("X-Secret",), headers=("X-Client-Id",), is_by_address=True
                ),
            ),
            authenticator=authenticator,
            access_log=AccessLogSettings(path="-"),
        )

    def user_of(self, client: FakeTransport, request: bytes) -> str:
        self.send(client, request)
        exchange = connection_of(client).exchange
        if exchange is None:
            return status(client.take()).decode()
        name = exchange.passage.user_name
        self.send(self.upstreams[0], OK)
        assert b"200" == status(client.take())
        return name

    @property
    def authentications(self) -> int:
        counters = self.context.authenticator.counters
        return counters.anonymous + counters.unverified + counters.authenticated + counters.refused


@pytest.fixture
def naming() -> Iterator[Naming]:
    with Naming() as result:
        yield result


def test_identity_changes_within_a_connection(naming: Naming) -> None:
    client = naming.client((CLIENT, 1))
    requests = (
        named_get("X-API-Key: k1"),
        named_get("X-Client-Id: al"),
        named_get(),
        named_get("X-API-Key: k3"),
        named_get("X-API-Key: k2"),
    )
    expected = ["alice", "header:al", f"address:{CLIENT}", "401", "bob"]

    assert expected == [naming.user_of(client, request) for request in requests]
    for _ in range(2):  # what comes a second time is kept
        assert expected == [naming.user_of(client, request) for request in requests]
    before = naming.authentications
    assert expected == [naming.user_of(client, request) for request in requests]
    assert before + 1 == naming.authentications  # only the refused one
    assert expected[0] == naming.user_of(client, named_get("X-API-Key: k1", target="/other"))
    assert before + 1 == naming.authentications
    naming.end(client)


@pytest.mark.parametrize(
    ("hops", "user", "logged"),
    [
        (None, f"address:{PROXY}", PROXY),
        (f"{OTHER}, {CLIENT}", f"address:{CLIENT}", CLIENT),
        (f"{CLIENT}, unknown", f"address:{PROXY}", PROXY),
        ("2001:db8::7", "address:2001:db8::/64", "2001:db8::7"),
        ('"\\', f"address:{PROXY}", PROXY),
    ],
)
def test_trusted_proxies(naming: Naming, hops: str | None, user: str, logged: str) -> None:
    client = naming.client((PROXY, 1))
    request = named_get(*([] if hops is None else [f"X-Forwarded-For: {hops}"]))

    assert user == naming.user_of(client, request)
    sent = naming.upstreams[0]
    naming.send(client, request)
    chain = PROXY if hops is None else f"{hops}, {PROXY}"
    assert sent.take().endswith(f"\r\nX-Forwarded-For: {chain}\r\n\r\n".encode())
    naming.send(sent, OK)
    assert {(user, logged)} == {(each["user"], each["client"]) for each in naming.logged()}
    naming.end(client)


def test_log_has_no_key(naming: Naming) -> None:
    client = naming.client((CLIENT, 1))
    for line in ("X-API-Key: k1", "X-API-Key: k3-s3cret", "X-Secret: s3cret"):
        naming.user_of(client, named_get(line))

    assert ["alice", None, digest("s3cret")] == [each["user"] for each in naming.logged()]
    assert "s3cret" not in json.dumps(naming.logged())
    naming.end(client)


NAMES = st.sampled_from(
    [
        *("X-API-Key", "x-api-KEY", "X_API_Key", "X-Client-Id", "X-Client_Id", "X-Secret"),
        *("Authorization", "X-Forwarded-For", "X-Forwarded_For", "X-Remote-User", "Connection"),
        "Impersonate-User",
    ]
)
VALUES = st.sampled_from(
    [
        *("", "k1", "k9", "system:masters", "alice", "Basic !", "Bearer k1", "192.0.2.9"),
        *(f"Basic {basic(b'alice:k1')}", f"Basic {basic(b'root:k1')}", f"{PROXY}, {OTHER}"),
        *("X-API-Key", "close"),
    ]
) | st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF), max_size=9)


@given(
    lines=st.lists(st.tuples(NAMES, VALUES), max_size=4), address=st.sampled_from((CLIENT, PROXY))
)
@settings(deadline=None)
def test_whatever_is_sent(lines: list[tuple[str, str]], address: str) -> None:
    fields = [f"{name}: {value}" for name, value in lines]
    has_key = any("k1" in value or basic(b"alice:k1") in value for _, value in lines)
    with Naming() as naming:
        client = naming.client((address, 1))
        naming.send(client, named_get(*fields))
        sent = naming.upstreams[0].take().lower()
        exchange = connection_of(client).exchange
        if exchange is None:
            assert status(client.take()) in (b"400", b"401")
            assert b"" == sent
        else:
            user = exchange.request.user
            is_unverified = user.name.startswith(("address:", "header:", "key:"))
            assert is_unverified == (user.groups == ("system:unauthenticated",))
            assert is_unverified or (user.name == "alice" and has_key)
            assert b"\r\nx_" not in sent
            assert b"client_id" not in sent
            assert b"x-remote" not in sent
        naming.end(client)
