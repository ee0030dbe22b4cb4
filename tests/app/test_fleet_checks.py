"""Whether the settings of a fleet go together."""

from __future__ import annotations

import pytest

from apfproxy.app.fleet_checks import fleet_problems, fleet_warnings
from apfproxy.app.settings_checks import ConflictError, check_combination
from apfproxy.settings import (
    Address,
    ClusterSettings,
    FleetSettings,
    FlowControlSettings,
    ServiceSettings,
    Settings,
    UpstreamSettings,
)
from tests.app.test_identities import HTTP

REDIS, TLS, KUBERNETES = "redis://a", "rediss://a", "kubernetes:a/b"


@pytest.mark.parametrize(
    ("fleet", "problem"),
    [
        pytest.param(
            FleetSettings(lease_s=2.9),
            "fleet.lease: must be at least 3 times fleet.refreshInterval, as a member that misses"
            " one look at the record has not gone",
            id="short-lease",
        ),
        pytest.param(
            FleetSettings(store=TLS, certificate_file="a"),
            "fleet: certificateFile and keyFile go together; give both",
            id="no-key",
        ),
        pytest.param(
            FleetSettings(replicas=3),
            "fleet.replicas (--fleet-replicas) needs fleet.store (--fleet)",
            id="replicas-of-nothing",
        ),
        pytest.param(
            FleetSettings(store="redis://:b@a", password_file="c"),  # noqa: S106 - a path
            "fleet.passwordFile: fleet.store has a password, too; leave that out",
            id="two-passwords",
        ),
        pytest.param(
            FleetSettings(store=KUBERNETES, password_file="c"),  # noqa: S106 - a path
            "fleet.passwordFile: is for a store whose URL begins with redis, not for"
            " kubernetes:a/b",
            id="password-for-kubernetes",
        ),
        pytest.param(
            FleetSettings(store=REDIS, sentinel_password_file="c"),  # noqa: S106 - a path
            "fleet.sentinelPasswordFile: is for a store whose URL begins with redis+sentinel, not"
            " for redis://a:6379",
            id="no-sentinel",
        ),
        pytest.param(
            FleetSettings(store=REDIS, ca_file="c"),
            "fleet.caFile: is for a store whose URL begins with rediss, not for redis://a:6379",
            id="no-tls",
        ),
        pytest.param(
            FleetSettings(store=TLS, kubeconfig="c"),
            "fleet.kubeconfig: is for a store whose URL begins with kubernetes, not for"
            " rediss://a:6379",
            id="no-kubernetes",
        ),
        pytest.param(
            FleetSettings(store=KUBERNETES, context="c"),
            "fleet.context: needs fleet.kubeconfig, which has the contexts",
            id="context-of-nothing",
        ),
    ],
)
def test_problems(fleet: FleetSettings, problem: str) -> None:
    """What does not go together is named."""
    assert [problem] == list(fleet_problems(fleet))
    with pytest.raises(ConflictError, match=r"^fleet"):
        check_combination(Settings(upstream=UpstreamSettings(url=HTTP), fleet=fleet))


@pytest.mark.parametrize(
    "fleet",
    [
        FleetSettings(),
        FleetSettings(refresh_interval_s=1.0, lease_s=3.0),
        FleetSettings(store="redis://a@b", password_file="c", replicas=3),  # noqa: S106 - a path
        FleetSettings(store=TLS, ca_file="a", certificate_file="b", key_file="c"),
        FleetSettings(store=KUBERNETES, kubeconfig="a", context="b"),
        FleetSettings(store="parent:/a"),
        FleetSettings(store="rediss+sentinel://a/b", sentinel_password_file="c", ca_file="d"),  # noqa: S106 - as above
    ],
)
def test_fine(fleet: FleetSettings) -> None:
    """All else does."""
    assert [] == list(fleet_problems(fleet))


ONE, THREE = FlowControlSettings(server_concurrency_limit=1), FleetSettings(store=REDIS, replicas=3)
TWO_EACH = FlowControlSettings(per_endpoint=2)
ONE_SERVER = UpstreamSettings(url=Address(host="a", port=80))
FOUND_SERVERS = UpstreamSettings(service=ServiceSettings(name="a"))


@pytest.mark.parametrize(
    ("settings", "workers", "warnings"),
    [
        pytest.param(
            Settings(flow_control=ONE),
            2,
            [
                (
                    "flowControl.serverConcurrencyLimit: 1 seat for 2 workers: a worker without"
                    " one rejects requests that wait for it; have at least 2 seats, or at most 1"
                    " worker"
                )
            ],
            id="workers",
        ),
        pytest.param(
            Settings(flow_control=TWO_EACH, upstream=ONE_SERVER, fleet=THREE),
            1,
            [
                (
                    "flowControl.perEndpoint: 2 seats for 3 members of the fleet: a member"
                    " without one rejects requests that wait for it, and while the store is away"
                    " each uses one; have at least 3 seats, or at most 2 members"
                )
            ],
            id="members",
        ),
        pytest.param(
            Settings(flow_control=ONE, fleet=FleetSettings(store=REDIS)),
            2,
            [
                (
                    "flowControl.serverConcurrencyLimit: 1 seat for 2 members of the fleet: a"
                    " member without one rejects requests that wait for it, and while the store"
                    " is away each uses one; have at least 2 seats, or at most 1 member"
                )
            ],
            id="workers-of-a-fleet",
        ),
        pytest.param(
            Settings(
                flow_control=ONE,
                clusters=(
                    ClusterSettings(name="a", settings=Settings(flow_control=ONE)),
                    ClusterSettings(name="b", settings=Settings()),
                    ClusterSettings(name="c", problems=("wrong",)),
                ),
            ),
            2,
            [
                (
                    "clusters[a].flowControl.serverConcurrencyLimit: 1 seat for 2 workers: a"
                    " worker without one rejects requests that wait for it; have at least 2"
                    " seats, or at most 1 worker"
                )
            ],
            id="clusters",
        ),
        pytest.param(
            Settings(flow_control=FlowControlSettings(server_concurrency_limit=5), fleet=THREE),
            2,
            [
                (
                    "flowControl.serverConcurrencyLimit: 5 seats for 6 members of the fleet: a"
                    " member without one rejects requests that wait for it, and while the store"
                    " is away each uses one; have at least 6 seats, or at most 5 members"
                )
            ],
            id="workers-of-several-proxies",
        ),
        pytest.param(
            Settings(fleet=FleetSettings(store=REDIS, replicas=1)),
            1,
            [
                (
                    "fleet.replicas: 1 counts as 2, since no member knows that it is alone: while"
                    " the store is away it uses half of the seats; a proxy by itself needs no"
                    " fleet.store"
                )
            ],
            id="one-member",
        ),
        pytest.param(Settings(flow_control=ONE), 1, [], id="one-process"),
        pytest.param(Settings(fleet=THREE), 1, [], id="enough"),
        pytest.param(Settings(fleet=THREE), 3, [], id="one-proxy-with-workers"),
        pytest.param(
            Settings(flow_control=TWO_EACH, upstream=FOUND_SERVERS, fleet=THREE),
            1,
            [],
            id="as-many-servers-as-are-found",
        ),
    ],
)
def test_warnings(settings: Settings, workers: int, warnings: list[str]) -> None:
    """It is said where members have fewer seats than they are, or may be counted wrongly."""
    assert warnings == list(fleet_warnings(settings, workers))
