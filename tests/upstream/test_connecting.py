"""Connections to servers that are there, or are not."""

from __future__ import annotations

import socket

import pytest

from apfproxy.upstream.connecting import connected_socket
from tests.end_to_end.scene import on_uvloop


@on_uvloop
async def test_address_where_nobody_listens() -> None:
    """The error is that of the last address of the host."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        await connected_socket("127.0.0.1", port)
