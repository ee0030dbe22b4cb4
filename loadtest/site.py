"""Where and how the programs of one comparison run: builds of apfproxy, TLS, cores.

The key of the certificate is on P-256.  Clients offer TLS 1.3 with one cipher and one curve, so
that each proxy does the same arithmetic, whatever it would choose.
"""

from __future__ import annotations

import argparse
import re
import ssl
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from loadtest.processes import ROOT, LoadTestError
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RESPONDS_WITHIN_S = 60
COMPILED, INTERPRETED = "compiled", "interpreted"
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
"""For OpenSSL in a client that has no options of its own for it."""


class Build(NamedTuple):
    """An apfproxy that can be started: its interpreter, and the path of its packages, if any."""

    python: str
    path: str

    def command(self) -> list[str]:
        # -P: the package in the current directory is this checkout's.
        return [self.python, "-P", "-m", "apfproxy"]

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": self.path}

    def version(self) -> str:
        done = subprocess.run(
            [*self.command(), "--version"],
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=RESPONDS_WITHIN_S,
        )
        if done.returncode:
            words = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            raise LoadTestError(f"{' '.join(self.command())} does not run: {words}")
        return done.stdout.strip()


THIS = Build(sys.executable, str(ROOT))
"""The package of this checkout, in this interpreter."""


def kind_of(version: str) -> str:
    return COMPILED if f"({COMPILED}" in version else INTERPRETED


def named_build(text: str) -> tuple[str, Build]:
    name, _, place = text.partition("=")
    path = Path(place)
    if re.fullmatch(r"[a-z][a-z0-9-]{0,19}", name) is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} has no name of at most 20 letters a-z, digits and '-': NAME=PYTHON"
        )
    if place and (path / "apfproxy").is_dir():
        return name, Build(sys.executable, str(path.resolve()))
    if place and path.is_file():
        # Not resolved: the link itself is what tells which virtual environment it is of.
        return name, Build(str(path.absolute()), "")
    if not place:
        raise argparse.ArgumentTypeError(f"{text!r} names no interpreter: NAME=PYTHON")
    raise argparse.ArgumentTypeError(f"{place!r} is no interpreter, nor a checkout of apfproxy")


class TlsSite(NamedTuple):
    """The files of TLS; HAProxy has two in one, and OPENSSL_CONF of a client names the last."""

    certificate: Path
    key: Path
    certificate_and_key: Path
    authority: Path
    client_config: Path

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


class Site(NamedTuple):
    """Where and how the programs of one comparison run.

    Attributes:
        directory: An existing one for configurations and output.
        proxy_core: The CPU of each proxy; None leaves it to the scheduler.
        load_core: The CPU of the origin and of the load generator.
        tls: Between clients and proxies, if they use it.
        upstream_tls: Between proxies and the origin, if they use it.
        http2: Whether clients speak HTTP/2 to the proxies; HTTP/1.1 otherwise.
        features: Those that `WITH` has on and apfproxy has not; None leaves apfproxy its defaults.
        builds: Each apfproxy by its name; `WITH` is the last of them.
        token_file: The tokens that apfproxy knows; without, it believes identity headers.
    """

    directory: Path
    proxy_core: int | None
    load_core: int | None
    tls: TlsSite | None = None
    upstream_tls: TlsSite | None = None
    http2: bool = False
    features: Sequence[str] | None = None
    builds: Mapping[str, Build] = MappingProxyType({"apfproxy": THIS})
    token_file: Path | None = None
