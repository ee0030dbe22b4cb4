"""Signals to a process: they end it, have it read things again, or do nothing."""

from __future__ import annotations

import json
import signal
import socket
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.served import ask, children, command, connections, started_upstream

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.served import Served

LISTENS = r"listens on 127\.0\.0\.1:(\d+), .* admin on 127\.0\.0\.1:(\d+)"
READ_AGAIN = r"read again; changed: (.*)"
MEANINGLESS = (
    signal.SIGUSR1,
    signal.SIGALRM,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGIO,
    signal.SIGRTMIN,
)
"""For a proxy without an access log."""
ANYWHERE = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
NOWHERE = ("--upstream", "http://127.0.0.1:9")

SETTINGS = """
downstream:
  listen: "127.0.0.1:0"
  limits: {{maxConnections: {connections}}}
  overload: {{loopDelay: null}}
authentication: {{tokenFile: tokens}}
flowControl: {{serverConcurrencyLimit: {seats}, objects: [objects], hashSeed: {seed}}}
accessLog: {{path: {log}}}
admin: "127.0.0.1:0"
logLevel: {level}
"""

SCHEMA = """
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: added-later}
spec: {matchingPrecedence: 500, priorityLevelConfiguration: {name: catch-all}}
"""


def hung_up(served: Served) -> str:
    served.send(signal.SIGHUP)
    return served.line(READ_AGAIN)[1]


def seats_of(admin_port: int) -> int:
    _, body = ask(admin_port, "/debug/limits")
    return int(body.partition('"serverConcurrencyLimit":')[2].partition(",")[0])


def test_what_is_read_again(tmp_path: Path) -> None:
    path, log = tmp_path / "settings.yaml", tmp_path / "log"
    (tmp_path / "objects").mkdir()
    (tmp_path / "tokens").write_text("first,alice,1\n")

    def write(seats: int, more: str = "", *, seed: int = 1, level: str = "info") -> None:
        text = SETTINGS.format(
            seats=seats, connections=300 - 297 * (seed - 1), seed=seed, level=level, log=log
        )
        (tmp_path / "new").write_text(text + more)
        (tmp_path / "new").replace(path)  # as a whole: the proxy watches the file

    write(600)
    credentials = "Authorization: Bearer second\r\n"
    flags = ("--settings", str(path), "--log-level", "info")
    with (
        started_upstream() as upstream,
        command("serve", *flags, "--upstream", upstream) as served,
    ):
        ports = served.line(LISTENS)
        port, admin_port = int(ports[1]), int(ports[2])
        statuses = [ask(port, "/healthz", head=credentials)[0]]
        (tmp_path / "tokens").write_text("second,bob,2\n")
        (tmp_path / "objects" / "schema.yaml").write_text(SCHEMA)
        log.rename(tmp_path / "log.1")
        served.send(signal.SIGUSR1)
        served.send(signal.SIGHUP)
        # The files are watched as well, so the order is open.
        found = ""
        while not all(each in found for each in ("tokens", "opened again", "generation 3", "read")):
            found += served.line("")[0] + served.lines[-1]
        statuses.append(ask(port, "/healthz", head=credentials)[0])

        write(77, "adminTokenFile: nowhere\n")
        served.send(signal.SIGHUP)
        served.line("the settings cannot be used, and stay as they were")
        said = [line for line in served.lines if "ERROR" in line]
        seats = [seats_of(admin_port)]
        health = [ask(admin_port, "/readyz?verbose")[1]]

        write(77, seed=2, level="error")
        changed = hung_up(served)
        fixed = served.line("restart to change (.*)")[1]
        seats.append(seats_of(admin_port))
        health.append(ask(admin_port, "/readyz?verbose")[1])
        with connections(port, 3, b"G"):
            statuses.append(ask(port, "/")[0])
        again = hung_up(served)
        code, _ = served.end()

    assert [401, 200, 503] == statuses
    assert [600, 77] == seats
    assert "downstream.limits.maxConnections, flowControl.serverConcurrencyLimit" == changed
    assert ("flowControl.hashSeed", "no setting", 0) == (fixed, again, code)
    assert any("adminTokenFile (--admin-token-file) needs" in line for line in said), said
    assert "[!]settings: " in health[0]
    assert "readyz check passed" in health[0]
    assert "[+]settings ok" in health[1]
    logs = [(tmp_path / name).read_text().splitlines() for name in ("log.1", "log")]
    assert [[401], [200]] == [[json.loads(line)["status"] for line in lines][:1] for lines in logs]


def test_while_it_starts(tmp_path: Path) -> None:
    """SIGHUP waits until the start is through; others do nothing before as after."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (tmp_path / "kubeconfig").write_text(
            "{apiVersion: v1, kind: Config, current-context: a,"
            " contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a, user: {}}],"
            f" clusters: [{{name: a, cluster: {{server: 'http://127.0.0.1:{silent.getsockname()[1]}'"
            "}}]}"
        )
        (tmp_path / "settings.yaml").write_text(
            "downstream: {listen: '127.0.0.1:0'}\nadmin: null\nupstream: {url: 'http://a:1'}\n"
            "flowControl: {kubernetes: {enabled: true, kubeconfig: kubeconfig,"
            " firstSyncTimeout: 1s}}\n"
        )
        with command("serve", "--settings", str(tmp_path / "settings.yaml")) as served:
            silent.accept()[0].close()  # it asks for the objects: it waits for them
            served.send(signal.SIGHUP)
            served.send(signal.SIGUSR1)
            served.line("SIGUSR1 means nothing here")
            served.line("listens on")
            changed = served.line(READ_AGAIN)[1]
            code, _ = served.end()

    assert ("no setting", 0) == (changed, code)


def test_while_it_drains() -> None:
    """SIGHUP does nothing any more, nor do others, and a second SIGTERM ends it at once."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        upstream = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with command("serve", "--upstream", upstream, *ANYWHERE) as served:
            port = int(served.line(LISTENS)[1])
            request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            with connections(port, 1, request), silent.accept()[0]:
                served.send(signal.SIGTERM)
                served.line("draining")
                served.send(signal.SIGHUP)
                served.line("SIGHUP: nothing is read again")
                served.send(signal.SIGUSR2)
                served.line("SIGUSR2 means nothing here, and is ignored")
                served.send(signal.SIGTERM)
                code, rest = served.rest()

    assert "stopped before all requests ended" in rest
    assert 1 == code


@pytest.mark.parametrize("name", ["serve", "apiserver"])
def test_signals_without_a_meaning(name: str) -> None:
    """They do nothing but write a line; without a file of settings SIGHUP changes none."""
    flags = (*NOWHERE, *ANYWHERE) if name == "serve" else ("--listen", "127.0.0.1:0")
    with command(name, *flags) as served:
        served.line("listens on|serves the API")
        for number in (*MEANINGLESS, *((signal.SIGHUP,) if name == "apiserver" else ())):
            served.send(number)
            shown = "SIGRTMIN" if number == signal.SIGRTMIN else signal.Signals(number).name
            served.line(f"{shown}.* means nothing here, and is ignored")
        changed = hung_up(served) if name == "serve" else "no setting"
        assert [] == children(served)
        code, rest = served.end()

    assert "stopped" in rest
    assert ("no setting", 0) == (changed, code)
