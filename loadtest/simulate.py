"""What the simulator is worth: its speed, and how close it comes to the proxy itself.

`speed` times synthetic mixes on one core.  `agreement` sends one mix through a real proxy, whose
origin takes the very service times of the mix, and through the simulator; it fails if the
throughput of any client, or the mean wait of a kind of clients, differ by more than 10 %.  The
waits are those of the proxy's access log, which is then replayed, too.  (Which request waits for
which is chance: one client's mean wait differs by more than that from run to run of one proxy.)

    python -m loadtest.simulate speed
    python -m loadtest.simulate agreement --seconds 240
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
import uvloop
from aiohttp import web

from apfproxy.app.process import ProxyProcess
from apfproxy.cli.simulate import Configuration, configuration, simulated
from apfproxy.settings import (
    AccessLogSettings,
    Address,
    DownstreamSettings,
    FlowControlSettings,
    Settings,
    UpstreamSettings,
)
from apfproxy.simulation.logs import read_access_log
from apfproxy.simulation.mix import Mix, MixFlow, parse_mix
from apfproxy.simulation.report import configuration_report
from loadtest.arguments import Parser
from loadtest.processes import exit_status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.simulation.records import Records

TOLERANCE = 0.1
SPEED_SEATS = 600
AGREEMENT_SEATS = 20
SERVICE_HEADER = "X-Service-Time"
HASH_SEED = 0
NS_PER_S = 1e9

IDLE = b"""
duration: 100s
flows:
- {name: 'tenant-{}', count: 50, user: 'tenant-{}', request: GET /api/v1/namespaces/a/pods/b,
   rate: 100, serviceTime: exp(5ms)}
"""
CROWDED = b"""
duration: 100s
flows:
- {name: 'tenant-{}', count: 20, user: 'tenant-{}', request: GET /api/v1/namespaces/a/pods,
   rate: 100, serviceTime: exp(100ms)}
- {name: crowd, user: crowd, request: GET /api/v1/nodes, clients: 1000, serviceTime: exp(100ms)}
"""
WRITES = b"""
duration: 100s
flows:
- {name: watchers, user: watchers, verb: watch, resource: pods, rate: 50, serviceTime: 1000s}
- {name: 'writer-{}', count: 20, user: 'writer-{}', verb: update, resource: pods, namespace: a,
   rate: 200, serviceTime: exp(10ms)}
"""
MIXES = {"nothing waits": IDLE, "nearly all wait": CROWDED, "watches and writes": WRITES}

AGREEMENT_MIX = b"""
duration: %ds
seed: 7
flows:
- {name: 'paced-{}', count: 6, user: 'paced-{}', request: GET /api/v1/namespaces/a/pods/b,
   rate: 1.5, serviceTime: exp(1s)}
- {name: 'paced-steady-{}', count: 3, user: 'paced-steady-{}',
   request: POST /api/v1/namespaces/a/pods, rate: 1, arrivals: constant, serviceTime: 500ms-1500ms}
- {name: crowd, user: crowd, request: GET /api/v1/namespaces/a/configmaps/c, clients: 24,
   serviceTime: 'lognormal(1s,0.5)'}
"""
"""So slow that a busy machine, which adds milliseconds to each real request, changes little."""

AGREEMENT_OBJECTS = """
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: tenants}
spec:
  type: Limited
  limited:
    nominalConcurrencyShares: 1000
    lendablePercent: 0
    borrowingLimitPercent: 0
    limitResponse: {type: Queue, queuing: {queues: 64, handSize: 6, queueLengthLimit: 50}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: tenants}
spec:
  priorityLevelConfiguration: {name: tenants}
  matchingPrecedence: 100
  distinguisherMethod: {type: ByUser}
  rules:
  - subjects: [{kind: Group, group: {name: 'system:authenticated'}}]
    resourceRules:
    - {verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: ['*'], clusterScope: true}
"""


class Outcome(NamedTuple):
    """What became of a client's requests."""

    executed: int
    wait_s: float


def nothing(_part: float) -> None:
    """Show no progress."""


# Speed


def speed() -> None:
    """Print requests a second of CPU time for each mix."""
    built_in = configuration((), SPEED_SEATS, with_suggested=True)
    print(f"{'mix':24}{'requests':>10}{'queued':>10}{'CPU s':>8}{'requests/s':>12}")
    for name, text in MIXES.items():
        mix = parse_mix(text)
        gc.collect()
        start_s = time.process_time()
        simulation = simulated(built_in, mix, nothing, hash_seed=HASH_SEED)
        taken_s = time.process_time() - start_s
        queued = sum(tally.queued for tally in simulation.tallies.values())
        rate = simulation.arrivals / taken_s
        print(f"{name:24}{simulation.arrivals:10}{queued:10}{taken_s:8.2f}{rate:12,.0f}")


# Agreement


async def answer(request: web.Request) -> web.Response:
    """Take the time that the request says, as an origin."""
    await request.read()
    await asyncio.sleep(int(request.headers[SERVICE_HEADER]) / NS_PER_S)
    return web.Response(text="{}")


class Load:
    """Sends a mix through a proxy."""

    def __init__(self, session: aiohttp.ClientSession, port: int, mix: Mix) -> None:
        self._session = session
        self._port = port
        self._mix = mix
        self._start_s = 0.0

    async def run(self) -> None:
        """Send all of it, and wait for the answers."""
        self._start_s = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for index, flow in enumerate(self._mix.flows):
                if flow.entry.rate:
                    group.create_task(self._send_at_rate(index, flow))
                    continue
                draw = flow.service.drawer(self._mix.chance(index))
                for _ in range(flow.entry.clients):
                    group.create_task(self._ask_and_ask(flow, draw))

    async def _send_at_rate(self, index: int, flow: MixFlow) -> None:
        async with asyncio.TaskGroup() as group:
            for at_ns, _, service_ns in flow.requests(self._mix.chance(index)):
                await self._until(at_ns)
                group.create_task(self._request(flow, service_ns))

    async def _ask_and_ask(self, flow: MixFlow, draw: Callable[[], int]) -> None:
        await self._until(flow.entry.start)
        while (time.monotonic() - self._start_s) * NS_PER_S < flow.stop_ns:
            await self._request(flow, draw())

    async def _until(self, at_ns: int) -> None:
        await asyncio.sleep(max(0.0, self._start_s + at_ns / NS_PER_S - time.monotonic()))

    async def _request(self, flow: MixFlow, service_ns: int) -> None:
        attributes = flow.kind.attributes
        headers = {"X-Remote-User": flow.kind.client, SERVICE_HEADER: str(service_ns)}
        method = "POST" if attributes.verb == "create" else "GET"
        url = f"http://127.0.0.1:{self._port}{attributes.path}"
        async with self._session.request(method, url, headers=headers) as response:
            await response.read()


async def through_proxy(mix: Mix, objects: Path, log: Path) -> None:
    """Send a mix through a proxy that writes its access log."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    origin = Address(host="127.0.0.1", port=int(runner.addresses[0][1]))
    process = ProxyProcess(
        Settings(
            downstream=DownstreamSettings(
                listen=Address(host="127.0.0.1", port=0),
                identity_headers_from=(ipaddress.ip_network("127.0.0.0/8"),),
            ),
            upstream=UpstreamSettings(url=origin),
            flow_control=FlowControlSettings(
                objects=(str(objects),),
                server_concurrency_limit=AGREEMENT_SEATS,
                hash_seed=HASH_SEED,
                suggested_objects=False,
            ),
            access_log=AccessLogSettings(
                path=str(log), refused_per_second=None, max_bytes_per_second=None
            ),
            admin=None,
        )
    )
    await process.start()
    try:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            await Load(session, process.server.port or 0, mix).run()
    finally:
        await process.stop()
        await runner.cleanup()


def outcomes_of_log(log: Path) -> dict[str, Outcome]:
    """What the proxy says became of each client's requests."""
    waits: dict[str, list[float]] = {}
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        assert entry["reason"] == "", line
        waits.setdefault(entry["user"], []).append(entry["waitSeconds"])
    return {user: Outcome(len(each), sum(each) / len(each)) for user, each in waits.items()}


def outcomes_simulated(setup: Configuration, source: Mix | Records) -> dict[str, Outcome]:
    """What the simulator says became of them."""
    simulation = simulated(setup, source, nothing, hash_seed=HASH_SEED)
    report = configuration_report("", simulation)
    return {row["client"]: Outcome(row["executed"], row["waitMean"]) for row in report["clients"]}


def agreement(seconds: int) -> bool:
    """Compare the simulator with the proxy; the result is whether they agree."""
    mix = parse_mix(AGREEMENT_MIX % seconds)
    with tempfile.TemporaryDirectory() as directory:
        objects, log = Path(directory, "objects.yaml"), Path(directory, "access.log")
        objects.write_text(AGREEMENT_OBJECTS)
        setup = configuration((str(objects),), AGREEMENT_SEATS, with_suggested=False)
        uvloop.run(through_proxy(mix, objects, log))
        real = outcomes_of_log(log)
        with log.open("rb") as lines:
            records = read_access_log(lines, 0)
    found = {"mix": outcomes_simulated(setup, mix), "log": outcomes_simulated(setup, records)}
    agrees = True
    for source, outcomes in found.items():
        print(f"replayed from the {source}:")
        print(f"  {'client':16}{'proxy':>8}{'simulator':>11}  executed/s")
        for client, (executed, _) in sorted(real.items()):
            its = outcomes[client].executed
            by = apart(executed, its)
            agrees = agrees and abs(by) <= TOLERANCE
            print(f"  {client:16}{executed / seconds:8.2f}{its / seconds:11.2f}{by:+7.1%}")
        print(f"  {'kind':16}{'proxy':>8}{'simulator':>11}  mean wait, ms")
        ours, its_waits = mean_waits(real), mean_waits(outcomes)
        for kind, wait_s in ours.items():
            by = apart(wait_s, its_waits[kind])
            agrees = agrees and abs(by) <= TOLERANCE
            print(f"  {kind:16}{wait_s * 1e3:8.1f}{its_waits[kind] * 1e3:11.1f}{by:+7.1%}")
    print("they agree" if agrees else f"they differ by more than {TOLERANCE:.0%}")
    return agrees


def mean_waits(outcomes: dict[str, Outcome]) -> dict[str, float]:
    """The mean wait of each kind of clients, told by their names up to the first hyphen."""
    sums: dict[str, Outcome] = {}
    for client, (executed, wait_s) in sorted(outcomes.items()):
        kind = client.partition("-")[0]
        before = sums.get(kind, Outcome(0, 0.0))
        sums[kind] = Outcome(before.executed + executed, before.wait_s + executed * wait_s)
    return {kind: total.wait_s / total.executed for kind, total in sums.items()}


def apart(real: float, simulated_: float) -> float:
    """By what part of the real value the simulated one is larger."""
    return simulated_ / real - 1 if real else float(simulated_ > 0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the two; the result is the exit status."""
    parser = Parser(__doc__)
    parser.add_argument("what", choices=["speed", "agreement"])
    parser.add_argument("--seconds", type=int, default=240, help="of the mix for `agreement`")
    options = parser.parse_args(arguments)
    agreed = True

    def run() -> None:
        nonlocal agreed
        if options.what == "speed":
            speed()
        else:
            agreed = agreement(options.seconds)

    return exit_status("simulate", run) or int(not agreed)


if __name__ == "__main__":
    sys.exit(main())
