"""The public keys of who signs tokens: from PEM or a JWKS (RFC 7517), and which of them a token's.

Only keys for signatures that anybody may check are taken: RSA, P-256, P-384, P-521 and Ed25519.  A
symmetric key would let whoever can read the set sign tokens, and a private key has no business
there: a set with either is refused as a whole, loudly.  Keys of other types, uses or algorithms are
left out, since sets have them for others.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError

from apfproxy.authn.strict_json import StrictJsonError, read_object

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_SET_BYTES = 1 << 20
"""As many as kube-apiserver reads of an answer; real sets have a few KiB."""
MAX_KEYS = 32
"""A token that names no key is tried against all; providers publish two to five."""
MIN_RSA_BITS, MAX_RSA_BITS = 2048, 16384
"""Shorter ones are forgeable (RFC 7518, 3.3), longer ones make each check a burden."""

RSA_ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
CURVE_ALGORITHMS = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
SECRET_MEMBERS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})

PEM_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)

JWK_READERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "RSA": RSAAlgorithm.from_jwk,
    "EC": ECAlgorithm.from_jwk,
    "OKP": OKPAlgorithm.from_jwk,
}
"""By `kty`."""

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey


class WebKeysError(ValueError):
    """A set of keys cannot be used; says where and why, and nothing of a key."""


@dataclass(frozen=True, slots=True)
class WebKey:
    """A key that signatures are checked with.

    Attributes:
        key: It.
        algorithms: The `alg` of tokens that it may check.
        kid: Its name; None if it has none.
        is_kid_declared: Whether the set names it so; else the name is Kubernetes' for this key, and
            tokens that name a key otherwise may be of this one all the same.
    """

    key: PublicKey
    algorithms: frozenset[str]
    kid: str | None = None
    is_kid_declared: bool = False


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys of one issuer."""

    keys: tuple[WebKey, ...] = ()

    def has_kid(self, kid: str | None) -> bool:
        """Whether a key is named so."""
        return kid is not None and any(key.kid == kid for key in self.keys)

    def candidates(self, kid: str | None, algorithm: str) -> tuple[WebKey, ...]:
        """The keys that may have signed a token.

        Args:
            kid: The key that its header names; None if none.
            algorithm: Its `alg`.

        Returns:
            The keys of that name, or without one all those that the set has no name for; if the
            token names none, all.  Of them those for that algorithm.
        """
        if kid is None:
            keys = self.keys
        else:
            keys = tuple(key for key in self.keys if key.kid == kid) or tuple(
                key for key in self.keys if not key.is_kid_declared
            )
        return tuple(key for key in keys if algorithm in key.algorithms)


class KeySource(Protocol):
    """Where the keys of an issuer come from.

    Attributes:
        problem: Why the keys are not, or no longer, those that the issuer has; "" if they are.
    """

    problem: str

    def current(self) -> KeySet:
        """The keys known now."""

    def age_s(self) -> float:
        """How long ago the keys were those that the issuer has, in seconds."""

    def can_refresh(self) -> bool:
        """Whether it is worth to `await refresh` for a token whose key is not among them."""

    async def refresh(self) -> None:
        """Get them again, once for all who wait; a failure is a `problem`, and the keys stay."""

    async def close(self) -> None:
        """Stop whatever is under way."""


class FileKeys:
    """Keys from a file.

    Args:
        path: PEM or JWKS; nothing reads it before `load`.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._keys = KeySet()
        self.problem = ""

    def __repr__(self) -> str:
        return f"<FileKeys: {len(self._keys.keys)} keys>"

    def load(self) -> None:
        """Read the file.

        Raises:
            WebKeysError: It cannot be read or used; what was known stays known.
        """
        try:
            with self._path.open("rb") as file:
                data = file.read(MAX_SET_BYTES + 1)
        except OSError as error:
            raise WebKeysError(f"{self._path}: {error.strerror or error}") from error
        self.take(data)

    def take(self, data: bytes) -> None:
        """Have the keys of this content of the file, and no others.

        Raises:
            WebKeysError: It cannot be used; what was known stays known.
        """
        self._keys = parse_keys(data, str(self._path))

    def current(self) -> KeySet:
        """The keys of the file."""
        return self._keys

    def age_s(self) -> float:
        """None: who watches the file says when it changes."""
        return 0.0

    def can_refresh(self) -> bool:
        """No: likewise."""
        return False

    async def refresh(self) -> None:
        """Nothing: see `can_refresh`."""

    async def close(self) -> None:
        """Nothing: nothing is under way."""


def parse_keys(data: bytes, where: str) -> KeySet:
    """The keys of a file, PEM or JWKS.

    Args:
        data: Its content.
        where: Its path, for errors.

    Raises:
        WebKeysError: It has no usable key, or one that must not be there.
    """
    if len(data) > MAX_SET_BYTES:
        raise WebKeysError(f"{where}: larger than {MAX_SET_BYTES} bytes; not a set of keys?")
    if data.lstrip().startswith(b"{"):
        return parse_jwks(data, where)
    return parse_pem(data, where)


def parse_pem(data: bytes, where: str) -> KeySet:
    """The keys of PEM blocks: public keys and certificates.

    Raises:
        WebKeysError: There is none, or a block that is something else.
    """
    keys = []
    for block in PEM_BLOCK.finditer(data):
        line = data.count(b"\n", 0, block.start()) + 1
        keys.append(pem_key(block[1].decode(), block[0], f"{where}:{line}"))
    return key_set(keys, where, "PEM of public keys or certificates, or a JWKS")


def pem_key(label: str, block: bytes, where: str) -> WebKey:
    """The key of a PEM block.

    Raises:
        WebKeysError: It has none that can be used.
    """
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
        algorithms = algorithms_of(key)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise WebKeysError(f"{where}: no usable {label}: {error}") from error
    assert isinstance(key, PublicKey)
    return WebKey(key, algorithms, kubernetes_kid(key))


def kubernetes_kid(key: PublicKey) -> str:
    """The name that kube-apiserver gives a key of service accounts: a hash of its DER form.

    Source: kubernetes/kubernetes, pkg/serviceaccount/jwt.go, keyIDFromPublicKey.
    """
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()


def algorithms_of(key: object) -> frozenset[str]:
    """The values of `alg` for signatures of a key.

    Raises:
        ValueError: There are none.
    """
    if isinstance(key, RSAPublicKey):
        if not MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
            raise ValueError(
                f"RSA of {key.key_size} bits; {MIN_RSA_BITS} to {MAX_RSA_BITS} are taken"
            )
        return RSA_ALGORITHMS
    if isinstance(key, EllipticCurvePublicKey) and key.curve.name in CURVE_ALGORITHMS:
        return frozenset({CURVE_ALGORITHMS[key.curve.name]})
    if isinstance(key, Ed25519PublicKey):
        return frozenset({"EdDSA"})
    raise ValueError("only RSA, P-256, P-384, P-521 and Ed25519 are taken")


def parse_jwks(data: bytes, where: str) -> KeySet:
    """The keys of a JWKS.

    Raises:
        WebKeysError: It is none, has none that can be used, or one that must not be there.
    """
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
        if member.get("kty") == "oct":
            raise WebKeysError(f"{where}: keys[{index}] is symmetric: whoever reads it can sign")
        if not SECRET_MEMBERS.isdisjoint(member):
            raise WebKeysError(
                f"{where}: keys[{index}] is a private key: whoever reads it can sign"
            )
        if (key := jwk_key(member)) is not None:
            keys.append(key)
    return key_set(keys, where, "a JWKS with keys for signatures")


def jwk_key(member: dict[str, Any]) -> WebKey | None:
    """The key of a member of a JWKS; None if it is none that checks signatures of tokens."""
    operations = member.get("key_ops", ["verify"])
    if member.get("use", "sig") != "sig" or not (
        isinstance(operations, list) and "verify" in operations
    ):
        return None
    kid = member.get("kid")
    if kid is not None and not isinstance(kid, str):
        return None
    if (read := JWK_READERS.get(str(member.get("kty")))) is None:
        return None
    try:
        key = read(member)
        algorithms = algorithms_of(key)
    except (PyJWTError, ValueError, TypeError, UnsupportedAlgorithm):
        return None
    assert isinstance(key, PublicKey)
    if "alg" in member:
        algorithms &= {str(member["alg"])}
    return WebKey(key, algorithms, kid, is_kid_declared=kid is not None) if algorithms else None


def key_set(keys: list[WebKey], where: str, expected: str) -> KeySet:
    """The set of these keys.

    Raises:
        WebKeysError: There are none, or too many.
    """
    if not keys:
        raise WebKeysError(f"{where}: no usable key; give {expected}")
    if len(keys) > MAX_KEYS:
        raise WebKeysError(f"{where}: {len(keys)} keys; at most {MAX_KEYS} are taken")
    return KeySet(tuple(keys))
