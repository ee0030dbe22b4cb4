"""Sockets that listen at an address."""

from __future__ import annotations

import contextlib
import errno
import socket
from typing import TYPE_CHECKING

import pytest

from apfproxy.listen_sockets import PORT_TRIES, listening_sockets
from apfproxy.settings import Address

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def closing(sockets: list[socket.socket]) -> Iterator[list[socket.socket]]:
    """Close them at the end."""
    try:
        yield sockets
    finally:
        for each in sockets:
            each.close()


def names(sockets: list[socket.socket]) -> set[str]:
    """The addresses that are listened on."""
    return {str(each.getsockname()[0]) for each in sockets}


async def test_one_address() -> None:
    """An address has one socket, and a port of its own."""
    with closing(await listening_sockets(Address(host="127.0.0.1", port=0), 8)) as sockets:
        (listener,) = sockets
        assert names(sockets) == {"127.0.0.1"}
        assert not listener.getblocking()
        with socket.create_connection(listener.getsockname()):
            pass


async def test_everywhere() -> None:
    """No host is every address, with the same port; IPv4 clients have IPv4 addresses."""
    with closing(await listening_sockets(Address(host="", port=0), 8)) as sockets:
        (port,) = {each.getsockname()[1] for each in sockets}
        assert names(sockets) <= {"0.0.0.0", "::"}  # noqa: S104 - on a port that nobody knows
        sockets[0].setblocking(True)
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, address = sockets[0].accept()
            accepted.close()
            assert address == client.getsockname()
        if len(sockets) > 1:
            with socket.create_connection(("::1", port)):
                pass


@pytest.mark.parametrize("code", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
async def test_machine_without_ipv6(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """IPv4 alone is listened on where there is nothing else."""
    create = socket.create_server

    def create_server(address: tuple[str, int], *, family: int, backlog: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(code, "no IPv6")
        return create(address, family=family, backlog=backlog)

    monkeypatch.setattr(socket, "create_server", create_server)
    with closing(await listening_sockets(Address(host="", port=0), 8)) as sockets:
        assert names(sockets) == {"0.0.0.0"}  # noqa: S104 - on a port that nobody knows
    with pytest.raises(OSError, match=r"not supported|cannot assign"):
        await listening_sockets(Address(host="::1", port=0), 8)


@pytest.mark.parametrize("failures", [1, PORT_TRIES])
async def test_port_that_is_taken_at_the_second(
    monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """A port that the system chose is chosen anew, a bounded number of times."""
    create = socket.create_server
    opened: list[socket.socket] = []

    def create_server(address: tuple[str, int], *, family: int, backlog: int) -> socket.socket:
        if family == socket.AF_INET6 and len(opened) <= failures:
            raise OSError(errno.EADDRINUSE, "taken")
        if family == socket.AF_INET6:  # the machine may have none
            return create(("127.0.0.1", 0), family=socket.AF_INET, backlog=backlog)
        opened.append(create(address, family=family, backlog=backlog))
        return opened[-1]

    monkeypatch.setattr(socket, "create_server", create_server)
    if failures == PORT_TRIES:
        with pytest.raises(OSError, match="address already in use"):
            await listening_sockets(Address(host="", port=0), 8)
        assert len(opened) == PORT_TRIES
    else:
        with closing(await listening_sockets(Address(host="", port=0), 8)) as sockets:
            assert len(sockets) == 2
        assert len(opened) == failures + 1
    assert {each.fileno() for each in opened} == {-1}


async def test_all_or_nothing() -> None:
    """A port that is taken at one of the addresses is an error, and nothing stays open."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OSError, match="address already in use") as caught,
    ):
        await listening_sockets(Address(host="", port=taken.getsockname()[1]), 8)

    assert caught.value.errno == errno.EADDRINUSE


async def test_name_that_is_none() -> None:
    """A name that stands for nothing is an error."""
    with pytest.raises(OSError, match=r"(?i)name|address"):
        await listening_sockets(Address(host="nowhere.invalid", port=0), 8)
