"""Tests of `apfproxy.apiserver.handlers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.apiserver.site import SCHEMAS, flow_schema

if TYPE_CHECKING:
    from tests.apiserver.site import Site


async def test_create_and_read(site: Site) -> None:
    """What is created is answered with 201, and read as it was answered."""
    created = await site.send("POST", SCHEMAS, flow_schema())
    read = await site.get(f"{SCHEMAS}/f")

    assert (201, 200) == (created.status, read.status)
    assert created.body == read.body
