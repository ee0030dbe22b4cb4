"""Connections to servers that are there, or are not, and why there is none."""

from __future__ import annotations

import asyncio
import contextlib
import gc
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

CONNECT, TLS, LATE = (UpstreamFailure.CONNECT, UpstreamFailure.TLS, UpstreamFailure.CONNECT_TIMEOUT)
NO = "no connection to the upstream: "
ODD = ssl.SSLError(1, "odd")
REFUSED = (CONNECT, 502, f"{NO}Connection refused", "connection refused")


def not_tls(reason: str) -> ssl.SSLError:
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
                *(TLS, 502, "no TLS with the upstream: the server does not speak it"),
                "no TLS: the server does not speak it; upstream.url",
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
    ],
    ids=[
        *("tls", "plain-http", "refused", "refused-by-a-loop", "acronym", "without-words", "name"),
        *("stalls", "handshake-stalls"),
    ],
)
def test_failures_are_told_apart_for_clients_and_operators(
    error: Exception, expected: tuple[UpstreamFailure, int, str, str]
) -> None:
    found = connect_failure(error)

    assert expected == (found.kind, found.code, found.reason, found.problem)


@on_uvloop
async def test_address_where_nobody_listens() -> None:
    """The error is raised, and nothing keeps it until the next garbage collection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(ConnectionRefusedError):
            await connected_socket("127.0.0.1", port)
            pytest.fail("somebody listens")
        await asyncio.sleep(0)  # the loop forgets its call
        errors = [each for each in gc.get_objects() if isinstance(each, ConnectionRefusedError)]
        assert not [each for each in errors if each.__traceback__]
    finally:
        gc.enable()
