"""Servers that tests of blocking clients share, since each test has objects of its own names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.api_servers import PROXIED_HTTP2, api_servers, in_thread
from tests.end_to_end.kubectl import Kubectl, find_kubectl, minor_version
from tests.end_to_end.programs import installed
from tests.support.browser import chromium

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Chrome


FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            assert item.get_closest_marker("interpreted") is None, "tests/run leaves it out"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    installed("chromium")
    installed("chromedriver")
    with chromium(tmp_path_factory.mktemp("browser")) as driver:
        yield driver


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="session")
def servers(certificates: Path) -> Iterator[dict[str, str]]:
    """Two API servers, each behind a proxy, one of which speaks HTTP/2: name to URL."""
    with in_thread(api_servers(certificates)) as urls:
        yield urls


@pytest.fixture(scope="session")
def kubectl_home(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("kubectl")
    # Without a user kubectl asks for one where there is TLS.
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [
            {"name": "it", "cluster": {"certificate-authority": str(certificates / "ca.crt")}}
        ],
        "users": [{"name": "it", "user": {"token": "a"}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text(json.dumps(config))
    return home


@pytest.fixture
def kubectl(servers: dict[str, str], kubectl_home: Path, tmp_path: Path) -> Kubectl:
    """A client of the proxy over HTTP/2: client libraries speak HTTP/1.1."""
    program = find_kubectl()
    minor = minor_version(program, kubectl_home)
    return Kubectl(program, minor, servers[PROXIED_HTTP2], kubectl_home, tmp_path)
