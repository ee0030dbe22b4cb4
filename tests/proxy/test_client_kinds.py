"""Kinds of clients, and the heads that each sends."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.authn.authenticator import Authenticator
from apfproxy.authn.certificates import ClientCertificates
from apfproxy.authn.credentials import UNKNOWN_PEER, Peer
from apfproxy.proxy import request as request_module
from apfproxy.proxy.request import ClientKinds
from apfproxy.request.attributes import User
from apfproxy.settings import Address, DownstreamSettings, UpstreamSettings
from tests.proxy.fakes import GET, OK, Bench

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.proxy.request import ClientKind
    from tests.virtual_clock import VirtualClock

GET_10 = b"GET / HTTP/1.0\r\n\r\n"


@pytest.mark.parametrize(
    ("upstream", "host"),
    [
        pytest.param(
            UpstreamSettings(url=Address(host="127.0.0.1", port=80)),
            b"127.0.0.1:80",
            id="address",
        ),
        pytest.param(UpstreamSettings(url=Address(host="::1", port=8)), b"[::1]:8", id="ipv6"),
        pytest.param(UpstreamSettings(host_header="api"), b"api", id="set"),
    ],
)
def test_host_of_the_upstream(upstream: UpstreamSettings, host: bytes) -> None:
    """A request without a Host gets the upstream's address, or what the settings say."""
    with Bench(upstream=upstream) as bench:
        client = bench.ask(GET_10)
        assert b"\r\nHost: " + host + b"\r\n" in bench.upstreams[0].take()
        bench.end(client)


CERTIFICATES = (b"alice", b"bob", b"carol")


class Certificates(ClientCertificates):
    def judge(self, leaf_der: bytes, chain: Sequence[bytes] = ()) -> Peer:  # noqa: ARG002  the protocol's signature
        return Peer(User(leaf_der.decode(), ()), has_certificate=True)


def authenticator(clock: VirtualClock) -> Authenticator:
    result = Authenticator(clock)
    result.certificates = Certificates(None, None)
    return result


def authenticating() -> Bench:
    """A data plane for which certificates name users, and 10.1.0.0/16 is trusted."""
    return Bench(
        downstream=DownstreamSettings(identity_headers_from=(ipaddress.ip_network("10.1.0.0/16"),)),
        authenticator=authenticator,
    )


@pytest.mark.parametrize(
    ("address", "certificate", "expected"),
    [
        pytest.param("10.0.0.1", None, UNKNOWN_PEER, id="nobody"),
        pytest.param("10.1.0.1", None, Peer(is_front_proxy=True), id="trusted-address"),
        pytest.param("::ffff:10.1.0.1", None, Peer(is_front_proxy=True), id="mapped"),
        pytest.param("unknown", None, UNKNOWN_PEER, id="no-address"),
        pytest.param("10.0.0.1", b"a", Peer(User("a", ()), has_certificate=True), id="certificate"),
        pytest.param(
            "10.1.0.1",
            b"a",
            Peer(User("a", ()), is_front_proxy=True, has_certificate=True),
            id="certificate-at-a-trusted-address",
        ),
    ],
)
def test_kinds_of_clients(address: str, certificate: bytes | None, expected: Peer) -> None:
    """What a client is hangs on its address and its certificate, and on nothing else."""
    with authenticating() as bench:
        heads = bench.context.client_kinds.kind_of(address, certificate)
        assert expected == heads.peer
        assert heads is bench.context.client_kinds.kind_of(address, certificate)
        assert heads is not bench.context.client_kinds.kind_of(address, certificate, is_tls=True)


def test_clients_of_different_kinds_share_nothing() -> None:
    """A header block of one is none of another, though its bytes are the same."""
    with authenticating() as bench:
        kinds = [
            bench.context.client_kinds.kind_of(
                address, certificate, is_tls=is_tls, is_http2=is_http2
            )
            for address in ("10.0.0.1", "10.1.0.1")
            for certificate in (None, *CERTIFICATES)
            for is_tls in (False, True)
            for is_http2 in (False, True)
        ]

    assert len(kinds) == len({id(kind.blocks) for kind in kinds})


def test_kinds_of_clients_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_module, "MAX_KINDS", 3)
    with authenticating() as bench:
        first = bench.context.client_kinds.kind_of("10.0.0.1", b"first")
        for number in range(3):
            bench.context.client_kinds.kind_of("10.0.0.1", b"%d" % number)

        assert first is not bench.context.client_kinds.kind_of("10.0.0.1", b"first")


def test_certificates_count_only_where_they_are_judged(bench: Bench) -> None:
    assert UNKNOWN_PEER == bench.context.client_kinds.kind_of("10.0.0.1", b"alice").peer


@pytest.mark.interpreted
def test_clients_are_looked_at_when_they_ask(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """When all are to be found out anew, none that is silent costs anything."""
    clients = [bench.client() for _ in range(3)]
    looks: list[str] = []
    kind_of = ClientKinds.kind_of

    def looking(kinds: ClientKinds, address: str, *args: Any, **names: Any) -> ClientKind:  # noqa: ANN401
        looks.append(address)
        return kind_of(kinds, address, *args, **names)

    monkeypatch.setattr(ClientKinds, "kind_of", looking)
    bench.context.forget_authentications()
    assert [] == looks
    for _ in range(2):
        bench.send(clients[0], GET)
        bench.send(bench.upstreams[0], OK)

    assert ["10.0.0.1"] == looks
