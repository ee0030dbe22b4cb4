"""Profiles of hypothesis, marks, and the protocols of scenes, for all tests."""

from __future__ import annotations

import functools
import os
from fnmatch import fnmatch
from pathlib import Path
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


FOLDER = Path(__file__).parent
NETS = (
    "conformance/*",
    "fuzz/*",
    "proxy/test_exchange_machine.py",
    "proxy/test_wrong_types.py",
    "flowcontrol/test_queue_set_machine.py",
    "flowcontrol/test_queue_set_plain.py",
    "fleet/test_ledger_machine.py",
    "fleet/test_ledger_states.py",
    "end_to_end/http2/test_h2spec.py",
    "end_to_end/http2/test_hostile_frames.py",
    "end_to_end/test_abandoned.py",
    "end_to_end/test_backpressure.py",
    "end_to_end/test_changes_under_load.py",
    "end_to_end/test_contained_errors.py",
    "end_to_end/test_deadlines.py",
    "end_to_end/test_drain.py",
    "end_to_end/test_early_answers.py",
    "end_to_end/test_flow_control.py",
    "end_to_end/test_forwarding.py",
    "end_to_end/test_held_bytes.py",
    "end_to_end/test_malformed_answers.py",
    "end_to_end/test_real_cluster.py",
    "end_to_end/test_servers_come_and_go.py",
    "end_to_end/test_settings_under_load.py",
    "end_to_end/test_slow_clients.py",
    "end_to_end/test_upgrades.py",
)
"""Files whose tests must never change in meaning: they find faults wherever the code moves."""

RECORDED = (
    "conformance/test_api_replay.py",
    "conformance/test_differential.py",
    "conformance/test_field_ownership.py",
)
"""Judges of the API server, which is never compiled, as the tests of the fleet's pure parts are."""


WHOLE = (
    *("apiserver/store/", "config/", "conformance/", "end_to_end/", "fuzz/"),
    *("asgi/test_frameworks.py", "base/test_build.py"),
    *("fleet/test_redis_store.py", "test_loadtest.py"),
    *("flowcontrol/test_queue_set_machine.py", "flowcontrol/test_queue_set_plain.py"),
    *("proxy/test_exchange_machine.py", "proxy/test_wrong_types.py"),
)
"""Places of whole servers and nets; `tests/run` looks for them nowhere else."""


@functools.cache
def place_of(path: Path) -> tuple[str, bool]:
    """The path below this folder, and whether it is a net."""
    place = path.relative_to(FOLDER).as_posix() if FOLDER in path.parents else ""
    return place, any(fnmatch(place, pattern) for pattern in NETS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the nets."""
    for item in items:
        place, is_net = place_of(item.path)
        is_whole = item.get_closest_marker("e2e") is not None
        is_about_sources = place.startswith("fleet/") or place in RECORDED
        if is_net:
            item.add_marker(pytest.mark.net)
        if is_net and is_about_sources and not is_whole:
            item.add_marker(pytest.mark.interpreted)
        elif is_net or is_whole:
            assert place.startswith(WHOLE), item


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what changes the program itself where that is compiled."""
    if item.get_closest_marker("interpreted") is not None and build.kind() == build.COMPILED:
        pytest.skip("changes functions that are compiled")


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> Iterator[str]:
    """Have the clients of a scene speak each protocol in turn."""
    before = SPOKEN.set(request.param)
    yield request.param
    SPOKEN.reset(before)
