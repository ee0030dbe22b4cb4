"""Whether it is clear where the servers behind are."""

from __future__ import annotations

import dataclasses

import pytest

from apfproxy.app.server_checks import server_problems
from apfproxy.app.settings_checks import ConflictError, check_combination
from apfproxy.settings import (
    UNSAID,
    Address,
    EjectionSettings,
    EndpointSettings,
    ServiceSettings,
    Settings,
    UpstreamSettings,
)
from tests.app.test_identities import HTTP, HTTPS


def endpoints(*urls: Address) -> UpstreamSettings:
    """Settings of several servers."""
    return UpstreamSettings(endpoints=tuple(EndpointSettings(url=each) for each in urls))


@pytest.mark.parametrize(
    ("upstream", "problem"),
    [
        pytest.param(
            UpstreamSettings(url=HTTP, dns=HTTP, service=ServiceSettings(name="a")),
            "give only one of upstream.url (--upstream) and upstream.dns (--upstream-dns) and"
            " upstream.service (--upstream-service): each says where to forward",
            id="several-ways",
        ),
        pytest.param(
            dataclasses.replace(endpoints(HTTP), url=HTTP),
            "give only one of upstream.url (--upstream) and upstream.endpoints (--upstream,"
            " repeated): each says where to forward",
            id="url-and-endpoints",
        ),
        pytest.param(
            endpoints(HTTP, HTTPS),
            f"upstream.endpoints[1]: {HTTPS.url} is not of the scheme of {HTTP.url}; servers of one"
            " API have TLS, or none of them has",
            id="mixed-schemes",
        ),
        pytest.param(
            endpoints(HTTP, Address.unix("/a"), HTTP),
            f"upstream.endpoints[2]: {HTTP.url} is upstream.endpoints[0] already; give a server"
            " that takes more of the work a larger weight",
            id="twice",
        ),
        pytest.param(endpoints(UNSAID), "upstream.endpoints[0]: needs url", id="without-url"),
        pytest.param(
            endpoints(*(Address(host="a", port=port) for port in range(1, 258))),
            "upstream.endpoints (--upstream): more than 256",
            id="too-many",
        ),
        pytest.param(
            UpstreamSettings(service=ServiceSettings(namespace="a")),
            "upstream.service: needs name, which says whose servers to forward to",
            id="service-without-name",
        ),
        pytest.param(
            UpstreamSettings(service=ServiceSettings(name="a", context="b")),
            "upstream.service.context: needs upstream.service.kubeconfig, which has the contexts",
            id="context-of-nothing",
        ),
        pytest.param(
            UpstreamSettings(url=HTTP, ejection=EjectionSettings(pause_s=2, max_pause_s=1)),
            "upstream.ejection: maxPause is shorter than pause",
            id="pauses",
        ),
    ],
)
def test_servers_that_do_not_go_together(upstream: UpstreamSettings, problem: str) -> None:
    """They are named in one way, once each, and have TLS or not."""
    assert [problem] == list(server_problems(upstream))


def test_servers_that_go_together() -> None:
    """Those of a Unix socket have no TLS either."""
    assert [] == list(server_problems(endpoints(HTTP, Address.unix("/a"))))
    assert [] == list(server_problems(endpoints(HTTPS)))


def test_all_problems_at_once() -> None:
    """Each is a line of one error."""
    upstream = endpoints(UNSAID, HTTP, HTTPS, HTTP)
    with pytest.raises(ConflictError) as caught:
        check_combination(Settings(upstream=upstream))

    assert [f"upstream.endpoints[{index}]" for index in (0, 2, 3)] == [
        line.partition(":")[0] for line in str(caught.value).splitlines()
    ]
