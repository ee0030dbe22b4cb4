"""Which cluster a request is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.proxy.fakes import Bench


def test_the_only_cluster(bench: Bench) -> None:
    """All requests are of it."""
    assert bench.context is bench.router.only
