"""Steering new connections past sockets from which nobody accepts."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from apfproxy.app.steering import program, steer
from apfproxy.base.sockets import joined, listening_sockets
from apfproxy.settings import Address

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CONNECTIONS = 64


@contextlib.contextmanager
def closing(sockets: Sequence[socket.socket]) -> Iterator[None]:
    """Close sockets at the end."""
    try:
        yield
    finally:
        for each in sockets:
            each.close()


def accepted(listener: socket.socket) -> int:
    """How many connections wait at a socket, which are taken."""
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            count += 1
    return count


def counts(group: Sequence[socket.socket]) -> list[int]:
    """How many of some new connections each socket gets."""
    clients = [socket.create_connection(group[0].getsockname()) for _ in range(CONNECTIONS)]
    with closing(clients):
        return [accepted(each) for each in group]


async def test_steer() -> None:
    """New connections go to those that are chosen, and to all if there are none."""
    (first,) = await listening_sockets(Address(host="127.0.0.1", port=0), 256, is_group=True)
    group = [first, *joined([first], 256), *joined([first], 256)]
    with closing(group):
        steer(group, [2])
        assert [0, 0, CONNECTIONS] == counts(group)
        steer(group, [0, 1])
        some = counts(group)
        assert 0 == some[2]
        assert CONNECTIONS == sum(some)
        steer(group, [])
        steer(group, [0, 1, 2])
        assert CONNECTIONS == sum(counts(group))


async def test_kernel_that_cannot(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said, for whoever looks for it, and connections wait."""
    caplog.set_level("DEBUG")
    monkeypatch.setattr("apfproxy.app.steering.SO_ATTACH_REUSEPORT_CBPF", 9999)
    (first,) = await listening_sockets(Address(host="127.0.0.1", port=0), 8, is_group=True)
    group = [first, *joined([first], 8)]
    with closing(group):
        steer(group, [1])

    assert "not steered" in caplog.text


async def test_older_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot detach a program gets another one, which chooses all."""
    monkeypatch.setattr("apfproxy.app.steering.SO_DETACH_REUSEPORT_BPF", 9999)
    (first,) = await listening_sockets(Address(host="127.0.0.1", port=0), 256, is_group=True)
    group = [first, *joined([first], 256)]
    with closing(group):
        steer(group, [1])
        steer(group, [0, 1])
        some = counts(group)

    assert min(some) > 0


@pytest.mark.parametrize("chosen", [[0], [3, 5], list(range(127))])
def test_program(chosen: list[int]) -> None:
    """Each number that can be drawn returns one of the chosen."""
    code = list(struct.iter_unpack("HBBI", program(chosen)))
    found = []
    for drawn in range(len(chosen)):
        place = 2
        while code[place][0] != 0x06:
            place += 1 + (code[place][1] if code[place][3] == drawn else code[place][2])
        found.append(code[place][3])

    assert chosen == found
    assert len(chosen) == code[1][3]
