"""Listening sockets that somebody else has opened."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING

import pytest

from apfproxy.app import given_sockets as module
from apfproxy.app.given_sockets import ADMIN, LISTEN, GivenSockets, Heritage, given_sockets
from apfproxy.base.errors import OperatorError
from apfproxy.settings import Address

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Address(host="127.0.0.1", port=1)
ELSEWHERE = Address(host="127.0.0.1", port=2)
FIRST = 700
"""A descriptor beyond those that a process of tests has."""


@contextlib.contextmanager
def descriptors(*, listen: bool = True) -> Iterator[list[int]]:
    """Three descriptors in a row of one socket; whoever takes them closes them."""
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


def of_systemd(count: int, names: str | None = None, pid: int | None = None) -> dict[str, str]:
    """What systemd sets."""
    environment = {"LISTEN_PID": str(pid or os.getpid()), "LISTEN_FDS": str(count), "PATH": "/"}
    return environment if names is None else {**environment, "LISTEN_FDNAMES": names}


@pytest.mark.parametrize(
    ("names", "flags"),
    [
        ("admin:a.socket:connection", [ADMIN, LISTEN, LISTEN]),
        ("a", [LISTEN, LISTEN, LISTEN]),
        (None, [LISTEN, LISTEN, LISTEN]),
    ],
)
def test_of_systemd(monkeypatch: pytest.MonkeyPatch, names: str | None, flags: list[str]) -> None:
    """Names tell what they are for, whatever the settings say; children get none of it."""
    monkeypatch.setattr(module, "FIRST_DESCRIPTOR", FIRST)
    environment = of_systemd(3, names)
    with descriptors() as numbers:
        given = given_sockets(environment)
        inherited = [os.get_inheritable(each) for each in numbers]
        found = {flag: given.take(flag, HERE) for flag in (LISTEN, ADMIN)}
        again = given.take(LISTEN, HERE)
        taken = {flag: [each.detach() for each in found[flag]] for flag in found}

    assert {"PATH": "/"} == environment
    assert [False] * 3 == inherited
    expected = {
        flag: [number for number, each in zip(numbers, flags, strict=True) if each == flag]
        for flag in (LISTEN, ADMIN)
    }
    assert expected == taken
    assert [] == again
    assert given.is_of_systemd


@pytest.mark.parametrize(
    "environment", [{}, of_systemd(1, pid=1), {**of_systemd(1), "LISTEN_FDS": "many"}]
)
def test_of_nobody(environment: dict[str, str]) -> None:
    """What is for another process, or is nothing, is left alone."""
    given = given_sockets(environment)
    given.serve()

    assert GivenSockets() == given


def test_of_the_process_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A successor takes what is for its own addresses, closes others, and says that it serves."""
    monkeypatch.setenv("APFPROXY_SUCCESSION", "")
    ours, theirs = os.pipe()
    with descriptors() as numbers:
        listeners = [socket.socket(fileno=each) for each in numbers]
        heritage = Heritage.of(
            {LISTEN: listeners[:1], ADMIN: listeners[1:2], "other": listeners[2:]},
            {LISTEN: HERE, ADMIN: HERE, "other": None},
            is_of_systemd=False,
        )
        for each in listeners:
            each.detach()
        environment = heritage.told(theirs)
        given = given_sockets(environment)
        found = given.take(LISTEN, HERE)
        refused = given.take(ADMIN, ELSEWHERE)
        given.serve()
        given.serve()
        told = os.read(ours, 2)
        is_open = [_is_open(each) for each in numbers]
        for each in found:
            each.close()
    os.close(ours)

    assert numbers == heritage.all_descriptors
    assert {} == environment
    assert (1, []) == (len(found), refused)
    assert b"1" == told
    assert [True, False, False] == is_open
    assert not given.is_of_systemd


def test_the_process_before_was_killed() -> None:
    """The successor serves nevertheless: nobody else does."""
    ours, theirs = os.pipe()
    heritage = Heritage.of({}, {}, is_of_systemd=False)
    given = given_sockets(heritage.told(theirs))
    os.close(ours)
    given.serve()

    assert not _is_open(theirs)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_what_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket of a connection, or none at all, is refused with what to change."""
    monkeypatch.setattr(module, "FIRST_DESCRIPTOR", FIRST)
    with descriptors(listen=False) as numbers:
        with pytest.raises(OperatorError, match=r"ListenStream= and Accept=no"):
            given_sockets(of_systemd(1))
        for each in numbers[1:]:
            os.close(each)
    for count in (1, 10**12):
        with pytest.raises(OperatorError, match="descriptor 700 was given to listen: "):
            given_sockets(of_systemd(count))


@pytest.mark.parametrize("text", ["", "{}", '{"ready": "a"}', '{"ready": 999}'])
def test_broken_succession(text: str) -> None:
    """A variable that no process has set is refused."""
    with pytest.raises(OperatorError, match=r"APFPROXY_SUCCESSION: .*; only a process that is"):
        given_sockets({"APFPROXY_SUCCESSION": text})
