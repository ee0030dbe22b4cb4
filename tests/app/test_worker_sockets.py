"""Listening sockets that a parent keeps for its workers."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from apfproxy.app.given_sockets import LISTEN, GivenSockets
from apfproxy.app.worker_sockets import WorkerSockets
from apfproxy.base.errors import OperatorError
from apfproxy.settings import Address

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ANY = Address(host="127.0.0.1", port=0)


def names(descriptors: Sequence[int]) -> list[object]:
    """Where descriptors listen."""
    found = []
    for each in descriptors:
        listener = socket.socket(fileno=each)
        found.append(listener.getsockname())
        listener.detach()
    return found


async def test_each_has_its_own() -> None:
    """Workers share the port, and have sockets of their own, until they are closed."""
    sockets = WorkerSockets()
    await sockets.open(ANY, 8, 0o600, 3, GivenSockets())
    heritages = [sockets.heritage(index) for index in (1, 2, 3, 1)]
    sockets.steer([1])
    sockets.steer([])
    listened = [names(each.all_descriptors) for each in heritages]
    written, port = sockets.written, sockets.port
    sockets.close()
    sockets.close()
    sockets.remove_files()

    first, *others, again = [each.descriptors[LISTEN] for each in heritages]
    assert first == again
    assert 3 == len({*map(tuple, [first, *others])})
    assert [[("127.0.0.1", port)]] * 4 == listened
    assert f"127.0.0.1:{port}" == written
    assert all(each.is_of_parent for each in heritages)
    assert (None, "no address") == (sockets.port, sockets.written)


async def test_port_that_is_taken() -> None:
    """Nobody joins the workers of another process."""
    sockets, others = WorkerSockets(), WorkerSockets()
    await others.open(ANY, 8, 0o600, 2, GivenSockets())
    taken = Address(host="127.0.0.1", port=others.port or 0)
    try:
        with pytest.raises(OperatorError, match=r"cannot listen on .*in use"):
            await sockets.open(taken, 8, 0o600, 2, GivenSockets())
    finally:
        others.close()

    assert sockets.port is None


async def test_unix(tmp_path: Path) -> None:
    """All share one socket, whose file the parent removes."""
    path = tmp_path / "listen"
    sockets = WorkerSockets()
    await sockets.open(Address.unix(str(path)), 8, 0o600, 2, GivenSockets())
    heritages = [sockets.heritage(index).descriptors for index in (1, 2)]
    sockets.steer([2])
    sockets.close()
    is_left = path.exists()
    sockets.remove_files()

    assert heritages[0] == heritages[1]
    assert is_left
    assert not path.exists()


async def test_of_systemd() -> None:
    """All share what systemd has opened."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        given = GivenSockets(sockets={LISTEN: [listener]}, is_of_systemd=True)
        sockets = WorkerSockets()
        await sockets.open(Address(host="", port=1), 8, 0o600, 2, given)
        expected = {LISTEN: [listener.fileno()]}
        found = [sockets.heritage(index).descriptors for index in (1, 2)]
        sockets.steer([2])
        sockets.close()

    assert [expected, expected] == found
