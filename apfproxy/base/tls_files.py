"""The files of TLS: certificates, keys and CAs that settings name, and when they expire.

The proxy's own tokens expire by the same rules.
"""

from __future__ import annotations

import base64
import datetime as dt
import enum
import logging
import os
import re
import ssl
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from apfproxy.base.errors import OperatorError
from apfproxy.base.files import MAX_PEM_BYTES, read_file, read_named
from apfproxy.base.strict_json import StrictJsonError, read_object

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

log = logging.getLogger(__name__)

Context = TypeVar("Context", bound=ssl.SSLContext)

HTTP_1 = "http/1.1"
CIPHERS = (
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256"
    ":ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384"
    ":ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
)
"""The ciphers of TLS 1.2; those of 1.3 are all good, and OpenSSL's own."""

RENEW_BEFORE_S = 7 * 86400.0
"""A certificate or token that expires sooner than that is warned about; one that lives for less
than ten times as long, in the last tenth of its life."""


class TlsFile(NamedTuple):
    setting: str
    path: str

    def __str__(self) -> str:
        return f"{self.setting}: {self.path}"


class TlsError(OperatorError):
    """Says which setting and file of TLS, what is wrong, and what to do; no contents."""

    def __init__(self, file: TlsFile, problem: str) -> None:
        super().__init__(f"{file}: {problem}")


@dataclass(frozen=True, slots=True)
class Expiries:
    """When the certificates in a file expire, or the token, and from when on each is warned of.

    Of a chain all are needed; of CAs one that has expired may have been replaced.
    """

    file: TlsFile
    unix_s: tuple[float, ...]
    renew_unix_s: tuple[float, ...]
    is_chain: bool
    what: str = "certificate"

    def next_unix_s(self, now_unix_s: float) -> float:
        """The time that matters: the next; or the last one where all CAs have expired."""
        if self.is_chain:
            return min(self.unix_s)
        ahead = [each for each in self.unix_s if each >= now_unix_s]
        return min(ahead) if ahead else max(self.unix_s)

    def problem(self, now_unix_s: float) -> str | None:
        """Says that a certificate has expired or soon will; of CAs, that there is no other one."""
        each = zip(self.unix_s, self.renew_unix_s, strict=True)
        due = [until for until, renew in each if renew <= now_unix_s]
        if not due or (len(due) < len(self.unix_s) and not self.is_chain):
            return None
        until = min(due) if self.is_chain else max(due)
        verb = "expired" if until <= now_unix_s else "expires"
        at = dt.datetime.fromtimestamp(until, dt.UTC).isoformat()
        return f"{self.file}: the {self.what} {verb} at {at}"


def _read(file: TlsFile) -> bytes:
    try:
        return read_file(file.path, MAX_PEM_BYTES)
    except OSError as error:
        raise TlsError(file, f"cannot be read: {error.strerror or error}") from error


def certificates_in(file: TlsFile, *, is_chain: bool) -> tuple[list[x509.Certificate], Expiries]:
    """The certificates in a PEM file, or TlsError if there is none; warns of old ones."""
    from cryptography import x509  # noqa: PLC0415 - 8 MiB, for those that use TLS

    content = _read(file)
    try:
        found = x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise TlsError(file, "has no certificate in PEM form") from error
    lifetimes = [
        Lifetime(each.not_valid_before_utc.timestamp(), each.not_valid_after_utc.timestamp())
        for each in found
    ]
    for each in lifetimes:
        _warn_of_dates(file, each)
    unix_s = tuple(each.until_unix_s for each in lifetimes)
    return found, Expiries(file, unix_s, tuple(map(_renew_unix_s, lifetimes)), is_chain)


def load_authorities(context: ssl.SSLContext, file: TlsFile) -> Expiries:
    certificates, expiries = certificates_in(file, is_chain=False)
    trust(context, certificates)
    return expiries


def trust(context: ssl.SSLContext, authorities: Iterable[x509.Certificate]) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - as above

    context.load_verify_locations(
        cadata=b"".join(each.public_bytes(Encoding.DER) for each in authorities)
    )


def all_of(*steps: Callable[[], object]) -> None:
    problems: list[str] = []
    for step in steps:
        try:
            step()
        except OperatorError as error:
            problems += str(error).splitlines()
    if problems:
        raise OperatorError("\n".join(dict.fromkeys(problems)))


def _key_in(file: TlsFile) -> PrivateKeyTypes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - as above

    content = _read(file)
    try:
        return serialization.load_pem_private_key(content, password=None)
    except TypeError as error:
        raise TlsError(file, "is encrypted: give a key without a password") from error
    except Exception as error:
        raise TlsError(file, "has no private key in PEM form") from error


def load_own(context: ssl.SSLContext, certificate_file: TlsFile, key_file: TlsFile) -> Expiries:
    found: list[tuple[list[x509.Certificate], Expiries]] = []
    keys: list[PrivateKeyTypes] = []
    all_of(
        lambda: found.append(certificates_in(certificate_file, is_chain=True)),
        lambda: keys.append(_key_in(key_file)),
    )
    ((certificates, expiries),), (key,) = found, keys
    if key.public_key() != certificates[0].public_key():
        raise TlsError(key_file, f"is not the key of the certificate in {certificate_file.path}")
    try:
        # An empty password, or OpenSSL would ask for one at the terminal.
        context.load_cert_chain(certificate_file.path, key_file.path, password="")
    except OSError as error:  # those of OpenSSL are of this type
        reason = getattr(error, "reason", None) or "changed while it was read"
        raise TlsError(certificate_file, f"cannot be used: {reason}") from error
    return expiries


def _renew_unix_s(lifetime: Lifetime) -> float:
    since, until = lifetime
    return until - min(RENEW_BEFORE_S, (until - since) / 10)


def token_expiries(file: TlsFile, lifetime: Lifetime) -> Expiries:
    until = lifetime.until_unix_s
    return Expiries(file, (until,), (_renew_unix_s(lifetime),), is_chain=True, what="token")


def _warn_of_dates(file: TlsFile, lifetime: Lifetime) -> None:
    now_s = time.time()
    since, until = (dt.datetime.fromtimestamp(each, dt.UTC).isoformat() for each in lifetime)
    if lifetime.until_unix_s < now_s:
        log.warning("%s: the certificate expired at %s", file, until)
    elif lifetime.since_unix_s > now_s:
        log.warning("%s: the certificate is not valid before %s", file, since)
    elif now_s > _renew_unix_s(lifetime):
        log.warning("%s: the certificate expires at %s", file, until)


class Handshake(enum.StrEnum):
    """How a connection with TLS began; also the `kind` label of tls_handshakes_total."""

    FULL = "full"
    RESUMED = "resumed"


def handshake_of(transport: asyncio.BaseTransport) -> Handshake:
    tls: ssl.SSLObject = transport.get_extra_info("ssl_object")
    return Handshake.RESUMED if tls.session_reused else Handshake.FULL


def prepared(context: Context) -> Context:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols([HTTP_1])
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    return context


@dataclass(frozen=True, slots=True, kw_only=True)
class Pem:
    """Certificates or a key: in a file, which may change, or as data."""

    path: str = ""
    data: bytes = field(default=b"", repr=False)

    def content(self) -> bytes:
        return read_named(self.path, MAX_PEM_BYTES, OperatorError) if self.path else self.data

    def __str__(self) -> str:
        return self.path or "the data in the kubeconfig"


def client_context(authorities: Pem | None, own: tuple[Pem, Pem] | None) -> ssl.SSLContext:
    """A context to ask servers of CAs, by default the system's, with an own certificate and key.

    It blocks on the file system.

    Raises:
        OperatorError: They cannot be used.
    """
    # Not `create_default_context`, which from Python 3.13 on refuses CAs without key identifiers,
    # as clusters have them.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if authorities is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        data = authorities.content()
        try:
            # Comments between the certificates may be of any letters.
            context.load_verify_locations(cadata=data.decode("ascii", "ignore"))
        except (ssl.SSLError, ValueError) as error:
            raise OperatorError(f"{authorities}: is no PEM of certificates") from error
    if own is None:
        return context
    certificate, key = own
    try:
        # OpenSSL takes files only; this one is on no disk, and gone at once.
        with open(os.memfd_create("apfproxy"), "wb") as file:  # noqa: PTH123 - has no path
            file.write(certificate.content() + b"\n" + key.content())
            file.flush()
            # An empty password, or OpenSSL would ask for one at the terminal.
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password="")
    except OSError as error:  # those of OpenSSL are of this type
        raise OperatorError(
            f"{certificate} and {key}: are no certificate and its key, as PEM without a password,"
            f" that can be read: {error.strerror or type(error).__name__}"
        ) from error
    return context


def named_files(section: str, **paths: str | None) -> dict[str, TlsFile]:
    """The files that settings of a section name, by the names of the settings, in camelCase."""
    return {
        name: TlsFile(f"{section}.{name}", path) for name, path in paths.items() if path is not None
    }


def paths_of(files: Iterable[TlsFile]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(file.path for file in files))


JWT = re.compile(rb"[\w-]+\.([\w-]+)\.[\w-]*")
"""A token of RFC 7519, with the claims in the middle."""
LATEST_UNIX_S = 253_402_300_799.0
"""The end of the year 9999; a later time is no time."""


class Lifetime(NamedTuple):
    since_unix_s: float
    until_unix_s: float


def lifetime(token: bytes) -> Lifetime | None:
    """The lifetime of a JSON Web Token, not verified; None for one that does not expire."""
    found = JWT.fullmatch(token)
    if found is None:
        return None
    try:
        claims = read_object(base64.urlsafe_b64decode(found[1] + b"=" * (-len(found[1]) % 4)))
    except (StrictJsonError, ValueError):
        return None
    until = _time_of(claims.get("exp"))
    if until is None:
        return None
    since = _time_of(claims.get("iat")) or _time_of(claims.get("nbf")) or 0.0
    return Lifetime(min(since, until), until)


def _time_of(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value <= LATEST_UNIX_S else None
