"""What all tests share: how much hypothesis tries, and that nothing it does depends on time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from apfproxy.base import build
from tests.end_to_end.http2_peer import PROTOCOLS, SPOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

settings.register_profile(
    "fast", max_examples=40, deadline=None, derandomize=True, database=None, print_blob=True
)
settings.register_profile(
    "deep", max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile(os.environ.get("APFPROXY_HYPOTHESIS", "fast"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what changes the program itself where that is compiled."""
    if item.get_closest_marker("interpreted") is not None and build.kind() == build.COMPILED:
        pytest.skip("changes functions that are compiled")


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> Iterator[str]:
    """What the clients of a scene speak: each in turn."""
    before = SPOKEN.set(request.param)
    yield request.param
    SPOKEN.reset(before)
