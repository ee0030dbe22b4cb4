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
"""Holds what `usage` can be; "none" leaves the extension out."""

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
    """A certificate and what belongs to it.

    Attributes:
        certificate: Itself.
        key: Its private key.
        chain: The certificates between it and the root, the nearest first; without the root.
    """

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


class Authority:
    """A CA: a root, unless `issuer` is the CA above it.

    Args:
        name: Its common name.
        issuer: What signs it.
        not_before: From when on it is valid; yesterday.
        not_after: Until when; in ten years.
        max_path: How many CAs may be below it.
    """

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
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        self.certificate = (
            x509.CertificateBuilder()
            .subject_name(self.name)
            .issuer_name(signer.name)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(not_before or now - DAY)
            .not_valid_after(not_after or now + 3650 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=max_path), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key()),
                critical=False,
            )
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
            not_before: From when on it is valid; yesterday.
            not_after: Until when; tomorrow.
            key: A new one on P-256 by default.
            attributes: More of the subject, behind all else.
            digest: What the signature signs; SHA-256.
        """
        now = dt.datetime.now(dt.UTC)
        key = key or ec.generate_private_key(ec.SECP256R1())
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
        if common_name:
            names.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([*names, *attributes]))
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(not_before or now - DAY)
            .not_valid_after(not_after or now + DAY)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
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
