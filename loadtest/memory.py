"""What an open connection costs a proxy in memory: idle after one request, or carrying a watch.

Connections are opened one after the other, each by blocking calls, so nothing else grows
meanwhile: no burst, no queue, one busy upstream connection while idle ones are opened.
"""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from loadtest.contenders import start_contender
from loadtest.nginx_origin import start_nginx_origin
from loadtest.processes import LoadTestError, start_origin
from loadtest.wrk import FIELDS, TARGET

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from loadtest.processes import Process
    from loadtest.site import Site

WATCH_TARGET = "/api/v1/pods?watch=true"
WARM_UP = 300
"""Connections opened and closed again first, so that pools and caches are grown already."""

SETTLE_S = 2.0
"""Quiet time before memory is read; watches have given back their seats by then."""

ANSWER_WITHIN_S = 60.0

TARGETS = {"idle_bytes": 6 * 1024, "watch_bytes": 20 * 1024}
"""What apfproxy is to stay within: bytes per connection and per watch."""


def idle_bytes(proxy: Process, count: int, tls: ssl.SSLContext | None = None) -> float:
    """Measure memory per idle keep-alive connection.

    Args:
        proxy: A proxy that is new, before an origin that answers at once.
        count: How many connections to hold open.
        tls: What to speak TLS with.

    Returns:
        Bytes of the proxy's resident set per connection.

    Raises:
        LoadTestError: An answer did not come or was no success.
    """
    return _bytes_each(proxy, TARGET, b"\r\n\r\n", count, tls)


def watch_bytes(proxy: Process, count: int, tls: ssl.SSLContext | None = None) -> float:
    """Measure memory per open watch whose first event has come through.

    Args:
        proxy: A proxy that is new, before an origin that holds watches open.
        count: How many watches to hold open.
        tls: What to speak TLS with.

    Returns:
        Bytes of the proxy's resident set per watch.

    Raises:
        LoadTestError: An answer did not come or was no success.
    """
    return _bytes_each(proxy, WATCH_TARGET, b'"ADDED"', count, tls)


def _bytes_each(
    proxy: Process, target: str, until: bytes, count: int, tls: ssl.SSLContext | None
) -> float:
    fields = {"Host": f"127.0.0.1:{proxy.port}", **FIELDS}
    lines = [f"GET {target} HTTP/1.1", *(f"{name}: {text}" for name, text in fields.items())]
    request = "\r\n".join([*lines, "", ""]).encode()
    with ExitStack() as warm:
        for _ in range(min(count, WARM_UP)):
            warm.enter_context(_open(proxy, request, until, tls))
    time.sleep(SETTLE_S)
    before = proxy.rss_bytes()
    with ExitStack() as held:
        for _ in range(count):
            held.enter_context(_open(proxy, request, until, tls))
        time.sleep(SETTLE_S)
        return (proxy.rss_bytes() - before) / count


def _open(
    proxy: Process, request: bytes, until: bytes, tls: ssl.SSLContext | None
) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", proxy.port), timeout=ANSWER_WITHIN_S)
    try:
        if tls is not None:
            connection = tls.wrap_socket(connection, server_hostname="127.0.0.1")
        connection.sendall(request)
        received = _receive(connection, until)
    except TimeoutError as error:
        connection.close()
        raise LoadTestError(f"{proxy.name} did not answer within {ANSWER_WITHIN_S:g} s") from error
    except BaseException:
        connection.close()
        raise
    if not (received.startswith(b"HTTP/1.1 200 ") and until in received):
        connection.close()
        status = received.split(b"\r\n", 1)[0].decode(errors="replace")
        raise LoadTestError(f"{proxy.name} answered {status!r} instead of a whole 200")
    return connection


def _receive(connection: socket.socket, until: bytes) -> bytes:
    received = b""
    while until not in received:
        data = connection.recv(65536)
        received += data
        # What is looked for may never come in a refusal; its head says enough.
        is_refusal = b"\r\n\r\n" in received and not received.startswith(b"HTTP/1.1 200 ")
        if not data or is_refusal:
            break
    return received


def weigh(
    proxies: Sequence[str], site: Site, connections: int, watches: int
) -> dict[str, dict[str, float]]:
    """Measure each proxy's memory per idle connection and per open watch; print both.

    Args:
        proxies: Their names.
        site: Where the programs run.
        connections: How many idle ones; 0 leaves them out.
        watches: How many open ones; 0 leaves them out.

    Returns:
        Proxy to `idle_bytes` and `watch_bytes`.
    """
    weights: dict[str, dict[str, float]] = {}
    print(f"\n{'proxy':<10}{'KiB/idle connection':>21}{'KiB/open watch':>16}")
    for name in proxies:
        weights[name] = {}
        if connections:
            with start_nginx_origin(site) as origin:
                weights[name]["idle_bytes"] = _weigh_one(name, site, origin, connections)
        if watches:
            with start_origin(directory=site.directory, core=site.load_core) as origin:
                weights[name]["watch_bytes"] = _weigh_one(name, site, origin, watches)
        texts = [
            f"{weights[name][key] / 1024:.2f}" if key in weights[name] else "-"
            for key in ("idle_bytes", "watch_bytes")
        ]
        print(f"{name:<10}{texts[0]:>21}{texts[1]:>16}", flush=True)
    # With TLS most is what OpenSSL holds, in every proxy; compare with the others.
    judged = weights.get("apfproxy", {}) if site.tls is None else {}
    for key, measured in judged.items():
        verdict = "within" if measured <= TARGETS[key] else "ABOVE"
        what = "idle connection" if key == "idle_bytes" else "open watch"
        print(
            f"apfproxy: {measured / 1024:.2f} KiB per {what}, "
            f"{verdict} the target of {TARGETS[key] / 1024:g}"
        )
    return weights


def _weigh_one(name: str, site: Site, origin: Process, count: int) -> float:
    # A new process for each figure: memory that an earlier load left free would hide the growth.
    context = site.tls.client_context() if site.tls is not None else None
    with start_contender(name, site, origin.port) as proxy:
        if origin.name == "origin":
            return watch_bytes(proxy, count, context)
        return idle_bytes(proxy, count, context)
