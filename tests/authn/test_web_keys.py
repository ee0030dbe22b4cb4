"""Public keys from PEM and JWKS."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.authn.web_keys import (
    MAX_KEYS,
    MAX_SET_BYTES,
    RSA_ALGORITHMS,
    FileKeys,
    KeySet,
    WebKeysError,
    kubernetes_kid,
    parse_keys,
)
from tests.authn.signing import (
    jwk,
    jwks,
    private_key,
    private_pem,
    public_jwk,
    public_pem,
)

if TYPE_CHECKING:
    from pathlib import Path

ALGORITHMS = ("RS256", "ES256", "ES384", "ES512", "EdDSA")


def certificate(algorithm: str) -> bytes:
    """A certificate of a key, as a file has it."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")])
    key = private_key(algorithm)
    begin = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )


def fitting(algorithm: str) -> frozenset[str]:
    """The algorithms that a key of this one is for."""
    return RSA_ALGORITHMS if algorithm.startswith("RS") else frozenset({algorithm})


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_public_key_of_pem(algorithm: str) -> None:
    """A public key fits its algorithms, by Kubernetes' name for it or any that is not known."""
    key = private_key(algorithm)
    keys = parse_keys(public_pem(key), "sa.pub")
    kid = kubernetes_kid(key.public_key())

    assert [fitting(algorithm)] == [key.algorithms for key in keys.keys]
    assert keys.has_kid(kid)
    assert not keys.has_kid("other")
    assert [keys.keys] * 3 == [keys.candidates(name, algorithm) for name in (kid, "other", None)]


def test_certificates_and_keys_of_pem() -> None:
    """One file has several keys, in any of their forms, with text between them."""
    rsa_key = private_key("RS256").public_key()
    old_form = rsa_key.public_bytes(Encoding.PEM, PublicFormat.PKCS1)
    data = b"# keys\n" + certificate("ES256") + old_form + public_pem(private_key("ES384"))

    assert [fitting(name) for name in ("ES256", "RS256", "ES384")] == [
        key.algorithms for key in parse_keys(data, "keys.pem").keys
    ]


def test_kubernetes_name() -> None:
    """Of two keys of a file, the one whose hash a token names is the only one tried."""
    first, second = private_key(), private_key(number=1)
    keys = parse_keys(public_pem(first) + public_pem(second), "sa.pub")
    kid = kubernetes_kid(second.public_key())

    assert [kid] == [key.kid for key in keys.candidates(kid, "ES256")]
    assert 2 == len(keys.candidates("other", "ES256"))
    assert () == keys.candidates(kid, "ES384")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_key_of_jwks(algorithm: str) -> None:
    """A key of a set has the name that the set gives it, and no other."""
    keys = parse_keys(jwks(public_jwk(private_key(algorithm), kid="a", use="sig")), "jwks.json")

    assert [fitting(algorithm)] == [key.algorithms for key in keys.candidates("a", algorithm)]
    assert keys.keys == keys.candidates(None, algorithm)
    assert () == keys.candidates("b", algorithm)


def test_names_of_jwks() -> None:
    """A token's name picks keys of that name; without such, those that have none."""
    members = [
        public_jwk(private_key(number=number), **({"kid": kid} if kid else {}))
        for number, kid in enumerate(("a", "a", "b", None))
    ]
    keys = parse_keys(jwks(*members), "jwks.json")

    assert [["a", "a"], ["b"], [None], ["a", "a", "b", None]] == [
        [key.kid for key in keys.candidates(kid, "ES256")] for kid in ("a", "b", "c", None)
    ]


def test_algorithm_of_jwks() -> None:
    """A key that says for which algorithm it is, is for no other."""
    keys = parse_keys(jwks(public_jwk(private_key("RS256"), alg="PS384")), "jwks.json")

    assert [frozenset({"PS384"})] == [key.algorithms for key in keys.keys]
    assert () == keys.candidates(None, "RS256")


def short_rsa() -> dict[str, Any]:
    """A key that can be factored."""
    return jwk(rsa.generate_private_key(65537, 1024).public_key())  # noqa: S505 - what is to be refused


GOOD = public_jwk(private_key("RS256"))


@pytest.mark.parametrize(
    "member",
    [
        pytest.param(public_jwk(private_key(), use="enc"), id="for-encryption"),
        pytest.param(public_jwk(private_key(), key_ops=["sign"]), id="not-to-verify"),
        pytest.param(public_jwk(private_key(), key_ops=7), id="operations-no-list"),
        pytest.param(public_jwk(private_key(), alg="ES384"), id="algorithm-of-another-curve"),
        pytest.param(public_jwk(private_key(), alg="HS256"), id="symmetric-algorithm"),
        pytest.param(public_jwk(private_key(), alg="none"), id="no-algorithm"),
        pytest.param(public_jwk(private_key(), alg=None), id="null-algorithm"),
        pytest.param(public_jwk(private_key(), alg=["ES256"]), id="algorithms"),
        pytest.param(public_jwk(private_key(), kid=7), id="name-no-text"),
        pytest.param(public_jwk(private_key(), kty="RSA"), id="type-of-another"),
        pytest.param(public_jwk(private_key(), kty=["EC"]), id="type-no-text"),
        pytest.param(public_jwk(private_key(), x="AAAA"), id="short-coordinate"),
        pytest.param(public_jwk(private_key(), y=GOOD["n"][:43]), id="not-on-the-curve"),
        pytest.param(public_jwk(private_key(), x=7), id="number-as-coordinate"),
        pytest.param(public_jwk(private_key("RS256"), e="AQ"), id="exponent-one"),
        pytest.param(public_jwk(private_key("RS256"), n="\ud800"), id="half-a-character"),
        pytest.param(public_jwk(private_key("EdDSA"), crv="X25519"), id="for-key-agreement"),
        pytest.param(public_jwk(private_key("EdDSA"), crv="Ed448"), id="another-length"),
        pytest.param(jwk(ed448.Ed448PrivateKey.generate().public_key()), id="ed448"),
        pytest.param(jwk(ec.generate_private_key(ec.SECP256K1()).public_key()), id="secp256k1"),
        pytest.param(short_rsa(), id="short-rsa"),
        pytest.param({}, id="empty"),
        pytest.param({"kty": "AKP"}, id="unknown-type"),
    ],
)
def test_member_left_out(member: dict[str, Any]) -> None:
    """What is no key for signatures of tokens is left out, and no set consists of that alone."""
    keys = parse_keys(jwks(member, GOOD), "jwks.json")

    assert parse_keys(jwks(GOOD), "jwks.json") == keys
    with pytest.raises(WebKeysError, match=r"jwks\.json: no usable key"):
        parse_keys(jwks(member), "jwks.json")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"", ": no usable key; give PEM of public keys", id="empty"),
        pytest.param(b"hello", ": no usable key", id="text"),
        pytest.param(b"{", ": no JWKS: not JSON", id="cut"),
        pytest.param(b'{"keys":[],"keys":[]}', ": no JWKS: a name twice", id="twice"),
        pytest.param(b"{}", ': no JWKS: no list "keys"', id="no-keys"),
        pytest.param(b'{"keys":{}}', ': no JWKS: no list "keys"', id="keys-no-list"),
        pytest.param(b'{"keys":[]}', ": no usable key; give a JWKS", id="no-key"),
        pytest.param(b'{"keys":[7]}', ": no JWKS: keys[0] is no object", id="number"),
        pytest.param(
            jwks(GOOD, {"kty": "oct", "k": "c2VjcmV0"}), ": keys[1] is symmetric", id="symmetric"
        ),
        pytest.param(jwks({**GOOD, "k": "c2VjcmV0"}), ": keys[0] is a private", id="secret-member"),
        *(
            pytest.param(
                jwks(jwk(private_key(algorithm))), ": keys[0] is a private key", id=algorithm
            )
            for algorithm in ALGORITHMS
        ),
        pytest.param(private_pem(private_key()), ":1: a private key", id="private-pem"),
        pytest.param(
            public_pem(private_key()) + private_pem(private_key("RS256")),
            ":5: a private key",
            id="private-pem-behind-public",
        ),
        pytest.param(
            b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----",
            ":1: no usable PUBLIC KEY",
            id="bad-pem",
        ),
        pytest.param(
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
            ":1: no usable CERTIFICATE",
            id="bad-certificate",
        ),
        pytest.param(
            b"\n-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----", ":2: X509 CRL", id="other"
        ),
        pytest.param(
            dsa.generate_private_key(2048)
            .public_key()
            .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
            ":1: no usable PUBLIC KEY: only RSA",
            id="dsa",
        ),
        pytest.param(b"{" + b" " * MAX_SET_BYTES, ": larger than", id="huge"),
        pytest.param(jwks(*[GOOD] * (MAX_KEYS + 1)), f": {MAX_KEYS + 1} keys", id="many"),
    ],
)
def test_bad_set(data: bytes, problem: str) -> None:
    """A set that is none, or tells secrets, is refused with its place and nothing of it."""
    with pytest.raises(WebKeysError) as error:
        parse_keys(data, "keys")

    assert f"keys{problem}" in str(error.value)
    assert "c2VjcmV0" not in str(error.value)


@given(data=st.binary(max_size=100))
def test_any_bytes(data: bytes) -> None:
    """Any bytes are keys or an error of ours."""
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
    """Whatever the members of a key are, it is a key or left out."""
    keys = parse_keys(json.dumps({"keys": [GOOD, {**member, **changes}]}).encode(), "jwks.json")

    assert len(keys.keys) in {1, 2}


async def test_file(tmp_path: Path) -> None:
    """A file's keys are known once it is read; a broken new content keeps the old."""
    path = tmp_path / "sa.pub"
    path.write_bytes(public_pem(private_key()))
    keys = FileKeys(path)
    assert KeySet() == keys.current()
    keys.load()
    known = keys.current()
    with pytest.raises(WebKeysError, match=r"sa\.pub: no usable key"):
        keys.take(b"")
    await keys.refresh()
    await keys.close()

    assert 1 == len(known.keys)
    assert known is keys.current()
    assert not keys.can_refresh()


def test_missing_file(tmp_path: Path) -> None:
    """A file that is not there is an error that names it."""
    with pytest.raises(WebKeysError, match=r"none\.pem: cannot be read: No such file"):
        FileKeys(tmp_path / "none.pem").load()
