"""Several processes that serve, and their parent."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import signal
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest

from loadtest.clients import OpenLoop
from tests.base.test_service_manager import told
from tests.end_to_end.served import (
    WITHIN_S,
    Served,
    answered,
    ask,
    children,
    command,
    connections,
    started_upstream,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from loadtest.clients import Tally


LISTENS = r"listens on 127\.0\.0\.1:(\d+), with (\d+) workers?; the parent is process (\d+)"
SERVES_AGAIN = r"worker (\d) serves again, as process (\d+)"
REPLACED = "all workers are replaced"
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextlib.contextmanager
def workers(count: str = "2", *flags: str) -> Iterator[tuple[Served, int]]:
    with (
        started_upstream() as upstream,
        command(
            *("serve", "--upstream", upstream, "--listen", "127.0.0.1:0", "--admin", "none"),
            *("--workers", count, *flags),
        ) as served,
    ):
        yield served, int(served.line(LISTENS)[1])


def delete(port: int, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)
    connection.request("DELETE", path)
    assert connection.getresponse().status == HTTPStatus.OK
    connection.close()


def test_killed_worker() -> None:
    """Only its own connections break, others go on, and another process serves at once."""
    with workers() as (served, port), connections(port, 16, REQUEST) as clients:
        for each in clients:
            assert answered(each) == 200
        first, second = children(served)
        os.kill(first, signal.SIGKILL)
        served.line(r"worker 1 \(process \d+\) was ended by SIGKILL; another one starts now")
        outcomes = []
        for each in clients:
            with contextlib.suppress(ConnectionError):
                each.sendall(REQUEST)
            outcomes.append(answered(each) == 200)
        now = {ask(port, "/")[0] for _ in range(20)}  # some wait for the one that starts
        again = served.line(SERVES_AGAIN)
        pids = children(served)
        statuses = {ask(port, "/")[0] for _ in range(20)}
        code, rest = served.end()

    assert {200} == statuses | now
    assert 0 < sum(outcomes) < 16
    assert ("1", {second, int(again[2])}) == (again[1], set(pids))
    assert (0, 3) == (code, rest.count("stopped\n"))
    assert [False, False] == [os.path.exists(f"/proc/{each}") for each in pids]  # noqa: PTH110


def test_killed_parent() -> None:
    """The workers drain, and end."""
    with workers() as (served, port), connections(port, 1, REQUEST) as (client,):
        assert answered(client) == 200
        served.send(signal.SIGKILL)
        served.line("the parent process is gone")
        served.line("the parent process is gone")
        served.rest()  # to the end of the last one that has the log

    assert 2 == "".join(served.lines).count("stopped\n")


def test_signals_of_a_group() -> None:
    with workers() as (served, _):
        for pid in (*children(served), served.process.pid):
            os.kill(pid, signal.SIGINT)
        code, rest = served.rest()

    assert 0 == code
    assert rest.count("stopped\n") >= 3  # one more if another worker had begun to start
    assert "stopped before" not in rest


def test_store(tmp_path: Path) -> None:
    """The parent has it; a change that is made there is in force in each worker."""
    store = str(tmp_path / "objects.db")
    flags = ("--upstream", "http://127.0.0.1:9", "--listen", "127.0.0.1:0", "--admin")
    with command("serve", *flags, "127.0.0.1:0", "--store", store, "--workers", "2") as served:
        admin = int(served.line(r"the parent is process \d+, admin on 127\.0\.0\.1:(\d+)")[1])
        delete(admin, "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/global-default")
        found = [
            served.line(r"worker (\d) .* generation 3 of the configuration: \d+ objects from")[1]
            for _ in range(2)
        ]
        status, _ = ask(admin, "/readyz")
        code, _ = served.end()

    assert {"1", "2"} == set(found)
    assert (200, 0) == (status, code)


def test_service(tmp_path: Path) -> None:
    """The service manager is told by the parent alone, once all workers serve."""
    name = f"{tmp_path}/notify"
    with (
        told(name) as manager,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("NOTIFY_SOCKET", name)
        patch.setenv("WATCHDOG_USEC", "100000")
        manager.settimeout(WITHIN_S)
        with workers() as (served, _):
            words = [manager.recv(100).decode() for _ in range(3)]
            served.send(signal.SIGHUP)
            while words.count("READY=1") == 1:
                words.append(manager.recv(100).decode())
            served.process.terminate()
            while not words[-1].startswith("STOPPING=1"):
                words.append(manager.recv(100).decode())
            served.rest()

    others = [each for each in words if each != "WATCHDOG=1"]
    assert ["READY=1", "WATCHDOG=1", "WATCHDOG=1"] == words[:3]
    assert ["READY=1", "RELOADING=1", "READY=1", "STOPPING=1"] == [
        each.partition("\n")[0] for each in others
    ]


def test_replacement_under_load() -> None:
    """No request fails, be it on a new connection or on one that is kept."""

    async def under_load(served: Served, port: int) -> Tally:
        clients = OpenLoop(port, 200, new_percent=10)
        served.send(signal.SIGUSR2)
        changing = asyncio.ensure_future(asyncio.to_thread(served.line, REPLACED))
        await clients.run(200, changing.done)
        await changing
        return clients.tally()

    with workers() as (served, port):
        tally = asyncio.run(under_load(served, port))
        code, _ = served.end()

    assert (0, 0) == (tally.failed, code), tally
    assert tally.answered >= 200
