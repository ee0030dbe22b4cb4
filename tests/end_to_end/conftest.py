"""Servers that tests of blocking clients share, since each test has objects of its own names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.api_servers import api_servers, in_thread
from tests.end_to_end.kubectl import Targets, find_kubectl, minor_version

if TYPE_CHECKING:
    from collections.abc import Iterator


FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder run real components."""
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, str]]:
    """Two API servers, one behind the proxy: name to URL."""
    with in_thread(api_servers()) as urls:
        yield urls


@pytest.fixture(scope="session")
def targets(servers: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Targets:
    """Both, for kubectl."""
    program = find_kubectl()
    homes = tmp_path_factory.mktemp("kubectl")
    return Targets(program, minor_version(program, homes), servers, homes)
