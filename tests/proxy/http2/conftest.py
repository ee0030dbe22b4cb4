"""A data plane whose clients may speak HTTP/2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.proxy.fakes import Bench
from tests.proxy.http2.peer import CLEARTEXT

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def bench() -> Iterator[Bench]:
    """One with one seat and one idle upstream, which has nothing left when its clients are gone."""
    with Bench(downstream=CLEARTEXT) as result:
        yield result
        for connection in list(result.listener.connections):
            connection.leave()
        result.loop.run_ready()
        result.assert_at_rest()
