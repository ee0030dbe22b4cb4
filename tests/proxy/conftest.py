"""Fixtures of the data plane's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.proxy.fakes import Bench

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A data plane with one seat and one idle connection to its upstream."""
    with Bench() as result:
        yield result
