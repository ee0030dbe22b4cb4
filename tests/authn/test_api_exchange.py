"""What clients of Kubernetes APIs have in common."""

from __future__ import annotations

import errno
import socket
import ssl
from unittest.mock import Mock

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from apfproxy.authn.upstream_api import explained, new_session

KEY = Mock(ssl=True, host="h", port=1)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            aiohttp.ClientConnectorCertificateError(KEY, ValueError("expired")),
            ("the API's certificate is no good: expired", False),
            id="certificate",
        ),
        pytest.param(
            aiohttp.ClientConnectorError(KEY, OSError(errno.ECONNREFUSED, "refused")),
            ("cannot connect: Connection refused", True),
            id="refused",
        ),
        pytest.param(
            aiohttp.ClientConnectorDNSError(KEY, socket.gaierror(-2, "Name not known")),
            ("cannot connect: Name not known", True),
            id="no-such-name",
        ),
        pytest.param(
            aiohttp.ClientConnectorSSLError(KEY, ssl.SSLError(1, "[SSL: WRONG_VERSION] wrong")),
            ("cannot connect: [SSL: WRONG_VERSION] wrong", True),
            id="no-tls-there",
        ),
        pytest.param(
            aiohttp.ClientConnectorError(KEY, ConnectionResetError()),
            ("cannot connect: the other side closed the connection", True),
            id="cut-in-the-handshake",
        ),
        pytest.param(
            aiohttp.ClientConnectorError(KEY, ConnectionAbortedError("the handshake is slow")),
            ("cannot connect: the handshake is slow", True),
            id="slow-handshake",
        ),
        pytest.param(aiohttp.ServerDisconnectedError(), ("the connection broke", True), id="cut"),
        pytest.param(aiohttp.ClientPayloadError("x"), ("the connection broke", True), id="half"),
        pytest.param(ConnectionResetError(), ("the connection broke", True), id="reset"),
        pytest.param(
            ValueError("Bearer secret"), ("the exchange went wrong: ValueError", False), id="odd"
        ),
    ],
)
def test_explained(error: Exception, expected: tuple[str, bool]) -> None:
    """An error says what happened and whether it may pass, and nothing of the request."""
    assert expected == explained(error, "the API")


async def test_no_tls_there() -> None:
    """TLS spoken to a server without it is told from a connection that is not permitted."""
    async with TestServer(web.Application()) as server, new_session() as session:
        url = str(server.make_url("/").with_scheme("https"))
        with pytest.raises(aiohttp.ClientConnectorSSLError) as caught:
            await session.get(url)

    assert explained(caught.value, "the API")[0].startswith("cannot connect: [SSL: ")


async def test_session_has_nothing_of_its_own() -> None:
    """Neither the environment nor an earlier answer decides anything."""
    async with new_session() as session:
        assert not session.trust_env
        assert not session.auto_decompress
        assert isinstance(session.cookie_jar, aiohttp.DummyCookieJar)
