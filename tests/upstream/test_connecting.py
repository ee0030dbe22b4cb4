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

CONNECT, TLS = UpstreamFailure.CONNECT, UpstreamFailure.TLS
ODD = ssl.SSLError(1, "odd")
NO_ISSUER = "unable to get local issuer certificate"
LATE = UpstreamFailure.CONNECT_TIMEOUT


def not_verified(code: int, message: str) -> ssl.SSLCertVerificationError:
    """What OpenSSL raises of a certificate that it refuses."""
    error = ssl.SSLCertVerificationError("odd")
    error.verify_code, error.verify_message = code, message
    return error


def not_tls(reason: str) -> ssl.SSLError:
    """What OpenSSL raises of bytes that it cannot read."""
    error = ssl.SSLError(1, "odd")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            ODD,
            (TLS, 502, f"no TLS with the upstream: {ODD}", f"no TLS: {ODD}"),
            id="tls",
        ),
        pytest.param(
            not_tls("WRONG_VERSION_NUMBER"),
            (
                *(TLS, 502, "no TLS with the upstream: WRONG_VERSION_NUMBER"),
                "no TLS: WRONG_VERSION_NUMBER; upstream.url",
            ),
            id="plain-http",
        ),
        pytest.param(
            ConnectionRefusedError(111, "Connection refused"),
            (
                *(CONNECT, 502, "no connection to the upstream: Connection refused"),
                "connection refused",
            ),
            id="refused",
        ),
        pytest.param(
            ConnectionRefusedError(111, "Connect call failed ('::1', 1)"),
            (
                *(CONNECT, 502, "no connection to the upstream: Connection refused"),
                "connection refused",
            ),
            id="refused-by-a-loop",
        ),
        pytest.param(
            OSError("DNS is away"),
            (CONNECT, 502, "no connection to the upstream: DNS is away", "DNS is away"),
            id="acronym",
        ),
        pytest.param(
            OSError(), (CONNECT, 502, "no connection to the upstream: ", ""), id="without-words"
        ),
        pytest.param(
            UnicodeError("label too long"),
            (CONNECT, 502, "no connection to the upstream: label too long", "label too long"),
            id="name",
        ),
        pytest.param(
            ConnectTimeoutError(CONNECTION, 5),
            (
                *(LATE, 504, "no connection to the upstream within 5 s (upstream.connectTimeout)"),
                "no connection within 5 s",
            ),
            id="stalls",
        ),
        pytest.param(
            ConnectTimeoutError(TLS_HANDSHAKE, 0.5),
            (
                *(
                    LATE,
                    504,
                    "no TLS handshake with the upstream within 0.5 s"  # noqa: ISC004  one sentence
                    " (upstream.tls.handshakeTimeout)",
                ),
                "no TLS handshake within 0.5 s",
            ),
            id="handshake-stalls",
        ),
        pytest.param(
            not_verified(20, NO_ISSUER),
            (
                *(TLS, 502),
                f"the upstream's certificate is not valid: {NO_ISSUER}",
                f"certificate verify failed: {NO_ISSUER}; upstream.tls.caFile",
            ),
            id="other-ca",
        ),
        pytest.param(
            not_verified(62, "Hostname mismatch."),
            (
                *(TLS, 502, "the upstream's certificate is not valid: Hostname mismatch"),
                "certificate verify failed: Hostname mismatch; upstream.tls.serverName",
            ),
            id="other-name",
        ),
        pytest.param(
            not_verified(10, "certificate has expired"),
            (
                *(TLS, 502, "the upstream's certificate is not valid: certificate has expired"),
                "certificate verify failed: certificate has expired",
            ),
            id="expired",
        ),
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
