"""Certificates, keys and tokens: what of them goes together, and what becomes of changes."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from msgspec import structs

from apfproxy.app import identities as identities_module
from apfproxy.app.identities import Identities, challenges, grace_s
from apfproxy.authn.authenticator import Authentication, Authenticator
from apfproxy.authn.credentials import UNKNOWN_PEER
from apfproxy.base.errors import OperatorError
from apfproxy.base.files import FileChanges
from apfproxy.http.credential_fields import Credentials
from apfproxy.settings import (
    Address,
    ApiKeySettings,
    AuthenticationSettings,
    JwtSettings,
    ReviewSettings,
    Settings,
    UpstreamSettings,
)
from apfproxy.settings.change import nothing
from apfproxy.settings.file import parse_settings
from tests.proxy.fakes import OK, Bench, FakeTransport, Tls, status
from tests.support.certificates import Authority
from tests.support.clocks import VirtualClock
from tests.support.credentials import basic, private_key, public_pem, sha256, signed, unsigned

if TYPE_CHECKING:
    from collections.abc import Callable


S = 1_000_000_000
HTTP = Address(host="upstream", port=80)
ISSUER, KEYS = "https://issuer.example", "https://keys.example"
SHARED = "a secret of tokens, which both sides have"
OWN_TOKEN = "0123456789abcdef"  # noqa: S105 - of no server


async def no_sleep(_seconds: float) -> None:
    """Wait for nothing."""


def made(settings: Settings) -> Identities:
    return Identities(
        settings,
        VirtualClock(S),
        choose=lambda _: None,
        on_clients_change=nothing,
        on_own_change=nothing,
    )


SETTINGS = b"""
downstream: {tls: {certificateFile: proxy.crt, keyFile: proxy.key}}
upstream:
  {url: https://upstream, identity: impersonate, tokenFile: own-token, tls: {caFile: own.crt}}
authentication:
  clientCaFile: users.crt
  frontProxy: {caFile: fronts.crt, allowedNames: [front]}
  tokenFile: tokens.csv
  jwt:
  - {issuer: https://issuer.example, audiences: [k8s], keysFile: jwt.pem}
  - {secretFile: jwt-secret}
"""


class Folder:
    """A folder with all files that settings can name, good ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.users_ca, self.fronts_ca = Authority("users"), Authority("fronts")
        self.own_ca = Authority("own")
        self.users_ca.write(path, "users")
        self.fronts_ca.write(path, "fronts")
        self.own_ca.write(path, "own")
        self.own_ca.issue("proxy", usage="both").write(path, "proxy")
        self.write("tokens.csv", "t,alice,1\n")
        self.write("own-token", OWN_TOKEN)
        self.write("jwt.pem", public_pem(private_key("ES256")))
        self.write("jwt-secret", SHARED)

    def write(self, name: str, content: str | bytes) -> None:
        data = content if isinstance(content, bytes) else content.encode()
        (self.path / name).write_bytes(data)

    def of(self, name: str) -> str:
        return str(self.path / name)

    @property
    def settings(self) -> Settings:
        return parse_settings(SETTINGS, "f", self.path)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


FILES = (
    "proxy.crt",
    "proxy.key",
    "own.crt",
    "own-token",
    "users.crt",
    "fronts.crt",
    "tokens.csv",
    "jwt.pem",
    "jwt-secret",
)
BROKEN = {"tokens.csv": b"just-a-s3cret-token\n", "own-token": b"s3cret token of two words\n"}


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_files_that_cannot_be_used(folder: Folder, name: str, is_there: bool) -> None:
    settings = folder.settings
    path = Path(folder.of(name))
    if is_there:
        path.write_bytes(BROKEN.get(name, b"-----BEGIN s3cret-----\n"))
    else:
        path.unlink()
    with pytest.raises(OperatorError) as caught:
        made(settings)

    assert str(path) in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_expiries(folder: Folder) -> None:
    """Each certificate and CA that settings name, by its setting."""
    jwt = JwtSettings(
        issuer=ISSUER, audiences=("k8s",), jwks_url=KEYS, ca_file=folder.of("own.crt")
    )
    settings = folder.settings
    authentication = structs.replace(settings.authentication, jwt=(jwt,))
    identities = made(structs.replace(settings, authentication=authentication))

    assert {
        "downstream.tls.certificateFile": folder.of("proxy.crt"),
        "authentication.clientCaFile": folder.of("users.crt"),
        "authentication.frontProxy.caFile": folder.of("fronts.crt"),
        "upstream.tls.caFile": folder.of("own.crt"),
        "authentication.jwt[0].caFile": folder.of("own.crt"),
    } == dict(each.file for each in identities.expiries())


def test_own_token_that_expires(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    assert [] == made(folder.settings).own_tokens()
    until = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(hours=1)
    since = until - dt.timedelta(hours=10)
    times = since.timestamp(), until.timestamp()
    folder.write("own-token", unsigned({"iat": int(times[0]), "exp": int(times[1])}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", (until - dt.timedelta(minutes=61)).timestamp)
        early = made(folder.settings)
        assert (None, []) == (early.problem(), caplog.messages)
        patch.setattr(time, "time", (until - dt.timedelta(minutes=59)).timestamp)
        token = folder.of("own-token")
        message = f"upstream.tokenFile: {token}: the token expires at {until.isoformat()}"
        assert message == early.problem()
        made(folder.settings)

    assert [message] == caplog.messages
    assert [("upstream.tokenFile", token, times)] == early.own_tokens()


class Served(Bench):
    """A data plane with all files, which are looked at when a test says so."""

    identities: Identities

    def __init__(self, folder: Folder) -> None:
        self.own_changes = 0

        def authenticator(clock: VirtualClock) -> Authenticator:
            self.identities = Identities(
                folder.settings,
                clock,
                choose=lambda _: None,
                on_clients_change=lambda: self.context.forget_authentications(),  # noqa: PLW0108  not there yet
                on_own_change=self._on_own_change,
            )
            return self.identities.authenticator

        super().__init__(
            seats=9,
            upstream=UpstreamSettings(url=HTTP, identity="impersonate"),
            authenticator=authenticator,
        )

    def _on_own_change(self) -> None:
        self.own_changes += 1

    def check(self) -> int:
        """See which files have changed; how many groups of them were read again."""
        return self.run(self.identities.files.check())

    def forwarded(self, client: FakeTransport, *lines: bytes) -> tuple[bytes, str]:
        """The head of a client's request at the upstream, and the status of the response."""
        self.send(client, b"GET /x HTTP/1.1\r\nHost: h\r\n%b\r\n" % b"".join(lines))
        sent = self.upstreams[0].take()
        if sent:
            self.send(self.upstreams[0], OK)
        return sent, status(client.take()).decode()

    def who(self, client: FakeTransport, *lines: bytes) -> str:
        """The user of a forwarded request, or the status of its refusal."""
        sent, code = self.forwarded(client, *lines)
        return sent.partition(b"Impersonate-User: ")[2].partition(b"\r\n")[0].decode() or code

    def own_token(self, client: FakeTransport) -> str:
        sent, _ = self.forwarded(client)
        return sent.partition(b"Authorization: Bearer ")[2].partition(b"\r\n")[0].decode()


@pytest.fixture(autouse=True)
def settle_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are at rest at once."""
    monkeypatch.setattr(identities_module, "FileChanges", partial(FileChanges, sleep=no_sleep))


def with_token(token: str) -> bytes:
    return b"Authorization: Bearer %b\r\n" % token.encode()


def reissue(folder: Folder, name: str) -> None:
    """Put another CA in the place of one."""
    Authority("another").write(folder.path, name)


Case = tuple["Callable[[Folder], tuple[Tls | None, bytes]]", str, "Callable[[Folder], None]", str]


def jwt_case(_folder: Folder) -> tuple[Tls | None, bytes]:
    claims = {"iss": ISSUER, "aud": "k8s", "sub": "jane", "exp": time.time() + 3600}
    return None, with_token(signed(claims, private_key("ES256")))


def secret_case(_folder: Folder) -> tuple[Tls | None, bytes]:
    return None, with_token(jwt.encode({"sub": "erin", "exp": time.time() + 3600}, SHARED))


CASES: dict[str, Case] = {
    "tokens.csv": (
        lambda _: (None, with_token("t")),
        "alice",
        lambda folder: folder.write("tokens.csv", "t,bob,1\n"),
        "bob",
    ),
    "users.crt": (
        lambda folder: (Tls(folder.users_ca.issue("carol").der), b""),
        "carol",
        lambda folder: reissue(folder, "users"),
        "401",
    ),
    "fronts.crt": (
        lambda folder: (Tls(folder.fronts_ca.issue("front").der), b"X-Remote-User: dave\r\n"),
        "dave",
        lambda folder: reissue(folder, "fronts"),
        "401",
    ),
    "jwt.pem": (
        jwt_case,
        f"{ISSUER}#jane",
        lambda folder: folder.write("jwt.pem", public_pem(private_key("ES256", 1))),
        "401",
    ),
    "jwt-secret": (
        secret_case,
        "erin",
        lambda folder: folder.write("jwt-secret", "another" * 9),
        "401",
    ),
}
"""A client, who it is, what changes, and who it is then."""


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_changed_file_changes_who_asks_but_a_broken_one_nothing(
    folder: Folder, name: str, is_there: bool, caplog: pytest.LogCaptureFixture
) -> None:
    client_of, before, change, after = CASES[name]
    tls, line = client_of(folder)
    with Served(folder) as bench:
        client, other = bench.client(tls=tls), bench.client()
        for _ in range(4):
            assert (before, "system:anonymous") == (bench.who(client, line), bench.who(other))
        assert 0 == bench.check()
        if is_there:
            folder.write(name, BROKEN.get(name, b"s3cret"))
        else:
            Path(folder.of(name)).unlink()
        with caplog.at_level(logging.ERROR):
            assert 0 == bench.check()
        assert before == bench.who(client, line)
        change(folder)
        assert bench.check() > 0
        for _ in range(4):
            assert (after, "system:anonymous") == (bench.who(client, line), bench.who(other))
        bench.end(client)
        bench.end(other)
        bench.assert_at_rest()

    assert f"the old contents stay in force: {folder.of('')}" in caplog.text
    assert folder.of(name) in caplog.text
    assert "s3cret" not in caplog.text


def test_changed_token_of_its_own(folder: Folder) -> None:
    with Served(folder) as bench:
        client = bench.client()
        for _ in range(3):
            assert OWN_TOKEN == bench.own_token(client)
        folder.write("own-token", "two words here and")
        assert 0 == bench.check()
        assert (OWN_TOKEN, 0) == (bench.own_token(client), bench.own_changes)
        folder.write("own-token", OWN_TOKEN[::-1])
        assert 1 == bench.check()

        assert (OWN_TOKEN[::-1], 1) == (bench.own_token(client), bench.own_changes)
        assert OWN_TOKEN not in repr(bench.identities)
        bench.end(client)


def test_changed_certificates(folder: Folder) -> None:
    """New connections have the new one; with the upstream no old connection is used again."""
    with Served(folder) as bench:
        server, client = bench.identities.server_tls, bench.identities.client_tls
        assert server is not None
        assert client is not None
        before = server.context, client.context
        folder.write("proxy.crt", b"broken")
        folder.write("own.crt", b"broken")
        assert 0 == bench.check()
        assert (before, 0) == ((server.context, client.context), bench.own_changes)
        folder.own_ca.issue("proxy", usage="both").write(folder.path, "proxy")
        assert 1 == bench.check()
        assert server.context is not before[0]
        assert (before[1], 0) == (client.context, bench.own_changes)
        reissue(folder, "own")
        assert 1 == bench.check()
        assert client.context is not before[1]
        assert 1 == bench.own_changes


KEY_LINE = f"{sha256('k1')},alice,,batch\n"


@pytest.mark.parametrize(
    ("given", "credentials", "user"),
    [
        ({}, Credentials(key="k1"), "alice"),
        ({"is_bearer": True}, Credentials("k1"), "alice"),
        ({}, Credentials("k1"), "system:anonymous"),
        ({"is_basic": True}, Credentials(basic=basic(b"alice:k1")), "alice"),
        ({}, Credentials(basic=basic(b"alice:k1")), "system:anonymous"),
        ({"unknown": "anonymous"}, Credentials(key="k"), "system:anonymous"),
    ],
    ids=["field", "bearer", "no-bearer", "basic", "no-basic", "none"],
)
def test_api_keys(
    tmp_path: Path, given: dict[str, Any], credentials: Credentials, user: str
) -> None:
    """Keys are looked for where the settings say so."""
    (tmp_path / "keys.csv").write_text(KEY_LINE)
    keys = ApiKeySettings(file=str(tmp_path / "keys.csv"), **given)
    subject = made(Settings(authentication=AuthenticationSettings(api_keys=keys)))
    found = subject.authenticator.authenticate(UNKNOWN_PEER, credentials)

    assert isinstance(found, Authentication)
    assert user == found.user.name


@pytest.mark.parametrize(
    ("text", "schemes"),
    [
        ("apiKeys: {file: f}", ["ApiKey"]),
        ("apiKeys: {file: f, basic: true, bearer: true}", ["Basic", "Bearer", "ApiKey"]),
        ("apiKeys: {file: f}, jwt: [{}]", ["Bearer", "ApiKey"]),
        ("clientCaFile: f", ["Bearer"]),
    ],
)
def test_challenges(text: str, schemes: list[str]) -> None:
    """One for each way to show a key or a token; one at least."""
    settings = parse_settings(f"authentication: {{{text}}}".encode(), "f")
    lines = challenges(settings.authentication).decode().splitlines()

    assert schemes == [line.split()[1] for line in lines]
    assert all(line.startswith("WWW-Authenticate: ") for line in lines)


async def test_questions_under_way_may_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reviews = ReviewSettings(is_enabled=True, timeout_s=7)
    settings = Settings(authentication=AuthenticationSettings(token_review=reviews))
    old, new = made(settings), made(Settings())
    waits: list[float] = []
    asked, may_end, has_ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        asked.set()
        await may_end.wait()

    async def closed() -> None:
        has_ended.set()

    monkeypatch.setattr(identities_module.asyncio, "sleep", sleep)  # type: ignore[attr-defined]
    monkeypatch.setattr(old.review_apis["token"], "close", closed)
    new.succeed(old)
    await asked.wait()
    assert not has_ended.is_set()
    may_end.set()
    await has_ended.wait()
    await new.close()

    assert [grace_s(settings)] == waits
    assert grace_s(settings) > reviews.timeout_s
