"""Several clusters at a glance: for each how it is, how much it has to do, and what is wrong."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from apfproxy.admin.amounts import ERROR, NOTE, OK, WARNING, Severity, counted, listed, number_text
from apfproxy.admin.history import QUANTILES_S, quantile_s, slots
from apfproxy.admin.state import FAILING, NS_PER_S, OUT
from apfproxy.upstream.counters import LATENCY_BOUNDS_NS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apfproxy.admin.state import ClusterState, ProcessState, UpstreamState

    Row = Mapping[str, Any]

MAX_PROBLEM, MAX_NAMED_PROBLEM = 200, 80
"""Characters of a problem, and beside the cluster's name; all of it is on the cluster's page."""


class Totals(NamedTuple):
    at_ns: int
    requests: Sequence[int]
    heads: Sequence[int]


class Overview:
    """The last seconds of each cluster; there are rates from the second look on."""

    def __init__(self) -> None:
        self.taken = 0
        self._looks: dict[str, deque[Totals]] = {}

    def take(self, state: ProcessState, now_ns: int) -> None:
        self.taken += 1
        before, self._looks = self._looks, {}
        for cluster in state.clusters:
            if cluster.is_serving:
                names = "dispatched_total", "failed_total", "rejected_total"
                requests = [sum(getattr(each, name) for each in cluster.levels) for name in names]
                looks = before.get(cluster.name) or deque(maxlen=QUANTILES_S + 1)
                looks.append(Totals(now_ns, requests, cluster.upstream.served.head_ns.counts))
                self._looks[cluster.name] = looks

    def json(self, state: ProcessState) -> dict[str, Any]:
        rows = sorted(map(self._row, state.clusters), key=in_order)
        return {"verdict": verdict(rows), "clusters": rows}

    def _row(self, cluster: ClusterState) -> dict[str, Any]:
        looks = list(self._looks.get(cluster.name, ()))
        upstream, levels = cluster.upstream, cluster.levels
        served, failed, rejected = rates(looks)
        problem = "; ".join(cluster.problem.splitlines())
        if cluster.is_serving:
            problem = (
                (problem and f"stays as it was: {problem}")
                or problem_of_servers(upstream)
                or ("" if cluster.fleet is None else cluster.fleet.problem)
                or (f"its servers fail {number_text(failed)} requests/s" if failed else "")
            )
        row = {
            "name": cluster.name,
            "where": cluster.where,
            "state": upstream.health.state if cluster.is_serving else "refused",
            "healthyCount": upstream.healthy_count,
            "endpointCount": upstream.endpoint_count,
            "seatsInUse": sum(level.seats_in_use for level in levels),
            "serverConcurrencyLimit": cluster.server_concurrency_limit,
            "executing": sum(level.requests_executing for level in levels),
            "waiting": sum(level.requests_waiting for level in levels),
            "servedPerSecond": served,
            "failedPerSecond": failed,
            "rejectedPerSecond": rejected,
            "isObserving": cluster.enforcement == "observe",
            # Most of what a line costs, so only of clusters that had requests just now.
            "p99": quantile_s(LATENCY_BOUNDS_NS, slots(looks[0].heads, looks[-1].heads), 0.99)
            if served or failed
            else None,
        }
        severity = severity_of(row, problem)
        return {**row, "severity": severity, "problem": problem[:MAX_PROBLEM]}


def rates(looks: Sequence[Totals]) -> tuple[float, float, float]:
    """Requests a second: served, failed by servers, rejected; a level that went took its totals."""
    if len(looks) < 2 or looks[-1].at_ns <= looks[-2].at_ns:  # noqa: PLR2004 - between two looks
        return 0.0, 0.0, 0.0
    old, new = looks[-2], looks[-1]
    pairs = zip(old.requests, new.requests, strict=True)
    dispatched, failed, rejected = (max(0, now - then) for then, now in pairs)
    elapsed_s = (new.at_ns - old.at_ns) / NS_PER_S
    numbers = max(0, dispatched - failed), failed, rejected
    served, failing, rejecting = (round(number / elapsed_s, 1) for number in numbers)
    return served, failing, rejecting


def in_order(row: Row) -> tuple[int, int, str]:
    # By the power of two, so that lines do not change places all the time.
    busy = -round(row["servedPerSecond"]).bit_length()
    return list(Severity).index(row["severity"]), busy, row["name"]


def problem_of_servers(upstream: UpstreamState) -> str:
    if upstream.health.state == FAILING:
        return upstream.health.problem or "its servers give no answers"
    named = [each for each in upstream.endpoints if not each.is_drained]
    out = [f"{each.url}: {each.health.problem}" for each in named if each.health.state in OUT]
    verb = "is" if len(out) == 1 else "are"
    return f"{len(out)} of {counted(len(named), 'server')} {verb} out: {listed(out)}" if out else ""


def severity_of(row: Row, problem: str) -> Severity:
    if row["state"] in {"refused", "failing"} or rejects(row):
        return ERROR
    if problem or row["failedPerSecond"]:
        return WARNING
    return NOTE if row["waiting"] or row["rejectedPerSecond"] else OK


def rejects(row: Row) -> bool:
    return bool(row["rejectedPerSecond"]) and not row["isObserving"]


def verdict(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Return what is wrong, in words, worst first; there is at least one sentence."""
    cases = (
        (ERROR, lambda row: row["state"] == "refused", "cannot be used", "cannot be used"),
        (
            ERROR,
            lambda row: row["state"] == "failing",
            "has no server that answers",
            "have no server that answers",
        ),
        (ERROR, rejects, "rejects requests", "reject requests"),
        (WARNING, lambda row: row["severity"] == WARNING, "has a problem", "have problems"),
    )
    found = []
    for severity, is_case, one, several in cases:
        names = [
            f"{row['name']} ({row['problem'][:MAX_NAMED_PROBLEM]})"
            if severity is WARNING
            else row["name"]
            for row in rows
            if is_case(row)
        ]
        if names:
            count = f"{number_text(len(names))} of {counted(len(rows), 'cluster')}"
            what = one if len(names) == 1 else several
            found.append({"severity": severity.value, "text": f"{count} {what}: {listed(names)}"})
    if not found:
        rate = sum(row["servedPerSecond"] for row in rows)
        waiting = sum(row["waiting"] for row in rows)
        waits = f"{number_text(waiting)} wait a moment" if waiting else "nothing waits"
        text = f"all is well: {number_text(rate)} requests/s in {counted(len(rows), 'cluster')}"
        found.append({"severity": OK.value, "text": f"{text}, {waits}"})
    return found
