"""TLS contexts: what they take, what they refuse, and that a reload disturbs no connection.

Handshakes are in memory: both ends are `ssl` objects, and no socket is needed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import ssl
from typing import TYPE_CHECKING, cast

import pytest
from msgspec.structs import replace

from apfproxy.authn.certificates import ClientCertificates
from apfproxy.base.tls_files import TlsFile
from apfproxy.proxy.tls import ServerTls, peer_certificates
from apfproxy.settings import DownstreamTlsSettings, UpstreamTlsSettings
from apfproxy.upstream.connecting import connect_failure
from apfproxy.upstream.counters import UpstreamFailure
from apfproxy.upstream.tls import ClientTls, is_cut_off
from tests.support.certificates import DAY, Authority, Issued

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from pathlib import Path

NOW = dt.datetime.now(dt.UTC)
PAST = NOW - dt.timedelta(hours=1)
SERVERS, USERS, OTHERS = map(Authority, ("servers", "users", "others"))
SERVER = SERVERS.issue("server", usage="server", not_after=NOW + 90 * DAY)


class Ends:
    def __init__(
        self,
        server: ssl.SSLContext,
        client: ssl.SSLContext,
        name: str = "localhost",
        session: ssl.SSLSession | None = None,
    ) -> None:
        self._to_server, self._to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = server.wrap_bio(self._to_server, self._to_client, server_side=True)
        self.client = client.wrap_bio(
            self._to_client, self._to_server, server_hostname=name, session=session
        )
        left = [self.client, self.server]
        while left:
            for end in list(left):
                try:
                    end.do_handshake()
                    left.remove(end)
                except ssl.SSLWantReadError:
                    pass
        for end in (self.client, self.server):
            # Of TLS 1.3 the tickets, and the client's own end, come behind.
            with pytest.raises(ssl.SSLWantReadError):
                end.read(1)

    def talk(self) -> bytes:
        self.client.write(b"ping")
        self.server.write(b"pong:" + self.server.read(9))
        return self.client.read(9)


class Transport:
    def __init__(self, ssl_object: ssl.SSLObject | None) -> None:
        self._ssl_object = ssl_object

    def get_extra_info(self, name: str) -> object:
        return {"ssl_object": self._ssl_object}[name]


def certificates_of(end: ssl.SSLObject | None) -> tuple[bytes | None, tuple[bytes, ...]]:
    return peer_certificates(cast("asyncio.BaseTransport", Transport(end)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    SERVER.write(tmp_path, "server")
    SERVERS.write(tmp_path, "servers")
    USERS.write(tmp_path, "users")
    return tmp_path


def server_tls(folder: Path, *, is_required: bool = False, client_ca: str = "") -> ServerTls:
    settings = DownstreamTlsSettings(
        certificate_file=str(folder / "server.crt"),
        key_file=str(folder / "server.key"),
        require_client_certificate=is_required,
    )
    result = ServerTls(settings, (TlsFile("cas", str(folder / client_ca)),) if client_ca else ())
    result.load()
    return result


def client_tls(folder: Path, own: Issued | None = None, name: str | None = None) -> ClientTls:
    settings = UpstreamTlsSettings(ca_file=str(folder / "servers.crt"), server_name=name)
    if own is not None:
        certificate_file, key_file = own.write(folder, "own")
        settings = replace(settings, certificate_file=certificate_file, key_file=key_file)
    result = ClientTls(settings)
    result.load()
    return result


def test_speaks(folder: Path) -> None:
    ends = Ends(server_tls(folder).context, client_tls(folder).context)

    assert b"pong:ping" == ends.talk()
    assert ("TLSv1.3", "http/1.1") == (ends.server.version(), ends.server.selected_alpn_protocol())
    assert (None, ()) == certificates_of(ends.server)
    assert SERVER.der == certificates_of(ends.client)[0]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_end_that_nobody_announced(folder: Path, version: ssl.TLSVersion) -> None:
    client = client_tls(folder).context
    client.maximum_version = version
    ends = Ends(server_tls(folder).context, client)
    ends.talk()
    transport = cast("asyncio.BaseTransport", Transport(ends.client))

    assert is_cut_off(transport)
    with pytest.raises(ssl.SSLWantReadError):
        ends.server.unwrap()
    assert not is_cut_off(transport)
    assert not is_cut_off(cast("asyncio.BaseTransport", Transport(None)))


@pytest.mark.parametrize(
    ("version", "ciphers", "is_taken"),
    [
        *((ssl.TLSVersion.TLSv1_2, cipher, True) for cipher in ("ECDHE+AESGCM", "ECDHE+CHACHA20")),
        *(
            (ssl.TLSVersion.TLSv1_2, cipher, False)
            for cipher in ("DHE+AESGCM", "ECDHE-ECDSA-AES128-SHA")
        ),
        (ssl.TLSVersion.TLSv1_1, "DEFAULT@SECLEVEL=0", False),
        (ssl.TLSVersion.TLSv1_3, "prime256v1", True),
        (ssl.TLSVersion.TLSv1_3, "secp521r1", False),
    ],
)
def test_versions_ciphers_and_curves(
    folder: Path, version: ssl.TLSVersion, ciphers: str, is_taken: bool
) -> None:
    client = ssl.create_default_context(cafile=str(folder / "servers.crt"))
    if version is ssl.TLSVersion.TLSv1_3:
        client.set_ecdh_curve(ciphers)
    else:
        client.set_ciphers(ciphers)
    with (
        pytest.warns() if version < ssl.TLSVersion.TLSv1_2 else contextlib.nullcontext()
    ):  # of old versions
        client.minimum_version = client.maximum_version = version
    try:
        ends = Ends(server_tls(folder).context, client)
    except ssl.SSLError:
        assert not is_taken
    else:
        assert is_taken
        assert b"pong:ping" == ends.talk()


def test_options(folder: Path) -> None:
    context = server_tls(folder).context
    wanted = ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION

    assert wanted == context.options & (wanted | ssl.OP_CIPHER_SERVER_PREFERENCE)
    assert 1 == context.num_tickets
    assert 0 == server_tls(folder, client_ca="users.crt").context.num_tickets


@pytest.mark.parametrize(
    ("make", "is_required", "is_taken"),
    [
        (lambda: USERS.issue("u"), False, True),
        (lambda: USERS.below("mid").issue("u"), True, True),
        (lambda: USERS.issue("u", not_after=PAST), True, True),
        (lambda: None, False, True),
        (lambda: None, True, False),
        (lambda: SERVERS.issue("u"), False, False),
        (lambda: USERS.issue("u", usage="server"), False, False),
    ],
    ids=["good", "intermediate", "expired", "optional", "required", "other-ca", "for-servers"],
)
def test_client_certificates(
    folder: Path, make: Callable[[], Issued | None], is_required: bool, is_taken: bool
) -> None:
    own = make()
    server = server_tls(folder, is_required=is_required, client_ca="users.crt")
    client = client_tls(folder, own)
    try:
        ends = Ends(server.context, client.context)
    except ssl.SSLError:
        assert not is_taken
        return
    assert is_taken
    assert b"pong:ping" == ends.talk()
    found = certificates_of(ends.server)
    assert found == ((None, ()) if own is None else (own.der, (own.der, *own.chain_der)))


def test_sessions_with_client_certificates(folder: Path) -> None:
    OTHERS.write(folder, "others")
    of_hosts = {
        "a": server_tls(folder, client_ca="users.crt"),
        "b": server_tls(folder, client_ca="others.crt"),
    }
    cas = [TlsFile("cas", str(folder / name)) for name in ("users.crt", "others.crt")]
    own = ServerTls(of_hosts["a"].settings, cas, lambda name: (of_hosts[name].context, name))
    own.load()
    jane = USERS.below("middle").issue("jane")
    client = client_tls(folder, jane).context
    client.check_hostname = False
    client.maximum_version = ssl.TLSVersion.TLSv1_2

    first = Ends(own.context, client, "a")
    second = Ends(own.context, client, "b", first.client.session)

    shown = certificates_of(second.server)
    assert (False, True) == (first.server.session_reused, second.server.session_reused)
    assert shown == certificates_of(first.server) == (jane.der, (jane.der, *jane.chain_der))
    assert shown[0] is not None
    found = [ClientCertificates(ca.pem, None).judge(shown[0], shown[1]) for ca in (USERS, OTHERS)]
    assert ["jane", None] == [each.user and each.user.name for each in found]
    assert found[1].problem


@pytest.mark.parametrize(
    ("make", "name", "problem", "setting"),
    [
        (lambda: USERS.issue("a", usage="server"), "localhost", "unable to get local", "caFile"),
        (lambda: SERVER, "example.org", "Hostname mismatch", "serverName"),
        (lambda: SERVER, "127.0.0.2", "IP address mismatch", "serverName"),
        (
            lambda: SERVERS.issue("a", usage="server", not_after=PAST),
            "localhost",
            "has expired",
            "",
        ),
        (lambda: SERVERS.issue("a"), "localhost", "certificate purpose", ""),
    ],
)
def test_verifies_the_upstream(
    folder: Path, make: Callable[[], Issued], name: str, problem: str, setting: str
) -> None:
    make().write(folder, "server")
    client = client_tls(folder, name=name)
    with pytest.raises(ssl.SSLCertVerificationError, match=problem) as caught:
        Ends(server_tls(folder).context, client.context, name)
    found = connect_failure(caught.value)

    assert (UpstreamFailure.TLS, 502) == (found.kind, found.code)
    assert found.reason.startswith("the upstream's certificate is not valid: ")
    assert setting == found.problem.partition("; upstream.tls.")[2]


def test_reload_is_for_new_connections(folder: Path) -> None:
    server, client = server_tls(folder), client_tls(folder)
    assert (None, ()) == certificates_of(None)
    old = Ends(server.context, client.context)
    renewed = SERVERS.issue("server", usage="server")
    renewed.write(folder, "server")
    server.load()
    new = Ends(server.context, client.context)

    assert [SERVER.der, renewed.der] == [certificates_of(e.client)[0] for e in (old, new)]
    assert [b"pong:ping"] * 2 == [old.talk(), new.talk()]
