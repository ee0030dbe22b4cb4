"""Tests of `apfproxy.apiserver.app`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.apiserver.site import Site


async def test_version(site: Site) -> None:
    """The version says which Kubernetes this speaks like."""
    answer = await site.get("/version")

    assert (200, "1") == (answer.status, answer.body["major"])
