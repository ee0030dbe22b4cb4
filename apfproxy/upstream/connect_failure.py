"""Why there is no connection to the upstream: for its client, for operators and for counters."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from dataclasses import dataclass

from apfproxy.upstream.counters import UpstreamFailure

CONNECT_ERRORS = (OSError, ValueError)
"""Errors that are the upstream's; the second is that of a host that cannot be a name."""

CONNECTION, TLS_HANDSHAKE = "connection", "TLS handshake"
"""The steps of connecting."""

CA_CODES = frozenset({2, 18, 19, 20, 21})
"""X509_V_ERR_* of OpenSSL: no CA that is known has signed it."""
NAME_CODES = frozenset({62, 64})
"""Likewise: it is another host's, or another address's."""
NO_TLS_SPOKEN = frozenset(
    {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
)
"""OpenSSL's words for bytes that are no TLS, such as an answer of plain HTTP."""


@dataclass(frozen=True, slots=True)
class ConnectFailure:
    """A connection that did not come about.

    Attributes:
        kind: How.
        code: The status that the request gets.
        reason: What its client is told.
        problem: What an operator has to know, and the setting that may be wrong.
    """

    kind: UpstreamFailure
    code: int
    reason: str
    problem: str


class ConnectTimeoutError(TimeoutError):
    """A step of connecting took too long: the `connection` itself, or the `TLS handshake`."""

    def __init__(self, step: str, limit_s: float) -> None:
        if step == CONNECTION:
            preposition, setting = "to", "upstream.connectTimeout"
        else:
            preposition, setting = "with", "upstream.tls.handshakeTimeout"
        super().__init__(f"no {step} {preposition} the upstream within {limit_s:g} s ({setting})")
        self.step = step
        self.limit_s = limit_s


OWN_FAILURE = ConnectFailure(
    UpstreamFailure.CONNECT,
    502,
    "the proxy failed to connect to the upstream; its log says more",
    "an error of the proxy itself; the log says more",
)
CLOSED_AT_ONCE = ConnectFailure(
    UpstreamFailure.CONNECT,
    502,
    "the upstream closed the connection at once",
    "connections are closed at once",
)
NO_ENDPOINT = ConnectFailure(
    UpstreamFailure.CONNECT,
    503,
    "no address of the upstream is known yet",
    "no address of a server is known",
)


def connect_failure(error: Exception) -> ConnectFailure:
    """What became of an attempt that ended in one of `CONNECT_ERRORS`."""
    # OpenSSL's own errors have more to them than those that Python raises in its name.
    if isinstance(error, ssl.SSLCertVerificationError):
        why = str(getattr(error, "verify_message", "") or error).removesuffix(".")
        return ConnectFailure(
            UpstreamFailure.TLS,
            502,
            f"the upstream's certificate is not valid: {why}",
            f"certificate verify failed: {why}{_setting(getattr(error, 'verify_code', 0))}",
        )
    if isinstance(error, ssl.SSLError):
        why = getattr(error, "reason", "") or str(error)
        hint = "; upstream.url" if why in NO_TLS_SPOKEN else ""
        return ConnectFailure(
            UpstreamFailure.TLS, 502, f"no TLS with the upstream: {why}", f"no TLS: {why}{hint}"
        )
    if isinstance(error, ConnectTimeoutError):
        return ConnectFailure(
            UpstreamFailure.CONNECT_TIMEOUT,
            504,
            str(error),
            f"no {error.step} within {error.limit_s:g} s",
        )
    why = str(getattr(error, "strerror", "") or error)
    code = getattr(error, "errno", None)
    if isinstance(code, int) and code in errno.errorcode and not isinstance(error, socket.gaierror):
        why = os.strerror(code)  # loops have words of their own, such as "Connect call failed"
    return ConnectFailure(
        UpstreamFailure.CONNECT,
        502,
        f"no connection to the upstream: {why}",
        why[:1].lower() + why[1:] if why[1:2].islower() else why,
    )


def _setting(verify_code: int) -> str:
    """The setting that is likely wrong where a certificate is refused so."""
    if verify_code in CA_CODES:
        return "; upstream.tls.caFile"
    if verify_code in NAME_CODES:
        return "; upstream.tls.serverName"
    return ""
