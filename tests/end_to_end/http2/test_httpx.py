"""httpx, whose HTTP/2 is a library of its own, in Python."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

import httpx

from tests.end_to_end.http2.counterpart import BIG_BYTES, PIECE, answer
from tests.end_to_end.http2.site import Site
from tests.end_to_end.peer import WAIT_S
from tests.end_to_end.scene import on_uvloop
from tests.end_to_end.secure_peer import client_context

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

AT_ONCE = 250
"""More than the streams of a connection, so that the client itself waits for some."""
WHOLE = PIECE * (BIG_BYTES // len(PIECE))


async def pieces() -> AsyncIterator[bytes]:
    for _ in range(BIG_BYTES // len(PIECE)):
        yield PIECE


@on_uvloop
async def test_requests_at_once(tmp_path: Path) -> None:
    """Each gets its own response, on one connection; large uploads and downloads are whole."""
    site = Site(tmp_path)
    async with (
        site.running(is_tls=True) as scene,
        httpx.AsyncClient(
            http1=False,
            http2=True,
            verify=client_context(site.authority),
            base_url=site.url(scene),
            timeout=WAIT_S,
        ) as client,
    ):
        scene.upstream.answer_with(answer)
        small = await asyncio.gather(*(client.get(f"/echo?n={n}") for n in range(AT_ONCE)))
        ups = [client.post("/echo", content=pieces()) for _ in range(3)]
        large = await asyncio.gather(*ups, *(client.get("/big") for _ in range(3)))
        connections = scene.process.cluster.counters.listener.http2.connections

    assert 1 == connections
    for number, got in enumerate(small):
        line = f"GET /echo?n={number} HTTP/1.1"
        assert ("HTTP/2", 200, line) == (got.http_version, got.status_code, got.json()["line"])
    assert [(len(WHOLE), hashlib.sha256(WHOLE).hexdigest())] * 3 == [
        (each.json()["bytes"], each.json()["sha256"]) for each in large[:3]
    ]
    assert [(WHOLE + PIECE)[:BIG_BYTES]] * 3 == [each.content for each in large[3:]]
