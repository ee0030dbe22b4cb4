"""Metrics of the fleet that shares the server's seats, all named `apfproxy_fleet_*`.

Each member has its own claim, and what it sees of all others: members have no series for one
another, so that twenty of them have not four hundred.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.admin.families import NO_LABELS, by_label, counter, gauge
from apfproxy.admin.fleet_state import is_silent, total_demand
from apfproxy.admin.proxy_metrics import PREFIX
from apfproxy.fleet.ledger import LeaseState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client.core import Metric

    from apfproxy.fleet.view import FleetView

    Reading = Callable[[FleetView], float | None]

GAUGES: Mapping[str, tuple[str, Reading]] = {
    "fleet_members": ("Members of the fleet in its record", lambda view: len(view.members)),
    "fleet_silent_members": (
        "Members of which nothing was heard for most of their lease",
        lambda view: sum(map(is_silent, view.members)),
    ),
    "fleet_unlike_members": (
        "Members with another limit or other priority levels than this one",
        lambda view: sum(not member.is_alike for member in view.members),
    ),
    "fleet_limit_seats": (
        "Seats of the server that all members share",
        lambda view: view.limit,
    ),
    "fleet_claims_seats": (
        "Seats that all members have claimed, as this one last saw",
        lambda view: view.claims,
    ),
    "fleet_used_seats": (
        "Seats that the requests of all members hold, as this one last saw",
        lambda view: sum(member.used for member in view.members),
    ),
    "fleet_demand_seats": (
        "Seats that the requests of all members hold and wait for, as this one last saw",
        lambda view: sum(total_demand(member) for member in view.members),
    ),
    "fleet_claim_seats": ("Seats that this member has claimed", lambda view: view.claim),
    "fleet_in_force_seats": (
        "Seats that this member uses at most now: its claim, or less",
        lambda view: view.in_force,
    ),
    "fleet_safe_share_seats": (
        "Seats that this member falls back to while the record's store is away",
        lambda view: view.safe_share,
    ),
    "fleet_record_age_seconds": (
        "Time since this member last wrote to the record",
        lambda view: view.age_s,
    ),
}
"""Names to help texts and values; a value may be unknown."""

COUNTERS: Mapping[str, tuple[str, Reading]] = {
    "fleet_refreshes_total": (
        "How often this member wrote to the record",
        lambda view: view.refreshes,
    ),
    "fleet_conflicts_total": (
        "Writes that were refused, as another member had written first; they are tried again",
        lambda view: view.conflicts,
    ),
    "fleet_failures_total": (
        "Refreshes that failed, as the store was away or the record could not be used",
        lambda view: view.failures,
    ),
    "fleet_lost_members_total": (
        "Members whose lease ended before they left, as this one saw",
        lambda view: view.lost,
    ),
}


def fleet_families(look: Callable[[], FleetView | None]) -> Iterator[Metric]:
    """All families, as of now; without series where there is nothing to see yet."""
    view = look()
    states = {} if view is None else {state: view.state == state for state in LeaseState}
    yield gauge(
        PREFIX + "fleet_state",
        "1 for the state of this member's lease: joining, held, expired, or partitioned from the"
        " store for longer than any lease",
        by_label("state", states),
    )
    for family_of, families in ((gauge, GAUGES), (counter, COUNTERS)):
        for name, (help_text, reading) in families.items():
            value = None if view is None else reading(view)
            yield family_of(PREFIX + name, help_text, [] if value is None else [(NO_LABELS, value)])
