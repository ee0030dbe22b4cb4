"""The servers of the demo."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from apfproxy.api.decode import decode_documents
from apfproxy.cli import demo_servers as demo_servers_module
from apfproxy.cli.demo_servers import (
    EXEMPT,
    LIMITED,
    DemoError,
    Target,
    TargetConnection,
    demo_servers,
    end_process,
    proxy_settings,
    run_process,
)
from apfproxy.flowcontrol.controller import Controller
from apfproxy.request.attributes import parse_attributes
from apfproxy.request.user import User
from apfproxy.sources.object_files import effective_objects
from tests.cli.test_demo_clients import Transport
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize(
    ("concurrency", "service_s"),
    [(1, 0.005), (20, 0.005), (80, 0.005 * 8)],
)
def test_service_time(concurrency: int, service_s: float) -> None:
    """A request takes 5 ms until there are more than 20, and longer the more there are."""
    target = Target()
    target.concurrency = concurrency

    assert target.service_s() == pytest.approx(service_s)


async def test_target_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target answers each request after its service time, and counts those that are there."""
    loop = asyncio.get_running_loop()
    target = Target()
    connection = TargetConnection(target, loop)
    transport = Transport()
    connection.connection_made(transport)
    timers: list[asyncio.TimerHandle] = []
    callbacks: list[Callable[[], object]] = []
    real = loop.call_later

    def call_later(delay_s: float, callback: object) -> asyncio.TimerHandle:
        assert callable(callback)
        callbacks.append(callback)
        timers.append(real(3600, callback))
        assert delay_s == 0.005
        return timers[-1]

    monkeypatch.setattr(loop, "call_later", call_later)
    connection.data_received(REQUEST)
    during = (target.concurrency, repr(connection))
    callbacks[0]()
    after = (target.concurrency, repr(connection))
    connection.data_received(REQUEST)
    connection.connection_lost(None)

    assert during == (1, "<TargetConnection busy>")
    assert after == (0, "<TargetConnection idle>")
    assert len(transport.written) == 1
    assert target.concurrency == 0
    assert timers[1].cancelled()


async def test_target_gets_no_http() -> None:
    """Something else than HTTP ends the connection."""
    connection = TargetConnection(Target(), asyncio.get_running_loop())
    transport = Transport()
    connection.connection_made(transport)
    connection.data_received(b"\0\0\0\0")

    assert transport.is_aborted


@pytest.mark.parametrize(("text", "level", "seats"), [(LIMITED, "demo", 20), (EXEMPT, "exempt", 0)])
def test_objects(text: str, level: str, seats: int) -> None:
    """One set of objects gives all seats to all requests, the other exempts them."""
    decoded = decode_documents(text.encode(), "demo")
    controller = Controller(VirtualClock(), 20, 0)
    controller.commit(controller.digest(effective_objects(decoded.objects, with_suggested=False)))
    user = User("modest-1", ("system:authenticated",))
    target = b"/api/v1/namespaces/demo/pods/modest-1"
    classification = controller.classify(user, parse_attributes("GET", target))

    assert decoded.problems == []
    assert classification.level.name == level
    assert classification.level.nominal_limit == seats


def test_proxy_settings() -> None:
    """The proxies stay on this machine and have no admin listener."""
    settings = proxy_settings(1234, Path("objects.yaml"))

    assert (str(settings.downstream.listen), str(settings.upstream.address), settings.admin) == (
        "127.0.0.1:0",
        "127.0.0.1:1234",
        None,
    )


def test_servers_start_and_end() -> None:
    """The proxies listen on ports of their own while the servers run."""
    with demo_servers() as ports:
        assert 0 not in ports
        assert ports.without != ports.limited
        assert len(multiprocessing.active_children()) == 2

    assert multiprocessing.active_children() == []


def fail(_pipe: Connection) -> None:
    """A server that does not start."""
    raise SystemExit(1)


def test_servers_that_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not start ends the demo with an error."""
    monkeypatch.setattr(demo_servers_module, "run_target", fail)
    with pytest.raises(DemoError), demo_servers():
        pass

    assert multiprocessing.active_children() == []


def hang(pipe: Connection) -> None:
    """A process that does not end by itself."""
    pipe.send(())
    threading.Event().wait()


def test_process_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that does not end by itself is ended."""
    monkeypatch.setattr(demo_servers_module, "END_TIMEOUT_S", 0.01)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=hang, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    ours.recv()
    end_process(process, ours)

    assert process.exitcode == -9


def test_process_runs_until_its_pipe_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server tells its ports, and ends when nobody wants them any more."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(demo_servers_module, "configure_logging", lambda _level: None)
    ours, theirs = multiprocessing.Pipe()

    async def start() -> tuple[int, ...]:
        return (1, 2)

    thread = threading.Thread(target=run_process, args=(theirs, start))
    thread.start()
    ports = ours.recv()
    ours.close()
    thread.join()
    theirs.close()

    assert ports == (1, 2)
