"""Whether the settings of a fleet go together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.sources.store_address import Kind, store_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.settings import FleetSettings

REFRESHES_PER_LEASE = 3
"""At least: a member that misses one of them, or two, has not gone."""


def fleet_problems(fleet: FleetSettings) -> Iterator[str]:
    """Why they do not, a line for each reason."""
    if fleet.lease_s < REFRESHES_PER_LEASE * fleet.refresh_interval_s:
        yield (
            f"fleet.lease: must be at least {REFRESHES_PER_LEASE} times fleet.refreshInterval, as a"
            " member that misses one look at the record has not gone"
        )
    if (fleet.certificate_file is None) != (fleet.key_file is None):
        yield "fleet: certificateFile and keyFile go together; give both"
    if fleet.store is None:
        if fleet.replicas is not None:
            yield "fleet.replicas (--fleet-replicas) needs fleet.store (--fleet)"
        return
    address = store_address(fleet.store)
    if address.password and fleet.password_file is not None:
        yield "fleet.passwordFile: fleet.store has a password, too; leave that out"
    for key, value, kind, is_so in (
        ("passwordFile", fleet.password_file, "redis", address.kind.is_redis),
        ("sentinelPasswordFile", fleet.sentinel_password_file, "redis+sentinel",
         address.kind is Kind.SENTINEL),
        ("caFile", fleet.ca_file, "rediss", address.is_tls),
        ("certificateFile", fleet.certificate_file, "rediss", address.is_tls),
        ("kubeconfig", fleet.kubeconfig, "kubernetes", address.kind is Kind.KUBERNETES),
        ("context", fleet.context, "kubernetes", address.kind is Kind.KUBERNETES),
    ):  # fmt: skip
        if value is not None and not is_so:
            yield f"fleet.{key}: is for a store whose URL begins with {kind}, not for {address}"
    if fleet.context is not None and fleet.kubeconfig is None:
        yield "fleet.context: needs fleet.kubeconfig, which has the contexts"
