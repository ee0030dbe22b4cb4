"""TLS towards clients: each connection waits behind a gate until its handshake is through.

1. A handshake counts as a connection, from the moment it is accepted.
2. Each takes the certificate of the moment, so that a new one needs no new listener.
3. One that stalls is cut after a time; whatever goes wrong is counted, and gives the count back.
4. What the client sends right behind its handshake is the start of its first request.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, cast

from apfproxy.proxy.counters import HandshakeFailure
from apfproxy.proxy.downstream import DownstreamConnection
from apfproxy.proxy.limits import address_of, reset
from apfproxy.proxy.read_buffer import READ_BUFFER, READ_BYTES, READ_VIEW
from apfproxy.tasks import spawn

if TYPE_CHECKING:
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.tls import ServerTls

log = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_S = 30.0
"""For the client to take what is left, and to say that it saw the end; the loop's own default."""
MAX_EARLY_BYTES = 1 << 20
"""Behind a handshake, in the same turn of the loop; the kernel's buffers hold less."""
ENCRYPTED_HIGH_WATER_BYTES = 16384
"""One record: behind it waits what the connection itself may hold."""


class Gate(asyncio.BufferedProtocol):
    """One connection during its handshake.

    Args:
        context: The listener's.
        server_tls: Has the certificate of the moment.
        handshakes: Has the gate while its handshake goes on.
    """

    __slots__ = (
        "_address",
        "_context",
        "_early",
        "_handshakes",
        "_has_ended",
        "_is_lost",
        "_server_tls",
        "_task",
        "_transport",
    )

    def __init__(self, context: Context, server_tls: ServerTls, handshakes: set[Gate]) -> None:
        self._context = context
        self._server_tls = server_tls
        self._handshakes = handshakes
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None]
        self._address = ""
        self._early = b""
        self._has_ended = False
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._address = address_of(transport)
        if self._context.limits.admit(self._address) is not None:
            # There is no way to say why before the handshake, which is what costs most.
            reset(self._transport)
            return
        self._transport.pause_reading()
        self._transport.set_write_buffer_limits(high=ENCRYPTED_HIGH_WATER_BYTES)
        self._handshakes.add(self)
        self._task = spawn(self._pass_through(), name="TLS handshake")

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002  the protocol's signature
        return READ_BUFFER

    def buffer_updated(self, nbytes: int) -> None:
        self._early += READ_VIEW[:nbytes].tobytes()
        if len(self._early) > MAX_EARLY_BYTES:
            self._transport.abort()

    def eof_received(self) -> None:
        self._has_ended = True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  either way it is gone
        self._is_lost = True

    def cut(self) -> None:
        """End the connection at once."""
        self._task.cancel()

    async def _pass_through(self) -> None:
        """Shake hands, then make room for the connection proper."""
        context, server_tls = self._context, self._server_tls
        secured: asyncio.Transport | None = None
        try:
            secured = await context.loop.start_tls(
                self._transport,
                self,
                server_tls.context,
                server_side=True,
                ssl_handshake_timeout=server_tls.handshake_timeout_s,
                ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
            )
        except OSError as error:
            self._fail(failure_of(error), error)
        finally:
            self._handshakes.discard(self)
            if secured is None or self._is_lost or secured.is_closing():
                self._transport.abort()
                context.limits.release(self._address)
                context.on_connection_closed()
                if secured is not None:
                    self._fail(HandshakeFailure.CLOSED, None)
                secured = None
        if secured is not None:
            self._hand_over(secured)

    def _hand_over(self, secured: asyncio.Transport) -> None:
        connection = DownstreamConnection(self._context, self._address)
        secured.set_protocol(connection)
        connection.connection_made(secured)
        for start in range(0, len(self._early), READ_BYTES):
            piece = self._early[start : start + READ_BYTES]
            READ_BUFFER[: len(piece)] = piece
            connection.buffer_updated(len(piece))
        if self._has_ended:
            connection.eof_received()

    def _fail(self, reason: HandshakeFailure, error: OSError | None) -> None:
        self._context.counters.handshake_failures[reason] += 1
        log.debug("no TLS with %s: %s: %s", self._address, reason, error or "closed early")

    def __repr__(self) -> str:
        return f"<Gate before {self._address or 'nobody'}>"


def failure_of(error: OSError) -> HandshakeFailure:
    """The kind of what went wrong."""
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE" in reason:
            return HandshakeFailure.CERTIFICATE
        if isinstance(error, ssl.SSLEOFError) or "EOF" in reason:
            return HandshakeFailure.CLOSED
        return HandshakeFailure.PROTOCOL
    if isinstance(error, ConnectionAbortedError):
        return HandshakeFailure.TIMEOUT  # so the event loop names it
    return HandshakeFailure.CLOSED
