"""h2load: many requests at once over few connections, each with its response."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.http2.counterpart import answer
from tests.end_to_end.http2.site import Site
from tests.end_to_end.programs import installed
from tests.end_to_end.scene import NARROW, Setup, on_uvloop

if TYPE_CHECKING:
    from pathlib import Path

REQUESTS, CONNECTIONS, STREAMS = 2000, 4, 50
DEEP = NARROW.replace("queueLengthLimit: 2", f"queueLengthLimit: {CONNECTIONS * STREAMS}")
"""All that is under way at once fits into the queue."""
DONE = re.compile(r"(\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout")


@pytest.mark.parametrize(
    ("seats", "body_bytes", "is_tls"),
    [
        pytest.param(600, 0, False, id="cleartext"),
        pytest.param(3, 20_000, True, id="tls-bodies-queue"),
    ],
)
@on_uvloop
async def test_nothing_is_lost(tmp_path: Path, seats: int, body_bytes: int, is_tls: bool) -> None:
    """Also requests that wait for seats get their responses, on connections that stay."""
    site = Site(tmp_path)
    body = tmp_path / "body"
    body.write_bytes(b"x" * body_bytes)
    posted = ("--data", str(body)) if body_bytes else ()
    async with site.running(replace(Setup(objects=DEEP), seats=seats), is_tls=is_tls) as scene:
        scene.upstream.answer_with(answer)
        process = await asyncio.create_subprocess_exec(
            installed("h2load"),
            *("--requests", str(REQUESTS), "--clients", str(CONNECTIONS)),
            *("--max-concurrent-streams", str(STREAMS), *posted, f"{site.url(scene)}/echo"),
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await process.communicate()
        counts = scene.process.cluster.counters.listener.http2

    assert 0 == process.returncode, said.decode()
    found = DONE.search(said.decode())
    assert found is not None, said.decode()
    assert (REQUESTS, REQUESTS, 0, 0, 0) == tuple(map(int, found.groups()))
    assert f"status codes: {REQUESTS} 2xx" in said.decode()
    assert (CONNECTIONS, REQUESTS) == (counts.connections, counts.requests)
