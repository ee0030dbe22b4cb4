"""A certificate authority for tests: fast keys on an elliptic curve, and any oddity on request."""

from __future__ import annotations

import datetime as dt
import functools
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

LOCAL_HOSTS = ("127.0.0.1", "localhost")

EXTENDED_USAGES: Mapping[str, tuple[ObjectIdentifier, ...]] = {
    "client": (ExtendedKeyUsageOID.CLIENT_AUTH,),
    "server": (ExtendedKeyUsageOID.SERVER_AUTH,),
    "both": (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
    "any": (ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,),
    "none": (),
}
"""By `usage`; "none" leaves the extension out."""
KEY_USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)

DAY = dt.timedelta(days=1)


@functools.cache
def new_rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def to_pem(key: Key, password: bytes | None = None) -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )


@dataclass(frozen=True)
class Issued:
    """A certificate, its key, and those between it and the root, the nearest first."""

    certificate: x509.Certificate
    key: Key
    chain: tuple[x509.Certificate, ...] = ()

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def chain_der(self) -> tuple[bytes, ...]:
        return tuple(each.public_bytes(serialization.Encoding.DER) for each in self.chain)

    @property
    def cert_pem(self) -> bytes:
        certificates = (self.certificate, *self.chain)
        return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)

    @property
    def key_pem(self) -> bytes:
        return to_pem(self.key)

    def write(self, folder: Path, name: str) -> tuple[str, str]:
        """Write `name.crt` and `name.key`, each put in place at once; give their paths."""
        paths = []
        for suffix, content in (("crt", self.cert_pem), ("key", self.key_pem)):
            path = folder / f"{name}.{suffix}"
            new = folder / f".{name}.{suffix}.new"
            new.write_bytes(content)
            new.replace(path)
            paths.append(str(path))
        return paths[0], paths[1]


def begun(
    subject: x509.Name, issuer: Authority, key: Key, not_before: dt.datetime, not_after: dt.datetime
) -> x509.CertificateBuilder:
    """A certificate that lacks the extensions of its use, and the signature."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key()),
            critical=False,
        )
    )


class Authority:
    """A CA: a root, unless `issuer` is the CA above it; valid from yesterday, for ten years."""

    def __init__(
        self,
        name: str,
        *,
        issuer: Authority | None = None,
        not_before: dt.datetime | None = None,
        not_after: dt.datetime | None = None,
        max_path: int | None = None,
    ) -> None:
        now = dt.datetime.now(dt.UTC)
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.issuer = issuer
        signer = issuer or self
        is_used = dict.fromkeys(KEY_USAGES, False)
        usage = x509.KeyUsage(
            **is_used | dict.fromkeys(("digital_signature", "key_cert_sign", "crl_sign"), True)
        )
        before, after = not_before or now - DAY, not_after or now + 3650 * DAY
        own_id = x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())
        self.certificate = (
            begun(self.name, signer, self.key, before, after)
            .add_extension(x509.BasicConstraints(ca=True, path_length=max_path), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(own_id, critical=False)
            .sign(signer.key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def chain(self) -> tuple[x509.Certificate, ...]:
        return () if self.issuer is None else (self.certificate, *self.issuer.chain)

    def write(self, folder: Path, name: str = "ca") -> str:
        path = folder / f"{name}.crt"
        path.write_bytes(self.pem)
        return str(path)

    def below(self, name: str, *, max_path: int | None = None) -> Authority:
        return Authority(name, issuer=self, max_path=max_path)

    def issue(  # noqa: PLR0913 - a certificate has so many sides
        self,
        common_name: str = "",
        organizations: Sequence[str] = (),
        *,
        usage: str = "client",
        hosts: Sequence[str] = LOCAL_HOSTS,
        not_before: dt.datetime | None = None,
        not_after: dt.datetime | None = None,
        key: Key | None = None,
        attributes: Sequence[x509.NameAttribute[str]] = (),
        digest: hashes.SHA256 | hashes.SHA384 | None = None,
    ) -> Issued:
        """Issue a certificate.

        Args:
            common_name: "" for none.
            organizations: In their order.
            usage: A key of `EXTENDED_USAGES`.
            hosts: Alternative names, addresses among them; of server certificates only.
            not_before: By default yesterday.
            not_after: By default tomorrow.
            key: A new one on P-256 by default.
            attributes: More of the subject, behind all else.
            digest: Of the signature; by default SHA-256.
        """
        now = dt.datetime.now(dt.UTC)
        key = key or ec.generate_private_key(ec.SECP256R1())
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
        if common_name:
            names.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
        subject = x509.Name([*names, *attributes])
        before, after = not_before or now - DAY, not_after or now + DAY
        builder = begun(subject, self, key, before, after).add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        if EXTENDED_USAGES[usage]:
            builder = builder.add_extension(
                x509.ExtendedKeyUsage(EXTENDED_USAGES[usage]), critical=False
            )
        if usage in {"server", "both"} and hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([general_name(host) for host in hosts]), critical=False
            )
        certificate = builder.sign(self.key, digest or hashes.SHA256())
        return Issued(certificate, key, self.chain)


def general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
