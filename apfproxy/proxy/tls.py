"""TLS towards clients: contexts that are replaced, for new connections, when their files change.

Versions, ciphers and curves are Mozilla's intermediate profile, version 5.7, without the
finite-field Diffie-Hellman that a server has to bring parameters for, and without CBC.

A client's certificate is looked at twice.  OpenSSL checks in the handshake that its owner has the
key and that one of the CAs signed it.  Its dates are left to `authn.certificates`: a 401 says what
an alert would show to no one.

Source: https://wiki.mozilla.org/Security/Server_Side_TLS.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from apfproxy.base.tls_files import (
    HTTP_1,
    TlsError,
    TlsFile,
    certificates_in,
    load_own,
    named_files,
    paths_of,
    prepared,
    trust,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Hashable, Iterable

    from cryptography import x509

    from apfproxy.base.tls_files import Expiries
    from apfproxy.settings import DownstreamTlsSettings

Choose = Callable[[str], "tuple[ssl.SSLContext, Hashable] | None"]
GROUP = "apfproxy_group"
"""The attribute of a TLS connection that says which clusters its handshake was for."""

HTTP_2 = "h2"
CURVES = "X25519:prime256v1:secp384r1"
"""Curves of the profile, of which a Python that cannot name several offers the second alone."""
NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME, which the standard library does not name."""


class ServerTls:
    """TLS towards clients.

    `client_cas` are PEM files of users and of front proxies; without any no client is asked for a
    certificate.  `choose` says, by the host that a client names in its handshake, with which
    context that goes on, and for which clusters; None for this one's, and for all.  With it the CAs
    are those of several clusters, and what was in a file of no use stays in force.

    Before `load` every handshake fails.
    """

    def __init__(
        self,
        settings: DownstreamTlsSettings,
        client_cas: Iterable[TlsFile] = (),
        choose: Choose | None = None,
        *,
        offers_http2: bool = False,
        section: str = "downstream.tls",
    ) -> None:
        self.settings = settings
        self._offers_http2 = offers_http2
        self._choose = choose
        self._own = named_files(
            section, certificateFile=settings.certificate_file, keyFile=settings.key_file
        )
        self._client_cas = tuple(client_cas)
        self.own_paths = paths_of(self._own.values())
        self.ca_paths = paths_of(self._client_cas)
        self.paths = (*self.own_paths, *self.ca_paths)
        self._cas: dict[TlsFile, tuple[list[x509.Certificate], Expiries]] = {}
        self.context = prepared(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        self.expiries: tuple[Expiries, ...] = ()

    def load(self) -> None:
        """Read the files, and take them if all are good; else `TlsError`, and nothing changes."""
        context = prepared(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        if self._offers_http2:
            context.set_alpn_protocols([HTTP_2, HTTP_1])
        # As Go's servers.  Its key is the context's own: after a reload it is of no use.
        context.num_tickets = 1
        # All ciphers are good: the client knows which it has in hardware.
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
        limit_curves(context)
        certificate_file = self._own["certificateFile"]
        expiries = [
            load_own(context, certificate_file, self._own.get("keyFile", certificate_file)),
            *self._load_client_cas(context),
        ]
        if self._cas:
            is_required = self.settings.require_client_certificate
            context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
            flags = context.verify_flags | NO_CHECK_TIME | ssl.VERIFY_X509_PARTIAL_CHAIN
            context.verify_flags = ssl.VerifyFlags(flags)
            # A ticket has lost the certificates between the client's and its CA, without which the
            # client's cannot be judged.  Sessions of TLS 1.2 that are taken up by their ids have
            # them: OpenSSL keeps those in this context, and Python cannot tell it not to.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        if self._choose is not None:
            context.sni_callback = partial(go_on_with, self._choose)
        self.context, self.expiries = context, tuple(expiries)

    def _load_client_cas(self, context: ssl.SSLContext) -> list[Expiries]:
        for file in self._client_cas:
            try:
                self._cas[file] = certificates_in(file, is_chain=False)
            except TlsError:
                if self._choose is None:
                    raise
        for certificates, _ in self._cas.values():
            trust(context, certificates)
        return [expiries for _, expiries in self._cas.values()]


def go_on_with(
    choose: Choose, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext
) -> None:
    del context
    chosen = None if name is None else choose(name)
    if chosen is not None:
        connection.context = chosen[0]
        setattr(connection, GROUP, chosen[1])


def group_of(transport: asyncio.BaseTransport) -> Hashable:
    """The clusters that a connection's handshake was for; None for all."""
    return getattr(transport.get_extra_info("ssl_object"), GROUP, None)


def speaks_http2(transport: asyncio.BaseTransport) -> bool:
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    return tls is not None and tls.selected_alpn_protocol() == HTTP_2


def peer_certificates(transport: asyncio.BaseTransport) -> tuple[bytes | None, tuple[bytes, ...]]:
    """The certificate that the other end showed, None without one, and all that it sent.

    Both are DER, the latter in the order of the wire.
    """
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    leaf = tls.getpeercert(binary_form=True) if tls is not None else None
    if tls is None or leaf is None:
        return None, ()
    # Public from Python 3.13 on.  Up to 3.12 the same is there under the object's own, private
    # one; without it clients whose CA is an intermediate one could not be judged.
    if hasattr(tls, "get_unverified_chain"):
        return leaf, tuple(tls.get_unverified_chain())
    inner = cast("Any", getattr(tls, "_sslobj", None))
    with contextlib.suppress(AttributeError, TypeError, ssl.SSLError):
        chain = inner.get_unverified_chain() or ()
        return leaf, tuple(ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in chain)
    return leaf, ()


def limit_curves(context: ssl.SSLContext) -> None:
    """Leave out curves that OpenSSL has and the profile has not, such as X448.

    Before Python 3.15 a context has all or one: P-256, a round trip more for guesses of X25519.
    """
    if hasattr(context, "set_groups"):
        context.set_groups(CURVES)
    else:
        context.set_ecdh_curve("prime256v1")
