"""Show that a greedy flow harms no modest one, that equal flows are equal, that no seat idles.

An origin needs 50 ms for a request and serves as many at once as the proxy has seats.  In each
setting these loads run, one after the other:

- alone:    one modest flow, which always has one request in flight, and nothing else;
- beside:   ten modest flows beside a greedy one, which always has 200 requests in flight;
- settled:  the same again at once, in settings whose limits move: by now they have been adjusted;
- without:  the same load straight at the origin, which then queues by order of arrival;
- equal:    four greedy flows alike, whose hands share no queue.

The settings: `one-level`, one priority level with all of 20 seats; `users` and `service-accounts`,
the default objects with limit 100, with flows in global-default and in workload-low.  While
the proxy is loaded its admin listener is sampled for seats that are free while a request waits.

    python -m loadtest.isolation --seconds 10 --json isolation.json
    python -m loadtest.plots isolation isolation.json isolation/
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from apfproxy.flowcontrol.classifier import flow_hash
from apfproxy.flowcontrol.dealer import Dealer
from loadtest.clients import Flow, drive, percentile
from loadtest.processes import LoadTestError, Proxy, fetch, pin, read_limits, start_origin
from loadtest.program import Parser, Results, Table, count_up_to, measured, names_from

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

HASH_SEED = 1
"""Set for the proxy, so that this module knows which queues a user is dealt."""

CANDIDATES = 10_000
LEAD_IN_S = 2.0
ADJUSTED_AFTER_S = 22.0
"""Two adjustments of limits, one of them after a whole period of the load."""
SEATS = re.compile(
    r"^apiserver_flowcontrol_current_(limit_seats|executing_seats|inqueue_requests)"
    r"\{.*priority_level=\"([^\"]*)\".*\} ([0-9.e+]+)$",
    re.MULTILINE,
)
GREEDY = "greedy"
MODEST = "modest"
MAX_RATIO = 2.0
KUBERNETES_RATIO = "Kubernetes' own filter in a Go proxy: 1.4 to 3.1"
"""For default objects, while limits are still those of an idle server and so a level has few."""
MAX_SPREAD = 0.05


class Scenario(NamedTuple):
    """One setting of the proxy; `slots` is also how many requests the origin serves at once."""

    name: str
    title: str
    flow_schema: str
    priority_level: str
    slots: int = 100
    user_prefix: str = ""
    queues: int = 128
    hand_size: int = 6
    objects: Path | None = None

    def settings(self) -> str:
        suggested = "false" if self.objects else "true"
        return f"flowControl:\n  hashSeed: {HASH_SEED}\n  suggestedObjects: {suggested}\n"

    def arguments(self) -> list[str]:
        objects = ["--objects", str(self.objects)] if self.objects else []
        return ["--server-concurrency-limit", str(self.slots), *objects]

    def users(self, count: int) -> list[str]:
        """Pick users whose flows share no queue, so that the queues divide the seats evenly.

        The seats are divided among the queues that wait, not among the flows: two flows that share
        a queue share its part too.  That is shuffle sharding's price, and not what is measured.
        """
        dealer = Dealer(self.queues, self.hand_size)
        taken: set[int] = set()
        found: list[str] = []
        for number in range(CANDIDATES):
            user = f"{self.user_prefix}equal-{number}"
            hand = dealer.deal(flow_hash(HASH_SEED, self.flow_schema, user))
            if taken.isdisjoint(hand):
                taken.update(hand)
                found.append(user)
                if len(found) == count:
                    return found
        raise LoadTestError(
            f"{count} hands of {self.hand_size} among {self.queues} queues overlap; ask for fewer"
        )


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "one-level",
            "one priority level with all of 20 seats",
            slots=20,
            flow_schema="everyone",
            priority_level="shared",
            queues=64,
            hand_size=8,
            objects=Path(__file__).with_name("manifests") / "one_level.yaml",
        ),
        Scenario(
            "users",
            "default objects, limit 100, users of global-default",
            flow_schema="global-default",
            priority_level="global-default",
        ),
        Scenario(
            "service-accounts",
            "default objects, limit 100, service accounts of workload-low",
            flow_schema="service-accounts",
            priority_level="workload-low",
            user_prefix="system:serviceaccount:default:",
        ),
    )
}
LOADS = Table(
    "load <10 | flow <16 | in flight >9 | req/s >9.1f | p50 ms >9.1f | p99 ms >9.1f | 429s >7"
)


@dataclass(slots=True)
class SeatWatch:
    """Samples of a proxy's metrics, for seats that idle while a request waits.

    The page is made between two events, so every sample is a state in which the proxy rests: no
    seat that a waiting request fits may be free in one.  Every request here takes one seat.
    """

    admin_port: int
    period_s: float = 0.1
    samples_with_waiting: int = 0
    samples_with_idle_seats: int = 0

    async def run(self) -> None:
        while True:
            await self.sample()
            await asyncio.sleep(self.period_s)

    async def sample(self) -> None:
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for name, level, value in SEATS.findall(await fetch(self.admin_port, "/metrics")):
            found[name][level] += int(float(value))
        limits, used = found["limit_seats"], found["executing_seats"]
        waiting = found["inqueue_requests"]
        self.samples_with_waiting += any(waiting.values())
        self.samples_with_idle_seats += any(
            count and used[level] < limits[level] for level, count in waiting.items()
        )


@dataclass(slots=True)
class Findings:
    """Flows of one setting, by load, and mean requests in the origin beside the greedy flow."""

    scenario: Scenario
    seconds: float
    flows: dict[str, list[Flow]]
    busy_slots: float = 0.0
    watches: list[SeatWatch] = field(default_factory=list)

    def modest_ms(self, run: str) -> list[float]:
        flows = self.flows.get(run, ())
        return [ms for flow in flows if MODEST in flow.user for ms in flow.latencies_ms]

    @property
    def ratios(self) -> dict[str, float]:
        """A modest flow's p99 beside the greedy one, relative to alone, in each run."""
        alone_ms = percentile(self.modest_ms("alone"), 99)
        return {
            run: percentile(self.modest_ms(run), 99) / alone_ms
            for run in ("beside", "settled")
            if run in self.flows
        }

    @property
    def spread(self) -> float:
        """How far the throughput of any equal flow is from their mean, relative to it."""
        each = [flow.per_s(self.seconds) for flow in self.flows["equal"]]
        mean = sum(each) / len(each)
        return max(abs(one - mean) for one in each) / mean

    @property
    def idle_samples(self) -> int:
        return sum(watch.samples_with_idle_seats for watch in self.watches)

    @property
    def waiting_samples(self) -> int:
        return sum(watch.samples_with_waiting for watch in self.watches)


async def measure(scenario: Scenario, options: argparse.Namespace, directory: Path) -> Findings:
    proxy_core, load_core = (None, None) if options.no_pin else (0, 1)
    origin_arguments = [
        *("--delay-ms", str(options.delay_ms)),
        *("--jitter-percent", str(options.jitter_percent)),
        *("--slots", str(scenario.slots)),
    ]
    prefix = scenario.user_prefix

    def crowd() -> list[Flow]:
        modest = [Flow(f"{prefix}{MODEST}-{n}", 1) for n in range(options.modest)]
        return [Flow(f"{prefix}{GREEDY}", options.greedy), *modest]

    equal = scenario.users(options.equal)
    findings = Findings(
        scenario,
        options.seconds,
        {
            "alone": [Flow(f"{prefix}{MODEST}-0", 1)],
            "beside": crowd(),
            **({"settled": crowd()} if scenario.objects is None else {}),
            "without": crowd(),
            "equal": [Flow(user, options.greedy // options.equal) for user in equal],
        },
    )
    with contextlib.ExitStack() as running:
        origin = running.enter_context(
            start_origin(directory=directory, core=load_core, arguments=origin_arguments)
        )
        workers = ("--workers", str(options.workers)) if options.workers > 1 else ()
        proxy = Proxy(
            directory,
            [origin.port],
            settings=scenario.settings(),
            arguments=(*scenario.arguments(), *workers),
            core=proxy_core,
        )
        running.enter_context(proxy)
        await check_seats(scenario, proxy.admin_port)
        for run, flows in findings.flows.items():
            watch, lead_in_s = None, LEAD_IN_S
            if run in ("beside", "settled", "equal"):
                watch = SeatWatch(proxy.admin_port, options.sample_ms / 1000)
                findings.watches.append(watch)
            if run == "settled":
                lead_in_s = max(LEAD_IN_S, ADJUSTED_AFTER_S - LEAD_IN_S - options.seconds)
            await fetch(origin.port, "/-/slots")
            port = origin.port if run == "without" else proxy.port
            await load(flows, port, options, watch, lead_in_s)
            if run in ("beside", "settled"):
                findings.busy_slots = mean_busy(await fetch(origin.port, "/-/slots"))
    return findings


async def measure_all(options: argparse.Namespace, directory: Path) -> Results:
    if not options.no_pin:
        pin(0, 1)
    results = []
    for name in options.scenarios:
        findings = await measure(SCENARIOS[name], options, directory)
        print_findings(findings)
        results.append(as_json(findings))
    return results, ()


async def check_seats(scenario: Scenario, admin_port: int) -> None:
    """See to it that the proxy has the priority level that the setting is about.

    What counts is the nominal limit of all workers: their current ones may be less while they begin
    to divide it.
    """
    levels = (await read_limits(admin_port))["levels"]
    seats = {each["name"]: each["nominal"] for each in levels}.get(scenario.priority_level, 0)
    if not seats or (scenario.objects and seats != scenario.slots):
        raise LoadTestError(
            f"{scenario.name}: priority level {scenario.priority_level} has {seats} seats; "
            f"are the objects those of {scenario.objects or 'the defaults'}?"
        )


async def load(
    flows: Sequence[Flow],
    port: int,
    options: argparse.Namespace,
    watch: SeatWatch | None = None,
    lead_in_s: float = LEAD_IN_S,
) -> None:
    sampling = asyncio.create_task(watch.run(), name="sample") if watch else None
    try:
        await drive(flows, port=port, lead_in_s=lead_in_s, seconds=options.seconds)
    finally:
        if sampling:
            sampling.cancel()
            # An error of the sampler surfaces here; its cancellation is ours.
            with contextlib.suppress(asyncio.CancelledError):
                await sampling
    # Requests that the end of the load cut short leave the origin before the next load begins.
    await asyncio.sleep(2 * options.delay_ms / 1000 + 0.1)


def mean_busy(report: str) -> float:
    seconds_at = {int(busy): float(seconds) for busy, seconds in json.loads(report).items()}
    return sum(busy * s for busy, s in seconds_at.items()) / sum(seconds_at.values())


def print_findings(findings: Findings) -> None:
    scenario = findings.scenario
    print(f"\n{scenario.name}: {scenario.title}")
    LOADS.head()
    for run, flows in findings.flows.items():
        modest = [flow for flow in flows if MODEST in flow.user]
        for flow in flows:
            if flow not in modest:
                name = flow.user.removeprefix(scenario.user_prefix)
                print_row(run, name, [flow], findings.seconds)
        if modest:
            print_row(run, f"{len(modest)} x {MODEST}", modest, findings.seconds)
    for run, ratio in findings.ratios.items():
        bound = f"{verdict(ratio <= MAX_RATIO)}: at most {MAX_RATIO:g}"
        if "settled" in findings.flows and run == "beside":
            bound = KUBERNETES_RATIO
        print(f"p99 of a modest flow, {run} / alone: {ratio:.2f} ({bound})")
    print(
        f"throughput of equal greedy flows, farthest from the mean: {findings.spread:.1%} "
        f"({verdict(findings.spread <= MAX_SPREAD)}: at most {MAX_SPREAD:.0%})\n"
        f"samples with a free seat while a request waited: {findings.idle_samples} "
        f"of {findings.waiting_samples} ({verdict(not findings.idle_samples)}: none)\n"
        f"requests in the origin beside the greedy flow, mean: {findings.busy_slots:.1f}",
        flush=True,
    )


def print_row(run: str, label: str, flows: Sequence[Flow], seconds: float) -> None:
    latencies_ms = [ms for flow in flows for ms in flow.latencies_ms]
    LOADS.row(
        run,
        label,
        sum(flow.in_flight for flow in flows),
        sum(flow.per_s(seconds) for flow in flows),
        *(percentile(latencies_ms, percent) for percent in (50, 99)),
        sum(flow.rejected for flow in flows),
    )


def verdict(is_met: bool) -> str:
    return "target met" if is_met else "target MISSED"


def as_json(findings: Findings) -> dict[str, object]:
    return {
        "scenario": findings.scenario.name,
        "title": findings.scenario.title,
        "modest_ms": {run: ms for run in findings.flows if (ms := findings.modest_ms(run))},
        "p99_ratios": findings.ratios,
        "equal_spread": findings.spread,
        "idle_seat_samples": findings.idle_samples,
        "waiting_samples": findings.waiting_samples,
        "origin_busy_mean": findings.busy_slots,
        "flows": [
            {
                "load": run,
                "user": flow.user,
                "in_flight": flow.in_flight,
                "requests_per_s": flow.per_s(findings.seconds),
                "rejected": flow.rejected,
                **{f"p{p}_ms": percentile(flow.latencies_ms, p) for p in (50, 90, 99)},
            }
            for run, flows in findings.flows.items()
            for flow in flows
        ],
    }


def main() -> int:
    parser = Parser(__doc__)
    add = parser.add_argument
    known = list(SCENARIOS)
    add("--scenarios", type=names_from(known, "scenario"), default=known, help=",".join(known))
    add("--seconds", type=count_up_to(3600), default=10, help="measured time of each load (10)")
    add("--delay-ms", type=count_up_to(10_000), default=50, help="of the origin (50)")
    add("--jitter-percent", type=count_up_to(100, 0), default=0, help="of the delay (0)")
    add("--greedy", type=count_up_to(2000, 20), default=200, help="its requests in flight (200)")
    add("--modest", type=count_up_to(1000), default=10, help="number of modest flows (10)")
    add("--equal", type=count_up_to(8, 2), default=4, help="number of equal greedy flows (4)")
    add("--workers", type=count_up_to(64), default=1, help="of the proxy (1)")
    add("--sample-ms", type=count_up_to(10_000), default=100, help="between samples (100)")
    add("--no-pin", action="store_true", help="let the scheduler choose cores")
    options = parser.parse_args()

    descriptors = 2 * options.greedy + 2 * options.modest + 500
    return measured(options, measure_all, descriptors=descriptors)


if __name__ == "__main__":
    sys.exit(main())
