"""Who asks an API that is not Kubernetes: API keys, Basic, and names that nobody verifies."""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from apfproxy.authn.authenticator import Authenticator, Rules
from apfproxy.authn.secret_files import ApiKeys, BasicKeys
from apfproxy.authn.unverified_names import LEASE_NS, NamesOfAddresses
from apfproxy.settings import (
    FRONT_PROXY,
    PASS_THROUGH,
    AccessLogSettings,
    Address,
    ApiKeySettings,
    AuthenticationSettings,
    DownstreamSettings,
    UnverifiedSettings,
    UpstreamSettings,
)
from tests.proxy.fakes import OK, Bench, connection_of, status
from tests.support.credentials import basic, digest, sha256

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.settings import Network
    from tests.proxy.fakes import FakeTransport
    from tests.support.clocks import VirtualClock

CHALLENGE = b'WWW-Authenticate: Basic realm="apfproxy"\r\n'
KEYS = f"{sha256('k1')},alice,,batch\n{sha256('k2')},bob,\n"
PROXY, CLIENT, OTHER = "10.9.0.1", "192.0.2.1", "192.0.2.2"
PROXIES: tuple[Network, ...] = (ipaddress.ip_network("10.9.0.0/16"),)


def get(*lines: str, target: str = "/") -> bytes:
    head = [f"GET {target} HTTP/1.1", "Host: h", *lines, "", ""]
    return "\r\n".join(head).encode("utf-8", "surrogateescape")


class Naming(Bench):
    """A data plane that tells clients apart by all that there is, and knows two keys.

    Attributes:
        keys: Those.
    """

    def __init__(self, assertion: str = PASS_THROUGH, names_per_address: int = 0) -> None:
        self.keys = ApiKeys("k.csv")
        self.keys.take(KEYS.encode())
        self.authenticated = 0

        def authenticator(clock: VirtualClock) -> Authenticator:
            names = NamesOfAddresses(names_per_address, clock) if names_per_address else None
            return Authenticator(
                clock,
                Rules(assertion=assertion, challenges=CHALLENGE, names=names),
                keys=self.keys,
                passwords=BasicKeys(self.keys),
            )

        super().__init__(
            seats=100,
            downstream=DownstreamSettings(trusted_proxies=PROXIES),
            upstream=UpstreamSettings(url=Address(host="upstream", port=80), identity=assertion),
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
        """The user that a request is classified as, which is answered; or why it is refused."""
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
def bench() -> Iterator[Naming]:
    with Naming() as result:
        yield result


@pytest.mark.parametrize(
    ("lines", "user"),
    [
        pytest.param([], f"address:{CLIENT}", id="nothing"),
        pytest.param(["X-API-Key: k1"], "alice", id="key"),
        pytest.param(["x-api-key:k2"], "bob", id="key-in-small-letters"),
        pytest.param(["X-API-Key: k3"], "401", id="unknown-key"),
        pytest.param(["X-API-Key: k1, k2"], "401", id="keys-in-a-list"),
        pytest.param(["X-API-Key: k1", "X-API-Key: k2"], "400", id="two-keys"),
        pytest.param(["X-API-Key: k1", "X-API-Key: k1"], "alice", id="the-same-key-twice"),
        pytest.param(["X-API-Key:"], f"address:{CLIENT}", id="empty-key"),
        pytest.param(["X_API_Key: k1"], f"address:{CLIENT}", id="underscores"),
        pytest.param(["X-API-Key : k1"], "400", id="space-before-the-colon"),
        pytest.param(["X-API-Key: k1", "Connection: x-api-key"], "400", id="nominated-key"),
        pytest.param(["X-API-Key: k\udcff"], "400", id="key-no-utf-8"),
        pytest.param(["X-API-Key: " + "k" * 60000], "401", id="long-key"),
        pytest.param([f"Authorization: Basic {basic(b'alice:k1')}"], "alice", id="basic"),
        pytest.param([f"Authorization: Basic {basic(b'bob:k1')}"], "401", id="basic-of-another"),
        pytest.param(["Authorization: Basic !"], "401", id="basic-malformed"),
        pytest.param(["Authorization: Basic a", "Authorization: Basic b"], "400", id="two-basic"),
        pytest.param(["Authorization: Bearer k1"], f"address:{CLIENT}", id="no-bearer-here"),
        pytest.param(["X-Client-Id: al"], "header:al", id="name"),
        pytest.param(["X-Client-Id: system:admin"], "header:system:admin", id="system"),
        pytest.param(["X-Client-Id: alice"], "header:alice", id="name-of-another"),
        pytest.param(["X-Client-Id: a", "X-Client-Id: b"], "400", id="two-names"),
        pytest.param(["X-Client-Id:"], f"address:{CLIENT}", id="empty-name"),
        pytest.param(["X-Client-Id: \udcff"], "400", id="name-no-utf-8"),
        pytest.param(["X-Client-Id: " + "a" * 60000], "400", id="long-name"),
        pytest.param(["X-Client-Id: a\tb"], "400", id="tab"),
        pytest.param(["X_Client_Id: al"], f"address:{CLIENT}", id="name-with-underscores"),
        pytest.param(["X-Client-Id: al", "Connection: X-Client-ID"], "400", id="nominated-name"),
        pytest.param(["X-Secret: s3cret"], digest("s3cret"), id="secret"),
        pytest.param(["X-API-Key: k1", "X-Client-Id: al"], "alice", id="key-before-name"),
        pytest.param(["X-API-Key: k3", "X-Client-Id: al"], "401", id="bad-key-beside-a-name"),
        pytest.param(["X-Remote-User: root"], f"address:{CLIENT}", id="claim-of-nobody"),
        pytest.param([f"X-Forwarded-For: {OTHER}"], f"address:{CLIENT}", id="forged-address"),
        pytest.param([f"Forwarded: for={OTHER}"], f"address:{CLIENT}", id="forged-forwarded"),
        pytest.param([f"X-Real-IP: {OTHER}"], f"address:{CLIENT}", id="forged-real-ip"),
    ],
)
def test_who_asks(bench: Naming, lines: list[str], user: str) -> None:
    client = bench.client((CLIENT, 1))

    assert user == bench.user_of(client, get(*lines))
    bench.assert_at_rest(client)


def test_identity_changes_within_a_connection(bench: Naming) -> None:
    client = bench.client((CLIENT, 1))
    requests = (
        get("X-API-Key: k1"),
        get("X-Client-Id: al"),
        get(),
        get("X-API-Key: k3"),
        get("X-API-Key: k2"),
    )
    expected = ["alice", "header:al", f"address:{CLIENT}", "401", "bob"]

    assert expected == [bench.user_of(client, request) for request in requests]
    for _ in range(2):  # what comes a second time is kept
        assert expected == [bench.user_of(client, request) for request in requests]
    before = bench.authentications
    assert expected == [bench.user_of(client, request) for request in requests]
    assert before + 1 == bench.authentications  # only the refused one
    assert expected[0] == bench.user_of(client, get("X-API-Key: k1", target="/other"))
    assert before + 1 == bench.authentications
    bench.end(client)


def test_addresses_share_nothing(bench: Naming) -> None:
    clients = [bench.client((address, 1)) for address in (CLIENT, OTHER, "2001:db8::1")]
    for _ in range(4):
        assert [f"address:{CLIENT}", f"address:{OTHER}", "address:2001:db8::/64"] == [
            bench.user_of(client, get()) for client in clients
        ]
    assert 6 == bench.authentications  # twice each, until their heads were kept
    again = bench.client(("2001:db8::2", 1))
    assert "address:2001:db8::/64" == bench.user_of(again, get())
    assert 6 == bench.authentications
    for client in (*clients, again):
        bench.end(client)


def test_places_of_an_address_are_its_own() -> None:
    with Naming(names_per_address=1) as bench:
        client, proxy = bench.client((CLIENT, 1)), bench.client((PROXY, 1))

        for secret, user in (("a", digest("a")), ("b", f"address:{CLIENT}")):
            assert user == bench.user_of(client, get(f"X-Secret: {secret}"))
        for hop, secret, user in (
            (OTHER, "b", digest("b")),
            (OTHER, "a", f"address:{OTHER}"),
            (CLIENT, "b", f"address:{CLIENT}"),
            (CLIENT, "a", digest("a")),
        ):
            asked = get(f"X-Secret: {secret}", f"X-Forwarded-For: {hop}")
            assert user == bench.user_of(proxy, asked)
        for each in (client, proxy):
            bench.end(each)


def test_a_place_is_kept_while_it_is_used() -> None:
    with Naming(names_per_address=1) as bench:
        client = bench.client((CLIENT, 1))
        for _ in range(4):
            assert digest("a") == bench.user_of(client, get("X-Secret: a"))
            assert f"address:{CLIENT}" == bench.user_of(client, get("X-Secret: b"))
            bench.clock.run_until(bench.clock.now_ns() + LEASE_NS - 1)
        bench.clock.run_until(bench.clock.now_ns() + LEASE_NS)

        assert digest("b") == bench.user_of(client, get("X-Secret: b"))
        assert f"address:{CLIENT}" == bench.user_of(client, get("X-Secret: a"))
        bench.end(client)


@pytest.mark.parametrize(
    ("hops", "user", "logged"),
    [
        pytest.param(None, f"address:{PROXY}", PROXY, id="none"),
        pytest.param(CLIENT, f"address:{CLIENT}", CLIENT, id="client"),
        pytest.param(f"{OTHER}, {CLIENT}", f"address:{CLIENT}", CLIENT, id="forged"),
        pytest.param(f"{CLIENT}, 10.9.3.3", f"address:{CLIENT}", CLIENT, id="two-proxies"),
        pytest.param(f"{CLIENT}, unknown", f"address:{PROXY}", PROXY, id="no-address"),
        pytest.param("2001:db8::7", "address:2001:db8::/64", "2001:db8::7", id="ipv6"),
        pytest.param('"\\', f"address:{PROXY}", PROXY, id="no-text-for-the-log"),
    ],
)
def test_trusted_proxies(bench: Naming, hops: str | None, user: str, logged: str) -> None:
    client = bench.client((PROXY, 1))
    request = get(*([] if hops is None else [f"X-Forwarded-For: {hops}"]))

    assert user == bench.user_of(client, request)
    sent = bench.upstreams[0]
    bench.send(client, request)
    chain = PROXY if hops is None else f"{hops}, {PROXY}"
    assert sent.take().endswith(f"\r\nX-Forwarded-For: {chain}\r\n\r\n".encode())
    bench.send(sent, OK)
    assert {(user, logged)} == {(each["user"], each["client"]) for each in bench.logged()}
    bench.end(client)


@pytest.mark.parametrize(
    ("assertion", "lines"),
    [
        pytest.param(PASS_THROUGH, [b"X-API-Key: k1", b"X-Client-Id: al"], id="pass-through"),
        pytest.param(
            FRONT_PROXY,
            [
                b"X-Remote-User: alice",
                b"X-Remote-Group: batch",
                b"X-Remote-Group: system:authenticated",
                b"X-Client-Id: al",
            ],
            id="front-proxy",
        ),
    ],
)
def test_what_the_upstream_gets(assertion: str, lines: list[bytes]) -> None:
    with Naming(assertion) as bench:
        client = bench.client((CLIENT, 1))
        bench.send(
            client,
            get("X-API-Key: k1", "X-Client-Id: al", "X_API_KEY: k9", "X-Client_Id: root"),
        )
        sent = bench.upstreams[0].take().split(b"\r\n")

        assert sorted(lines) == sorted(
            line for line in sent if line.lower().startswith((b"x-api", b"x_api", b"x-c", b"x-r"))
        )
        bench.end(client)


def test_keys_that_are_gone(bench: Naming) -> None:
    client = bench.client((CLIENT, 1))
    for _ in range(3):
        assert "alice" == bench.user_of(client, get("X-API-Key: k1"))
    bench.keys.take(KEYS.replace("alice", "carol").encode())
    bench.context.forget_authentications()
    assert "carol" == bench.user_of(client, get("X-API-Key: k1"))
    bench.keys.take(b"")
    bench.context.forget_authentications()

    assert "401" == bench.user_of(client, get("X-API-Key: k1"))
    bench.end(client)


def test_log_has_no_key(bench: Naming) -> None:
    client = bench.client((CLIENT, 1))
    for line in ("X-API-Key: k1", "X-API-Key: k3-s3cret", "X-Secret: s3cret"):
        bench.user_of(client, get(line))

    assert ["alice", None, digest("s3cret")] == [each["user"] for each in bench.logged()]
    assert "s3cret" not in json.dumps(bench.logged())
    bench.end(client)


NAMES = st.sampled_from(
    (
        "X-API-Key",
        "x-api-KEY",
        "X_API_Key",
        "X-Client-Id",
        "X-Client_Id",
        "X-Secret",
        "Authorization",
        "X-Forwarded-For",
        "X-Forwarded_For",
        "X-Remote-User",
        "Impersonate-User",
        "Connection",
    )
)
VALUES = st.one_of(
    st.sampled_from(
        (
            "",
            "k1",
            "k9",
            "system:masters",
            "alice",
            f"Basic {basic(b'alice:k1')}",
            f"Basic {basic(b'root:k1')}",
            "Basic !",
            "Bearer k1",
            "192.0.2.9",
            f"{PROXY}, {OTHER}",
            "X-API-Key",
            "close",
        )
    ),
    st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF), max_size=9),
)


@given(
    lines=st.lists(st.tuples(NAMES, VALUES), max_size=4), address=st.sampled_from((CLIENT, PROXY))
)
@settings(deadline=None)
def test_whatever_is_sent(lines: list[tuple[str, str]], address: str) -> None:
    """Nobody is alice without her key, nobody else is known, and no look-alike goes on."""
    fields = [f"{name}: {value}" for name, value in lines]
    has_key = any("k1" in value or basic(b"alice:k1") in value for _, value in lines)
    with Naming() as bench:
        client = bench.client((address, 1))
        bench.send(client, get(*fields))
        sent = bench.upstreams[0].take().lower()
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
        bench.end(client)


def test_trailers_say_nobody(bench: Naming) -> None:
    client = bench.client((CLIENT, 1))
    bench.send(
        client,
        b"POST / HTTP/1.1\r\nHost: h\r\nX-API-Key: k1\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"1\r\na\r\n0\r\nX-API-Key: k2\r\nx_client-id: root\r\nX-Sum: 1\r\n\r\n",
    )

    assert bench.upstreams[0].take().endswith(b"0\r\nX-Sum: 1\r\n\r\n")
    bench.end(client)


def test_proxies_are_trusted_until_the_settings_say_otherwise(bench: Naming) -> None:
    client = bench.client((PROXY, 1))
    request = get(f"X-Forwarded-For: {CLIENT}")
    assert f"address:{CLIENT}" == bench.user_of(client, request)
    downstream = replace(bench.settings.downstream, trusted_proxies=())
    changed = replace(bench.settings, downstream=downstream)
    bench.context.configure(changed, bench.context.authenticator)

    assert f"address:{PROXY}" == bench.user_of(client, request)
    bench.end(client)


def test_names_that_are_made_up() -> None:
    """10 000 secrets from an address are as many flows as it has places, and its own."""
    with Naming(names_per_address=16) as bench:
        client = bench.client((CLIENT, 1))
        found = [bench.user_of(client, get(f"X-Secret: {number}")) for number in range(10_000)]

        assert [*(digest(str(number)) for number in range(16)), f"address:{CLIENT}"] == (
            list(dict.fromkeys(found))
        )
        assert digest("0") == bench.user_of(client, get("X-Secret: 0"))
        assert "alice" == bench.user_of(client, get("X-API-Key: k1"))
        assert 10_000 - 16 == bench.context.authenticator.counters.crowded
        bench.end(client)
