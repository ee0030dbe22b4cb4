"""Tests of `apfproxy.apiserver.watches`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.apiserver.site import SCHEMAS, flow_schema

if TYPE_CHECKING:
    from tests.apiserver.site import Site


async def test_from_now(site: Site) -> None:
    """A watch begins with what is there and goes on with what happens."""
    await site.send("POST", SCHEMAS, flow_schema("a"))
    async with site.watch(SCHEMAS) as events:
        assert ("ADDED", "a") == await events.seen()
        await site.send("POST", SCHEMAS, flow_schema("b"))
        assert ("ADDED", "b") == await events.seen()
        await site.send("DELETE", f"{SCHEMAS}/a")
        assert ("DELETED", "a") == await events.seen()
