"""The servers of the demo, in processes of their own: a target, and two proxies before it.

The target answers after 5 ms while at most 20 requests are there.  Beyond, it is overloaded as
real servers are: its requests contend for what there is, so that it does less in all the more
there are.  Both proxies forward to it and differ only in their objects: one limits and queues,
the other exempts all requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
import multiprocessing
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import httptools
import uvloop

from apfproxy.cli.log import configure_logging
from apfproxy.cli.process import ProxyProcess
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
SERVICE_S = 0.005
OVERLOAD_EXPONENT = 1.5
"""Of the service time over the requests beyond `SEATS`.

With 1 a server would do the same work in all however many requests it has; caches that no longer
fit, locks and collectors make real ones worse.
"""

START_TIMEOUT_S = 30.0
END_TIMEOUT_S = 5.0

LOCALHOST = "127.0.0.1"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nok\n"

RULES = """
  rules:
    - subjects: [{kind: Group, group: {name: "*"}}]
      resourceRules:
        - {verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespaces: ["*"], clusterScope: true}
      nonResourceRules: [{verbs: ["*"], nonResourceURLs: ["*"]}]
"""
FLOW_SCHEMA = """
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: demo}
spec:
  matchingPrecedence: 2
  distinguisherMethod: {type: ByUser}
"""
LIMITED = f"""{FLOW_SCHEMA}  priorityLevelConfiguration: {{name: demo}}{RULES}
---
# Nearly all of the server's seats.  A flow is dealt 6 of 128 queues: the greedy one fills its six,
# and a modest one has nearly always a queue that is its own.
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {{name: demo}}
spec:
  type: Limited
  limited:
    nominalConcurrencyShares: 10000
    limitResponse:
      type: Queue
      queuing: {{queues: 128, handSize: 6, queueLengthLimit: 50}}
"""
EXEMPT = f"{FLOW_SCHEMA}  priorityLevelConfiguration: {{name: exempt}}{RULES}"


class DemoError(Exception):
    """The demo's servers did not start."""


class Ports(NamedTuple):
    """Where the two proxies listen on this machine."""

    without: int
    """Of the proxy that exempts all requests."""
    limited: int
    """Of the proxy that limits and queues."""


class Target:
    """The server that the proxies protect.

    Attributes:
        concurrency: Requests that are there now.
    """

    def __init__(self) -> None:
        self.concurrency = 0

    def __repr__(self) -> str:
        return f"<Target with {self.concurrency} requests>"

    def service_s(self) -> float:
        """How long the request that came last takes."""
        return SERVICE_S * math.pow(max(1.0, self.concurrency / SEATS), OVERLOAD_EXPONENT)

    async def start(self, port: int = 0) -> asyncio.Server:
        """Listen on this machine."""
        loop = asyncio.get_running_loop()
        return await loop.create_server(
            lambda: TargetConnection(self, loop), LOCALHOST, port, backlog=1024
        )


class TargetConnection(asyncio.Protocol):
    """Answers the requests of one connection, each after its service time."""

    def __init__(self, target: Target, loop: asyncio.AbstractEventLoop) -> None:
        self._target = target
        self._loop = loop
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<TargetConnection {'busy' if self._timer else 'idle'}>"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # uvloop's transports only behave like asyncio's, they do not inherit.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Give up the request that is there, if any."""
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
            self._end()

    def data_received(self, data: bytes) -> None:
        """Parse; what is no HTTP ends the connection."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if self._transport is not None:
                self._transport.abort()

    def on_message_complete(self) -> None:
        """Begin to serve a request; the proxy sends the next one only after its answer."""
        self._target.concurrency += 1
        self._timer = self._loop.call_later(self._target.service_s(), self._answer)

    def _answer(self) -> None:
        self._end()
        if self._transport is not None:
            self._transport.write(ANSWER)

    def _end(self) -> None:
        self._timer = None
        self._target.concurrency -= 1


def proxy_settings(target_port: int, objects: Path) -> Settings:
    """Settings of a proxy before the target."""
    return Settings(
        downstream=DownstreamSettings(
            listen=Address(host=LOCALHOST, port=0),
            identity_headers_from=(ipaddress.ip_network("127.0.0.0/8"),),
        ),
        upstream=UpstreamSettings(address=Address(host=LOCALHOST, port=target_port)),
        flow_control=FlowControlSettings(
            server_concurrency_limit=SEATS, objects=(str(objects),), suggested_objects=False
        ),
        admin=None,
    )


@contextlib.contextmanager
def demo_servers() -> Iterator[Ports]:
    """Run the servers, each kind in a process of its own, and stop them at the end.

    Raises:
        DemoError: They did not start.
    """
    # Not forked: a fork would share our terminal's and event loop's state.
    context = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as stack:

        def start(run: Callable[..., None], *arguments: object) -> tuple[int, ...]:
            ours, theirs = context.Pipe()
            stack.callback(ours.close)  # the process ends when the pipe does
            process = context.Process(target=run, args=(theirs, *arguments), daemon=True)
            process.start()
            stack.callback(end_process, process, ours)
            theirs.close()
            try:
                if ours.poll(START_TIMEOUT_S):
                    answer: tuple[int, ...] = ours.recv()
                    return answer
            except EOFError:
                pass
            raise DemoError("the demo's servers did not start; try again, or see the lines above")

        (target_port,) = start(run_target)
        without, limited = start(run_proxies, target_port)
        yield Ports(without, limited)


def end_process(process: multiprocessing.process.BaseProcess, pipe: Connection) -> None:
    """Let a process end by itself, or else make it."""
    pipe.close()
    process.join(timeout=END_TIMEOUT_S)
    if process.is_alive():
        process.kill()
        process.join()


def run_target(pipe: Connection) -> None:
    """Serve the target in this process until the pipe closes."""

    async def start() -> tuple[int, ...]:
        server = await Target().start()
        return (server.sockets[0].getsockname()[1],)

    run_process(pipe, start)


def run_proxies(pipe: Connection, target_port: int) -> None:
    """Serve both proxies in this process until the pipe closes."""
    # The files stay as long as the proxies watch them.
    with tempfile.TemporaryDirectory(prefix="apfproxy-demo-") as directory:

        async def start() -> tuple[int, ...]:
            ports = []
            for name, text in (("without", EXEMPT), ("limited", LIMITED)):
                objects = Path(directory) / f"{name}.yaml"
                objects.write_text(text)
                process = ProxyProcess(proxy_settings(target_port, objects))
                await process.start()
                ports.append(process.port)
            return tuple(ports)

        run_process(pipe, start)


def run_process(pipe: Connection, start: Callable[[], Awaitable[tuple[int, ...]]]) -> None:
    """Start servers, tell their ports, and serve until the other end of the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, who closes the pipe
    configure_logging("error")

    async def serve() -> None:
        pipe.send(await start())
        closed = asyncio.Event()
        asyncio.get_running_loop().add_reader(pipe.fileno(), closed.set)
        await closed.wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())
