"""TLS of a comparison: one certificate for all proxies, and one way in which clients shake hands.

The key of the certificate is on P-256.  Clients offer TLS 1.3 with one cipher and one curve, so
that each proxy does the same arithmetic, whatever it would choose.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, NamedTuple

from loadtest.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path

CIPHER = "TLS_AES_128_GCM_SHA256"
CURVE = "prime256v1"
SERVER_NAME = "localhost"

CLIENT_CONFIG = f"""
openssl_conf = openssl
[openssl]
ssl_conf = ssl
[ssl]
system_default = defaults
[defaults]
MinProtocol = TLSv1.3
Ciphersuites = {CIPHER}
Groups = {CURVE}
"""
"""What OpenSSL reads at the start of a client that has no options of its own for it."""


class TlsSite(NamedTuple):
    """The files of TLS, each by its path."""

    certificate: Path
    key: Path
    certificate_and_key: Path
    """In one file, as HAProxy has it."""

    authority: Path
    """The CA of the certificate."""

    client_config: Path
    """For OPENSSL_CONF of a client."""

    def names(self) -> dict[str, str]:
        return {"certificate": str(self.certificate), "key": str(self.key), "curve": CURVE}

    def as_settings(self) -> dict[str, str]:
        return {"certificateFile": str(self.certificate), "keyFile": str(self.key)}

    def client_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.set_ecdh_curve(CURVE)
        return context


def make_tls(directory: Path) -> TlsSite:
    """Issue a certificate and write all files.

    Args:
        directory: An existing directory.
    """
    authority = Authority("peers")
    issued = authority.issue(SERVER_NAME, usage="server")
    certificate, key = issued.write(directory, "server")
    site = TlsSite(
        certificate=directory / certificate,
        key=directory / key,
        certificate_and_key=directory / "server.pem",
        authority=directory / authority.write(directory),
        client_config=directory / "client-openssl.cnf",
    )
    site.certificate_and_key.write_bytes(issued.cert_pem + issued.key_pem)
    site.client_config.write_text(CLIENT_CONFIG)
    return site
