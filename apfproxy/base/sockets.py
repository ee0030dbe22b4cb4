"""Sockets that listen at an address: opened, served on, and given up at the end.

1. A host has one for each address that it stands for.  No host, as in `:8080`, stands for every
   address of the machine, of IPv4 and of IPv6.  Each of the two has a socket of its own, so that
   clients of IPv4 have addresses of IPv4.
2. The file of a Unix socket gets its mode before anybody can connect.
3. A file that a dead process has left is replaced.  That of a process that lives, or a file of
   another kind, stays as it is, and is an error.
4. A file is removed at the end, unless it is another one by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import math
import os
import select
import socket
import stat
import struct
from typing import TYPE_CHECKING

from apfproxy.base.address import UNIX_MODE, is_loopback
from apfproxy.base.rare_log import RareLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from apfproxy.base.address import Address

log = logging.getLogger(__name__)

EVERYWHERE = ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"))  # noqa: S104 - asked for
WITHOUT_IPV6 = frozenset((errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL))
PORT_TRIES = 32
"""Where the system chooses the port, the one of the first address may be taken at another."""
PROBES = 4
"""Probes without a response, spread over the time after which a client is gone."""
IN_USE = "a running process listens there"
NO_SOCKET = "there is a file that is no socket"
MAX_ACCEPTED_AT_ONCE = 256
PAUSE_S = 0.1
"""Before accepting is tried again, when the system has nothing left for it."""
HAS_EPOLL = hasattr(select, "epoll")
EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


async def listening_sockets(
    address: Address, backlog: int, *, mode: int = UNIX_MODE, is_group: bool = False
) -> list[socket.socket]:
    """Listen at an address, by sockets that do not block; OSError leaves none of them open.

    Port 0 becomes the same port at all addresses of the host.  The kernel holds up to `backlog`
    connections until they are accepted.  The mode is of a Unix socket's file.  In a group the
    kernel divides connections among it and other sockets of this process (SO_REUSEPORT).
    """
    if address.path:
        return _opened_unix(address.path, backlog, mode)
    host, port = address.host, address.port
    places: tuple[tuple[int, str], ...] = EVERYWHERE
    if host:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        places = tuple(dict.fromkeys((family, str(where[0])) for family, *_, where in found))
    for _ in range(PORT_TRIES - 1 if not port else 0):
        try:
            return _opened(places, 0, backlog, is_anywhere=not host, is_group=is_group)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    return _opened(places, port, backlog, is_anywhere=not host, is_group=is_group)


def _opened(
    places: tuple[tuple[int, str], ...],
    port: int,
    backlog: int,
    *,
    is_anywhere: bool,
    is_group: bool,
) -> list[socket.socket]:
    with _all_or_none() as sockets:
        for family, host in places:
            try:
                if is_group and port:
                    _see_free(family, host, port)
                opened = socket.create_server(
                    (host, port), family=family, backlog=backlog, reuse_port=is_group
                )
            except OSError as error:
                if is_anywhere and sockets and error.errno in WITHOUT_IPV6:
                    continue
                code = error.errno or 0
                raise OSError(code, os.strerror(code).lower()) from error
            sockets.append(opened)
            prepare(opened)
            port = port or int(opened.getsockname()[1])
    return sockets


@contextlib.contextmanager
def _all_or_none() -> Iterator[list[socket.socket]]:
    sockets: list[socket.socket] = []
    try:
        yield sockets
    except BaseException:
        for opened in sockets:
            opened.close()
        raise


def _see_free(family: int, host: str, port: int) -> None:
    """OSError if a process listens there: a group would share the connections with its group."""
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        probe.bind((host, port))


def joined(listeners: Sequence[socket.socket], backlog: int = 0) -> list[socket.socket]:
    """Listen once more where sockets of a group do; without a backlog they do not listen yet."""
    with _all_or_none() as sockets:
        for listener in listeners:
            sockets.append(opened := socket.socket(listener.family))
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if listener.family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened.bind(listener.getsockname())
            prepare(opened)
            if backlog:
                opened.listen(backlog)
    return sockets


def prepare(listener: socket.socket) -> None:
    """Let nothing block, and have vanished clients found out; accepted sockets inherit that."""
    listener.setblocking(False)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def probe_clients(listener: socket.socket, idle_s: float, timeout_s: float) -> None:
    """Set when silent clients are probed, for one connection or all accepted from now on.

    The first probe comes after `idle_s`; one that answers none for `timeout_s` is gone.
    """
    if is_unix(listener):
        return
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_KEEPIDLE": math.ceil(idle_s),
        "TCP_KEEPINTVL": math.ceil(timeout_s / PROBES),
        "TCP_KEEPCNT": PROBES,
        "TCP_USER_TIMEOUT": math.ceil((idle_s + timeout_s) * 1000),
    }
    set_tcp_options(listener, options)


def set_tcp_options(connection: socket.socket, options: Mapping[str, int]) -> None:
    for name, value in options.items():
        if (option := getattr(socket, name, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _opened_unix(path: str, backlog: int, mode: int) -> list[socket.socket]:
    _remove_stale(path)
    with _all_or_none() as sockets:
        sockets.append(listener := socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listener.bind(path)
        os.chmod(path, mode)  # noqa: PTH101 - one system call among others
        prepare(listener)
        listener.listen(backlog)
    return sockets


def _remove_stale(path: str) -> None:
    try:
        is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    if not is_socket:
        raise FileExistsError(errno.EEXIST, NO_SOCKET)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)  # noqa: PTH108 - as above
            return
        except BlockingIOError:
            pass  # it lives, and has much to do
    raise OSError(errno.EADDRINUSE, IN_USE)


async def serve_on(
    listeners: Sequence[socket.socket], make: Callable[[], asyncio.BaseProtocol], *, backlog: int
) -> list[asyncio.Server]:
    loop = asyncio.get_running_loop()
    servers = []
    for listener in listeners:
        create = loop.create_unix_server if is_unix(listener) else loop.create_server
        servers.append(await create(make, sock=listener, backlog=backlog))
    return servers


class Acceptor:
    """Accepts what comes to listening sockets, for who is to see connections before the loop does.

    `take` gets each connection, which it closes in the end; it raises nothing.  After `at_once`
    connections those that there are get their turn again.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        take: Callable[[socket.socket], None],
        now_ns: Callable[[], int],
        at_once: int = MAX_ACCEPTED_AT_ONCE,
    ) -> None:
        self._loop = loop
        self._take = take
        self._at_once = at_once
        self._log = RareLog(log, now_ns)
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        self.sockets: list[socket.socket] = []

    def listen(self, listeners: Iterable[socket.socket]) -> None:
        self.sockets.extend(listeners)
        for listener in self.sockets:
            self._loop.add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(self._at_once):
            try:
                client, _ = listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in EXHAUSTED:
                    text = "no connection can be accepted: %s"
                    self._log.log(logging.WARNING, "none left", text, error.strerror)
                    self._loop.remove_reader(listener)
                    self._pauses[listener] = self._loop.call_later(PAUSE_S, self._go_on, listener)
                    return
                continue  # that one connection is gone already
            self._take(client)

    def _go_on(self, listener: socket.socket) -> None:
        del self._pauses[listener]
        self._loop.add_reader(listener, self._accept, listener)

    def stop(self) -> list[socket.socket]:
        """Accept no more; returns the sockets, with what waits in them."""
        for listener in self.sockets:
            self._loop.remove_reader(listener)
        for pause in self._pauses.values():
            pause.cancel()
        self._pauses.clear()
        listeners, self.sockets = self.sockets, []
        return listeners


def are_local(listeners: Iterable[socket.socket]) -> bool:
    """Whether there are sockets, all on loopback addresses or Unix sockets."""
    names = [is_unix(each) or is_loopback(each.getsockname()[0]) for each in listeners]
    return bool(names) and all(names)


def is_unix(listener: socket.socket) -> bool:
    return listener.family == socket.AF_UNIX


def port_of(listeners: Iterable[socket.socket]) -> int | None:
    return next((each.getsockname()[1] for each in listeners if not is_unix(each)), None)


class SocketFiles:
    def __init__(self, listeners: Sequence[socket.socket]) -> None:
        self._files: dict[str, tuple[int, ...]] = {}
        for listener in listeners:
            path = listener.getsockname()
            if is_unix(listener) and isinstance(path, str) and path:
                with contextlib.suppress(FileNotFoundError):  # another was quicker
                    self._files[path] = _identity(path)

    def leave(self) -> None:
        self._files.clear()

    def remove(self) -> None:
        """Remove those that are still the same; harmless once done."""
        files, self._files = self._files, {}
        for path, identity in files.items():
            with contextlib.suppress(OSError):  # it is gone, or we may not: as after a crash
                if _identity(path) == identity:
                    os.unlink(path)  # noqa: PTH108 - as above


def _identity(path: str) -> tuple[int, ...]:
    status = os.lstat(path)
    # A file's number is given to another one soon after it is gone; nothing is written to a socket.
    return status.st_dev, status.st_ino, status.st_mtime_ns


def described(listener: socket.socket) -> str:
    where = listener.getsockname()
    if is_unix(listener):
        return f"unix:{where}"
    host, port = where[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


RESET = struct.pack("ii", 1, 0)
"""For SO_LINGER: closing drops what is not sent."""
NO_RESET = struct.pack("ii", 0, 0)
"""For SO_LINGER: the kernel sends the rest, as by default."""
MAPPED = "::ffff:"
UNKNOWN = "unknown"
UNIX_PEER = "unix:"
"""The address of all clients of a Unix socket, as in nginx; limits per address leave them out."""


def address_of(transport: asyncio.BaseTransport) -> str:
    """The address of a connection's peer: a mapped one as IPv4, without an IPv6 zone."""
    return folded(transport.get_extra_info("peername"))


def folded(peer: object) -> str:
    address = written(peer).partition("%")[0]
    if address.startswith(MAPPED) and "." in address:
        return address.removeprefix(MAPPED)
    return address


def written(peer: object) -> str:
    if isinstance(peer, tuple):
        return str(peer[0])
    # That of a Unix socket is a path, and mostly empty.
    return UNIX_PEER if isinstance(peer, str | bytes) else UNKNOWN


def reset(transport: asyncio.Transport) -> None:
    """Close at once, with a reset: nothing is kept for the peer, not even in the kernel."""
    hold_reset(transport)
    transport.abort()


def hold_reset(transport: asyncio.Transport, *, is_held: bool = True) -> None:
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):  # it may be gone
            linger = RESET if is_held else NO_RESET
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def reset_socket(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


LOOK_S = 1.0
NONE_LEFT = frozenset((errno.EMFILE, errno.ENFILE))


class DescriptorWatch:
    """Counts looks without a file descriptor left: uvloop resets connections without a word."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._log = RareLog(log, now_ns)
        self.shortages = 0

    def look(self) -> None:
        try:
            socket.socket().close()
        except OSError as error:
            if error.errno not in NONE_LEFT:
                raise
            self.shortages += 1
            text = (
                "no connection can be accepted or made: %s; raise the limit of open files"
                " (ulimit -n, LimitNOFILE=)"
            )
            self._log.log(logging.WARNING, "none left", text, error.strerror)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                self.look()
            except OSError:
                log.exception("whether there are descriptors left cannot be told")


class Disconnects:
    """Tells of peers that leave while nothing is read of them.

    A transport whose reading is paused tells nothing of its peer.  An epoll instance has the paused
    sockets and asks for the end of their streams only (EPOLLRDHUP), so it never wakes up for data;
    the loop watches that instance.

    Without epoll such peers are noticed when they are read again, or by a deadline.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll: select.epoll | None = None
        self._watched: dict[int, tuple[asyncio.Transport, Callable[[], None]]] = {}
        """By their descriptors."""
        self._descriptors: dict[asyncio.Transport, int] = {}
        """A transport that is closed has no descriptor to ask for."""

    def watch(self, transport: asyncio.Transport, on_disconnect: Callable[[], None]) -> None:
        """Call back, once, when the peer leaves; nothing of it is read from now on."""
        plain = transport.get_extra_info("socket")
        descriptor = -1 if plain is None else plain.fileno()
        if descriptor < 0 or not HAS_EPOLL:
            return
        if self._epoll is None:
            self._epoll = select.epoll()
            self._loop.add_reader(self._epoll.fileno(), self._on_events)
        self._epoll.register(descriptor, select.EPOLLRDHUP)
        self._watched[descriptor] = transport, on_disconnect
        self._descriptors[transport] = descriptor

    def forget(self, transport: asyncio.Transport) -> None:
        descriptor = self._descriptors.pop(transport, -1)
        watched = self._watched.get(descriptor)
        if watched is None or watched[0] is not transport:
            return  # or another has the descriptor by now
        del self._watched[descriptor]
        assert self._epoll is not None
        with contextlib.suppress(OSError):  # one that is closed is not registered any more
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        self._watched.clear()
        self._descriptors.clear()
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _on_events(self) -> None:
        assert self._epoll is not None
        for descriptor, _ in self._epoll.poll(0):
            watched = self._watched.get(descriptor)
            if watched is not None:
                transport, on_disconnect = watched
                self.forget(transport)
                on_disconnect()
