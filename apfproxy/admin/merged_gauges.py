"""What the gauges of several workers are together: a rule for each, by its name.

Most are amounts, and add up.  A worker is one process with a virtual clock, a configuration and a
view of the servers of its own; of those the rule takes the one that somebody has to know of.
"""

from __future__ import annotations

import enum
from typing import Final

FLOW_CONTROL = "apiserver_flowcontrol_"
PREFIX = "apfproxy_"


class Rule(enum.StrEnum):
    """How the values of one series become one."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"


RULES: Final[dict[str, Rule]] = {
    # The workers' limits are parts of one, which they share.
    f"{FLOW_CONTROL}nominal_limit_seats": Rule.SUM,
    f"{FLOW_CONTROL}lower_limit_seats": Rule.SUM,
    f"{FLOW_CONTROL}upper_limit_seats": Rule.SUM,
    f"{FLOW_CONTROL}current_limit_seats": Rule.SUM,
    f"{FLOW_CONTROL}target_seats": Rule.SUM,
    # The workers' watermarks are of different moments: the sum is never below that of all.
    f"{FLOW_CONTROL}demand_seats_high_watermark": Rule.SUM,
    f"{FLOW_CONTROL}demand_seats_average": Rule.SUM,
    f"{FLOW_CONTROL}demand_seats_stdev": Rule.SUM,
    f"{FLOW_CONTROL}demand_seats_smoothed": Rule.SUM,
    f"{FLOW_CONTROL}seat_fair_frac": Rule.MIN,
    f"{FLOW_CONTROL}current_executing_requests": Rule.SUM,
    f"{FLOW_CONTROL}current_executing_seats": Rule.SUM,
    f"{FLOW_CONTROL}current_inqueue_requests": Rule.SUM,
    f"{FLOW_CONTROL}current_inqueue_seats": Rule.SUM,
    "apiserver_current_inflight_requests": Rule.SUM,
    "apiserver_current_inqueue_requests": Rule.SUM,
    # Virtual time, of which each worker has its own.
    f"{FLOW_CONTROL}current_r": Rule.MAX,
    f"{FLOW_CONTROL}dispatch_r": Rule.MAX,
    f"{FLOW_CONTROL}latest_s": Rule.MAX,
    f"{FLOW_CONTROL}next_s_bounds": Rule.MAX,
    f"{FLOW_CONTROL}next_discounted_s_bounds": Rule.MAX,
    # Connections and what they carry.
    f"{PREFIX}downstream_connections": Rule.SUM,
    f"{PREFIX}downstream_held_bytes": Rule.SUM,
    f"{PREFIX}http2_connections": Rule.SUM,
    f"{PREFIX}http2_streams": Rule.SUM,
    f"{PREFIX}slow_readers": Rule.SUM,
    f"{PREFIX}tunnels_open": Rule.SUM,
    f"{PREFIX}upstream_connections": Rule.SUM,
    f"{PREFIX}upstream_waiters": Rule.SUM,
    f"{PREFIX}endpoint_connections": Rule.SUM,
    f"{PREFIX}endpoint_seats": Rule.SUM,
    f"{PREFIX}admin_connections": Rule.SUM,
    f"{PREFIX}reviews_waiting": Rule.SUM,
    f"{PREFIX}reviews_under_way": Rule.SUM,
    f"{PREFIX}access_log_queued_lines": Rule.SUM,
    f"{PREFIX}traces_queued": Rule.SUM,
    # What is well only where it is well in all workers.
    f"{PREFIX}upstream_up": Rule.MIN,
    f"{PREFIX}endpoint_up": Rule.MIN,
    f"{PREFIX}healthcheck": Rule.MIN,
    f"{PREFIX}config_last_success_timestamp_seconds": Rule.MIN,
    f"{PREFIX}certificate_expiry_timestamp_seconds": Rule.MIN,
    f"{PREFIX}token_expiry_timestamp_seconds": Rule.MIN,
    f"{PREFIX}token_issued_timestamp_seconds": Rule.MIN,
    # What is wrong where it is wrong in one.
    f"{PREFIX}overloaded": Rule.MAX,
    f"{PREFIX}loop_delay_seconds": Rule.MAX,
    f"{PREFIX}config_problems": Rule.MAX,
    f"{PREFIX}unused_additions": Rule.MAX,
    f"{PREFIX}dangling_flow_schemas": Rule.MAX,
    # The same in all, unless one has just begun or reads its settings just now.
    f"{PREFIX}config_generation": Rule.MAX,
    f"{PREFIX}enforcement": Rule.MAX,
    f"{PREFIX}endpoints": Rule.MAX,
    # A fleet is one, as each of its members sees it; what is a member's own adds up.
    f"{PREFIX}fleet_members": Rule.MAX,
    f"{PREFIX}fleet_silent_members": Rule.MAX,
    f"{PREFIX}fleet_unlike_members": Rule.MAX,
    f"{PREFIX}fleet_limit_seats": Rule.MAX,
    f"{PREFIX}fleet_claims_seats": Rule.MAX,
    f"{PREFIX}fleet_used_seats": Rule.MAX,
    f"{PREFIX}fleet_demand_seats": Rule.MAX,
    f"{PREFIX}fleet_record_age_seconds": Rule.MAX,
    f"{PREFIX}fleet_state": Rule.MAX,
    f"{PREFIX}fleet_claim_seats": Rule.SUM,
    f"{PREFIX}fleet_in_force_seats": Rule.SUM,
    f"{PREFIX}fleet_safe_share_seats": Rule.SUM,
    # Of the processes, the one that supervises the workers included.
    "process_virtual_memory_bytes": Rule.SUM,
    "process_resident_memory_bytes": Rule.SUM,
    "process_start_time_seconds": Rule.MIN,
    # One that has none left is in trouble, however many the others have.
    "process_open_fds": Rule.MAX,
    "process_max_fds": Rule.MIN,
}
"""The rule of each gauge.  Counters and histograms add up, and information is what any has."""


def rule_of(name: str, kind: str) -> Rule:
    """The rule of a family, by its name and its type.

    A gauge without a rule, which a worker of a newer version may have, adds up; what is named
    information does not.
    """
    if name.endswith("_info"):
        return Rule.MAX
    return RULES.get(name, Rule.SUM) if kind == "gauge" else Rule.SUM
