"""Show that a greedy flow harms no modest one, that equal flows are equal, that no seat idles.

An origin needs 50 ms for a request and serves 20 at once, as many as the proxy has seats, all of
them in one priority level.  These loads run, one after the other:

- alone:    one modest flow, which always has one request in flight, and nothing else;
- beside:   ten modest flows beside a greedy one, which always has 200 requests in flight;
- without:  the same load straight at the origin, which then queues by order of arrival;
- equal:    four greedy flows alike, whose hands share no queue.

While the proxy is loaded its admin listener is sampled for seats that are free while a request
waits.

    python -m loadtest.isolation --seconds 10 --json isolation.json
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from apfproxy.flowcontrol.classifier import flow_hash
from apfproxy.flowcontrol.dealer import Dealer
from loadtest.clients import Flow, drive, percentile
from loadtest.processes import LoadTestError, Proxy, fetch, pin, read_limits, start_origin
from loadtest.program import Parser, Results, Table, count_up_to, measured

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

HASH_SEED = 1
"""Set for the proxy, so that this module knows which queues a user is dealt."""

CANDIDATES = 10_000
LEAD_IN_S = 2.0
SAMPLE_PERIOD_S = 0.1
SEATS = 20
FLOW_SCHEMA, PRIORITY_LEVEL = "everyone", "shared"
QUEUES, HAND_SIZE = 64, 8
"""As in the objects."""
OBJECTS = Path(__file__).with_name("manifests") / "one_level.yaml"
SETTINGS = f"flowControl: {{hashSeed: {HASH_SEED}, suggestedObjects: false}}"
SAMPLE = re.compile(
    r"^apiserver_flowcontrol_current_(limit_seats|executing_seats|inqueue_requests)"
    r"\{.*priority_level=\"([^\"]*)\".*\} ([0-9.e+]+)$",
    re.MULTILINE,
)
GREEDY = "greedy"
MODEST = "modest"
MAX_RATIO = 2.0
MAX_SPREAD = 0.05


def apart(count: int) -> list[str]:
    """Pick users whose flows share no queue, so that the queues divide the seats evenly.

    The seats are divided among the queues that wait, not among the flows: two flows that share a
    queue share its part too.  That is shuffle sharding's price, and not what is measured.
    """
    dealer = Dealer(QUEUES, HAND_SIZE)
    taken: set[int] = set()
    found: list[str] = []
    for number in range(CANDIDATES):
        user = f"equal-{number}"
        hand = dealer.deal(flow_hash(HASH_SEED, FLOW_SCHEMA, user))
        if taken.isdisjoint(hand):
            taken.update(hand)
            found.append(user)
            if len(found) == count:
                return found
    raise LoadTestError(
        f"{count} hands of {HAND_SIZE} among {QUEUES} queues overlap; ask for fewer"
    )


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
    samples_with_waiting: int = 0
    samples_with_idle_seats: int = 0

    async def run(self) -> None:
        while True:
            await self.sample()
            await asyncio.sleep(SAMPLE_PERIOD_S)

    async def sample(self) -> None:
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for name, level, value in SAMPLE.findall(await fetch(self.admin_port, "/metrics")):
            found[name][level] += int(float(value))
        limits, used = found["limit_seats"], found["executing_seats"]
        waiting = found["inqueue_requests"]
        self.samples_with_waiting += any(waiting.values())
        self.samples_with_idle_seats += any(
            count and used[level] < limits[level] for level, count in waiting.items()
        )


@dataclass(slots=True)
class Findings:
    """Flows by load, and samples of seats."""

    seconds: float
    flows: dict[str, list[Flow]]
    watches: list[SeatWatch] = field(default_factory=list)

    def modest_ms(self, run: str) -> list[float]:
        flows = self.flows[run]
        return [ms for flow in flows if MODEST in flow.user for ms in flow.latencies_ms]

    @property
    def ratio(self) -> float:
        """A modest flow's p99 beside the greedy one, relative to alone."""
        alone_ms = percentile(self.modest_ms("alone"), 99)
        return percentile(self.modest_ms("beside"), 99) / alone_ms

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


async def measure(options: argparse.Namespace, directory: Path) -> Results:
    if not options.no_pin:
        pin(0, 1)
    proxy_core, load_core = (None, None) if options.no_pin else (0, 1)
    origin_arguments = [
        *("--delay-ms", str(options.delay_ms)),
        *("--slots", str(SEATS)),
    ]

    def crowd() -> list[Flow]:
        modest = [Flow(f"{MODEST}-{n}", 1) for n in range(options.modest)]
        return [Flow(GREEDY, options.greedy), *modest]

    findings = Findings(
        options.seconds,
        {
            "alone": [Flow(f"{MODEST}-0", 1)],
            "beside": crowd(),
            "without": crowd(),
            "equal": [Flow(user, options.greedy // options.equal) for user in apart(options.equal)],
        },
    )
    with contextlib.ExitStack() as running:
        origin = running.enter_context(
            start_origin(directory=directory, core=load_core, arguments=origin_arguments)
        )
        workers = ("--workers", str(options.workers)) if options.workers > 1 else ()
        limits = ("--server-concurrency-limit", str(SEATS), "--objects", str(OBJECTS))
        proxy = Proxy(
            directory,
            [origin.port],
            settings=SETTINGS,
            arguments=(*limits, *workers),
            core=proxy_core,
        )
        running.enter_context(proxy)
        await check_seats(proxy.admin_port)
        for run, flows in findings.flows.items():
            watch = None
            if run in ("beside", "equal"):
                watch = SeatWatch(proxy.admin_port)
                findings.watches.append(watch)
            port = origin.port if run == "without" else proxy.port
            await load(flows, port, options, watch)
    print_findings(findings)
    return as_json(findings), ()


async def check_seats(admin_port: int) -> None:
    """See to it that the proxy has the priority level.

    What counts is the nominal limit of all workers: their current ones may be less while they begin
    to divide it.
    """
    levels = (await read_limits(admin_port))["levels"]
    seats = {each["name"]: each["nominal"] for each in levels}.get(PRIORITY_LEVEL, 0)
    if seats != SEATS:
        raise LoadTestError(
            f"priority level {PRIORITY_LEVEL} has {seats} seats; are objects those of {OBJECTS}?"
        )


async def load(
    flows: Sequence[Flow],
    port: int,
    options: argparse.Namespace,
    watch: SeatWatch | None = None,
) -> None:
    sampling = asyncio.create_task(watch.run(), name="sample") if watch else None
    try:
        await drive(flows, port=port, lead_in_s=LEAD_IN_S, seconds=options.seconds)
    finally:
        if sampling:
            sampling.cancel()
            # An error of the sampler surfaces here; its cancellation is ours.
            with contextlib.suppress(asyncio.CancelledError):
                await sampling
    # Requests that the end of the load cut short leave the origin before the next load begins.
    await asyncio.sleep(2 * options.delay_ms / 1000 + 0.1)


def print_findings(findings: Findings) -> None:
    LOADS.head()
    for run, flows in findings.flows.items():
        modest = [flow for flow in flows if MODEST in flow.user]
        for flow in flows:
            if flow not in modest:
                print_row(run, flow.user, [flow], findings.seconds)
        if modest:
            print_row(run, f"{len(modest)} x {MODEST}", modest, findings.seconds)
    ratio = findings.ratio
    print(
        f"p99 of a modest flow, beside / alone: {ratio:.2f} "
        f"({verdict(ratio <= MAX_RATIO)}: at most {MAX_RATIO:g})\n"
        f"throughput of equal greedy flows, farthest from the mean: {findings.spread:.1%} "
        f"({verdict(findings.spread <= MAX_SPREAD)}: at most {MAX_SPREAD:.0%})\n"
        f"samples with a free seat while a request waited: {findings.idle_samples} "
        f"of {findings.waiting_samples} ({verdict(not findings.idle_samples)}: none)",
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
        "p99_ratio": findings.ratio,
        "equal_spread": findings.spread,
        "idle_seat_samples": findings.idle_samples,
        "waiting_samples": findings.waiting_samples,
        "flows": {
            run: {flow.user: flow.per_s(findings.seconds) for flow in flows}
            for run, flows in findings.flows.items()
        },
    }


def main() -> int:
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--seconds", type=count_up_to(3600), default=10, help="measured time of each load (10)")
    add("--delay-ms", type=count_up_to(10_000), default=50, help="of the origin (50)")
    add("--greedy", type=count_up_to(2000, 20), default=200, help="its requests in flight (200)")
    add("--modest", type=count_up_to(1000), default=10, help="number of modest flows (10)")
    add("--equal", type=count_up_to(8, 2), default=4, help="number of equal greedy flows (4)")
    add("--workers", type=count_up_to(64), default=1, help="of the proxy (1)")
    add("--no-pin", action="store_true", help="let the scheduler choose cores")
    options = parser.parse_args()

    descriptors = 2 * options.greedy + 2 * options.modest + 500
    return measured(options, measure, descriptors=descriptors)


if __name__ == "__main__":
    sys.exit(main())
