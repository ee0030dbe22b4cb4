"""Authentication, at once or while the request waits for it; identities that clients make up."""

from __future__ import annotations

import asyncio
import logging
import re
import traceback
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.authn.authenticator import Authenticator, Rules
from apfproxy.authn.credentials import Peer, Verdict
from apfproxy.http.read_buffer import READ_BYTES
from apfproxy.proxy.http1_connection import Http1Connection
from apfproxy.request.attributes import User
from apfproxy.settings import (
    FRONT_PROXY,
    IMPERSONATE,
    PASS_THROUGH,
    Address,
    AuthenticationSettings,
    DownstreamSettings,
    FrontProxySettings,
    UpstreamSettings,
)
from apfproxy.upstream.counters import UpstreamFailure
from tests.end_to_end.http2_peer import HTTP2, PROTOCOLS
from tests.http2_translation import Translation
from tests.proxy.fakes import (
    OK,
    Bench,
    Certificates,
    FakeTransport,
    Tls,
    body,
    connection_of,
    status,
)
from tests.proxy.http2.peer import CLEARTEXT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.support.clocks import VirtualClock


class Http2Transport(FakeTransport):
    def __init__(self, bench: Bench) -> None:
        super().__init__(bench.loop)
        self._translation = Translation()

    def feed(self, data: bytes) -> None:
        self._translation.request(data)
        super().feed(self._translation.output())

    def take(self) -> bytes:
        self._translation.answer(super().take())
        return self._translation.taken() or b""


def client_of(bench: Bench, protocol: str, tls: object = None) -> FakeTransport:
    if protocol != HTTP2:
        return bench.client(tls=tls)
    transport = Http2Transport(bench)
    transport.tls = tls
    transport.connect(
        cast("asyncio.BufferedProtocol", Http1Connection(bench.listener, bench.router))
    )
    return transport


PATH = b"/api/v1/namespaces/a/pods/b"
FOLLOWS = b"GET /next HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer quick\r\n\r\n"
LIFETIME_S = 10.0


def get(token: str = "", *lines: bytes) -> bytes:
    own = b"Authorization: Bearer %b\r\n" % token.encode() if token else b""
    return b"GET %b HTTP/1.1\r\nHost: h\r\n%b%b\r\n" % (PATH, own, b"".join(lines))


def post(token: str, length: int) -> bytes:
    return get(token, b"Content-Length: %d\r\n" % length).replace(b"GET", b"POST", 1)


class Tokens:
    """Knows whose tokens are, some of them only once it is told."""

    def __init__(self) -> None:
        self.users = {"quick": "quick"}
        self.asked: dict[str, asyncio.Future[Verdict]] = {}

    def check(self, token: str) -> Verdict | None:
        if token == "broken-at-once":  # noqa: S105 - of no one
            raise RuntimeError("a failure of our own")
        if token.startswith("bad"):
            return Verdict(None, LIFETIME_S, "no token")
        if token == "open":  # noqa: S105 - of no one
            return Verdict(None, 0.0, "nobody can be asked", is_open=True)
        name = self.users.get(token)
        return None if name is None else Verdict(User(name, ()), LIFETIME_S)

    async def review(self, token: str, address: str) -> Verdict:
        assert address == "10.0.0.1"
        if token == "broken":  # noqa: S105 - of no one
            raise RuntimeError("a failure of our own")
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self.asked[token] = answer
        return await answer

    def tell(self, token: str, name: str | None) -> None:
        self.asked[token].set_result(Verdict(None if name is None else User(name, ()), LIFETIME_S))


class Known(Bench):
    """A data plane that authenticates clients."""

    def __init__(
        self, assertion: str = FRONT_PROXY, downstream: DownstreamSettings | None = None
    ) -> None:
        self.tokens = Tokens()

        def authenticator(clock: VirtualClock) -> Authenticator:
            rules = Rules(judges_certificates=True, assertion=assertion)
            result = Authenticator(clock, rules, (self.tokens,))
            result.certificates = Certificates()
            return result

        super().__init__(
            seats=100,
            downstream=downstream,
            upstream=UpstreamSettings(url=Address(host="upstream", port=80), identity=assertion),
            authentication=AuthenticationSettings(
                front_proxy=FrontProxySettings(username_headers=("X-My-User", "X-Remote-User"))
            ),
            authenticator=authenticator,
        )

    def tell(self, token: str, name: str | None) -> None:
        self.tokens.tell(token, name)
        self.run_tasks()

    def ask_slowly(self, request: bytes) -> FakeTransport:
        client = self.ask(request)
        self.run_tasks()
        return client

    def seen(self) -> list[str]:
        lines = self.upstreams[0].take().split(b"\r\n")
        return [line[15:].decode() for line in lines if line.startswith(b"X-Remote-User: ")]

    def answer(self, client: FakeTransport) -> tuple[list[str], bytes]:
        users = self.seen()
        if users:
            self.send(self.upstreams[0], OK)
        return users, status(client.take())

    def assert_at_rest(self, *ending: FakeTransport) -> None:
        super().assert_at_rest(*ending)
        assert [] == [task for task in self.authenticating if not task.done()]


@pytest.fixture
def bench() -> Iterator[Known]:
    with Known(downstream=CLEARTEXT) as result:
        yield result


@pytest.mark.parametrize(
    ("token", "code", "reason"),
    [
        ("slow", b"401", b'"message": "Unauthorized"'),
        ("bad", b"401", b'"reason": "Unauthorized", "code": 401'),
        ("open", b"503", b'"reason": "ServiceUnavailable", "code": 503'),
    ],
)
def test_refused(bench: Known, token: str, code: bytes, reason: bytes) -> None:
    client = bench.ask_slowly(get(token))
    if token in bench.tokens.asked:
        bench.tell(token, None)
    answer = client.take()

    assert code == status(answer)
    assert reason in body(answer)
    assert (b"Retry-After: 1\r\n" in answer) == (code == b"503")
    assert b"Connection: close" not in answer
    bench.send(client, get("quick"))
    assert (["quick"], b"200") == bench.answer(client)
    bench.assert_at_rest()


def test_bytes_that_wait_meanwhile(bench: Known) -> None:
    counters = bench.counters.listener
    client = bench.ask_slowly(post("slow", 8) + b"1234")
    before = counters.held_bytes
    assert len(post("slow", 8)) + 4 <= before
    bench.send(client, b"5678")
    assert before + 4 == counters.held_bytes
    leaving = bench.ask_slowly(post("other", 8))
    assert before < counters.held_bytes - 50
    bench.end(leaving)
    assert before + 4 == counters.held_bytes
    bench.tell("slow", "alice")

    assert 0 == counters.held_bytes
    assert (["alice"], b"200") == bench.answer(client)
    bench.assert_at_rest()


def test_body_is_held_within_bounds(bench: Known) -> None:
    size = 8 * READ_BYTES
    client = bench.ask_slowly(post("slow", size))
    client.feed(b"x" * size)
    assert not client.reads
    exchange = connection_of(client).exchange
    assert exchange is not None
    assert len(exchange._held) <= bench.context.held_bytes + READ_BYTES  # noqa: SLF001  the bound
    bench.tell("slow", "alice")

    assert client.reads
    assert size == len(body(bench.upstreams[0].take()))
    bench.send(bench.upstreams[0], OK)
    assert b"200" == status(client.take())
    bench.assert_at_rest()


@pytest.mark.parametrize("has_body", [False, True])
def test_takes_too_long(bench: Known, has_body: bool) -> None:
    request = post("slow", 1) if has_body else get("slow")
    client = bench.ask_slowly(request.replace(b"/b ", b"/b?timeout=5s "))
    if has_body:
        bench.send(client, b"x")
    bench.wait(4.9)
    assert b"" == client.take()
    bench.wait(0.2)
    bench.run_tasks()

    answer = client.take()
    assert b"504" == status(answer)
    assert b"the client could not be authenticated in time" in answer
    assert 0 == bench.counters.upstream.failures[UpstreamFailure.ANSWER_TIMEOUT]
    assert bench.tokens.asked["slow"].cancelled()
    bench.send(client, get("quick"))
    assert (["quick"], b"200") == bench.answer(client)
    bench.assert_at_rest()


@pytest.mark.parametrize("token", ["broken", "broken-at-once"])
def test_failure_of_our_own(bench: Known, token: str) -> None:
    errors = bench.loop.errors = []
    client = bench.ask_slowly(get(token))

    assert b"500" == status(client.take())
    assert b"" == bench.upstreams[0].take()
    assert [token in "".join(traceback.format_exception(error)) for error in errors] == [False]
    bench.assert_at_rest()


@pytest.mark.parametrize("token", ["bad", "slow"])
def test_refused_upgrade(bench: Known, token: str) -> None:
    upgrade = get(token, b"Connection: upgrade\r\nUpgrade: SPDY/3.1\r\n").replace(
        PATH, PATH + b"/exec?command=sh"
    )
    client = bench.ask_slowly(upgrade + FOLLOWS)
    if token == "slow":  # noqa: S105 - of no one
        bench.tell("slow", None)

    answers = client.take()
    assert b"401" == status(answers)
    assert b"Connection: close\r\n" in answers
    assert 1 == answers.count(b"HTTP/1.1 ")
    assert b"" == bench.upstreams[0].take()


def test_what_tells_clients_apart_changes(bench: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    client, tls = bench.client(), bench.client(tls=Tls(b"alice"))

    def users() -> list[str]:
        found = []
        for each, request in ((client, get("t")), (tls, get())):
            bench.send(each, request)
            ((user,), code) = bench.answer(each)
            assert b"200" == code
            found.append(user)
        return found

    bench.tokens.users["t"] = "bob"
    assert [["bob", "alice"]] * 3 == [users() for _ in range(3)]
    monkeypatch.setattr(Certificates, "judge", lambda *_: Peer(User("carol", ())))
    bench.tokens.users["t"] = "dave"
    bench.context.forget_authentications()

    assert ["dave", "carol"] == users()
    bench.assert_at_rest()


def test_shows_no_token(bench: Known, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        client = bench.ask_slowly(get("s3cret"))
        exchange = connection_of(client).exchange
        assert exchange is not None
        fields = exchange.head.fields
        shown = [
            *(exchange, exchange.head, fields, fields.credentials, connection_of(client)),
            *(*bench.authenticating, bench.context, bench.context.authenticator),
        ]
        found = [text for text in map(repr, shown) if "s3cret" in text]
        bench.tell("s3cret", None)
        bench.ask(get("bad-s3cret"))

    assert [] == found
    assert "s3cret" not in caplog.text
    assert "refused with 401" in caplog.text


SPELLINGS = st.sampled_from(["-", "_", ".", "~", "!"])
NOMINATES = re.compile(rb"^Connection:", re.MULTILINE)
CLAIM_NAMES = (
    *("X-Remote-User", "X-Remote-Group", "X-Remote-Uid", "X-Remote-Extra-Scopes", "X-My-User"),
)
FORGED_NAMES: dict[str, tuple[str, ...]] = {
    PASS_THROUGH: CLAIM_NAMES,
    FRONT_PROXY: CLAIM_NAMES,
    IMPERSONATE: ("Impersonate-User", "Impersonate-Group", "Impersonate-Extra-A", "X-My-User"),
}


@st.composite
def forged(draw: st.DrawFn, names: Sequence[str]) -> bytes:
    name = draw(st.sampled_from(names))
    name = "".join(draw(SPELLINGS) if each == "-" else each for each in name)
    name = "".join(draw(st.sampled_from([each.lower(), each.upper()])) for each in name)
    space = draw(st.sampled_from(["", " ", "\t "]))
    line = f"{name}:{space}forged{space}\r\n".encode()
    nominated = f"Connection: {name}\r\n".encode() if draw(st.booleans()) else b""
    return draw(st.sampled_from([line, line + line, nominated + line, line + nominated]))


@given(data=st.data(), is_tls=st.booleans())
@pytest.mark.parametrize("assertion", FORGED_NAMES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_spelling_forges_an_identity(
    protocol: str, assertion: str, data: st.DataObject, is_tls: bool
) -> None:
    lines = data.draw(st.lists(forged(FORGED_NAMES[assertion]), min_size=1, max_size=3))
    user = b"alice" if is_tls else b"quick"
    is_malformed = protocol == HTTP2 and NOMINATES.search(b"".join(lines))
    with Known(assertion, CLEARTEXT) as bench:
        client = client_of(bench, protocol, Tls(b"alice") if is_tls else None)
        bench.send(client, get("quick", *lines))
        sent = bench.upstreams[0].take().lower()
        assert b"forged" not in sent
        if not sent:
            assert is_malformed or assertion == IMPERSONATE
            assert status(client.take()) in {b"400", b"403"}
        else:
            assert not is_malformed
            counted = (b"authorization:", b"impersonate-", b"impersonate-user: " + user)
            counts = [sent.count(name) for name in (*counted, b"x-remote-user: " + user)]
            expected = {PASS_THROUGH: [1, 0, 0, 0], FRONT_PROXY: [0, 0, 0, 1]}
            assert expected.get(assertion, [1, 1, 1, 0]) == counts
            assert (assertion == PASS_THROUGH) == (b"bearer quick" in sent)
        bench.assert_at_rest(client)


@pytest.mark.parametrize(
    "lines",
    [
        *(b"X-Remote-User : admin\r\n", b"A: b\r\n X-Remote-User: admin\r\n"),
        *(b"A: b%cX-Remote-User: admin\r\n" % each for each in b"\r\n\0"),
        *(b"Authorization: Bearer a\r\n", b"Connection: Authorization\r\n"),
        *(b"Impersonate-Group: system:masters\r\n", b"Impersonate-User: \xff\r\n"),
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_malformed_identities(bench: Known, protocol: str, lines: bytes) -> None:
    client = client_of(bench, protocol)
    bench.send(client, get("quick", lines))
    answer = client.take()

    assert b"400" == status(answer)
    assert protocol == HTTP2 or b"\r\nConnection: close\r\n" in answer
    assert b"" == bench.upstreams[0].take()
    bench.assert_at_rest(client)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_trailers_claim_nothing(bench: Known, protocol: str) -> None:
    head = get("quick", b"Transfer-Encoding: chunked\r\n").replace(b"GET", b"POST", 1)
    trailers = (
        b"X-Remote-User: forged\r\nx_remote_group: forged\r\nImpersonate-User: forged\r\n"
        b"X-My-User: forged\r\nX_MY_USER: forged\r\nAuthorization: forged\r\n"
        b"X.Remote.Extra-a: forged\r\nA: kept\r\n"
    )
    client = client_of(bench, protocol)
    bench.send(client, head + b"0\r\n" + trailers + b"\r\n")
    sent = bench.upstreams[0].take()

    assert sent.lower().endswith(b"0\r\na: kept\r\n\r\n")
    assert b"forged" not in sent
    bench.assert_at_rest(client)
