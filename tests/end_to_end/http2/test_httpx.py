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

    from tests.end_to_end.scene import Scene

AT_ONCE = 250
"""More than the streams of a connection, so that the client itself waits for some."""


def client_of(site: Site, scene: Scene) -> httpx.AsyncClient:
    """A client that speaks HTTP/2 over TLS."""
    context = client_context(site.authority)
    return httpx.AsyncClient(
        http1=False, http2=True, verify=context, base_url=site.url(scene), timeout=WAIT_S
    )


async def pieces() -> AsyncIterator[bytes]:
    """A large body of unknown length."""
    for _ in range(BIG_BYTES // len(PIECE)):
        yield PIECE


@on_uvloop
async def test_requests_at_once(tmp_path: Path) -> None:
    """Each gets its own answer, on one connection."""
    site = Site(tmp_path)
    async with site.running(is_tls=True) as scene, client_of(site, scene) as client:
        scene.upstream.answer_with(answer)
        answers = await asyncio.gather(
            *(client.get(f"/echo?number={number}") for number in range(AT_ONCE))
        )

        for number, got in enumerate(answers):
            line = f"GET /echo?number={number} HTTP/1.1"
            assert ("HTTP/2", 200, line) == (got.http_version, got.status_code, got.json()["line"])
        assert 1 == scene.process.cluster.counters.listener.http2.connections


@on_uvloop
async def test_large_bodies_at_once(tmp_path: Path) -> None:
    """Uploads and downloads share a connection, and none is mixed up or cut."""
    site = Site(tmp_path)
    async with site.running(is_tls=True) as scene, client_of(site, scene) as client:
        scene.upstream.answer_with(answer)
        ups = [client.post("/echo", content=pieces()) for _ in range(3)]
        downs = [client.get("/big") for _ in range(3)]
        got = await asyncio.gather(*ups, *downs)

    whole = PIECE * (BIG_BYTES // len(PIECE))
    digest = hashlib.sha256(whole).hexdigest()
    assert [(len(whole), digest)] * 3 == [
        (each.json()["bytes"], each.json()["sha256"]) for each in got[:3]
    ]
    larger = PIECE * (1 + BIG_BYTES // len(PIECE))
    assert [larger[:BIG_BYTES]] * 3 == [each.content for each in got[3:]]
