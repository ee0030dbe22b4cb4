"""Listening sockets, opened by the process or by somebody else."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING

import pytest

from apfproxy.base import listeners as module
from apfproxy.base.errors import OperatorError
from apfproxy.base.listeners import ADMIN, LISTEN, Listeners, close, of_parent, of_systemd
from apfproxy.settings import Address

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ANY = Address(host="127.0.0.1", port=0)
FIRST = 700
"""A descriptor beyond those that a process of tests has."""


@contextlib.contextmanager
def descriptors(*, listen: bool = True) -> Iterator[list[int]]:
    """Three descriptors in a row of one socket; anyone who takes them closes them."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        if listen:
            opened.listen()
        found = [os.dup2(opened.fileno(), FIRST + number) for number in range(3)]
        try:
            yield found
        finally:
            for each in found:
                with contextlib.suppress(OSError):
                    os.close(each)


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def told(count: int, names: str | None = None, pid: int | None = None) -> dict[str, str]:
    environment = {"LISTEN_PID": str(pid or os.getpid()), "LISTEN_FDS": str(count), "PATH": "/"}
    return environment if names is None else {**environment, "LISTEN_FDNAMES": names}


async def test_opened(tmp_path: Path) -> None:
    path = tmp_path / "admin"
    listeners = Listeners()
    opened = [
        *await listeners.open(LISTEN, ANY, 5, 0o600),
        *await listeners.open(ADMIN, Address.unix(str(path)), 5, 0o600),
    ]
    listeners.serve()
    was_there = path.exists()
    listeners.give_up()
    close(opened)

    assert (True, False) == (was_there, path.exists())


@pytest.mark.parametrize(
    ("names", "flags"),
    [
        ("admin:a.socket:connection", [ADMIN, LISTEN, LISTEN]),
        ("a", [LISTEN, LISTEN, LISTEN]),
        (None, [LISTEN, LISTEN, LISTEN]),
    ],
)
async def test_of_systemd(
    monkeypatch: pytest.MonkeyPatch, names: str | None, flags: list[str]
) -> None:
    """Names tell what they are for, whatever the settings say; children get none of it."""
    monkeypatch.setattr(module, "FIRST_DESCRIPTOR", FIRST)
    environment = told(3, names)
    with descriptors() as numbers:
        listeners = of_systemd(environment)
        was_given = listeners.was_given(ADMIN)
        inherited = [os.get_inheritable(each) for each in numbers]
        found = await listeners.open(LISTEN, Address(host="9.9.9.9", port=1), 5, 0o600)
        written = listeners.written(LISTEN)
        listeners.serve()
        left = [is_open(each) for each in numbers]
        listeners.give_up()
        close(found)

    assert {"PATH": "/"} == environment
    assert [False] * 3 == inherited
    assert [each == LISTEN for each in flags] == left
    assert (ADMIN in flags) == was_given
    assert written.startswith("127.0.0.1:")


async def test_of_the_parent(tmp_path: Path) -> None:
    path = tmp_path / "listen"
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(path))
        listeners = of_parent([os.dup(opened.fileno())])
        (found,) = await listeners.open(LISTEN, Address.unix(str(path)), 5, 0o600)
        listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        listeners.serve()
        listeners.give_up()
        found.close()

    assert listens
    assert path.exists()


@pytest.mark.parametrize("environment", [{}, told(1, pid=1), {**told(1), "LISTEN_FDS": "many"}])
def test_of_nobody(environment: dict[str, str]) -> None:
    listeners = of_systemd(environment)

    assert not listeners.was_given(LISTEN)


def test_what_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_DESCRIPTOR", FIRST)
    with descriptors(listen=False) as numbers:
        with pytest.raises(OperatorError, match=r"ListenStream= and Accept=no"):
            of_systemd(told(1))
        for each in numbers[1:]:
            os.close(each)
    for count in (1, 10**12):
        with pytest.raises(OperatorError, match="descriptor 700 was given to listen: "):
            of_systemd(told(count))
