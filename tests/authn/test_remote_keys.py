"""Keys that are fetched: from a URL, and where discovery says."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from apfproxy.authn import web_keys as remote_keys
from apfproxy.authn.json_web_tokens import JsonWebTokens
from apfproxy.authn.web_keys import (
    FIRST_REFETCH_S,
    MAX_REDIRECTS,
    MAX_SET_BYTES,
    REFETCH_S,
    REFRESH_S,
    RemoteKeys,
    WebKeysError,
    url_problem,
)
from apfproxy.settings import JwtSettings
from loadtest.certificates import Authority
from tests.authn.scripted_api import Clock
from tests.authn.signing import jwks, private_key, public_jwk, public_pem, signed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

OLD, NEW = private_key(), private_key(number=1)
OLD_SET = jwks(public_jwk(OLD, kid="old"))
NEW_SET = jwks(public_jwk(NEW, kid="new"))


class Issuer:
    """A server of documents, which counts how often it is asked.

    Attributes:
        documents: Path to what is answered there.
        gate: Answers wait for it.
        asked: The paths, in order.
    """

    def __init__(self) -> None:
        self.documents: dict[str, web.Response | bytes | dict[str, Any]] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.arrived = asyncio.Event()
        self.asked: list[str] = []
        self.headers: dict[str, str] = {}
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        self.server = TestServer(app)

    @property
    def url(self) -> str:
        """Where it is."""
        return str(self.server.make_url("")).rstrip("/")

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        self.headers = dict(request.headers)
        self.arrived.set()
        await self.gate.wait()
        document = self.documents.get(request.path)
        if isinstance(document, bytes):
            return web.Response(body=document)
        if isinstance(document, dict):
            return web.json_response(document)
        if document is None:
            return web.Response(status=404)
        # A response can be sent once only.
        return web.Response(
            status=document.status, headers=document.headers.copy(), body=document.body
        )


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    """An issuer with one key, at /jwks and by discovery."""
    issuer = Issuer()
    await issuer.server.start_server()
    issuer.documents = {
        "/jwks": OLD_SET,
        "/.well-known/openid-configuration": {
            "issuer": issuer.url,
            "jwks_uri": f"{issuer.url}/jwks",
        },
    }
    yield issuer
    issuer.gate.set()
    await issuer.server.close()


@pytest.fixture
def clock() -> Clock:
    """A clock."""
    return Clock()


def kids(keys: RemoteKeys) -> list[str | None]:
    """The names of the keys known."""
    return [key.kid for key in keys.current().keys]


@pytest.mark.parametrize("is_discovered", [False, True])
async def test_fetch(issuer: Issuer, clock: Clock, is_discovered: bool) -> None:
    """The keys of a URL, or of where discovery says, are known once they are fetched."""
    keys = RemoteKeys(issuer.url, None if is_discovered else f"{issuer.url}/jwks", now_s=clock)
    assert [] == kids(keys)
    assert keys.can_refresh()
    assert "not fetched yet" == keys.problem
    await keys.refresh()

    assert ["old"] == kids(keys)
    assert "" == keys.problem
    assert ["/.well-known/openid-configuration", "/jwks"][not is_discovered :] == issuer.asked
    assert "identity" == issuer.headers["Accept-Encoding"]


async def test_tls(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A server is verified against the CAs of the file, and against no others."""
    authority, other = Authority("ca"), Authority("other")
    issued = authority.issue("issuer", usage="server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*issued.write(tmp_path, "issuer"))
    issuer = Issuer()
    await issuer.server.start_server(ssl=context)
    issuer.documents["/jwks"] = OLD_SET
    trusting, wary = (
        RemoteKeys(issuer.url, f"{issuer.url}/jwks", ca_file=ca.write(tmp_path, name))
        for name, ca in (("ca", authority), ("other", other))
    )
    await trusting.refresh()
    await wary.refresh()
    assert issuer.url.startswith("https:")
    await issuer.server.close()

    assert (["old"], "") == (kids(trusting), trusting.problem)
    assert [] == kids(wary)
    assert "certificate verify failed" in wary.problem
    assert ["/jwks"] == issuer.asked
    assert 1 == len(caplog.messages)


async def test_issuer_with_path(issuer: Issuer) -> None:
    """The discovery document of an issuer is below its path, a slash at the end or not."""
    url = f"{issuer.url}/realms/a/"
    issuer.documents["/realms/a/.well-known/openid-configuration"] = {
        "issuer": url,
        "jwks_uri": f"{issuer.url}/jwks",
    }
    keys = RemoteKeys(url)
    await keys.refresh()

    assert ["old"] == kids(keys)


async def test_one_fetch_at_a_time(issuer: Issuer, clock: Clock) -> None:
    """All who wait get what one fetch brings, also when one of them is gone meanwhile."""
    issuer.gate.clear()
    keys = RemoteKeys(issuer.url, f"{issuer.url}/jwks", now_s=clock)
    waiting = [asyncio.create_task(keys.refresh()) for _ in range(3)]
    await issuer.arrived.wait()
    waiting[0].cancel()
    assert keys.can_refresh()
    issuer.gate.set()
    await asyncio.gather(*waiting, return_exceptions=True)

    assert ["/jwks"] == issuer.asked
    assert ["old"] == kids(keys)


async def test_pause_between_attempts(issuer: Issuer, clock: Clock) -> None:
    """The issuer is asked no more often than every ten seconds, whoever wants it."""
    keys = RemoteKeys(issuer.url, f"{issuer.url}/jwks", now_s=clock)
    await keys.refresh()
    issuer.documents["/jwks"] = NEW_SET
    for now_s, expected in ((REFETCH_S - 0.1, ["old"]), (REFETCH_S, ["new"])):
        clock.now_s = 1000.0 + now_s
        assert (expected == ["new"]) == keys.can_refresh()
        await keys.refresh()
        assert expected == kids(keys)

    assert 2 == len(issuer.asked)


async def test_shorter_pause_without_keys(issuer: Issuer, clock: Clock) -> None:
    """While there are no keys at all the next attempt is near."""
    issuer.documents["/jwks"] = web.Response(status=503)
    keys = RemoteKeys(issuer.url, f"{issuer.url}/jwks", now_s=clock)
    await keys.refresh()
    assert not keys.can_refresh()
    clock.now_s += FIRST_REFETCH_S
    issuer.documents["/jwks"] = OLD_SET
    await keys.refresh()

    assert ["old"] == kids(keys)


async def test_old_keys_in_use(issuer: Issuer, clock: Clock) -> None:
    """Keys that are used are fetched again in time, and nobody waits for that."""
    keys = RemoteKeys(issuer.url, f"{issuer.url}/jwks", now_s=clock)
    await keys.refresh()
    issuer.documents["/jwks"] = NEW_SET
    clock.now_s += REFRESH_S - 1
    assert ["old"] == kids(keys)
    assert 1 == len(issuer.asked)
    clock.now_s += 1
    assert ["old"] == kids(keys)
    await keys.refresh()  # joins the one under way

    assert ["new"] == kids(keys)
    assert 2 == len(issuer.asked)


async def test_keys_stay_when_fetching_fails(
    issuer: Issuer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure leaves the last keys, is told once, and the next attempt is ten seconds later."""
    keys = RemoteKeys(issuer.url, f"{issuer.url}/jwks", now_s=clock)
    await keys.refresh()
    issuer.documents["/jwks"] = web.Response(status=500)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            clock.now_s += REFRESH_S
            assert ["old"] == kids(keys)
            await keys.refresh()
            assert ["old"] == kids(keys)

    problem = f"{issuer.url}/jwks: status 500"
    assert problem == keys.problem
    assert [f"the keys of {issuer.url} cannot be fetched: {problem}"] == caplog.messages
    assert 4 == len(issuer.asked)
    assert not keys.can_refresh()
    issuer.documents["/jwks"] = NEW_SET
    clock.now_s += REFETCH_S
    await keys.refresh()
    assert (["new"], "") == (kids(keys), keys.problem)


SELF = "self"


def redirect(place: str, status: int = 302) -> web.Response:
    """An answer that sends elsewhere."""
    return web.Response(status=status, headers={"Location": place})


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        pytest.param(None, "status 404", id="not-found"),
        pytest.param(web.Response(status=204), "status 204", id="no-content"),
        pytest.param(b"<html>", "no JWKS: not JSON", id="html"),
        pytest.param(public_pem(OLD), "no JWKS: not JSON", id="pem"),
        pytest.param(b'{"keys":[]}', "no usable key", id="no-keys"),
        pytest.param(jwks({"kty": "oct", "k": "c2VjcmV0"}), "is symmetric", id="symmetric"),
        pytest.param(b" " * (MAX_SET_BYTES + 1), "longer than 1048576 bytes", id="huge"),
        pytest.param(redirect("/jwks"), "redirects more than 3 times", id="circle"),
        pytest.param(redirect("https://other.example/"), "to another server", id="other-host"),
        pytest.param(redirect("//127.0.0.1:1/jwks"), "to another server", id="other-port"),
        pytest.param(redirect("file:///etc/passwd"), "to another server", id="file"),
        pytest.param(redirect("http://[::1"), "Invalid IPv6 URL", id="no-url"),
        pytest.param(
            web.Response(status=200, body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}),
            "no JWKS",
            id="compressed",
        ),
    ],
)
async def test_failures(issuer: Issuer, document: Any, problem: str) -> None:  # noqa: ANN401 - documents of all types
    """Whatever else than a set of keys comes is a problem that says where, and nothing is known."""
    issuer.documents["/jwks"] = document
    keys = RemoteKeys(issuer.url)
    await keys.refresh()

    assert problem in keys.problem
    assert "c2VjcmV0" not in keys.problem
    assert [] == kids(keys)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirect_on_the_server(issuer: Issuer, status: int) -> None:
    """A document that has moved on its server is found."""
    issuer.documents["/jwks"] = redirect("/a", status)
    for number, place in enumerate(("/a", "/b")[: MAX_REDIRECTS - 1]):
        issuer.documents[place] = redirect(("b", f"{issuer.url}/c")[number], status)
    issuer.documents["/c"] = NEW_SET
    keys = RemoteKeys(issuer.url)
    await keys.refresh()

    assert (["new"], "") == (kids(keys), keys.problem)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        pytest.param(None, "status 404", id="missing"),
        pytest.param(b"[]", "no discovery document: not an object", id="list"),
        pytest.param({}, "of another issuer", id="no-issuer"),
        pytest.param({"issuer": "https://other.example"}, "of another issuer", id="other-issuer"),
        pytest.param({"issuer": SELF}, "jwks_uri: missing", id="no-url"),
        pytest.param({"issuer": SELF, "jwks_uri": 7}, "jwks_uri: missing", id="url-number"),
        pytest.param(
            {"issuer": SELF, "jwks_uri": "http://keys.example/"}, "jwks_uri: not https", id="http"
        ),
        pytest.param(
            {"issuer": SELF, "jwks_uri": "file:///etc/keys"}, "jwks_uri: no https URL", id="file"
        ),
    ],
)
async def test_discovery_failures(issuer: Issuer, document: Any, problem: str) -> None:  # noqa: ANN401 - documents of all types
    """Discovery is believed only of the issuer itself, and only with a safe URL of keys."""
    if isinstance(document, dict) and document.get("issuer") == SELF:
        document = {**document, "issuer": issuer.url}
    issuer.documents["/.well-known/openid-configuration"] = document
    keys = RemoteKeys(issuer.url)
    await keys.refresh()

    assert problem in keys.problem
    assert [] == kids(keys)
    assert "/jwks" not in issuer.asked


async def test_no_server(unused_tcp_port: int) -> None:
    """An issuer that is not there is a problem, and nothing raises."""
    keys = RemoteKeys(f"http://127.0.0.1:{unused_tcp_port}")
    await keys.refresh()

    assert "Cannot connect" in keys.problem


async def test_no_answer(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer is given up."""
    monkeypatch.setattr(remote_keys, "TIMEOUT_S", 0.0)
    issuer.gate.clear()
    keys = RemoteKeys(issuer.url)
    await keys.refresh()

    assert "no answer within 0 s" == keys.problem


async def test_close(issuer: Issuer) -> None:
    """Nothing stays under way, and closing twice does nothing."""
    issuer.gate.clear()
    keys = RemoteKeys(issuer.url)
    waiting = asyncio.create_task(keys.refresh())
    await issuer.arrived.wait()
    await keys.close()
    await keys.close()
    await waiting

    assert () == keys.current().keys
    assert "not fetched yet" == keys.problem


async def test_close_before_the_beginning(issuer: Issuer, clock: Clock) -> None:
    """A fetch that has not begun yet is given up too."""
    keys = RemoteKeys(issuer.url, now_s=clock)
    await keys.refresh()
    clock.now_s += REFRESH_S
    keys.current()
    await keys.close()

    assert 2 == len(issuer.asked)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        pytest.param("https://x.example", "", id="https"),
        pytest.param("https://x.example:8443/a?b", "", id="port-path-query"),
        pytest.param("http://localhost:80", "", id="localhost"),
        pytest.param("http://127.8.9.1", "", id="loopback"),
        pytest.param("http://[::1]:80", "", id="loopback-6"),
        pytest.param("http://x.example", "not https", id="http"),
        pytest.param("http://localhost.example", "not https", id="localhost-elsewhere"),
        pytest.param("http://10.0.0.1", "not https", id="http-address"),
        pytest.param("ftp://x.example", "no https URL", id="ftp"),
        pytest.param("x.example", "no https URL", id="host"),
        pytest.param("", "no https URL", id="empty"),
        pytest.param("https://", "no https URL", id="no-host"),
        pytest.param("https://u:p@x.example", "has a user or password", id="password"),
        pytest.param("https://x.example#a", "has a fragment", id="fragment"),
        pytest.param("https://[::1", "no URL", id="bracket"),
        pytest.param("https://x.example:99999", "no URL", id="port"),
    ],
)
def test_url_problem(url: str, problem: str) -> None:
    """Keys come over TLS, or from this machine."""
    found = url_problem(url)

    assert problem in found
    assert bool(problem) == bool(found)


def test_bad_url() -> None:
    """A URL that keys cannot be fetched from is refused at once."""
    with pytest.raises(WebKeysError, match=r"http://x\.example: not https"):
        RemoteKeys("http://x.example")


def test_bad_ca_file(tmp_path: Path) -> None:
    """So is a file of CAs that is none."""
    path = tmp_path / "ca.pem"
    with pytest.raises(WebKeysError, match=r"ca\.pem: No such file"):
        RemoteKeys("https://x.example", ca_file=str(path))
    path.write_text("hello")
    with pytest.raises(WebKeysError, match=r"ca\.pem: no PEM of certificates"):
        RemoteKeys("https://x.example", ca_file=str(path))


async def test_tokens_while_keys_rotate(issuer: Issuer, clock: Clock) -> None:
    """Tokens of a new key count as soon as the issuer has it, those of the old one no more."""
    settings = JwtSettings(issuer=issuer.url, audiences=("a",), username_prefix="-")
    keys = RemoteKeys(issuer.url, now_s=clock)
    tokens = JsonWebTokens(settings, keys, lambda: 0.0)
    claims = {"iss": issuer.url, "aud": "a", "sub": "jane", "exp": 60}
    old, new = signed(claims, OLD, kid="old"), signed(claims, NEW, kid="new")

    async def names(*several: str) -> list[str | None]:
        users = [(await tokens.review(token, "192.0.2.1")).user for token in several]
        return [user.name if user else None for user in users]

    assert tokens.check(old) is None
    assert ["jane", None] == await names(old, new)
    assert 2 == len(issuer.asked)  # not for the new one: too soon
    issuer.documents["/jwks"] = NEW_SET
    clock.now_s += REFETCH_S
    assert ["jane", "jane", None] == await names(old, new, old)
    assert 4 == len(issuer.asked)
    await tokens.close()


async def test_failure_that_nobody_foresaw(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is a problem that is shown, the keys stay, and the next fetch may do better."""
    issuer.documents["/keys"] = OLD_SET
    keys = RemoteKeys(issuer.url, f"{issuer.url}/keys", now_s=(clock := Clock()))
    with monkeypatch.context() as patch:
        patch.setattr(remote_keys, "parse_jwks", lambda *_: 1 // 0)
        await keys.refresh()
        problem = keys.problem
    clock.now_s += 60
    await keys.refresh()

    assert "an error of the proxy itself, see its log" == problem
    assert ("", ["old"]) == (keys.problem, kids(keys))
    assert 1 == caplog.text.count("ZeroDivisionError")
