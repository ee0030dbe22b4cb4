"""The servers of the demo, in processes of their own: an API server, and two proxies before it.

The API server answers after 10 ms while at most 20 requests are there.  Beyond, it is overloaded
as real servers are: its requests contend for what there is, so that it does less in all the more
there are.  Both proxies forward to it and differ only in their objects, which each has in a store
of its own: one limits and queues, the other exempts all requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import multiprocessing
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
import uvloop

from apfproxy.apiserver.load import EVERY_VERB, Latency, LoadSettings, Shape
from apfproxy.apiserver.seeds import SeedCounts
from apfproxy.app.apiserver_process import ApiServerProcess, ApiServerSettings
from apfproxy.app.log import configure_logging
from apfproxy.app.process import ProxyProcess
from apfproxy.cli.demo_clients import wait
from apfproxy.cli.errors import CommandError
from apfproxy.settings import (
    Address,
    DownstreamSettings,
    FlowControlSettings,
    Settings,
    UpstreamSettings,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

    from apfproxy.objects.types import Object

SEATS = 20
SERVICE_S = 0.01
SEEDS = SeedCounts(pods=20, budgets=2)
"""What the clients ask for."""

START_TIMEOUT_S = 30.0
END_TIMEOUT_S = 5.0

LOCALHOST = "127.0.0.1"
ANY_PORT = Address(host=LOCALHOST, port=0)
OBJECTS_PATH = "/apis/flowcontrol.apiserver.k8s.io/v1"

ALL_REQUESTS: Object = {
    "subjects": [{"kind": "Group", "group": {"name": "*"}}],
    "resourceRules": [
        {
            "verbs": ["*"],
            "apiGroups": ["*"],
            "resources": ["*"],
            "namespaces": ["*"],
            "clusterScope": True,
        }
    ],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}
# Nearly all of the server's seats.  A flow is dealt 6 of 128 queues: the greedy one fills its six,
# and a modest one has nearly always a queue that is its own.
LEVEL: Object = {
    "type": "Limited",
    "limited": {
        "nominalConcurrencyShares": 10000,
        "limitResponse": {
            "type": "Queue",
            "queuing": {"queues": 128, "handSize": 6, "queueLengthLimit": 50},
        },
    },
}


def flow_schema(level: str) -> Object:
    """The FlowSchema `demo`, which sends all requests to a level, each user's as a flow."""
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": "demo"},
        "spec": {
            "matchingPrecedence": 2,
            "distinguisherMethod": {"type": "ByUser"},
            "priorityLevelConfiguration": {"name": level},
            "rules": [ALL_REQUESTS],
        },
    }


EXEMPT = (flow_schema("exempt"),)
LIMITED = (
    {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": "demo"},
        "spec": LEVEL,
    },
    flow_schema("demo"),
)
"""The objects of the two proxies, beside the mandatory ones."""


class Ports(NamedTuple):
    """Where the two proxies listen on this machine.

    Attributes:
        without: The one that exempts all requests.
        limited: The one that limits and queues.
        admin: The admin listener of the latter, which has its objects.
    """

    without: int
    limited: int
    admin: int


API_SERVER = ApiServerSettings(
    listen=ANY_PORT,
    load=LoadSettings({EVERY_VERB: Latency(Shape.FIXED, SERVICE_S)}, SEATS),
    seeds=SEEDS,
)
"""At its best up to `SEATS` requests at once."""


TRUSTING = DownstreamSettings(
    listen=ANY_PORT, identity_headers_from=(ipaddress.ip_network("127.0.0.0/8"),)
)
"""Clients say who they are."""


def proxy_settings(server_port: int, store: Path) -> Settings:
    """Settings of a proxy before the API server."""
    return Settings(
        downstream=TRUSTING,
        upstream=UpstreamSettings(url=Address(host=LOCALHOST, port=server_port)),
        flow_control=FlowControlSettings(
            server_concurrency_limit=SEATS, store=str(store), suggested_objects=False
        ),
        admin=ANY_PORT,
    )


async def create(
    session: aiohttp.ClientSession, admin_port: int, objects: Sequence[Object]
) -> None:
    """Create objects in the store of a proxy, as kubectl would.

    Raises:
        aiohttp.ClientError: The proxy does not take them.
    """
    for obj in objects:
        url = f"http://{LOCALHOST}:{admin_port}{OBJECTS_PATH}/{obj['kind'].lower()}s"
        async with session.post(url, json=obj) as response:
            response.raise_for_status()


class ServerProcess:
    """Servers in a process of their own, which ends with `end`, or with this process.

    Args:
        run: Serves until the other end of the pipe that it gets closes, as `run_process` does.
        arguments: What it gets beside the pipe.
    """

    def __init__(self, run: Callable[..., None], *arguments: object) -> None:
        # Not forked: a fork would share our terminal's and event loop's state.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=run, args=(theirs, *arguments), daemon=True)
        # The process inherits that Ctrl-C is ignored: it is ours, who close its pipe.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._process.start()
        finally:
            signal.signal(signal.SIGINT, handler)
        theirs.close()

    def ports(self, timeout_s: float = START_TIMEOUT_S) -> tuple[int, ...]:
        """Where it listens; waits until it does; CommandError if it did not start."""
        try:
            if self._pipe.poll(timeout_s):
                answer: tuple[int, ...] = self._pipe.recv()
                return answer
        except EOFError:
            pass
        raise CommandError("the demo's servers did not start; try again, or see the lines above")

    async def started(self) -> tuple[int, ...]:
        """The same, for an event loop that has others to serve."""
        loop, has_answer = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._pipe.fileno(), has_answer.set)
        await wait(has_answer, START_TIMEOUT_S)
        loop.remove_reader(self._pipe.fileno())
        return self.ports(timeout_s=0)

    def kill(self) -> None:
        """End it as a crash does: its connections are reset."""
        self._process.kill()
        self._process.join()

    def end(self) -> None:
        """Let it end by itself, as it does when the pipe is closed, or else make it."""
        self._pipe.close()
        self._process.join(timeout=END_TIMEOUT_S)
        if self._process.is_alive():
            self.kill()


@contextlib.contextmanager
def demo_servers() -> Iterator[Ports]:
    """Run the servers, each kind in a process of its own, and stop them at the end.

    CommandError if they did not start.
    """
    with contextlib.ExitStack() as stack:

        def start(run: Callable[..., None], *arguments: object) -> tuple[int, ...]:
            process = ServerProcess(run, *arguments)
            stack.callback(process.end)
            return process.ports()

        (server_port,) = start(run_api_server, API_SERVER)
        yield Ports(*start(run_proxies, server_port))


def run_api_server(pipe: Connection, settings: ApiServerSettings) -> None:
    """Serve the API in this process until the pipe closes."""

    async def start() -> tuple[int, ...]:
        process = ApiServerProcess(settings)
        await process.start()
        return (process.port,)

    run_process(pipe, start)


def run_proxies(pipe: Connection, server_port: int) -> None:
    """Serve both proxies in this process until the pipe closes."""
    # The stores stay as long as the proxies have them open.
    with tempfile.TemporaryDirectory(prefix="apfproxy-demo-") as directory:

        async def start() -> tuple[int, ...]:
            ports: list[int] = []
            admin_port = 0
            async with aiohttp.ClientSession() as session:
                for name, objects in (("without", EXEMPT), ("limited", LIMITED)):
                    store = Path(directory) / f"{name}.db"
                    process = ProxyProcess(proxy_settings(server_port, store))
                    await process.start()
                    admin_port = process.admin_port or 0
                    await create(session, admin_port, objects)
                    ports.append(process.port)
            return (*ports, admin_port)

        run_process(pipe, start)


def run_process(pipe: Connection, start: Callable[[], Awaitable[tuple[int, ...]]]) -> None:
    """Start servers, tell their ports, and serve until the other end of the pipe closes."""
    for number in (signal.SIGINT, signal.SIGHUP):  # the parent's, who closes the pipe
        signal.signal(number, signal.SIG_IGN)
    configure_logging("error")

    async def serve() -> None:
        ports = await start()
        try:
            pipe.send(ports)
        except BrokenPipeError:  # interrupted before it started
            return
        closed = asyncio.Event()
        asyncio.get_running_loop().add_reader(pipe.fileno(), closed.set)
        await closed.wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())
