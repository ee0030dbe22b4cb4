"""Listening sockets that a parent keeps for its workers."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.listeners import LISTEN, Listeners
from apfproxy.settings import Address
from apfproxy.workers.parent import WorkerSockets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ANY = Address(host="127.0.0.1", port=0)


def names(descriptors: Sequence[int]) -> list[tuple[object, bool]]:
    found = []
    for each in descriptors:
        listener = socket.socket(fileno=each)
        listens = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        found.append((listener.getsockname(), bool(listens)))
        listener.detach()
    return found


async def test_each_has_its_own() -> None:
    sockets = WorkerSockets(Listeners())
    await sockets.open(ANY, 0o600, 3)
    first, second, third, again = [sockets.of(index) for index in (1, 2, 3, 1)]
    listened = [names(each) for each in (first, second, third)]
    port = sockets.port
    sockets.close()
    sockets.close()

    assert first == again
    assert 3 == len({*map(tuple, [first, second, third])})
    assert [[(("127.0.0.1", port), True)]] * 3 == listened
    assert f"127.0.0.1:{port}" == sockets.written
    assert sockets.port is None


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", ""])
async def test_rest(host: str) -> None:
    """A worker that rests has connections only once its next process listens; the last stays."""
    sockets = WorkerSockets(Listeners())
    await sockets.open(Address(host=host, port=0), 0o600, 2)
    port = sockets.port
    sockets.rest(1)
    sockets.rest(2)
    clients = [socket.create_connection((host or "localhost", port or 0)) for _ in range(8)]
    accepted = [socket.socket(fileno=each) for each in sockets.of(2)]
    number = sum(len(taken(each)) for each in accepted)
    for client in clients:
        client.close()
    for listener in accepted:
        listener.detach()
    joined = names(sockets.of(1))
    sockets.close()

    assert 8 == number
    assert {(port, False)} == {(address[1], listens) for address, listens in joined}  # type: ignore[index]  # of IP


def taken(listener: socket.socket) -> list[socket.socket]:
    found = []
    while True:
        try:
            found.append(listener.accept()[0])
        except BlockingIOError:
            return found
        found[-1].close()


async def test_unix(tmp_path: Path) -> None:
    """All share one socket, whose file is the listeners' to remove."""
    path = tmp_path / "listen"
    sockets = WorkerSockets(listeners := Listeners())
    await sockets.open(Address.unix(str(path)), 0o600, 2)
    one, other = sockets.of(1), sockets.of(2)
    sockets.rest(1)
    sockets.close()
    is_left = path.exists()
    listeners.give_up()

    assert one == other
    assert is_left
    assert not path.exists()


async def test_of_systemd() -> None:
    """All share what systemd has opened."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sockets = WorkerSockets(Listeners({LISTEN: [listener]}))
        await sockets.open(Address(host="", port=1), 0o600, 2)
        expected = [listener.fileno()]
        found = [sockets.of(index) for index in (1, 2)]
        sockets.rest(2)
        sockets.close()

    assert [expected, expected] == found
