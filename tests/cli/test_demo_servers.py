"""The servers of the demo."""

from __future__ import annotations

import json
import multiprocessing
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest

from apfproxy.app.process import ProxyProcess
from apfproxy.cli import demo_servers as demo_servers_module
from apfproxy.cli.demo_clients import MODEST
from apfproxy.cli.demo_servers import (
    API_SERVER,
    EXEMPT,
    LIMITED,
    SEATS,
    ServerProcess,
    create,
    demo_servers,
    proxy_settings,
    run_process,
)
from apfproxy.cli.errors import CommandError
from apfproxy.flowcontrol.controller import Controller
from apfproxy.objects.decode import decode_documents
from apfproxy.request.attributes import User, parse_attributes
from apfproxy.sources.object_files import effective_objects
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


@pytest.mark.parametrize(
    ("objects", "level", "seats"), [(LIMITED, "demo", 20), (EXEMPT, "exempt", 0)]
)
def test_objects(objects: tuple[dict[str, object], ...], level: str, seats: int) -> None:
    """One set of objects gives all seats to all requests, the other exempts them."""
    decoded = decode_documents("\n---\n".join(map(json.dumps, objects)).encode(), "demo")
    controller = Controller(VirtualClock(), 20, 0)
    controller.commit(controller.digest(effective_objects(decoded.objects, with_suggested=False)))
    user = User("modest-1", ("system:authenticated",))
    classification = controller.classify(user, parse_attributes("GET", MODEST.path.encode()))

    assert decoded.problems == []
    assert classification.level.name == level
    assert classification.level.nominal_limit == seats


def test_settings() -> None:
    """The servers stay on this machine; the API server does as many requests as there are seats."""
    server = API_SERVER
    proxy = proxy_settings(1234, Path("objects.db"))

    assert (str(server.listen), server.load.capacity) == ("127.0.0.1:0", SEATS)
    assert (str(proxy.downstream.listen), str(proxy.upstream.address), str(proxy.admin)) == (
        "127.0.0.1:0",
        "127.0.0.1:1234",
        "127.0.0.1:0",
    )


async def test_proxies_get_their_objects(tmp_path: Path) -> None:
    """The objects of the demo are created in a proxy's store, from where it takes them."""
    process = ProxyProcess(proxy_settings(9, tmp_path / "objects.db"))
    await process.start()
    async with aiohttp.ClientSession() as session:
        await create(session, process.admin_port or 0, LIMITED)
    assert process.cluster.objects.source is not None
    process.cluster.objects.source.load_first()
    await process.stop()

    assert {"demo", "exempt", "catch-all"} == set(process.cluster.controller.levels)


def test_servers_start_and_end() -> None:
    """The proxies listen on ports of their own while the servers run."""
    with demo_servers() as ports:
        assert 0 not in ports
        assert len(set(ports)) == 3
        assert len(multiprocessing.active_children()) == 2

    assert multiprocessing.active_children() == []


def fail(*_: object) -> None:
    """A server that does not start."""
    raise SystemExit(1)


def test_servers_that_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not start ends the demo with an error."""
    monkeypatch.setattr(demo_servers_module, "run_api_server", fail)
    with pytest.raises(CommandError), demo_servers():
        pass

    assert multiprocessing.active_children() == []


def hang(pipe: Connection) -> None:
    """A process that does not end by itself."""
    pipe.send(())
    threading.Event().wait()


def test_process_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that does not end by itself is ended."""
    monkeypatch.setattr(demo_servers_module, "END_TIMEOUT_S", 0.01)
    process = ServerProcess(hang)

    assert process.ports() == ()
    process.end()
    assert multiprocessing.active_children() == []


async def test_process_beside_others() -> None:
    """An event loop goes on while a process starts, and is told if it does not."""
    hanging, failing = ServerProcess(hang), ServerProcess(fail)

    assert await hanging.started() == ()
    with pytest.raises(CommandError):
        await failing.started()
    hanging.kill()
    for process in (hanging, failing):
        process.end()
    assert multiprocessing.active_children() == []


def test_process_runs_until_its_pipe_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server tells its ports, and ends when nobody wants them any more."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(demo_servers_module, "configure_logging", lambda *_: None)
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


def test_process_whose_pipe_closes_before_it_has_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server ends in order if the demo was interrupted while it started."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(demo_servers_module, "configure_logging", lambda *_: None)
    ours, theirs = multiprocessing.Pipe()

    async def start() -> tuple[int, ...]:
        ours.close()
        return (1, 2)

    run_process(theirs, start)
    theirs.close()
