"""The kinds that are kept as clients write them are answered as kube-apiserver does."""

from __future__ import annotations

import asyncio

from tests.apiserver.site import Site
from tests.conformance.recording import PLAIN_KINDS, exchanges
from tests.conformance.replaying import compared
from tests.conformance.steps import Server


async def test_answers_are_as_recorded() -> None:
    """Every recorded step is answered as kube-apiserver answered it."""
    site = Site()
    await site.start()
    try:
        server = Server(f"http://127.0.0.1:{site.port}")
        differences = await asyncio.to_thread(compared, server, list(exchanges(PLAIN_KINDS)))
    finally:
        await site.stop()

    assert ([], set()) == differences
