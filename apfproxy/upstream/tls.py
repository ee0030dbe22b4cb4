"""TLS towards the servers behind: contexts, and sessions which new connections take up again.

A connection keeps the context with which it began.  With a session that is taken up the handshake
is shorter:

1. A session is of one server and one context: another server, CA, name or certificate of the proxy
   begins with none.
2. In a session that is taken up, the server's certificate is not checked again.  So a session is
   used for `MAX_AGE_S` after it was, and no longer than the certificate is valid.
3. Some servers end a handshake with an error because it takes a session up.  So after one that
   failed, no session from before is used.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, Final

from apfproxy.base.tls_files import (
    all_of,
    load_authorities,
    load_own,
    named_files,
    paths_of,
    prepared,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import Self

    from apfproxy.base.tls_files import Expiries
    from apfproxy.settings import UpstreamTlsSettings

MAX_AGE_S: Final = 3600.0  # from the handshake in which the certificate was checked


class ClientTls:
    """TLS towards the servers behind; the name that a certificate must have is of its endpoint.

    Attributes:
        context: For new connections; before `load` one without a CA, with which every handshake
            fails.
        expiries: When the certificates of `context` expire; the system's CAs are left out.
    """

    def __init__(self, settings: UpstreamTlsSettings) -> None:
        self.settings = settings
        self._files = named_files(
            "upstream.tls",
            caFile=settings.ca_file,
            certificateFile=settings.certificate_file,
            keyFile=settings.key_file,
        )
        self.context = prepared(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        self.expiries: tuple[Expiries, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        return paths_of(self._files.values())

    def load(self) -> None:
        """Read the files, and take them if all are good; otherwise only raise OperatorError."""
        files = self._files
        context = prepared(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        expiries: list[Expiries] = []
        steps: list[Callable[[], None]] = []
        if "caFile" in files:
            authorities = files["caFile"]
            steps.append(lambda: expiries.append(load_authorities(context, authorities)))
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        if "certificateFile" in files:
            own = files["certificateFile"]
            key = files.get("keyFile", own)
            steps.append(lambda: expiries.append(load_own(context, own, key)))
        all_of(*steps)
        self.context, self.expiries = context, tuple(expiries)


class SessionContext(ssl.SSLContext):
    """Stands before a context that servers share, remembers one server's session, and offers it.

    Event loops only call `wrap_bio` of a context.  The one that is `shared` decides everything
    else.
    """

    def __new__(cls, shared: ssl.SSLContext) -> Self:  # noqa: ARG004  the base takes a protocol
        """Make one; as a context of its own it is never used."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, shared: ssl.SSLContext) -> None:
        super().__init__()
        self.shared = shared
        self._session: ssl.SSLSession | None = None
        self._until_unix_s = 0.0
        self._failed_unix_s = 0.0

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,  # noqa: FBT002  the base's signature
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return self.shared.wrap_bio(
            incoming, outgoing, server_side, server_hostname, session or self._session
        )

    def expire(self, now_unix_s: float) -> None:
        """Forget a session that is too old; `now_unix_s` is in seconds since 1970."""
        if self._session is not None and now_unix_s >= self._until_unix_s:
            self._session = None

    def remember(self, transport: asyncio.BaseTransport, now_unix_s: float) -> None:
        """Remember the session of a connection, which may be closed, if it can be taken up.

        Only a session of a whole handshake is: of another one the certificate was not checked.
        """
        tls: Any = transport.get_extra_info("ssl_object")
        if tls is None or tls.context is not self.shared or tls.session_reused:
            return
        session = tls.session
        if session is None or not session.has_ticket or session.time <= self._failed_unix_s:
            return
        valid_until = ssl.cert_time_to_seconds(tls.getpeercert()["notAfter"])
        until = min(session.time + MAX_AGE_S, valid_until)
        if now_unix_s < until:
            self._session, self._until_unix_s = session, until

    def forget(self, now_unix_s: float) -> None:
        """Take up no session from before: a handshake failed."""
        self._session, self._failed_unix_s = None, now_unix_s


def is_cut_off(transport: asyncio.BaseTransport) -> bool:
    """Whether a connection that ended did so without the word of TLS that this is the end.

    Anybody on the way can end a connection; only the other side can say so.  What an end alone
    delimits is whole only then (RFC 9112, section 9.8).  Without TLS there is no such word.
    """
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if tls is None:
        return False
    try:
        return bool(tls.read(1))
    except ssl.SSLZeroReturnError:
        return False
    except (OSError, ValueError):
        return True
