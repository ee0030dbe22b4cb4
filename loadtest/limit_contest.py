"""Compare ways to find a server limit on random servers that slow down under load, in simulation.

Each seed is a server (flat or falling beyond its capacity, or by the universal scalability law), a
mix of one to four kinds of requests, a greedy user and one with 2 requests in flight, whose limit
begins with a tenth or ten times the best fixed one.  After 60 s the server becomes half or twice
as large.  In turn have the limit: this proxy's finder; the gradient controller of Envoy, by its
documentation (gradient of the least latency, measured again each 60 s at a concurrency of 3, with a
buffer of 25 %, and the latency of 100 ms; headroom: the root of the limit); and Gradient2 of
Netflix' concurrency limits (a mean of 600 samples, tolerance 1.5, smoothing 0.2, 4 more in queue).
All of them look ten times a second at the mean latency of that time.

Shown are medians and the worst: goodput and the modest user's p99 from 30 to 60 s over those of
the best fixed limit, seconds until 85 % of the goodput after the change, and how many of all runs
had 85 % of the goodput, 1.3 times the p99 and 15 s.

    python -m loadtest.limit_contest --seeds 40 --json limit_contest.json
"""

from __future__ import annotations

import math
import random
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from apfproxy.flowcontrol.limit_finder import FinderSettings, LimitFinder
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.settings import HTTP_API
from apfproxy.simulation.mix import parse_mix
from apfproxy.simulation.server_model import NS_PER_S, ServerModel, ServerRate
from apfproxy.simulation.simulation import Simulation
from apfproxy.sources.object_files import effective_objects
from loadtest.program import Parser, Table, count_up_to, measured

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    from apfproxy.flowcontrol.limit_finder import Load
    from apfproxy.simulation.server_view import Finder

SECONDS, CHANGE_S, LEARNED_S = 100, 60, 30
LEAST_GOODPUT, MOST_P99, RECOVERS_S = 0.85, 1.3, 15.0
MOST = 2000
MOST_RATE = 800.0
"""Responses a second, for the time that the simulation takes."""
TABLE = Table(
    "limit <10 | goodput >9.2f | worst >7.2f | p99 >6.2f | worst >7.2f | recovers s >12.1f"
    " | worst >7.1f | well >6.0f | of >4.0f"
)


class EnvoyGradient:
    """Does as the gradient controller of Envoy's adaptive concurrency filter."""

    def __init__(self, initial: int) -> None:
        self.limit = 3
        self._usual = initial
        self._least_s = 0.0
        self._due_s = 0.0
        self._measured = (0.0, 0.0)  # responses, seconds
        self._is_measuring = True

    def look(self, now_s: float, load: Load) -> None:
        responses = sum(count for count, _ in load.responses.values())
        taken_s = sum(seconds for _, seconds in load.responses.values())
        if self._is_measuring:
            self._measured = self._measured[0] + responses, self._measured[1] + taken_s
            if self._measured[0] >= 50:
                self._least_s = self._measured[1] / self._measured[0]
                self._is_measuring, self._due_s = False, now_s + 60.0
                self.limit = self._usual
        elif now_s >= self._due_s:
            self._is_measuring, self._measured = True, (0.0, 0.0)
            self._usual, self.limit = self.limit, 3
        elif responses >= 5:
            gradient = min(max(1.25 * self._least_s / (taken_s / responses), 0.5), 2.0)
            self.limit = min(max(int(gradient * self.limit + math.sqrt(self.limit)), 1), MOST)


class Gradient2:
    """Gradient2 of Netflix' concurrency limits."""

    def __init__(self, initial: int) -> None:
        self._estimate = float(initial)
        self.limit = initial
        self._long_s = 0.0
        self._samples = 0

    def look(self, now_s: float, load: Load) -> None:  # noqa: ARG002  as all have it
        responses = sum(count for count, _ in load.responses.values())
        if not responses:
            return
        short_s = sum(seconds for _, seconds in load.responses.values()) / responses
        self._samples += 1
        weight = 1 / self._samples if self._samples < 10 else 2 / 601
        self._long_s += weight * (short_s - self._long_s)
        if self._long_s > 2 * short_s:
            self._long_s *= 0.95
        if load.seats < self._estimate / 2:
            return
        gradient = min(max(1.5 * self._long_s / short_s, 0.5), 1.0)
        self._estimate += 0.2 * (self._estimate * gradient + 4 - self._estimate)
        self._estimate = min(max(self._estimate, 1.0), float(MOST))
        self.limit = int(self._estimate)


def ours(initial: int) -> LimitFinder:
    return LimitFinder(FinderSettings(1, MOST, initial, 0.97))


FINDERS: dict[str, Callable[[int], Finder]] = {
    "apfproxy": ours,
    "envoy": EnvoyGradient,
    "gradient2": Gradient2,
}


class Scene(NamedTuple):
    """A server, its change, and requests; `best` is the least limit with 99 % of its goodput."""

    seed: int
    before: ServerRate
    after: ServerRate
    mix: str
    best: int


def scene_of(seed: int) -> Scene:
    draw = random.Random(seed)  # noqa: S311  to be repeated
    capacity = math.exp(draw.uniform(math.log(2), math.log(100)))
    change = draw.choice((0.5, 2.0))
    kind = draw.choice(("flat", "falling", "law"))
    rates = []
    for size in (capacity, capacity * change):
        if kind == "law":
            share = draw.uniform(0, 0.05)
            rates.append(ServerRate(contention=share, coherency=(1 - share) / (2 * size) ** 2))
        else:
            rates.append(ServerRate(size, 1.0 if kind == "flat" else draw.uniform(1.1, 2.0)))
    best, goodput = rates[0].knee(0.99)
    rate = min(goodput / math.exp(draw.uniform(math.log(0.003), math.log(0.1))), MOST_RATE)
    mean_ms = 1000 * goodput / rate
    kinds = [(draw.uniform(0.1, 1), math.exp(draw.uniform(-1.5, 1.5))) for _ in "1234"]
    kinds = kinds[: draw.randint(1, 4)]
    scale = mean_ms * sum(part for part, _ in kinds)
    scale /= sum(part * size for part, size in kinds)
    clients = max(40, 6 * best)
    flows = []
    for user, count in (("greedy", clients), ("modest", 2)):
        for number, (part, size) in enumerate(kinds if user == "greedy" else kinds[:1]):
            share = part / sum(each for each, _ in kinds) if user == "greedy" else 1.0
            time = draw.choice(("exp(%.3fms)", "lognormal(%.3fms, 0.5)", "%.3fms"))
            flows.append(
                f"- {{name: {user}-{number}, user: {user}, request: GET /{'abcd'[number]}/x,"
                f" serviceTime: '{time % (size * scale)}',"
                f" clients: {max(1, round(count * share))}}}"
            )
    mix = f"seed: {seed}\nduration: {SECONDS}s\nflows:\n" + "\n".join(flows)
    return Scene(seed, rates[0], rates[1], mix, best)


class Outcome(NamedTuple):
    goodput: float
    p99: float
    recovers_s: float

    @property
    def is_well(self) -> bool:
        return (
            self.goodput >= LEAST_GOODPUT and self.p99 <= MOST_P99 and self.recovers_s <= RECOVERS_S
        )


class Run(NamedTuple):
    """Goodput in seconds of service a second, by the second, and the modest user's p99."""

    goodput: list[float]
    p99_ms: float


def run(scene: Scene, fixed: int, finder: Finder | None = None) -> Run:
    preset = PRESETS[HTTP_API]
    model = ServerModel("", ((0, scene.before), (CHANGE_S * NS_PER_S, scene.after)))
    simulation = Simulation(
        effective_objects((), with_suggested=True, preset=preset),
        fixed,
        server_model=model,
        finder=finder,
    )
    view = simulation.server_view
    assert view is not None
    parse_mix(scene.mix.encode(), preset).feed(simulation)
    seconds: list[float] = []
    modest: list[float] = []

    def look(_: None) -> None:
        seconds.append(view.work_ns / NS_PER_S)
        view.clear()
        if len(seconds) == LEARNED_S:
            for tally in simulation.tallies.values():
                tally.clear()
        if len(seconds) == CHANGE_S:
            found = (
                tally for key, tally in simulation.tallies.items() if key[0].startswith("modest")
            )
            modest.extend(tally.latencies.quantiles((0.99,))[0] / 1e6 for tally in found)
        simulation.clock.arm(simulation.clock.time_ns + NS_PER_S, look, None)

    simulation.clock.arm(NS_PER_S, look, None)
    simulation.run()
    return Run(seconds[:SECONDS], max(modest, default=math.inf))


def contest(seed: int) -> dict[str, list[Outcome]]:
    scene = scene_of(seed)
    best = run(scene, scene.best)
    _, after = scene.after.knee(0.99)
    found: dict[str, list[Outcome]] = {}
    for name, make in FINDERS.items():
        for initial in (max(1, scene.best // 10), min(10 * scene.best, MOST)):
            of_it = run(scene, initial, make(initial))
            goodput = sum(of_it.goodput[LEARNED_S:CHANGE_S]) / sum(best.goodput[LEARNED_S:CHANGE_S])
            later = of_it.goodput[CHANGE_S:]
            recovers_s = next(
                (
                    float(at)
                    for at in range(len(later) - 2)
                    if statistics.mean(later[at : at + 3]) >= LEAST_GOODPUT * after
                ),
                math.inf,
            )
            found.setdefault(name, []).append(
                Outcome(goodput, of_it.p99_ms / best.p99_ms, recovers_s)
            )
    return found


def measure(options: argparse.Namespace, _: Path) -> tuple[dict[str, list[Outcome]], list[str]]:
    results: dict[str, list[Outcome]] = {}
    with ProcessPoolExecutor() as pool:
        for of_seed in pool.map(contest, range(options.first, options.first + options.seeds)):
            for name, outcomes in of_seed.items():
                results.setdefault(name, []).extend(outcomes)
    TABLE.head()
    for name, outcomes in results.items():
        goodputs, p99s, recoveries = zip(*outcomes, strict=True)
        TABLE.row(
            name, statistics.median(goodputs), min(goodputs), statistics.median(p99s), max(p99s),
            statistics.median(recoveries), max(recoveries),
            sum(each.is_well for each in outcomes), len(outcomes),
        )  # fmt: skip
    return results, []


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("--seeds", type=count_up_to(10_000), default=40)
    parser.add_argument("--first", type=count_up_to(10_000), default=1, help="of the seeds")
    return measured(parser.parse_args(), measure, descriptors=1000)


if __name__ == "__main__":
    sys.exit(main())
