"""The servers of the demo, in processes of their own: an API server, and two proxies before it.

The API server responds after 10 ms while at most 20 requests are there.  Beyond, requests contend
for what there is, as in real servers: it does less, the more there are.  Both proxies forward to
it and differ only in the objects of their stores: one limits and queues, one exempts all requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import multiprocessing
import signal
import tempfile
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
import uvloop

from apfproxy.apiserver.gate import EVERY_VERB, Latency, LoadSettings, Shape
from apfproxy.apiserver.seeds import SeedCounts
from apfproxy.app.apiserver_process import ApiServerProcess, ApiServerSettings
from apfproxy.app.log import configure_logging
from apfproxy.app.process import ProxyProcess
from apfproxy.cli.errors import CommandError
from apfproxy.settings import (
    Address,
    DownstreamSettings,
    FlowControlSettings,
    Settings,
    UpstreamSettings,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from multiprocessing.connection import Connection

SEATS = 20
SERVICE_S = 0.01
START_TIMEOUT_S, END_TIMEOUT_S = (30.0, 5.0)
LOCALHOST = "127.0.0.1"
ANY_PORT = Address(host=LOCALHOST, port=0)
API_SERVER = ApiServerSettings(
    listen=ANY_PORT,
    load=LoadSettings({EVERY_VERB: Latency(Shape.FIXED, SERVICE_S)}, SEATS),
    seeds=SeedCounts(pods=20, budgets=2),
)


FLOW_SCHEMA = """\
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: demo}
spec:
  matchingPrecedence: 2
  distinguisherMethod: {type: ByUser}
  priorityLevelConfiguration: {name: LEVEL}
  rules:
  - subjects: [{kind: Group, group: {name: "*"}}]
    nonResourceRules: [{verbs: ["*"], nonResourceURLs: ["*"]}]
    resourceRules:
    - {verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespaces: ["*"], clusterScope: true}
"""
# Nearly all of the server's seats.  A flow is dealt 6 of 128 queues: the greedy one fills its six,
# and a modest one has nearly always a queue that is its own.
LEVEL = """\
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: demo}
spec:
  type: Limited
  limited:
    nominalConcurrencyShares: 10000
    limitResponse:
      type: Queue
      queuing: {queues: 128, handSize: 6, queueLengthLimit: 50}
"""
FLOW_SCHEMAS, LEVELS = "flowschemas", "prioritylevelconfigurations"
EXEMPT = ((FLOW_SCHEMAS, FLOW_SCHEMA.replace("LEVEL", "exempt")),)
LIMITED = ((LEVELS, LEVEL), (FLOW_SCHEMAS, FLOW_SCHEMA.replace("LEVEL", "demo")))
"""The objects of the two proxies, beside the mandatory ones."""


class Ports(NamedTuple):
    """The ports of the proxy that exempts all, of that which limits, and of its admin listener."""

    without: int
    limited: int
    admin: int


async def start_api_server() -> tuple[int, ...]:
    """Start the API server; returns its port."""
    process = ApiServerProcess(API_SERVER)
    await process.start()
    return (process.port,)


async def start_proxies(server_port: int, directory: str) -> tuple[int, ...]:
    """Start both proxies, with their stores in a directory; returns their `Ports`."""
    ports: list[int] = []
    admin_port = 0
    for name, objects in (("without", EXEMPT), ("limited", LIMITED)):
        local = (ipaddress.ip_network("127.0.0.0/8"),)  # clients say who they are
        settings = Settings(
            downstream=DownstreamSettings(listen=ANY_PORT, identity_headers_from=local),
            upstream=UpstreamSettings(url=Address(host=LOCALHOST, port=server_port)),
            flow_control=FlowControlSettings(
                server_concurrency_limit=SEATS,
                store=f"{directory}/{name}.db",
                suggested_objects=False,
            ),
            admin=ANY_PORT,
        )
        process = ProxyProcess(settings)
        await process.start()
        ports.append(process.port)
        admin_port = process.admin_port or 0
        async with aiohttp.ClientSession(f"http://{LOCALHOST}:{admin_port}") as session:
            for kind, text in objects:
                async with session.post(
                    f"/apis/flowcontrol.apiserver.k8s.io/v1/{kind}",
                    data=text,
                    headers={"Content-Type": "application/yaml"},
                ) as response:
                    response.raise_for_status()
    return (*ports, admin_port)


@contextlib.contextmanager
def demo_servers() -> Iterator[Ports]:
    """Run the servers, each kind in a process of its own; CommandError if they do not start."""
    with (
        tempfile.TemporaryDirectory(prefix="apfproxy-demo-") as directory,
        server_process(start_api_server) as (server_port,),
        server_process(start_proxies, server_port, directory) as ports,
    ):
        yield Ports(*ports)


@contextlib.contextmanager
def server_process(
    start: Callable[..., Awaitable[tuple[int, ...]]], *arguments: object
) -> Iterator[tuple[int, ...]]:
    """Run what a coroutine function starts in a process of its own; gives what that returns."""
    # Not forked: a fork would share our terminal's and event loop's state.
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, start, *arguments), daemon=True)
    # The process inherits that Ctrl-C is ignored: it is ours, who close its pipe.
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, handler)
    theirs.close()
    ports: tuple[int, ...] = ()
    try:
        with contextlib.suppress(EOFError):  # it ended
            ports = pipe.recv() if pipe.poll(START_TIMEOUT_S) else ()
        if not ports:
            raise CommandError(
                "the demo's servers did not start; try again, or see the lines above"
            )
        yield ports
    finally:
        pipe.close()
        process.join(timeout=END_TIMEOUT_S)
        if process.is_alive():
            process.kill()
            process.join()


def serve(
    pipe: Connection, start: Callable[..., Awaitable[tuple[int, ...]]], *arguments: object
) -> None:
    """Start servers, tell their ports, and serve until the other end of the pipe closes."""
    for number in (signal.SIGINT, signal.SIGHUP):  # the parent's, who closes the pipe
        signal.signal(number, signal.SIG_IGN)
    configure_logging("error")

    async def until_closed() -> None:
        ports = await start(*arguments)
        closed = asyncio.Event()
        with contextlib.suppress(BrokenPipeError):  # interrupted before it started
            pipe.send(ports)
            asyncio.get_running_loop().add_reader(pipe.fileno(), closed.set)
            await closed.wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(until_closed())
