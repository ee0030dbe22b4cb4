"""Public keys from files, and those that an issuer publishes."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import dsa, ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.authn import web_keys
from apfproxy.authn.web_keys import (
    FIRST_REFETCH_S,
    MAX_KEYS,
    MAX_REDIRECTS,
    MAX_SECRETS,
    MAX_SET_BYTES,
    REFETCH_S,
    REFRESH_S,
    RSA_ALGORITHMS,
    FileKeys,
    KeySet,
    RemoteKeys,
    WebKeysError,
    kubernetes_kid,
    parse_keys,
    parse_secrets,
)
from apfproxy.base.errors import OperatorError
from apfproxy.settings.contradictions import url_problem
from tests.support.certificates import Authority
from tests.support.clocks import Clock
from tests.support.credentials import (
    jwk,
    jwks,
    private_key,
    private_pem,
    public_jwk,
    public_pem,
)
from tests.support.http_server import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ALGORITHMS = ("RS256", "ES256", "ES384", "ES512", "EdDSA")


def fitting(algorithm: str) -> frozenset[str]:
    return RSA_ALGORITHMS if algorithm.startswith("RS") else frozenset({algorithm})


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_key_of_pem_and_of_jwks(algorithm: str) -> None:
    """A key fits its algorithms; its name in a set is its only one."""
    key = private_key(algorithm)
    of_pem = parse_keys(public_pem(key), "sa.pub")
    of_set = parse_keys(jwks(public_jwk(key, kid="a", use="sig")), "jwks.json")
    kid = kubernetes_kid(key.public_key())
    for keys, name, of_another in ((of_pem, kid, of_pem.keys), (of_set, "a", ())):
        assert [fitting(algorithm)] == [each.algorithms for each in keys.keys]
        assert (True, False) == (keys.has_kid(name), keys.has_kid("b"))
        assert keys.keys == keys.candidates(name, algorithm) == keys.candidates(None, algorithm)
        assert of_another == keys.candidates("b", algorithm)


def test_certificates_and_keys_of_pem() -> None:
    rsa_key = private_key("RS256").public_key()
    old_form = rsa_key.public_bytes(Encoding.PEM, PublicFormat.PKCS1)
    data = b"# keys\n" + Authority("ca").pem + old_form + public_pem(private_key("ES384"))

    assert [fitting(name) for name in ("ES256", "RS256", "ES384")] == [
        key.algorithms for key in parse_keys(data, "keys.pem").keys
    ]


def test_names_of_keys() -> None:
    """A token's name picks keys of that name; without such, those that have none declared."""
    first, second = private_key(), private_key(number=1)
    of_pem = parse_keys(public_pem(first) + public_pem(second), "sa.pub")
    kid = kubernetes_kid(second.public_key())
    assert [kid] == [key.kid for key in of_pem.candidates(kid, "ES256")]
    assert (2, ()) == (len(of_pem.candidates("b", "ES256")), of_pem.candidates(kid, "ES384"))

    named = [("a", 0), ("a", 1), ("b", 2)]
    members = [public_jwk(private_key(number=number), kid=kid) for kid, number in named]
    of_set = parse_keys(jwks(*members, public_jwk(private_key(number=3))), "jwks.json")
    assert [["a", "a"], ["b"], [None], ["a", "a", "b", None]] == [
        [key.kid for key in of_set.candidates(kid, "ES256")] for kid in ("a", "b", "c", None)
    ]


TEXT = b"0123456789abcdef" * 4
ENCODED = base64.urlsafe_b64encode(b"\xff\xfe" * 24)


@pytest.mark.parametrize(
    ("data", "is_base64", "secrets"),
    [
        (TEXT[:32], False, [(TEXT[:32], 1)]),
        (b" " + TEXT[:47] + b"\r\n\r\n" + TEXT + b"\n", False, [(b" " + TEXT[:47], 2), (TEXT, 3)]),
        (ENCODED.rstrip(b"=") + b" \n", True, [(b"\xff\xfe" * 24, 2)]),
        (base64.b64encode(TEXT[:32]), True, [(TEXT[:32], 1)]),
    ],
)
def test_secrets(data: bytes, is_base64: bool, secrets: list[tuple[bytes, int]]) -> None:
    """One a line, as it stands or decoded; one is for hashes that are no longer than it."""
    keys = parse_secrets(data, "secret", is_base64=is_base64)
    names = ["HS256", "HS384", "HS512"]
    assert [(key, frozenset(names[:count])) for key, count in secrets] == [
        (key.key, key.algorithms) for key in keys.keys
    ]
    assert keys.keys == keys.candidates("any", "HS256")
    assert "0123" not in repr(keys)


@pytest.mark.parametrize(
    ("data", "is_base64", "problem"),
    [
        (b"", False, ": no usable key; give a secret, one a line"),
        (b"\n\n", False, ": no usable key"),
        (
            TEXT + b"\n" + TEXT[:31],
            False,
            ":2: a secret of 31 bytes could be guessed; HS256 needs 32",
        ),
        (TEXT[:32], True, ":1: a secret of 24 bytes"),
        (TEXT + b"!", True, ":1: not Base64; without secretIsBase64 it is a text"),
        (TEXT + b"0", True, ":1: not Base64"),
        (public_pem(private_key()), False, ": PEM or a JWKS, not a secret"),
        *(
            pytest.param(bare, is_base64, ":1: a public", id=f"public-{name}-{is_base64}")
            for name in ("RS256", "ES256", "EdDSA")
            for bare in [b"".join(public_pem(private_key(name)).splitlines()[1:-1])]
            for is_base64 in (False, True)
        ),
        (b'\n{"kty": "oct"}', True, ": PEM or a JWKS, not a secret"),
        (b"\xef\xbb\xbf" + TEXT, False, ":1: begins with a byte order mark"),
        ((TEXT + b"\n") * (MAX_SECRETS + 1), False, f": {MAX_SECRETS + 1} keys; at most"),
    ],
)
def test_bad_secrets(data: bytes, is_base64: bool, problem: str) -> None:
    with pytest.raises(WebKeysError) as error:
        parse_secrets(data, "secret", is_base64=is_base64)

    assert str(error.value).startswith(f"secret{problem}")
    assert "0123" not in f"{error.value} {error.value.__cause__}"


def test_algorithm_of_jwks() -> None:
    keys = parse_keys(jwks(public_jwk(private_key("RS256"), alg="PS384")), "jwks.json")

    assert [frozenset({"PS384"})] == [key.algorithms for key in keys.keys]
    assert () == keys.candidates(None, "RS256")


def short_rsa() -> dict[str, Any]:
    return jwk(rsa.generate_private_key(65537, 1024).public_key())  # noqa: S505 - what is to be refused


GOOD = public_jwk(private_key("RS256"))
DSA: Any = dsa.generate_private_key(2048)


@pytest.mark.parametrize(
    "member",
    [
        pytest.param(public_jwk(private_key(), use="enc"), id="for-encryption"),
        pytest.param(public_jwk(private_key(), key_ops=["sign"]), id="not-to-verify"),
        pytest.param(public_jwk(private_key(), key_ops=7), id="operations-no-list"),
        pytest.param(public_jwk(private_key(), alg="HS256"), id="symmetric-algorithm"),
        pytest.param(public_jwk(private_key(), alg=None), id="null-algorithm"),
        pytest.param(public_jwk(private_key(), kid=7), id="name-no-text"),
        pytest.param(public_jwk(private_key(), kty=["EC"]), id="type-no-text"),
        pytest.param(public_jwk(private_key(), x="AAAA"), id="short-coordinate"),
        pytest.param(public_jwk(private_key(), y=GOOD["n"][:43]), id="not-on-the-curve"),
        pytest.param(public_jwk(private_key("RS256"), e="AQ"), id="exponent-one"),
        pytest.param(public_jwk(private_key("EdDSA"), crv="X25519"), id="for-key-agreement"),
        pytest.param(jwk(ec.generate_private_key(ec.SECP256K1()).public_key()), id="secp256k1"),
        pytest.param(short_rsa(), id="short-rsa"),
        pytest.param({}, id="empty"),
        pytest.param({"kty": "AKP"}, id="unknown-type"),
    ],
)
def test_member_left_out(member: dict[str, Any]) -> None:
    """A key that is not for signatures of tokens is left out; a set needs others."""
    keys = parse_keys(jwks(member, GOOD), "jwks.json")

    assert parse_keys(jwks(GOOD), "jwks.json") == keys
    with pytest.raises(WebKeysError, match=r"jwks\.json: no usable key"):
        parse_keys(jwks(member), "jwks.json")


def pem(label: str) -> bytes:
    return f"\n-----BEGIN {label}-----\nAAAA\n-----END {label}-----".encode()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"hello", ": no usable key; give PEM of public keys", id="text"),
        pytest.param(b'{"keys":[],"keys":[]}', ": no JWKS: a name twice", id="twice"),
        pytest.param(b'{"keys":{}}', ': no JWKS: no list "keys"', id="keys-no-list"),
        pytest.param(b'{"keys":[]}', ": no usable key; give a JWKS", id="no-key"),
        pytest.param(b'{"keys":[7]}', ": no JWKS: keys[0] is no object", id="number"),
        (jwks(GOOD, {"kty": "oct", "k": "c2VjcmV0"}), ": keys[1] is symmetric"),
        pytest.param(jwks({**GOOD, "k": "c2VjcmV0"}), ": keys[0] is a private", id="secret-member"),
        *((jwks(jwk(private_key(name))), ": keys[0] is a private key") for name in ALGORITHMS),
        (public_pem(private_key()) + private_pem(private_key("RS256")), ":5: a private key"),
        (pem("PUBLIC KEY"), ":2: no usable PUBLIC KEY"),
        (pem("CERTIFICATE"), ":2: no usable CERTIFICATE"),
        (pem("X509 CRL"), ":2: X509 CRL"),
        pytest.param(public_pem(DSA), ":1: no usable PUBLIC KEY: only RSA", id="dsa"),
        pytest.param(jwks(*[GOOD] * (MAX_KEYS + 1)), f": {MAX_KEYS + 1} keys", id="many"),
    ],
)
def test_bad_set(data: bytes, problem: str) -> None:
    """A set that is malformed, or has secrets, is refused with its place and nothing of it."""
    with pytest.raises(WebKeysError) as error:
        parse_keys(data, "keys")

    assert f"keys{problem}" in str(error.value)
    assert "c2VjcmV0" not in str(error.value)


@given(data=st.binary(max_size=100))
def test_any_bytes(data: bytes) -> None:
    try:
        keys = parse_keys(data, "keys")
    except WebKeysError:
        return
    assert keys.keys


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@given(
    member=st.sampled_from([public_jwk(private_key(name)) for name in ALGORITHMS]),
    changes=st.dictionaries(
        st.sampled_from(["kty", "crv", "x", "y", "n", "e", "kid", "alg", "use", "key_ops"]), JSON
    ),
)
def test_any_member(member: dict[str, Any], changes: dict[str, Any]) -> None:
    keys = parse_keys(json.dumps({"keys": [GOOD, {**member, **changes}]}).encode(), "jwks.json")

    assert len(keys.keys) in {1, 2}


async def test_file(tmp_path: Path) -> None:
    path = tmp_path / "sa.pub"
    path.write_bytes(public_pem(private_key()))
    keys = FileKeys(path)
    assert KeySet() == keys.current()
    keys.load()
    known = keys.current()
    for data, problem in ((b"", "no usable key"), (b"{" + b" " * MAX_SET_BYTES, "larger than")):
        path.write_bytes(data)
        with pytest.raises(WebKeysError, match=rf"sa\.pub: .*{problem}"):
            keys.load()
    await keys.refresh()
    await keys.close()

    assert 1 == len(known.keys)
    assert known is keys.current()
    assert not keys.can_refresh()


OLD, NEW = private_key(), private_key(number=1)
OLD_SET = jwks(public_jwk(OLD, kid="old"))
NEW_SET = jwks(public_jwk(NEW, kid="new"))
DISCOVERY = "/.well-known/openid-configuration"


class Issuer:
    """A server of documents by path, once the gate is open; `asked` has the paths, in order."""

    def __init__(self) -> None:
        self.documents: dict[str, web.Response | bytes | dict[str, Any]] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.arrived = asyncio.Event()
        self.asked: list[str] = []
        self.headers: dict[str, str] = {}
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
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
    issuer = Issuer()
    async with serving(issuer.answer) as url:
        issuer.url = url
        issuer.documents = {"/jwks": OLD_SET, DISCOVERY: {"issuer": url, "jwks_uri": f"{url}/jwks"}}
        yield issuer
        issuer.gate.set()


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def fetched(issuer: Issuer, clock: Clock | None = None) -> RemoteKeys:
    """The keys of the issuer's discovery, or with a clock of its /jwks, after a first fetch."""
    keys = RemoteKeys(issuer.url)
    if clock is not None:
        keys = RemoteKeys(issuer.url, f"{issuer.url}/jwks", now_s=clock)
    await keys.refresh()
    return keys


def kids(keys: RemoteKeys) -> list[str | None]:
    return [key.kid for key in keys.current().keys]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (None, ["/jwks"]),
        ("", [DISCOVERY, "/jwks"]),
        ("/realms/a/", [f"/realms/a{DISCOVERY}", "/jwks"]),
    ],
)
async def test_fetch(issuer: Issuer, clock: Clock, path: str | None, asked: list[str]) -> None:
    """Keys are fetched from a URL, or where the discovery of the issuer says."""
    url, place = f"{issuer.url}{path or ''}", f"{issuer.url}/jwks"
    issuer.documents[asked[0]] = {"issuer": url, "jwks_uri": place} if path is not None else OLD_SET
    keys = RemoteKeys(url, place if path is None else None, now_s=clock)
    assert [] == kids(keys)
    assert keys.can_refresh()
    assert "not fetched yet" == keys.problem
    await keys.refresh()

    assert (["old"], "") == (kids(keys), keys.problem)
    assert asked == issuer.asked
    assert "identity" == issuer.headers["Accept-Encoding"]


async def test_tls(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority, other = Authority("ca"), Authority("other")
    issued = authority.issue("issuer", usage="server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*issued.write(tmp_path, "issuer"))
    issuer = Issuer()
    issuer.documents["/jwks"] = OLD_SET
    async with serving(issuer.answer, context) as url:
        trusting, wary = (
            RemoteKeys(url, f"{url}/jwks", ca_file=ca.write(tmp_path, name))
            for name, ca in (("ca", authority), ("other", other))
        )
        await trusting.refresh()
        await wary.refresh()

    assert (["old"], "") == (kids(trusting), trusting.problem)
    assert [] == kids(wary)
    assert "certificate verify failed" in wary.problem
    assert ["/jwks"] == issuer.asked
    assert 1 == len(caplog.messages)


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


async def test_shorter_pause_without_keys(issuer: Issuer, clock: Clock) -> None:
    issuer.documents["/jwks"] = web.Response(status=503)
    keys = await fetched(issuer, clock)
    assert not keys.can_refresh()
    clock.now_s += FIRST_REFETCH_S
    issuer.documents["/jwks"] = OLD_SET
    await keys.refresh()

    assert ["old"] == kids(keys)


async def test_old_keys_in_use(issuer: Issuer, clock: Clock) -> None:
    """Keys that are used are fetched again in time, and no request waits for that."""
    keys = await fetched(issuer, clock)
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
    keys = await fetched(issuer, clock)
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
    issuer.documents["/jwks"] = NEW_SET
    for pause_s, expected in ((REFETCH_S - 0.1, ["old"]), (0.1, ["new"])):
        clock.now_s += pause_s
        assert (expected == ["new"]) == keys.can_refresh()
        await keys.refresh()
        assert expected == kids(keys)
    assert "" == keys.problem


def redirect(place: str, status: int = 302) -> web.Response:
    return web.Response(status=status, headers={"Location": place})


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        pytest.param(None, "status 404", id="not-found"),
        pytest.param(jwks({"kty": "oct", "k": "c2VjcmV0"}), "is symmetric", id="symmetric"),
        pytest.param(b" " * (MAX_SET_BYTES + 1), "longer than 1048576 bytes", id="huge"),
        pytest.param(redirect("/jwks"), "redirects more than 3 times", id="circle"),
        pytest.param(redirect("https://other.example/"), "to another server", id="other-host"),
        pytest.param(redirect("file:///etc/passwd"), "to another server", id="file"),
        pytest.param(redirect("http://[::1"), "Invalid IPv6 URL", id="no-url"),
        pytest.param(
            web.Response(status=200, body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}),
            "no JWKS",
            id="compressed",
        ),
        # Of discovery, which is believed only of the issuer itself.
        pytest.param({"issuer": "https://other.example"}, "of another issuer", id="other-issuer"),
        pytest.param({}, "jwks_uri: missing", id="no-jwks-uri"),
        pytest.param({"jwks_uri": "http://x.example/"}, "jwks_uri: not https", id="jwks-uri-http"),
        pytest.param({"jwks_uri": "file:///k"}, "jwks_uri: no https URL", id="jwks-uri-file"),
    ],
)
async def test_failures(issuer: Issuer, document: Any, problem: str) -> None:  # noqa: ANN401 - documents of all types
    """Anything but a set of keys is a problem that says where, and no key is known."""
    is_of_discovery = isinstance(document, dict)
    if is_of_discovery:
        document = {"issuer": issuer.url, **document}
    issuer.documents[DISCOVERY if is_of_discovery else "/jwks"] = document
    keys = await fetched(issuer)

    assert problem in keys.problem
    assert "c2VjcmV0" not in keys.problem
    assert [] == kids(keys)
    assert is_of_discovery == ("/jwks" not in issuer.asked)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_on_the_server(issuer: Issuer, status: int) -> None:
    places = ["/jwks", "/a", "/b", "/c"][: MAX_REDIRECTS + 1]
    for place, to in zip(places, ("/a", "b", f"{issuer.url}/c"), strict=False):
        issuer.documents[place] = redirect(to, status)
    issuer.documents[places[-1]] = NEW_SET
    keys = await fetched(issuer)

    assert (["new"], "") == (kids(keys), keys.problem)


async def test_no_response(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_keys, "TIMEOUT_S", 0.0)
    issuer.gate.clear()

    assert "no answer within 0 s" == (await fetched(issuer)).problem


async def test_close(issuer: Issuer, clock: Clock) -> None:
    issuer.gate.clear()
    keys = RemoteKeys(issuer.url, now_s=clock)
    waiting = asyncio.create_task(keys.refresh())
    await issuer.arrived.wait()
    await keys.close()
    await keys.close()
    await waiting
    assert ((), "not fetched yet") == (keys.current().keys, keys.problem)

    issuer.gate.set()
    clock.now_s += REFRESH_S
    await keys.refresh()
    clock.now_s += REFRESH_S
    keys.current()
    await keys.close()  # before the fetch has begun
    assert 3 == len(issuer.asked)


URLS = """
https://x.example >
https://x.example:8443/a?b >
http://127.8.9.1 >
http://x.example > not https
http://localhost.example > not https
ftp://x.example > no https URL
https:// > no https URL
https://u:p@x.example > has a user or password
https://x.example#a > has a fragment
https://[::1 > no URL
https://x.example:99999 > no URL
"""


@pytest.mark.parametrize("line", URLS.strip().splitlines())
def test_url_problem(line: str) -> None:
    url, _, problem = line.partition(" >")
    found = url_problem(url)

    assert problem.strip() in found
    assert bool(problem) == bool(found)


def test_refuses_at_once(tmp_path: Path) -> None:
    with pytest.raises(WebKeysError, match=r"http://x\.example: not https"):
        RemoteKeys("http://x.example")
    path = tmp_path / "ca.pem"
    with pytest.raises(OperatorError, match=r"ca\.pem: cannot be read: No such file"):
        RemoteKeys("https://x.example", ca_file=str(path))
    path.write_text("hello")
    with pytest.raises(OperatorError, match=r"ca\.pem: is no PEM of certificates"):
        RemoteKeys("https://x.example", ca_file=str(path))


async def test_unforeseen_failure(
    issuer: Issuer, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(web_keys, "_parse_jwks", lambda *_: 1 // 0)
        keys = await fetched(issuer, clock)
        assert "an error of the proxy itself, see its log" == keys.problem
    clock.now_s += 60
    await keys.refresh()

    assert ("", ["old"]) == (keys.problem, kids(keys))
    assert 1 == caplog.text.count("ZeroDivisionError")
