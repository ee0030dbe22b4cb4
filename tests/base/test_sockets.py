"""Sockets that listen at an address."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.base import sockets
from apfproxy.base.rare_log import PERIOD_S
from apfproxy.base.sockets import (
    DescriptorWatch,
    SocketFiles,
    described,
    is_unix,
    listening_sockets,
    port_of,
    probe_clients,
    serve_on,
)
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
        assert names(sockets) <= {"0.0.0.0", "::"}  # noqa: S104 - on a port that no client knows
        with pytest.raises(OSError, match="address already in use"):
            await listening_sockets(Address(host="", port=port), 8)
        with socket.create_connection(("127.0.0.1", port)):
            pass
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


@pytest.mark.parametrize(
    ("idle_s", "timeout_s", "expected"),
    [(60.0, 120.0, [1, 60, 30, 4, 180_000]), (0.1, 0.25, [1, 1, 1, 4, 350])],
)
def test_probed_clients(idle_s: float, timeout_s: float, expected: list[int]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        probe_clients(listener, idle_s, timeout_s)
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert expected == [
                accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                *(
                    accepted.getsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{name}"))
                    for name in ("KEEPIDLE", "KEEPINTVL", "KEEPCNT", "USER_TIMEOUT")
                ),
            ]


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
    for server in servers:
        server.close()
    files.remove()
    files.remove()

    assert is_unix(listeners[0])
    assert (0o640, f"unix:{path}", None) == (mode, name, port)
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
    second.close()

    assert (True, True) == (there, path.exists())


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
