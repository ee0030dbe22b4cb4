"""Whether the settings of a fleet go together."""

from __future__ import annotations

import pytest

from apfproxy.app.fleet_checks import fleet_problems
from apfproxy.app.settings_checks import ConflictError, check_combination
from apfproxy.settings import FleetSettings, Settings, UpstreamSettings
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
