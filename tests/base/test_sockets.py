"""Sockets that listen at an address."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.base import sockets
from apfproxy.base.rare_log import PERIOD_S
from apfproxy.base.sockets import (
    PORT_TRIES,
    DescriptorWatch,
    SocketFiles,
    described,
    is_unix,
    listening_sockets,
    port_of,
    probe_clients,
    serve_on,
)
from apfproxy.base.tasks import spawn
from apfproxy.settings import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextlib.contextmanager
def closing(sockets: list[socket.socket]) -> Iterator[list[socket.socket]]:
    try:
        yield sockets
    finally:
        for each in sockets:
            each.close()


def names(sockets: list[socket.socket]) -> set[str]:
    return {str(each.getsockname()[0]) for each in sockets}


async def test_no_host_is_every_address_with_one_port() -> None:
    with closing(await listening_sockets(Address(host="", port=0), 8)) as sockets:
        (port,) = {each.getsockname()[1] for each in sockets}
        assert names(sockets) <= {"0.0.0.0", "::"}  # noqa: S104 - on a port that no one knows
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
    create = socket.create_server

    def create_server(address: tuple[str, int], *, family: int, **more: Any) -> socket.socket:  # noqa: ANN401
        if family == socket.AF_INET6:
            raise OSError(code, "no IPv6")
        return create(address, family=family, **more)

    monkeypatch.setattr(socket, "create_server", create_server)
    with closing(await listening_sockets(Address(host="", port=0), 8)) as sockets:
        assert names(sockets) == {"0.0.0.0"}  # noqa: S104 - on a port that no one knows
    with pytest.raises(OSError, match=r"not supported|cannot assign"):
        await listening_sockets(Address(host="::1", port=0), 8)


@pytest.mark.parametrize("failures", [1, PORT_TRIES])
async def test_port_that_is_taken_at_the_second_address_is_chosen_again(
    monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    create = socket.create_server
    opened: list[socket.socket] = []

    def create_server(address: tuple[str, int], *, family: int, **more: Any) -> socket.socket:  # noqa: ANN401
        if family == socket.AF_INET6 and len(opened) <= failures:
            raise OSError(errno.EADDRINUSE, "taken")
        if family == socket.AF_INET6:  # the machine may have none
            return create(("127.0.0.1", 0), family=socket.AF_INET, **more)
        opened.append(create(address, family=family, **more))
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


async def test_port_that_is_taken_at_one_address_is_an_error() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OSError, match="address already in use") as caught,
    ):
        await listening_sockets(Address(host="", port=taken.getsockname()[1]), 8)

    assert caught.value.errno == errno.EADDRINUSE


class Closing(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


LOCAL = Address(host="127.0.0.1", port=0)


async def test_port_of_the_systems_choice_is_served() -> None:
    listeners = await listening_sockets(LOCAL, 5)
    servers = await serve_on(listeners, Closing, backlog=5)
    port = port_of(listeners)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert b"" == await reader.read()
    writer.close()
    inherited = listeners[0].getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    names = [described(each) for each in listeners]
    for server in servers:
        server.close()

    assert [f"127.0.0.1:{port}"] == names
    assert 1 == inherited


def probing(connection: socket.socket) -> list[int]:
    return [
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
        *(
            connection.getsockopt(socket.IPPROTO_TCP, each)
            for each in (
                socket.TCP_KEEPIDLE,
                socket.TCP_KEEPINTVL,
                socket.TCP_KEEPCNT,
                socket.TCP_USER_TIMEOUT,
            )
        ),
    ]


@pytest.mark.parametrize(
    ("idle_s", "timeout_s", "expected"),
    [
        pytest.param(60.0, 120.0, [1, 60, 30, 4, 180_000], id="defaults"),
        pytest.param(0.1, 0.25, [1, 1, 1, 4, 350], id="below-a-second"),
        pytest.param(7200.0, 7200.0, [1, 7200, 1800, 4, 14_400_000], id="most"),
    ],
)
def test_probed_clients(idle_s: float, timeout_s: float, expected: list[int]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        probe_clients(listener, idle_s, timeout_s)
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert expected == probing(accepted)


def test_clients_of_a_unix_socket_are_not_probed(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "a.sock"))
        probe_clients(listener, 1, 1)

        assert 0 == listener.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


async def test_unix_socket_has_its_mode_and_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    listeners = await listening_sockets(Address.unix(str(path)), 5, mode=0o640)
    servers = await serve_on(listeners, Closing, backlog=5)
    files = SocketFiles(listeners)
    reader, writer = await asyncio.open_unix_connection(path)
    assert b"" == await reader.read()
    writer.close()
    mode = stat.S_IMODE(path.stat().st_mode)
    name, port = described(listeners[0]), port_of(listeners)
    shown = repr(files)
    for server in servers:
        server.close()
    files.remove()
    files.remove()

    assert is_unix(listeners[0])
    assert (0o640, f"unix:{path}", None) == (mode, name, port)
    assert str(path) in shown
    assert not path.exists()


async def test_file_of_another_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    address = Address.unix(str(path))
    (first,) = await listening_sockets(address, 5)
    files = SocketFiles([first])
    first.close()
    (second,) = await listening_sockets(address, 5)  # replaces what a dead process has left
    os.utime(path, (1, 1))  # the same number may be the file's, at the same time
    files.remove()
    there = path.exists()
    left = SocketFiles([second])
    left.leave()
    left.remove()
    is_left = path.exists()
    gone = SocketFiles([second])
    path.unlink()
    gone.remove()
    none = SocketFiles([second])
    second.close()

    assert there
    assert is_left
    assert "<SocketFiles: none>" == repr(none)


async def test_socket_that_a_process_listens_on_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    address = Address.unix(str(path))
    (listener,) = await listening_sockets(address, 0)
    with listener:
        with pytest.raises(OSError, match="a running process listens there") as caught:
            await listening_sockets(address, 5)
        with pytest.raises(OSError, match="a running process listens there"):
            await listening_sockets(address, 5)

    assert errno.EADDRINUSE == caught.value.errno


@pytest.mark.parametrize(
    ("name", "problem"), [("file", "no socket"), ("nowhere/a.sock", "No such file or directory")]
)
async def test_file_of_another_kind_stays_and_a_folder_has_to_be_there(
    tmp_path: Path, name: str, problem: str
) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(OSError, match=problem):
        await listening_sockets(Address.unix(str(tmp_path / name)), 5)

    assert "kept" == (tmp_path / "file").read_text()


def opening(monkeypatch: pytest.MonkeyPatch, open_one: Callable[[], socket.socket]) -> None:
    monkeypatch.setattr(sockets, "socket", SimpleNamespace(socket=open_one))


def test_looks_without_a_descriptor_are_counted_and_rarely_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now_ns = [5]

    def full() -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    opening(monkeypatch, full)
    watch = DescriptorWatch(lambda: now_ns[0])
    for now_ns[0] in (5, 6, 5 + round(PERIOD_S * 1e9)):
        watch.look()

    assert 3 == watch.shortages
    assert 2 == len(caplog.messages)
    assert "no connection can be accepted or made: Too many open files" in caplog.messages[0]


async def test_look_that_fails_ends_no_watch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sockets, "LOOK_S", 0)
    looks = asyncio.Event()
    errors = [OSError(errno.EACCES, "not allowed")]

    def open_one() -> socket.socket:
        if errors:
            raise errors.pop()
        looks.set()
        return socket.socket()

    opening(monkeypatch, open_one)
    watch = DescriptorWatch(time.monotonic_ns)
    task = spawn(watch.run(), name="looking")
    await looks.wait()
    task.cancel()

    assert 0 == watch.shortages
    assert ["whether there are descriptors left cannot be told"] == caplog.messages
