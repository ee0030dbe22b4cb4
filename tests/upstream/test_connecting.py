"""Connections to servers that are there, or are not, and why there is none."""

from __future__ import annotations

import socket
import ssl

import pytest

from apfproxy.upstream.connecting import (
    CONNECTION,
    TLS_HANDSHAKE,
    ConnectTimeoutError,
    connect_failure,
    connected_socket,
)
from apfproxy.upstream.counters import UpstreamFailure
from tests.end_to_end.scene import on_uvloop

CONNECT, TLS, LATE = (
    UpstreamFailure.CONNECT,
    UpstreamFailure.TLS,
    UpstreamFailure.CONNECT_TIMEOUT,
)
NO, BAD = "no connection to the upstream: ", "the upstream's certificate is not valid: "
ODD = ssl.SSLError(1, "odd")
NO_ISSUER = "unable to get local issuer certificate"
REFUSED = (CONNECT, 502, f"{NO}Connection refused", "connection refused")
FAILED = "certificate verify failed: "


def not_verified(code: int, message: str) -> ssl.SSLCertVerificationError:
    """As OpenSSL has it of a certificate that it refuses."""
    error = ssl.SSLCertVerificationError("odd")
    error.verify_code, error.verify_message = code, message
    return error


def not_tls(reason: str) -> ssl.SSLError:
    """As OpenSSL has it of bytes that it cannot read."""
    error = ssl.SSLError(1, "odd")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ODD, (TLS, 502, f"no TLS with the upstream: {ODD}", f"no TLS: {ODD}")),
        (
            not_tls("WRONG_VERSION_NUMBER"),
            (
                *(TLS, 502, "no TLS with the upstream: WRONG_VERSION_NUMBER"),
                "no TLS: WRONG_VERSION_NUMBER; upstream.url",
            ),
        ),
        (ConnectionRefusedError(111, "Connection refused"), REFUSED),
        (ConnectionRefusedError(111, "Connect call failed ('::1', 1)"), REFUSED),
        (OSError("DNS is away"), (CONNECT, 502, f"{NO}DNS is away", "DNS is away")),
        (OSError(), (CONNECT, 502, NO, "")),
        (UnicodeError("label too long"), (CONNECT, 502, f"{NO}label too long", "label too long")),
        (
            ConnectTimeoutError(CONNECTION, 5),
            (
                *(LATE, 504, "no connection to the upstream within 5 s (upstream.connectTimeout)"),
                "no connection within 5 s",
            ),
        ),
        (
            ConnectTimeoutError(TLS_HANDSHAKE, 0.5),
            (
                *(LATE, 504),
                "no TLS handshake with the upstream within 0.5 s (upstream.tls.handshakeTimeout)",
                "no TLS handshake within 0.5 s",
            ),
        ),
        (
            not_verified(20, NO_ISSUER),
            (TLS, 502, BAD + NO_ISSUER, f"{FAILED}{NO_ISSUER}; upstream.tls.caFile"),
        ),
        (
            not_verified(62, "Hostname mismatch."),
            (
                *(TLS, 502, f"{BAD}Hostname mismatch"),
                f"{FAILED}Hostname mismatch; upstream.tls.serverName",
            ),
        ),
        (
            not_verified(10, "certificate has expired"),
            (TLS, 502, f"{BAD}certificate has expired", f"{FAILED}certificate has expired"),
        ),
    ],
    ids=[
        *("tls", "plain-http", "refused", "refused-by-a-loop", "acronym", "without-words", "name"),
        *("stalls", "handshake-stalls", "other-ca", "other-name", "expired"),
    ],
)
def test_failures(error: Exception, expected: tuple[UpstreamFailure, int, str, str]) -> None:
    """Each is told from the others: to clients, and to operators with the setting to look at."""
    found = connect_failure(error)

    assert expected == (found.kind, found.code, found.reason, found.problem)


@on_uvloop
async def test_address_where_nobody_listens() -> None:
    """The error is that of the last address of the host."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        await connected_socket("127.0.0.1", port)
