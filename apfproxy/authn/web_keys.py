"""Public keys that verify tokens' signatures, from PEM or a JWKS (RFC 7517).

RSA, P-256, P-384, P-521 and Ed25519 are accepted.  With a symmetric or a private key a reader of
the set could sign tokens, so a set with one is refused as a whole.  Keys of other types, uses or
algorithms are left out.

A file of secrets for HMAC has one a line, so that one can follow the other: tokens of each count.

Keys come from a file, or are fetched from a URL or where the issuer's discovery says: for the first
token; again in the background once they are ten minutes old and in use; and again, at most every
ten seconds, when a token names a key that is not among them.  One fetch at a time is under way, for
all who wait; if it fails, the last keys stay.

Source: OpenID Connect Discovery 1.0, 4; coreos/go-oidc for what kube-apiserver does.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import aiohttp
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
    load_pem_public_key,
)
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError

from apfproxy.authn.upstream_api import JSON_HEAD, bounded_body, new_session
from apfproxy.base.files import read_named
from apfproxy.base.strict_json import StrictJsonError, read_object
from apfproxy.base.tasks import spawn
from apfproxy.base.tls_files import Pem, client_context
from apfproxy.settings.contradictions import url_problem

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_SET_BYTES = 1 << 20  # as kube-apiserver; real sets have a few KiB
MAX_KEYS = 32  # a token that names no key is tried against all; issuers publish two to five
# Shorter ones are forgeable (RFC 7518, 3.3), longer ones slow to check.
MIN_RSA_BITS, MAX_RSA_BITS = 2048, 16384

RSA_ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
SECRET_BYTES = {"HS256": 32, "HS384": 48, "HS512": 64}
"""The fewest bytes of a secret, as many as its hash has (RFC 7518, 3.2)."""
MAX_SECRETS = 8  # two while one follows the other; a bad token is tried against all
BASE64_OF_URLS = bytes.maketrans(b"-_", b"+/")
CURVE_ALGORITHMS = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
SECRET_MEMBERS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})

PEM_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)

JWK_READERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "RSA": RSAAlgorithm.from_jwk,
    "EC": ECAlgorithm.from_jwk,
    "OKP": OKPAlgorithm.from_jwk,
}

DISCOVERY_PATH = "/.well-known/openid-configuration"

TIMEOUT_S = 10.0  # of one fetch, with both documents and their redirects
# Keys in use are fetched again after this; kube-apiserver's discovery says one hour.
REFRESH_S = 600.0
REFETCH_S = 10.0  # between attempts while there are keys, as in kube-apiserver
# Between attempts while there are none: every token of the issuer is refused.
FIRST_REFETCH_S = 1.0
MAX_REDIRECTS = 3
NOT_FETCHED = "not fetched yet"  # the problem of keys that were not needed yet

REDIRECTS = frozenset({301, 302, 303, 307, 308})

logger = logging.getLogger(__name__)

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey


class WebKeysError(ValueError):
    """A set of keys cannot be used.  Says where and why, and nothing of a key."""


@dataclass(frozen=True, slots=True)
class WebKey:
    """A key that verifies signatures of tokens with one of the `algorithms`.

    If the set does not declare its `kid`, that is Kubernetes' name for the key, and tokens that
    name another key may still be of this one.
    """

    key: PublicKey | bytes = field(repr=False)
    algorithms: frozenset[str]
    kid: str | None = None
    is_kid_declared: bool = False


@dataclass(frozen=True, slots=True)
class KeySet:
    keys: tuple[WebKey, ...] = ()

    def has_kid(self, kid: str | None) -> bool:
        return kid is not None and any(key.kid == kid for key in self.keys)

    def candidates(self, kid: str | None, algorithm: str) -> tuple[WebKey, ...]:
        """The keys of this algorithm that may have signed a token whose header names `kid`.

        These are those of that name, or else those whose name the set does not declare; all if the
        token names no key.
        """
        keys = self.keys
        if kid is not None:
            keys = tuple(key for key in keys if key.kid == kid) or tuple(
                key for key in keys if not key.is_kid_declared
            )
        return tuple(key for key in keys if algorithm in key.algorithms)


class KeySource:
    """The source of an issuer's keys; as it is, keys that are not fetched.

    `problem` says why the keys may not be those that the issuer has; "" if they are.
    """

    def __init__(self) -> None:
        self._keys = KeySet()
        self.problem = ""

    def current(self) -> KeySet:
        return self._keys

    def age_s(self) -> float:
        """Seconds since the keys were known to be the issuer's."""
        return 0.0

    def can_refresh(self) -> bool:
        """Whether `refresh` may bring the key of a token that is not among them."""
        return False

    async def refresh(self) -> None:
        """Fetch the keys again, once for all who wait; a failure is a `problem`."""

    async def close(self) -> None:
        """Stop the fetch that is under way."""


class FileKeys(KeySource):
    def __init__(
        self, path: str | Path, parse: Callable[[bytes, str], KeySet] | None = None
    ) -> None:
        super().__init__()
        self._path = Path(path)
        self._parse = parse or parse_keys

    def load(self) -> None:
        """Read the file, or raise WebKeysError and keep the keys as they were."""
        data = read_named(self._path, MAX_SET_BYTES, WebKeysError)
        self._keys = self._parse(data, str(self._path))


def parse_keys(data: bytes, where: str) -> KeySet:
    """The keys of a file, PEM or JWKS; errors name it by `where`."""
    if data.lstrip().startswith(b"{"):
        return _parse_jwks(data, where)
    keys = []
    for block in PEM_BLOCK.finditer(data):
        line = data.count(b"\n", 0, block.start()) + 1
        keys.append(_pem_key(block[1].decode(), block[0], f"{where}:{line}"))
    return _key_set(keys, where, "PEM of public keys or certificates, or a JWKS")


def parse_secrets(data: bytes, where: str, *, is_base64: bool = False) -> KeySet:
    """The secrets of a file; errors name it by `where`, with the line, and have no part of it."""
    if data.lstrip().startswith((b"-----BEGIN ", b"{")):
        raise WebKeysError(
            f"{where}: PEM or a JWKS, not a secret; keysFile is for public keys, and the k of a"
            " symmetric key of a JWKS is a line of this file with secretIsBase64"
        )
    if data.startswith(b"\xef\xbb\xbf"):
        raise WebKeysError(f"{where}:1: begins with a byte order mark; save it without")
    keys = []
    for number, line in enumerate(data.splitlines(), 1):
        if not line:
            continue
        if _is_public_key(line):
            raise WebKeysError(
                f"{where}:{number}: a public key, with which anyone could sign; write it as PEM,"
                " and name the file in keysFile"
            )
        secret = _from_base64(line, f"{where}:{number}") if is_base64 else line
        algorithms = [name for name, least in SECRET_BYTES.items() if len(secret) >= least]
        if not algorithms:
            raise WebKeysError(
                f"{where}:{number}: a secret of {len(secret)} bytes could be guessed; HS256 needs"
                f" {SECRET_BYTES['HS256']} (RFC 7518); have the tokens' issuer use a longer one,"
                " such as openssl rand -hex 32 prints"
            )
        keys.append(WebKey(secret, frozenset(algorithms)))
    return _key_set(keys, where, "a secret, one a line", MAX_SECRETS)


def _is_public_key(line: bytes) -> bool:
    """Whether this is what PEM has between its first and last line, as Keycloak shows keys."""
    try:
        load_der_public_key(base64.b64decode(line))
    except (ValueError, UnsupportedAlgorithm):
        return False
    return True


def _from_base64(line: bytes, where: str) -> bytes:
    """The bytes of Base64, also as URLs have it, with or without padding."""
    text = line.strip().rstrip(b"=").translate(BASE64_OF_URLS)
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except ValueError:  # its text is about the secret
        raise WebKeysError(f"{where}: not Base64; without secretIsBase64 it is a text") from None


def _pem_key(label: str, block: bytes, where: str) -> WebKey:
    if label.endswith("PRIVATE KEY"):
        raise WebKeysError(f"{where}: a private key; give its public key, and keep it elsewhere")
    if label not in {"CERTIFICATE", "PUBLIC KEY", "RSA PUBLIC KEY"}:
        raise WebKeysError(f"{where}: {label}; give public keys or certificates")
    key: object
    try:
        if label == "CERTIFICATE":
            key = x509.load_pem_x509_certificate(block).public_key()
        else:
            key = load_pem_public_key(block)
        algorithms = _algorithms_of(key)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise WebKeysError(f"{where}: no usable {label}: {error}") from error
    assert isinstance(key, PublicKey)
    return WebKey(key, algorithms, kubernetes_kid(key))


def kubernetes_kid(key: PublicKey) -> str:
    """kube-apiserver's name for a key of service accounts (its keyIDFromPublicKey)."""
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()


def _algorithms_of(key: object) -> frozenset[str]:
    """The values of `alg` for signatures of a key, or ValueError."""
    if isinstance(key, RSAPublicKey):
        bits = key.key_size
        if not MIN_RSA_BITS <= bits <= MAX_RSA_BITS:
            raise ValueError(f"RSA of {bits} bits; {MIN_RSA_BITS} to {MAX_RSA_BITS} are taken")
        return RSA_ALGORITHMS
    if isinstance(key, EllipticCurvePublicKey) and key.curve.name in CURVE_ALGORITHMS:
        return frozenset({CURVE_ALGORITHMS[key.curve.name]})
    if isinstance(key, Ed25519PublicKey):
        return frozenset({"EdDSA"})
    raise ValueError("only RSA, P-256, P-384, P-521 and Ed25519 are taken")


def _parse_jwks(data: bytes, where: str) -> KeySet:
    try:
        document = read_object(data)
    except StrictJsonError as error:
        raise WebKeysError(f"{where}: no JWKS: {error}") from error
    members = document.get("keys")
    if not isinstance(members, list):
        raise WebKeysError(f'{where}: no JWKS: no list "keys"')
    keys = []
    for index, member in enumerate(members):
        if not isinstance(member, dict):
            raise WebKeysError(f"{where}: no JWKS: keys[{index}] is no object")
        is_symmetric = member.get("kty") == "oct"
        if is_symmetric or not SECRET_MEMBERS.isdisjoint(member):
            what = "symmetric" if is_symmetric else "a private key"
            raise WebKeysError(f"{where}: keys[{index}] is {what}: all who read it can sign")
        if (key := _jwk_key(member)) is not None:
            keys.append(key)
    return _key_set(keys, where, "a JWKS with keys for signatures")


def _jwk_key(member: dict[str, Any]) -> WebKey | None:
    """The key of a member of a JWKS; None if it checks no signatures of tokens."""
    operations, kid = member.get("key_ops", ["verify"]), member.get("kid")
    read = JWK_READERS.get(str(member.get("kty")))
    if (
        member.get("use", "sig") != "sig"
        or not (isinstance(operations, list) and "verify" in operations)
        or not isinstance(kid, str | None)
        or read is None
    ):
        return None
    try:
        key = read(member)
        algorithms = _algorithms_of(key)
    except (PyJWTError, ValueError, TypeError, UnsupportedAlgorithm):
        return None
    assert isinstance(key, PublicKey)
    if "alg" in member:
        algorithms &= {str(member["alg"])}
    return WebKey(key, algorithms, kid, is_kid_declared=kid is not None) if algorithms else None


def _key_set(keys: list[WebKey], where: str, expected: str, most: int = MAX_KEYS) -> KeySet:
    if not keys:
        raise WebKeysError(f"{where}: no usable key; give {expected}")
    if len(keys) > most:
        raise WebKeysError(f"{where}: {len(keys)} keys; at most {most} are taken")
    return KeySet(tuple(keys))


class RemoteKeys(KeySource):
    """Keys that are fetched; WebKeysError if the URL is not one to fetch keys from.

    Args:
        issuer: Whose discovery is asked if `jwks_url` is None.
        ca_file: PEM of the CAs of the server, or OperatorError; the system's if None.
    """

    def __init__(
        self,
        issuer: str,
        jwks_url: str | None = None,
        *,
        ca_file: str | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._issuer = issuer
        self._jwks_url = jwks_url
        self._ca_file = ca_file
        self._now_s = now_s
        self._fetched_s = self._attempted_s = float("-inf")
        self._fetching: asyncio.Task[None] | None = None
        self.problem = NOT_FETCHED
        if problem := url_problem(jwks_url or issuer):
            raise WebKeysError(f"{jwks_url or issuer}: {problem}")
        if ca_file is not None:
            # It is read again for each fetch; a bad one is told now.
            client_context(Pem(path=ca_file), None)

    def current(self) -> KeySet:
        """The keys known now; old ones are fetched again meanwhile."""
        is_old = self._fetching is None and self.age_s() >= REFRESH_S
        if self._keys.keys and is_old and self.can_refresh():
            self._start()
        return self._keys

    def age_s(self) -> float:
        return self._now_s() - self._fetched_s

    def can_refresh(self) -> bool:
        pause_s = REFETCH_S if self._keys.keys else FIRST_REFETCH_S
        return self._fetching is not None or self._now_s() - self._attempted_s >= pause_s

    async def refresh(self) -> None:
        if self._fetching is None and self.can_refresh():
            self._start()
        if self._fetching is not None:
            # Unlike `await`, this does not cancel the fetch with one of those who wait.
            await asyncio.wait((self._fetching,))

    async def close(self) -> None:
        if (fetching := self._fetching) is not None:
            fetching.cancel()
            await asyncio.wait((fetching,))
            # A task that had not begun did not reset it.
            self._fetching = None

    def _start(self) -> None:
        self._attempted_s = self._now_s()
        self._fetching = spawn(self._fetch(), name=f"keys of {self._issuer}")

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                self._keys = await self._fetched_keys()
        except TimeoutError:
            self._fail(f"no answer within {TIMEOUT_S:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self._fail(str(error) or type(error).__name__)
        except Exception:
            self._fail("an error of the proxy itself, see its log")
            raise
        else:
            self._fetched_s = self._now_s()
            self.problem = ""
        finally:
            self._fetching = None

    def _fail(self, problem: str) -> None:
        if problem != self.problem:
            logger.warning("the keys of %s cannot be fetched: %s", self._issuer, problem)
        self.problem = problem

    async def _fetched_keys(self) -> KeySet:
        # Reading the system's CAs takes tens of milliseconds.
        authorities = None if self._ca_file is None else Pem(path=self._ca_file)
        context = await asyncio.to_thread(client_context, authorities, None)
        async with new_session(ssl=context, headers=JSON_HEAD) as session:
            url = self._jwks_url or await self._discovered_url(session)
            return _parse_jwks(await _get(session, url), url)

    async def _discovered_url(self, session: aiohttp.ClientSession) -> str:
        where = self._issuer.rstrip("/") + DISCOVERY_PATH
        try:
            document = read_object(await _get(session, where))
        except StrictJsonError as error:
            raise WebKeysError(f"{where}: no discovery document: {error}") from error
        if document.get("issuer") != self._issuer:
            raise WebKeysError(f"{where}: of another issuer; the setting must be equal to it")
        url = document.get("jwks_uri")
        problem = url_problem(url) if isinstance(url, str) else "missing"
        if problem:
            raise WebKeysError(f"{where}: jwks_uri: {problem}")
        return str(url)


async def _get(session: aiohttp.ClientSession, url: str) -> bytes:
    """A document, also if it has moved on the same server; WebKeysError if there is none."""
    place = url
    for _ in range(MAX_REDIRECTS + 1):
        async with session.get(place, allow_redirects=False) as response:
            if response.status in REDIRECTS:
                place = urljoin(place, response.headers.get("Location", ""))
                if _origin(place) != _origin(url):
                    raise WebKeysError(f"{url}: redirects to another server; give the URL there")
                continue
            if response.status != 200:  # noqa: PLR2004 - its own name
                raise WebKeysError(f"{url}: status {response.status}")
            data = await bounded_body(response, MAX_SET_BYTES)
            if data is None:
                raise WebKeysError(f"{url}: longer than {MAX_SET_BYTES} bytes")
            return data
    raise WebKeysError(f"{url}: redirects more than {MAX_REDIRECTS} times")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default
