"""The objects of a Kubernetes API as the settings name it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import HTTP, Address, EndpointAddress, ServiceSettings
from apfproxy.sources import service_endpoints as module
from apfproxy.sources.kubeconfig import ApiAccess
from apfproxy.sources.service_endpoints import ServicePort, service_endpoints

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    names = ("one", "two")
    content = {
        "current-context": "one",
        "contexts": [{"name": name, "context": {"cluster": name}} for name in names],
        "clusters": [
            {"name": name, "cluster": {"server": f"http://{name}.example"}} for name in names
        ],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(content))
    return str(path)


@pytest.mark.parametrize(
    ("server", "service", "expected"),
    [
        pytest.param(
            "https://one.example",
            ServiceSettings(name="kubernetes"),
            ["https://10.0.0.1:6443", "https://10.0.0.2:6443"],
            id="the-api-itself",
        ),
        pytest.param(
            "https://one.example",
            ServiceSettings(name="kubernetes", scheme=HTTP),
            [],
            id="without-tls",
        ),
        pytest.param(
            "http://127.0.0.1:8001", ServiceSettings(name="kubernetes"), [], id="by-a-plain-proxy"
        ),
        pytest.param(
            "https://one.example",
            ServiceSettings(name="kubernetes", namespace="team"),
            [],
            id="another-namespace",
        ),
        pytest.param("https://one.example", ServiceSettings(name="api"), [], id="another-service"),
    ],
)
async def test_servers_of_the_api(
    server: str, service: ServiceSettings, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only servers of the API itself are asked where the one of the kubeconfig fails.

    Others must not get the credentials.
    """
    monkeypatch.setattr(module, "access_of", lambda *_: ApiAccess(server=server))
    endpoints = service_endpoints(service)
    endpoints.found.put(
        [
            EndpointAddress(address=Address(host=host, port=6443, is_tls=True))
            for host in ("10.0.0.1", "10.0.0.2")
        ]
    )
    others = endpoints.reflector._api._others  # noqa: SLF001 - it is used after a failure only

    assert expected == list(others())


async def test_service(kubeconfig: str) -> None:
    settings = ServiceSettings(
        name="api", namespace="team", port="web", kubeconfig=kubeconfig, context="two"
    )
    endpoints = service_endpoints(settings)

    assert "Service team/api" == endpoints.name
    assert "http://two.example" in (endpoints.problem() or "")
    assert ServicePort(port="web", is_tls=True, server_name="api.team.svc") == endpoints._wanted  # noqa: SLF001 - known by certificates only
