"""The demo of a gateway."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import re
import signal
import socket
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, cast

import aiohttp
import pytest
from aiohttp import web
from rich.console import Console

from apfproxy.app import running
from apfproxy.cli.demo_clients import Tally
from apfproxy.cli.demo_gateway import (
    Gateway,
    Part,
    Seen,
    api_server,
    gateway_demo,
    gateway_settings,
    look,
    run_demo,
    summary,
    table_of,
)
from apfproxy.cli.demo_servers import ANY_PORT
from apfproxy.cli.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

PAGE = """\
apiserver_flowcontrol_nominal_limit_seats{priority_level="exempt"} 0
apiserver_flowcontrol_nominal_limit_seats{priority_level="demo"} 20
# TYPE apfproxy_endpoint_answers_total counter
apfproxy_endpoint_answers_total{endpoint="http://127.0.0.1:12",code="200"} 5
apfproxy_endpoint_answers_total{endpoint="http://127.0.0.1:11",code="200"} 3
apfproxy_endpoint_answers_total{endpoint="http://127.0.0.1:11",code="404"} 1
"""


class Pretended:
    """What the demo needs of its servers: a proxy that gives one answer, and its metrics."""

    def __init__(self, status: int = 200, on_kill: Callable[[], None] = lambda: None) -> None:
        self.servers = (11, 12)
        self.port = self.admin = 0
        self.status = status
        self.kill = on_kill
        self.starts = 0

    async def start_again(self) -> None:
        """Count it."""
        self.starts += 1

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """The page, or what a client gets."""
        if request.path == "/metrics":
            return web.Response(text=PAGE)
        return web.Response(status=self.status)

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator[Gateway]:
        """It, while it listens."""
        runner = web.ServerRunner(web.Server(self.answer))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = self.admin = runner.addresses[0][1]
        yield cast("Gateway", self)
        await runner.cleanup()


async def run(pretended: Pretended, seconds: float = 0.3) -> tuple[int, str]:
    """The exit code and the output of the demo with it."""
    output = io.StringIO()
    async with pretended.served() as gateway:
        code = await run_demo(gateway, seconds, Console(file=output, width=100))
    return code, output.getvalue()


def test_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server is killed and comes back, and no client sees an error."""
    monkeypatch.setattr(running, "raise_descriptor_limit", lambda: None)
    output = io.StringIO()

    code = gateway_demo(1.5, Console(file=output, width=100))

    assert (code, "No client saw an error.") == (0, output.getvalue().splitlines()[-1])
    assert multiprocessing.active_children() == []


async def test_parts() -> None:
    """Each part has a row, and the server is killed and started once."""
    kills = []
    pretended = Pretended(on_kill=lambda: kills.append(1))
    code, output = await run(pretended)

    assert code == 0
    assert (pretended.starts, len(kills)) == (1, 1)
    assert ["both servers", "one killed", "it is back"] == [
        found[1] for found in re.finditer(r"^ (\w+ \w+(?: \w+)?) +20 ", output, re.MULTILINE)
    ]


async def test_errors() -> None:
    """Errors that clients see are counted, and make the command fail."""
    code, output = await run(Pretended(status=502))

    assert code == 1
    assert re.search(r"^([1-9]\d*) requests failed: \1 times 502\.$", output, re.MULTILINE)


async def test_interrupted() -> None:
    """Ctrl-C ends it at once, with what was measured so far."""
    pretended = Pretended(on_kill=lambda: signal.raise_signal(signal.SIGINT))
    code, output = await run(pretended)

    assert (code, pretended.starts) == (0, 0)
    assert "one killed" in output
    assert "it is back" not in output
    assert output.endswith("No client saw an error.\n(Interrupted.)\n")


async def test_no_proxy() -> None:
    """Without a proxy the demo ends with an error."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    pretended = Pretended()
    pretended.port = port
    with pytest.raises(CommandError, match="no answer from the proxy of the demo"):
        await run_demo(cast("Gateway", pretended), 600, Console(file=io.StringIO()))


async def test_look() -> None:
    """The page of the proxy tells seats, and answers by server."""
    async with Pretended().served() as gateway, aiohttp.ClientSession() as session:
        assert Seen(20, [4, 5]) == await look(session, gateway)


def test_settings() -> None:
    """Each server has its seats, and may do as many requests at once."""
    settings = gateway_settings((11, 12), Path("objects.yaml"))

    assert ["http://127.0.0.1:11", "http://127.0.0.1:12"] == [
        address.address.url for address in settings.upstream.addresses
    ]
    assert [10, 20] == [settings.flow_control.seats(healthy) for healthy in (1, 2)]
    assert api_server(ANY_PORT).load.capacity == 10


def test_table() -> None:
    """Rates are by second; a request that was rejected is an error, too."""
    tally = Tally()
    for status in (200, 200, 429, 502):
        tally.add(status, 0.1)
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as capture:
        console.print(table_of([Part("both servers", tally, 2.0, 20, [4, 6])]))

    assert ["both", "servers", "20", "1", "2", "3", "100.3", "100.3", "2"] in [
        line.split() for line in capture.get().splitlines()
    ]


@pytest.mark.parametrize(
    ("errors", "is_whole", "text"),
    [
        ({}, True, "No client saw an error."),
        ({"502": 1}, True, "1 request failed: 1 times 502."),
        ({"502": 1, "429": 2}, True, "3 requests failed: 2 times 429, 1 times 502."),
        ({}, False, "No client saw an error.\n(Interrupted.)"),
    ],
)
def test_summary(errors: dict[str, int], is_whole: bool, text: str) -> None:
    """The last line says whether clients saw an error."""
    assert summary(Counter(errors), is_whole=is_whole) == text
