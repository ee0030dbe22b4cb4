"""Several clusters at a glance: for each how it is, how much it has to do, and what is wrong.

A sample of each is taken once a second, of totals that are kept anyway: 100 clusters take 1 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from apfproxy.admin.amounts import counted, number_text
from apfproxy.admin.endpoint_state import OUT
from apfproxy.admin.findings import ERROR, NOTE, OK, WARNING, listed
from apfproxy.admin.live_recent import displayable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from apfproxy.admin.findings import Severity
    from apfproxy.admin.upstream_state import Upstream
    from apfproxy.flowcontrol.controller import Controller

NS_PER_S = 1_000_000_000
SEVERITIES = (ERROR, WARNING, NOTE, OK)
MAX_PROBLEM = 200
"""Characters of a problem; all of it is on the cluster's own page."""


class Serving(Protocol):
    """A cluster that serves."""

    @property
    def controller(self) -> Controller:
        """Its flow control."""

    @property
    def upstream(self) -> Upstream:
        """What is known of its servers."""

    @property
    def is_observing(self) -> bool:
        """Whether its flow control only observes."""

    @property
    def fleet_problem(self) -> str:
        """Why its part of a shared limit is not up to date; "" if it is, or nothing is shared."""


@dataclass(frozen=True, slots=True)
class Place:
    """A cluster, as the settings name it.

    Attributes:
        where: Its hosts and its path prefix.
        serving: What serves; None while nothing does.
        problem: Why its settings are not in force; "" if they are.
    """

    name: str
    where: str
    serving: Serving | None
    problem: str


@dataclass(frozen=True, slots=True)
class Totals:
    """Of a cluster, since its start."""

    at_ns: int
    dispatched: int
    failed: int
    rejected: int


class Overview:
    """The clusters that there are, and what each did in the last second.

    Attributes:
        taken: Samples so far; there are rates from the second one on.
    """

    def __init__(self, places: Callable[[], Iterable[Place]], now_ns: Callable[[], int]) -> None:
        self._places = places
        self._now_ns = now_ns
        self.taken = 0
        # By controller, which is another one if a cluster is made anew.
        self._last: dict[Controller, Totals] = {}
        self._rates: dict[Controller, tuple[float, float, float]] = {}

    def sample(self) -> None:
        """Take a sample of each."""
        self.taken += 1
        now_ns, before = self._now_ns(), self._last
        self._last, rates = {}, {}
        for place in self._places():
            if place.serving is None:
                continue
            controller = place.serving.controller
            new = self._last[controller] = totals(controller, now_ns)
            old = before.get(controller)
            if old is not None and now_ns > old.at_ns:
                rates[controller] = per_s(old, new)
        self._rates = rates

    def state(self) -> dict[str, Any]:
        """All of them, as JSON has it: those with problems first, then the busy ones."""
        found = [self._row(place) for place in self._places()]
        found.sort(key=in_order)
        return {"verdict": verdict(found), "clusters": found}

    def _row(self, place: Place) -> dict[str, Any]:
        """A line of the overview."""
        row: dict[str, Any] = {
            "name": place.name,
            "where": displayable(place.where),
            "state": "refused",
            "healthyCount": 0,
            "endpointCount": 0,
            "seatsInUse": 0,
            "serverConcurrencyLimit": 0,
            "executing": 0,
            "waiting": 0,
            "servedPerSecond": 0.0,
            "failedPerSecond": 0.0,
            "rejectedPerSecond": 0.0,
            "isObserving": False,
            "p99": None,
        }
        serving, problem = place.serving, "; ".join(place.problem.splitlines())
        if serving is not None:
            controller, upstream = serving.controller, serving.upstream
            states = [watch.state for watch in upstream.watches.values()]
            sets = [level.queue_set for level in controller.levels.values()]
            served, failed, rejected = self._rates.get(controller, (0.0, 0.0, 0.0))
            row |= {
                "state": str(upstream.state),
                "healthyCount": sum(state not in OUT for state in states),
                "endpointCount": len(states),
                "seatsInUse": sum(each.seats_in_use for each in sets),
                "serverConcurrencyLimit": controller.server_concurrency_limit,
                "executing": sum(each.requests_executing for each in sets),
                "waiting": sum(each.requests_waiting for each in sets),
                "servedPerSecond": served,
                "failedPerSecond": failed,
                "rejectedPerSecond": rejected,
                "isObserving": serving.is_observing,
                # Most of what a line costs, so only of clusters that had requests just now.
                "p99": upstream.recent.p99_s if served or failed else None,
            }
            problem = (
                f"stays as it was: {problem}"
                if problem
                else problem_of_servers(upstream) or serving.fleet_problem
            )
        severity = severity_of(row, problem)
        return {**row, "severity": severity, "problem": displayable(problem[:MAX_PROBLEM])}


def in_order(row: Mapping[str, Any]) -> tuple[int, int, str]:
    """The place of a line: those with problems first, then the busy ones."""
    # By the power of two, so that lines do not change places all the time.
    busy = -round(row["servedPerSecond"]).bit_length()
    return SEVERITIES.index(row["severity"]), busy, row["name"]


def totals(controller: Controller, now_ns: int) -> Totals:
    """What a cluster did so far."""
    levels = controller.levels.values()
    return Totals(
        now_ns,
        sum(level.queue_set.dispatched_total for level in levels),
        sum(level.failed_total for level in levels),
        sum(level.queue_set.rejected_total for level in levels),
    )


def per_s(old: Totals, new: Totals) -> tuple[float, float, float]:
    """Requests a second: served, failed by servers, rejected.

    A level that went took its totals with it.
    """
    elapsed_s = (new.at_ns - old.at_ns) / NS_PER_S
    dispatched = max(0, new.dispatched - old.dispatched)
    failed = max(0, new.failed - old.failed)
    rejected = max(0, new.rejected - old.rejected)
    served = max(0, dispatched - failed)
    return (
        round(served / elapsed_s, 1),
        round(failed / elapsed_s, 1),
        round(rejected / elapsed_s, 1),
    )


def problem_of_servers(upstream: Upstream) -> str:
    """What is wrong with the servers of a cluster; "" if nothing is."""
    if upstream.state == "failing":
        return upstream.problem or "its servers give no answers"
    watches = upstream.watches.values()
    why = [f"{each.endpoint.url}: {each.problem}" for each in watches if each.state in OUT]
    verb = "is" if len(why) == 1 else "are"
    return (
        f"{len(why)} of {counted(len(watches), 'server')} {verb} out: {listed(why)}" if why else ""
    )


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
    troubled = [row["name"] for row in rows if row["severity"] == WARNING]
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
