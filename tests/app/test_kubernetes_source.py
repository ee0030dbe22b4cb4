"""The objects of a Kubernetes API as the settings name it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from apfproxy.app.kubernetes_source import kubernetes_objects, service_endpoints
from apfproxy.flowcontrol.controller import Controller
from apfproxy.settings import (
    HTTP,
    Address,
    EndpointAddress,
    FlowControlSettings,
    KubernetesSettings,
    ServiceSettings,
)
from apfproxy.sources import api_access
from apfproxy.sources.endpoint_slices import ServicePort
from apfproxy.sources.kubeconfig import ApiAccess, KubeconfigError
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from pathlib import Path

    from apfproxy.objects.decode import Problem


def ignore(_problems: tuple[Problem, ...], _dangling: tuple[str, ...]) -> None:
    """Take the outcome of a load."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """A kubeconfig with two contexts."""
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
    ("context", "writes_status", "expected"),
    [
        pytest.param(None, False, ("http://one.example", False), id="current"),
        pytest.param("two", True, ("http://two.example", True), id="chosen-and-writing"),
    ],
)
async def test_kubeconfig(
    kubeconfig: str, context: str | None, expected: tuple[str, bool], *, writes_status: bool
) -> None:
    """A context of a kubeconfig leads to the API."""
    settings = FlowControlSettings(
        kubernetes=KubernetesSettings(
            is_enabled=True, kubeconfig=kubeconfig, context=context, write_status=writes_status
        )
    )
    objects = kubernetes_objects(settings, Controller(VirtualClock(), 1, 0), ignore)

    assert expected == (objects.name, objects.status is not None)


async def test_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a kubeconfig it is the API of the pod's cluster."""
    monkeypatch.setattr(
        api_access,
        "in_cluster",
        lambda given, **_: ApiAccess(server=f"http://{given['POD']}"),
    )
    monkeypatch.setenv("POD", "here")
    settings = FlowControlSettings(kubernetes=KubernetesSettings(is_enabled=True))
    objects = kubernetes_objects(settings, Controller(VirtualClock(), 1, 0), ignore)

    assert "http://here" == objects.name


async def test_no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside a pod the operator is told what to give."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    settings = FlowControlSettings(kubernetes=KubernetesSettings(is_enabled=True))

    with pytest.raises(KubeconfigError, match="--kubeconfig FILE"):
        kubernetes_objects(settings, Controller(VirtualClock(), 1, 0), ignore)


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        pytest.param(ApiAccess(server="http://far.example:80"), (1, 0), id="far"),
        pytest.param(ApiAccess(server="http://127.0.0.1:8001"), (0, 0), id="this-machine"),
        pytest.param(ApiAccess(server="https://far.example"), (0, 0), id="https"),
        pytest.param(
            ApiAccess(server="https://far.example", is_unverified=True), (0, 1), id="unverified"
        ),
    ],
)
async def test_warnings(
    access: ApiAccess,
    expected: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An API that is reached without TLS over a network, or not verified, is warned about."""
    monkeypatch.setattr(api_access, "in_cluster", lambda _, **__: access)
    settings = FlowControlSettings(kubernetes=KubernetesSettings(is_enabled=True))
    kubernetes_objects(settings, Controller(VirtualClock(), 1, 0), ignore)

    assert expected == (
        caplog.text.count("not https"),
        caplog.text.count("insecure-skip-tls-verify"),
    )


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
    monkeypatch.setattr(api_access, "in_cluster", lambda _, **__: ApiAccess(server=server))
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
    """A Service is that of the chosen context's API, with the name that its servers show."""
    settings = ServiceSettings(
        name="api", namespace="team", port="web", kubeconfig=kubeconfig, context="two"
    )
    endpoints = service_endpoints(settings)

    assert "Service team/api" == endpoints.name
    assert "http://two.example" in (endpoints.problem() or "")
    assert ServicePort(port="web", is_tls=True, server_name="api.team.svc") == endpoints._wanted  # noqa: SLF001 - known by certificates only
