"""Which APIs are those of the servers behind, any of which may then be asked."""

from __future__ import annotations

import pytest

from apfproxy.settings import Address, EndpointSettings, ServiceSettings, UpstreamSettings
from apfproxy.sources.servers_behind import ServersBehind

URLS: dict[str, str | None] = {"https://10.0.0.1:6443": None, "https://10.0.0.2:6443": None}


def tls(host: str, port: int = 6443) -> Address:
    return Address(host=host, port=port, is_tls=True)


TWO = UpstreamSettings(endpoints=tuple(EndpointSettings(url=tls(f"10.0.0.{n}")) for n in (1, 2)))
ONE = UpstreamSettings(url=tls("Api.example", 443))
DNS = UpstreamSettings(dns=tls("api.example"))
SERVICE = UpstreamSettings(service=ServiceSettings(name="kubernetes"))
LOCAL = UpstreamSettings(url=Address.unix("/run/api.sock"))


@pytest.mark.parametrize(
    ("upstream", "server", "kubeconfig", "expected"),
    [
        pytest.param(TWO, "https://10.0.0.2:6443", "k", True, id="one-of-them"),
        pytest.param(TWO, "https://10.0.0.2:6443/", "k", True, id="slash"),
        pytest.param(TWO, "https://10.0.0.2:6443/k8s/clusters/c", "k", False, id="below-a-path"),
        pytest.param(TWO, "https://10.0.0.3:6443", "k", False, id="another-host"),
        pytest.param(TWO, "https://10.0.0.2:443", "k", False, id="another-port"),
        pytest.param(TWO, "http://10.0.0.2:6443", "k", False, id="another-scheme"),
        pytest.param(TWO, "https://10.0.0.2:x", "k", False, id="no-port"),
        pytest.param(TWO, "unix:/run/api.sock", "k", False, id="no-host"),
        pytest.param(ONE, "https://api.example", "k", True, id="default-port"),
        pytest.param(DNS, "https://API.example:6443", "k", True, id="name"),
        pytest.param(LOCAL, "http://localhost", "k", False, id="unix-socket"),
        pytest.param(SERVICE, "https://10.96.0.1:443", None, True, id="service-of-the-api"),
        pytest.param(SERVICE, "https://10.96.0.1:443", "k", False, id="kubeconfig-of-another"),
        pytest.param(SERVICE, "http://10.96.0.1:80", None, False, id="without-tls"),
        pytest.param(
            UpstreamSettings(service=ServiceSettings(name="web")),
            *("https://10.96.0.1:443", None, False),
            id="another-service",
        ),
        pytest.param(
            UpstreamSettings(service=ServiceSettings(name="kubernetes", scheme="http")),
            *("https://10.96.0.1:443", None, False),
            id="service-without-tls",
        ),
    ],
)
def test_api(
    upstream: UpstreamSettings, server: str, kubeconfig: str | None, *, expected: bool
) -> None:
    """Only servers of the API itself get its credentials."""
    behind = ServersBehind(lambda: upstream, lambda: URLS)

    assert (URLS if expected else {}) == behind.of_api(server, kubeconfig, None)


def test_page() -> None:
    """A page is that of one of the servers, whatever its path; one of a Service has no URL."""
    behind = ServersBehind(lambda: TWO, lambda: URLS)
    assert URLS == behind.like("https://u:p@10.0.0.1:6443/metrics?x")
    assert {} == behind.like("https://10.0.0.9:6443/metrics")

    assert {} == ServersBehind(lambda: SERVICE, lambda: URLS).like("https://10.0.0.1:6443/metrics")
