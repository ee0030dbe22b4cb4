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


async def test_any_state_comes_whole(site: Site) -> None:
    """Who takes any state of a list gets all of it, whatever the limit."""
    for name in "abc":
        await site.send("POST", SCHEMAS, flow_schema(name))
    found = (await site.get(f"{SCHEMAS}?limit=2&resourceVersion=0")).body

    assert ["a", "b", "c"] == [item["metadata"]["name"] for item in found["items"]]
    assert "continue" not in found["metadata"]


async def test_shards(site: Site) -> None:
    """A list of a part says which, as the client wrote it; the parts make up the whole."""
    for name in "abcdef":
        await site.send("POST", SCHEMAS, flow_schema(name))
    whole = (await site.get(SCHEMAS)).body
    names = []
    for bounds in (
        "'0x0000000000000000','0x8000000000000000'",
        "'0x8000000000000000','0x10000000000000000'",
    ):
        selector = f"shardRange(object.metadata.uid,{bounds})"
        answer = (await site.get(f"{SCHEMAS}?shardSelector={selector}")).body
        names += [item["metadata"]["name"] for item in answer["items"]]
        assert {"selector": selector} == answer["metadata"]["shardInfo"]

    assert [item["metadata"]["name"] for item in whole["items"]] == sorted(names)
    assert "shardInfo" not in whole["metadata"]
