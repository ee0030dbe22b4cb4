"""Keys, sets of keys, tokens and header fields with credentials, good and spoiled."""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from jwt import PyJWS
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

if TYPE_CHECKING:
    from collections.abc import Mapping

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

CURVES: dict[str, ec.EllipticCurve] = {
    "ES256": ec.SECP256R1(),
    "ES384": ec.SECP384R1(),
    "ES512": ec.SECP521R1(),
}


@functools.cache
def private_key(algorithm: str = "ES256", number: int = 0) -> PrivateKey:  # noqa: ARG001 - makes several of one algorithm
    """A key for signatures of an algorithm, always the same for one number."""
    if algorithm in CURVES:
        return ec.generate_private_key(CURVES[algorithm])
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, 2048)


def public_pem(key: PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def private_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def jwk(key: Any, **members: Any) -> dict[str, Any]:  # noqa: ANN401 - keys of all kinds, and what JSON has
    """A key as a member of a set, with more members."""
    if isinstance(key, rsa.RSAPrivateKey | rsa.RSAPublicKey):
        found = RSAAlgorithm.to_jwk(key, as_dict=True)
    elif isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey):
        found = ECAlgorithm.to_jwk(key, as_dict=True)
    else:
        found = OKPAlgorithm.to_jwk(key, as_dict=True)
    found.pop("key_ops", None)
    return {**found, **members}


def public_jwk(key: PrivateKey, **members: Any) -> dict[str, Any]:  # noqa: ANN401 - what JSON has
    return jwk(key.public_key(), **members)


def jwks(*members: Mapping[str, Any]) -> bytes:
    return json.dumps({"keys": members}).encode()


def part(value: object) -> str:
    """A part of a token: bytes as they are, anything else as JSON."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed(
    claims: object,
    key: PrivateKey | None = None,
    algorithm: str = "ES256",
    **header: Any,  # noqa: ANN401 - what JSON has
) -> str:
    """A token with these claims; its header has more members, None for one that is missing."""
    members = {name: value for name, value in header.items() if value is not None}
    return signed_parts({"alg": algorithm, **members}, claims, key, algorithm)


def signed_parts(
    header: object,
    claims: object,
    key: PrivateKey | str | bytes | None = None,
    algorithm: str = "ES256",
) -> str:
    """A token of any header and claims, signed as this algorithm does, whatever they say."""
    signing_input = f"{part(header)}.{part(claims)}"
    method: Any = PyJWS().get_algorithm_by_name(algorithm)
    if isinstance(key, str | bytes):  # the library refuses some secrets
        key = key.encode() if isinstance(key, str) else key
        signature = hmac.digest(key, signing_input.encode(), f"sha{algorithm[2:]}")
    else:
        signature = method.sign(signing_input.encode(), key or private_key(algorithm))
    return f"{signing_input}.{part(signature)}"


def unsigned(claims: object) -> bytes:
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in ({"alg": "none"}, claims)
    ]
    return b".".join([*parts, b""])


def sha256(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def digest(secret: str) -> str:
    return "key:" + hashlib.sha256(secret.encode()).hexdigest()[:16]


def basic(pair: bytes) -> str:
    return base64.b64encode(pair).decode()
