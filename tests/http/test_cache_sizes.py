"""What is said of the memory that is kept is measured: it is never less than that."""

from __future__ import annotations

import gc
import ipaddress
import tracemalloc
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest

from apfproxy.http import request_head as request_head_module
from apfproxy.proxy import listener_context as listener_context_module
from apfproxy.settings import DownstreamSettings
from tests.proxy.fakes import Bench
from tests.proxy.test_downstream_work import NAMING, TRUSTED, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.base.bounded_cache import MemoryBudget

LINE = b"GET %b HTTP/1.1\r\n%b\r\n"
HOST = b"Host: a\r\n"
ENTRIES = 100

HEADS: dict[str, Callable[[int], bytes]] = {
    "small": lambda n: LINE % (b"/", b"Host: %06d\r\n" % n),
    "long": lambda n: LINE % (b"/", HOST + b"A: %06d%b\r\n" % (n, b"a" * 1900)),
    "sized": lambda n: (
        LINE % (b"/", HOST + b"Content-Length: 9\r\nA: %06d%b\r\n" % (n, b"a" * 1000))
    ),
    "token": lambda n: LINE % (b"/", HOST + b"Authorization: Bearer %06d%b\r\n" % (n, b"a" * 1900)),
    "groups": lambda n: (
        LINE % (b"/", HOST + b"Impersonate-User: %06d\r\n" % n + b"Impersonate-Group: aa\r\n" * 85)
    ),
    "extra": lambda n: (
        LINE
        % (
            b"/",
            HOST
            + b"X-Remote-User: %06d\r\n" % n
            + b"".join(b"X-Remote-Extra-%03d: a\r\n" % key for key in range(85)),
        )
    ),
    "naming": lambda n: (
        LINE
        % (
            b"/",
            HOST
            + b"X-API-Key: %06d%b\r\n" % (n, b"k" * 600)
            + b"Authorization: Basic %b\r\n" % b64encode(b"%06d:%b" % (n, b"p" * 500))
            + b"X-Client-Id: %06d%b\r\nX-Forwarded-For: 192.0.2.7\r\n" % (n, b"a" * 240),
        )
    ),
    "subprotocols": lambda n: (
        LINE
        % (
            b"/",
            HOST
            + b"B: %06d\r\n" % n
            + b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: "
            + b"aa," * 600
            + b"\r\n",
        )
    ),
}


@pytest.mark.parametrize("kind", HEADS)
def test_what_is_kept_takes_no_more_than_is_said(kind: str) -> None:
    """Of each kind of head that takes much for its bytes, and of typical ones."""
    trusted = (ipaddress.ip_network(TRUSTED),)
    with Bench(
        downstream=DownstreamSettings(identity_headers_from=trusted), authentication=NAMING
    ) as bench:
        heads = [HEADS[kind](number) for number in range(ENTRIES)]
        assert max(map(len, heads)) <= request_head_module.MAX_KEPT_FIELDS_BYTES
        read(bench, HEADS[kind](ENTRIES), address=TRUSTED)
        gc.collect()
        tracemalloc.start()
        for head in heads * 2:
            # As what comes from the network, in memory of its own.
            read(bench, bytes(bytearray(head)), address=TRUSTED)
        gc.collect()
        held_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        said = room_of(bench).taken

        assert held_bytes <= said <= 8 * held_bytes


def room_of(bench: Bench) -> MemoryBudget:
    """That of a data plane."""
    return bench.context.client_kinds._room  # noqa: SLF001  what is tested


def test_one_client_takes_no_more_than_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many different heads come, each twice, less is held than may be."""
    monkeypatch.setattr(listener_context_module, "KEPT_BYTES", 1 << 19)
    with Bench() as bench:
        tracemalloc.start()
        for number in range(400):
            for kind in ("token", "groups"):
                for _ in range(2):
                    read(bench, bytes(bytearray(HEADS[kind](number))))
        gc.collect()
        held_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert held_bytes < 1 << 20
        assert room_of(bench).taken <= 1 << 19
