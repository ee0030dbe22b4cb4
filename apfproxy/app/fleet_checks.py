"""Whether the settings of a fleet go together, and what of them is probably meant otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.fleet.ledger import FEWEST
from apfproxy.objects.field_errors import counted
from apfproxy.settings.store_address import Kind, store_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.settings import FleetSettings, Settings

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


def fleet_warnings(settings: Settings, workers: int) -> Iterator[str]:
    """What may be meant otherwise of how seats are shared, a line for each reason.

    Args:
        settings: Of the whole proxy.
        workers: How many it has.
    """
    fleet = settings.fleet
    members = (fleet.replicas or 1) * workers
    if fleet.replicas is not None and members < FEWEST:
        yield (
            f"fleet.replicas: {members} counts as {FEWEST}, since no member knows that it is"
            " alone: while the store is away it uses half of the seats; a proxy by itself needs no"
            " fleet.store"
        )
    for name, each in apis_of(settings):
        text = _too_few_seats(each, members)
        if text:
            yield f"clusters[{name}].{text}" if name else text


def apis_of(settings: Settings) -> Iterator[tuple[str, Settings]]:
    """The clusters that are not refused, by name; the proxy itself, as "", where it has none."""
    if not settings.clusters:
        yield "", settings
    for cluster in settings.clusters:
        if cluster.settings is not None:
            yield cluster.name, cluster.settings


def _too_few_seats(settings: Settings, members: int) -> str:
    """That the limit, as far as settings tell it, has no seat for each member; "" if it has."""
    flow_control, servers = settings.flow_control, len(settings.upstream.addresses)
    is_each = flow_control.per_endpoint is not None
    seats = flow_control.seats(servers)
    if seats >= members or (is_each and not servers):
        return ""
    name = "perEndpoint" if is_each else "serverConcurrencyLimit"
    noun, of, away = "worker", "", ""
    if settings.fleet.store is not None:
        noun, of = "member", " of the fleet"
        away = ", and while the store is away each uses one"
    return (
        f"flowControl.{name}: {counted(seats, 'seat')} for {members} {noun}s{of}: a {noun}"
        f" without one rejects requests that wait for it{away}; have at least {members} seats, or"
        f" at most {counted(seats, noun)}"
    )
