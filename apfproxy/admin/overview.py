"""Several clusters at a glance: for each how it is, how much it has to do, and what is wrong."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from apfproxy.admin.amounts import (
    ERROR,
    NOTE,
    OK,
    WARNING,
    Severity,
    counted,
    listed,
    number_text,
)
from apfproxy.admin.history import QUANTILES_S, quantile_s, slots
from apfproxy.admin.state import DRAINING, FAILING, NS_PER_S, OUT
from apfproxy.upstream.counters import LATENCY_BOUNDS_NS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apfproxy.admin.state import ClusterState, ProcessState, UpstreamState

SEVERITIES: Final = (ERROR, WARNING, NOTE, OK)
MAX_PROBLEM, MAX_NAMED_PROBLEM = 200, 80
"""Characters of a problem, and beside the cluster's name; all of it is on the cluster's page."""


class Totals(NamedTuple):
    """Of a cluster, since its start; `heads` are times to heads of responses, by bucket."""

    at_ns: int
    dispatched: int
    failed: int
    rejected: int
    heads: Sequence[int]


class Overview:
    """What each cluster did in the last seconds.

    Attributes:
        taken: Looks so far; there are rates from the second one on.
    """

    def __init__(self) -> None:
        self.taken = 0
        self._looks: dict[str, deque[Totals]] = {}

    def take(self, state: ProcessState, now_ns: int) -> None:
        """Take the state of a second."""
        self.taken += 1
        before, self._looks = self._looks, {}
        for cluster in state.clusters:
            if cluster.is_serving:
                looks = before.get(cluster.name) or deque(maxlen=QUANTILES_S + 1)
                looks.append(totals(cluster, now_ns))
                self._looks[cluster.name] = looks

    def json(self, state: ProcessState) -> dict[str, Any]:
        """All clusters: those with problems first, then the busy ones."""
        found = [self._row(each) for each in state.clusters]
        found.sort(key=in_order)
        return {"verdict": verdict(found), "clusters": found}

    def _row(self, cluster: ClusterState) -> dict[str, Any]:
        looks = list(self._looks.get(cluster.name, ()))
        upstream = cluster.upstream
        served, failed, rejected = (
            per_s(looks[-2], looks[-1]) if len(looks) > 1 else (0.0, 0.0, 0.0)
        )
        problem = "; ".join(cluster.problem.splitlines())
        if cluster.is_serving:
            fleet_problem = "" if cluster.fleet is None else cluster.fleet.problem
            stays = f"stays as it was: {problem}" if problem else ""
            fails = f"its servers fail {number_text(failed)} requests/s" if failed else ""
            problem = stays or problem_of_servers(upstream) or fleet_problem or fails
        row = {
            "name": cluster.name,
            "where": cluster.where,
            "state": upstream.health.state if cluster.is_serving else "refused",
            "healthyCount": upstream.healthy_count,
            "endpointCount": upstream.endpoint_count,
            "seatsInUse": sum(level.seats_in_use for level in cluster.levels),
            "serverConcurrencyLimit": cluster.server_concurrency_limit,
            "executing": sum(level.requests_executing for level in cluster.levels),
            "waiting": sum(level.requests_waiting for level in cluster.levels),
            "servedPerSecond": served,
            "failedPerSecond": failed,
            "rejectedPerSecond": rejected,
            "isObserving": cluster.enforcement == "observe",
            # Most of what a line costs, so only of clusters that had requests just now.
            "p99": p99(looks) if served or failed else None,
        }
        severity = severity_of(row, problem)
        return {**row, "severity": severity, "problem": problem[:MAX_PROBLEM]}


def totals(cluster: ClusterState, now_ns: int) -> Totals:
    """What a cluster did so far."""
    return Totals(
        now_ns,
        sum(level.dispatched_total for level in cluster.levels),
        sum(level.failed_total for level in cluster.levels),
        sum(level.rejected_total for level in cluster.levels),
        cluster.upstream.served.head_ns.counts,
    )


def per_s(old: Totals, new: Totals) -> tuple[float, float, float]:
    """Requests a second: served, failed by servers, rejected; a level that went took its totals."""
    elapsed_s = (new.at_ns - old.at_ns) / NS_PER_S
    if elapsed_s <= 0:
        return 0.0, 0.0, 0.0
    dispatched = max(0, new.dispatched - old.dispatched)
    failed = max(0, new.failed - old.failed)
    rejected = max(0, new.rejected - old.rejected)
    numbers = max(0, dispatched - failed), failed, rejected
    served, failing, rejecting = (round(number / elapsed_s, 1) for number in numbers)
    return served, failing, rejecting


def p99(looks: Sequence[Totals]) -> float | None:
    """The time within which 99 % of the heads of responses came lately, in seconds."""
    return quantile_s(LATENCY_BOUNDS_NS, slots(looks[0].heads, looks[-1].heads), 0.99)


def in_order(row: Mapping[str, Any]) -> tuple[int, int, str]:
    """The place of a line: those with problems first, then the busy ones."""
    # By the power of two, so that lines do not change places all the time.
    busy = -round(row["servedPerSecond"]).bit_length()
    return SEVERITIES.index(row["severity"]), busy, row["name"]


def problem_of_servers(upstream: UpstreamState) -> str:
    """What is wrong with the servers of a cluster; "" if nothing is."""
    if upstream.health.state == FAILING:
        return upstream.health.problem or "its servers give no answers"
    named = [each for each in upstream.endpoints if each.health.state != DRAINING]
    out = [f"{each.url}: {each.health.problem}" for each in named if each.health.state in OUT]
    verb = "is" if len(out) == 1 else "are"
    return f"{len(out)} of {counted(len(named), 'server')} {verb} out: {listed(out)}" if out else ""


def severity_of(row: Mapping[str, Any], problem: str) -> Severity:
    """How bad it is."""
    if row["state"] in {"refused", "failing"} or _rejects(row):
        return ERROR
    if problem or row["failedPerSecond"]:
        return WARNING
    return NOTE if row["waiting"] or row["rejectedPerSecond"] else OK


def _rejects(row: Mapping[str, Any]) -> bool:
    return bool(row["rejectedPerSecond"]) and not row["isObserving"]


def verdict(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """What is wrong, in words, worst first; there is at least one sentence."""
    found: list[tuple[Severity, str]] = []

    def tell(severity: Severity, names: list[str], one: str, several: str) -> None:
        if names:
            count = f"{number_text(len(names))} of {counted(len(rows), 'cluster')}"
            found.append(
                (severity, f"{count} {one if len(names) == 1 else several}: {listed(names)}")
            )

    refused = [row["name"] for row in rows if row["state"] == "refused"]
    failing = [row["name"] for row in rows if row["state"] == "failing"]
    rejects = [row["name"] for row in rows if _rejects(row)]
    troubled = [
        f"{row['name']} ({row['problem'][:MAX_NAMED_PROBLEM]})"
        for row in rows
        if row["severity"] == WARNING
    ]
    tell(ERROR, refused, "cannot be used", "cannot be used")
    tell(ERROR, failing, "has no server that answers", "have no server that answers")
    tell(ERROR, rejects, "rejects requests", "reject requests")
    tell(WARNING, troubled, "has a problem", "have problems")
    if not found:
        rate = sum(row["servedPerSecond"] for row in rows)
        waiting = sum(row["waiting"] for row in rows)
        waits = f"{number_text(waiting)} wait a moment" if waiting else "nothing waits"
        text = f"all is well: {number_text(rate)} requests/s in {counted(len(rows), 'cluster')}"
        found.append((OK, f"{text}, {waits}"))
    return [{"severity": severity.value, "text": text} for severity, text in found]
