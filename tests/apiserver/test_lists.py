"""Tests of `apfproxy.apiserver.lists`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.apiserver.site import SCHEMAS, flow_schema

if TYPE_CHECKING:
    from tests.apiserver.site import Site


async def test_pages(site: Site) -> None:
    """A list in pages gives every object once, and says how many are left."""
    for name in "abc":
        await site.send("POST", SCHEMAS, flow_schema(name))
    first = (await site.get(f"{SCHEMAS}?limit=2")).body
    token = first["metadata"]["continue"]
    second = (await site.get(f"{SCHEMAS}?limit=2&continue={token}")).body

    assert ["a", "b"] == [item["metadata"]["name"] for item in first["items"]]
    assert ["c"] == [item["metadata"]["name"] for item in second["items"]]
    assert 1 == first["metadata"]["remainingItemCount"]
    assert "continue" not in second["metadata"]
