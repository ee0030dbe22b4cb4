"""What signals do to a process: they end it, have it read things again, or do nothing."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.served import ask, command, connections, started_upstream

if TYPE_CHECKING:
    from collections.abc import Callable
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
"""Of a proxy without an access log."""

SETTINGS = """
downstream:
  listen: "127.0.0.1:0"
  limits: {{maxConnections: {connections}}}
  overload: {{loopDelay: null}}
upstream: {{url: "{upstream}"}}
authentication: {{tokenFile: tokens}}
flowControl: {{serverConcurrencyLimit: {seats}, objects: [objects], hashSeed: {seed}}}
accessLog: {{path: null}}
drain: {{timeout: {drain}s}}
admin: "127.0.0.1:0"
logLevel: {level}
"""

SCHEMA = """
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: added-later}
spec: {matchingPrecedence: 500, priorityLevelConfiguration: {name: catch-all}}
"""


class Site:
    """A proxy with a settings file, objects and tokens that the test changes.

    Args:
        directory: For its files.
        upstream: URL of the server behind.
    """

    def __init__(self, directory: Path, upstream: str) -> None:
        self.directory = directory
        self.path = directory / "settings.yaml"
        self.tokens = directory / "tokens"
        self.tokens.write_text("first,alice,1\n")
        (directory / "objects").mkdir()
        self._upstream = upstream
        self.write()

    def write(
        self,
        *,
        seats: int = 600,
        connections: int = 300,
        seed: int = 1,
        drain: int = 30,
        level: str = "info",
        breaking: Callable[[str], str] = str,
    ) -> None:
        """Put settings in place of those that are there, as a whole: the proxy watches the file."""
        text = SETTINGS.format(
            upstream=self._upstream,
            seats=seats,
            connections=connections,
            seed=seed,
            drain=drain,
            level=level,
        )
        new = self.path.with_suffix(".new")
        new.write_text(breaking(text))
        new.replace(self.path)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """The files of a proxy before a server that nobody asks."""
    return Site(tmp_path, "http://127.0.0.1:9")


def hung_up(served: Served) -> str:
    """Which settings changed by a SIGHUP."""
    served.send(signal.SIGHUP)
    return served.line(READ_AGAIN)[1]


def seats_of(admin_port: int) -> int:
    """The server concurrency limit, as the live page has it."""
    _, body = ask(admin_port, "/debug/limits")
    return int(body.partition('"serverConcurrencyLimit":')[2].partition(",")[0])


def test_settings_change(site: Site) -> None:
    """What can change does, what cannot is named, and flags win over the file."""
    with command("serve", "--settings", str(site.path), "--log-level", "info") as served:
        ports = served.line(LISTENS)
        port, admin_port = int(ports[1]), int(ports[2])
        before = seats_of(admin_port)
        site.write(seats=77, connections=3, seed=2, level="error")
        changed = hung_up(served)
        fixed = served.line("restart to change (.*)")[1]
        after = seats_of(admin_port)
        with connections(port, 3, b"G"):
            status, _ = ask(port, "/")
        again = hung_up(served)
        code, _ = served.end()

    assert (600, 77) == (before, after)
    assert "downstream.limits.maxConnections, flowControl.serverConcurrencyLimit" == changed
    assert "flowControl.hashSeed" == fixed
    assert 503 == status
    assert "no setting" == again
    assert 0 == code


def test_files_are_read_again(site: Site) -> None:
    """Objects, tokens and certificates are those that the files have by then."""
    with (
        started_upstream() as upstream,
        command(
            *("serve", "--settings", str(site.path), "--upstream", upstream),
            *("--access-log", str(site.directory / "log")),
        ) as served,
    ):
        ports = served.line(LISTENS)
        port, admin_port = int(ports[1]), int(ports[2])
        fields = "Authorization: Bearer second\r\n"
        before = ask(port, "/healthz", head=fields)[0]
        site.tokens.write_text("second,bob,2\n")
        (site.directory / "objects" / "schema.yaml").write_text(SCHEMA)
        served.send(signal.SIGHUP)
        # The files are watched, too: whoever comes first takes them, so the order is open.
        found = ""
        while not all(each in found for each in ("tokens", "opened again", "generation 3", "read")):
            found += served.line("")[0] + served.lines[-1]
        after = ask(port, "/healthz", head=fields)[0]
        _, dump = ask(admin_port, "/readyz?verbose")
        code, _ = served.end()

    assert (401, 200) == (before, after)
    assert "[+]settings ok" in dump
    assert 0 == code


@pytest.mark.parametrize(
    ("breaking", "problem"),
    [
        (lambda text: text.replace("seats", "seat") + "nonsense: 1\n", "nonsense: "),
        (lambda text: text + "upstream: {url: 'http://a:1'}\n", "upstream"),
        (lambda _: "upstream: [", "not YAML"),
        (
            lambda text: text + "adminTokenFile: nowhere\n",
            "adminTokenFile (--admin-token-file) needs",
        ),
        (
            lambda text: text.replace(
                "{tokenFile: tokens}", "{tokenFile: tokens, clientCaFile: a}"
            ),
            "authentication.clientCaFile (--client-ca-file) needs downstream.tls",
        ),
    ],
)
def test_broken_settings(site: Site, breaking: Callable[[str], str], problem: str) -> None:
    """They leave all as it was, with a line for what is wrong, until they are mended."""
    with command("serve", "--settings", str(site.path)) as served:
        admin_port = int(served.line(LISTENS)[2])
        site.write(seats=77, breaking=breaking)
        served.send(signal.SIGHUP)
        served.line("the settings cannot be used, and stay as they were")
        lines = list(served.lines)
        seats = seats_of(admin_port)
        _, health = ask(admin_port, "/readyz?verbose")
        site.write(seats=78)
        changed = hung_up(served)
        after = seats_of(admin_port)
        _, mended = ask(admin_port, "/readyz?verbose")
        code, _ = served.end()

    assert [600, 78] == [seats, after]
    assert any("ERROR" in line and problem in line for line in lines), lines
    assert "[!]settings: " in health
    assert "readyz check passed" in health
    assert "flowControl.serverConcurrencyLimit" == changed
    assert "[+]settings ok" in mended
    assert 0 == code


BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{anchor}: &{anchor} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, anchor in itertools.pairwise("abcdefghij")
)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(os.mkfifo, "a pipe, not a regular file", id="pipe"),
        pytest.param(
            lambda path: path.symlink_to("/dev/zero"), "a device, not a regular file", id="device"
        ),
        pytest.param(
            lambda path: path.write_bytes(b"#" * (2 << 20)), "larger than 1048576 bytes", id="large"
        ),
        pytest.param(lambda path: path.write_text(BOMB), "more than 100000 values", id="aliases"),
    ],
)
def test_settings_without_end(
    site: Site, make: Callable[[Path], object], problem: str, tmp_path: Path
) -> None:
    """What is read in place of settings holds up neither requests nor the end of the process."""
    with command("serve", "--settings", str(site.path)) as served:
        admin_port = int(served.line(LISTENS)[2])
        make(tmp_path / "new")
        (tmp_path / "new").rename(site.path)
        served.send(signal.SIGHUP)
        served.line("the settings cannot be used, and stay as they were")
        lines = list(served.lines)
        seats = seats_of(admin_port)
        code, _ = served.end()

    assert any("ERROR" in line and problem in line for line in lines), lines
    assert (600, 0) == (seats, code)


def test_without_a_file() -> None:
    """There is nothing to change, and the process goes on."""
    listening = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    with command("serve", "--upstream", "http://127.0.0.1:9", *listening) as served:
        served.line("listens on")
        changed = hung_up(served)
        code, _ = served.end()

    assert ("no setting", 0) == (changed, code)


def test_while_it_starts(site: Site) -> None:
    """SIGHUP waits until the start is through; others do nothing before as after."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kubeconfig = site.directory / "kubeconfig"
        kubeconfig.write_text(
            "{apiVersion: v1, kind: Config, current-context: a,"
            " contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a, user: {}}],"
            f" clusters: [{{name: a, cluster: {{server: 'http://127.0.0.1:{silent.getsockname()[1]}'"
            "}}]}"
        )
        site.path.write_text(
            "downstream: {listen: '127.0.0.1:0'}\nadmin: null\nupstream: {url: 'http://a:1'}\n"
            "flowControl: {kubernetes: {enabled: true, kubeconfig: kubeconfig,"
            " firstSyncTimeout: 1s}}\n"
        )
        with command("serve", "--settings", str(site.path)) as served:
            silent.accept()[0].close()  # it asks for the objects: it waits for them
            served.send(signal.SIGHUP)
            served.send(signal.SIGUSR1)
            served.line("SIGUSR1 means nothing here")
            served.line("listens on")
            changed = served.line(READ_AGAIN)[1]
            code, _ = served.end()

    assert ("no setting", 0) == (changed, code)


def test_while_it_drains(site: Site) -> None:
    """SIGHUP does nothing any more, nor do others, and a second SIGTERM ends it at once."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        upstream = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with command("serve", "--settings", str(site.path), "--upstream", upstream) as served:
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


@pytest.mark.parametrize(
    "arguments",
    [("serve", "--upstream", "http://127.0.0.1:9", "--admin", "127.0.0.1:0"), ("apiserver",)],
)
def test_signals_without_a_meaning(arguments: tuple[str, ...]) -> None:
    """They do nothing but write a line."""
    with command(*arguments, "--listen", "127.0.0.1:0") as served:
        served.line("listens on|serves the API")
        numbers = MEANINGLESS if arguments[0] == "serve" else (*MEANINGLESS, signal.SIGHUP)
        for number in numbers:
            served.send(number)
            name = "SIGRTMIN" if number == signal.SIGRTMIN else signal.Signals(number).name
            served.line(f"{name}.* means nothing here, and is ignored")
        code, rest = served.end()

    assert "stopped" in rest
    assert 0 == code


def test_rotation(tmp_path: Path) -> None:
    """SIGUSR1 opens the access log again, and at the end no line is missing."""
    path, old = tmp_path / "log", tmp_path / "log.1"
    flags = "--upstream", "http://127.0.0.1:9", "--admin", "none", "--access-log", str(path)
    with command("serve", "--listen", "127.0.0.1:0", *flags) as served:
        port = int(served.line(r"listens on 127\.0\.0\.1:(\d+)")[1])
        ask(port, "/old")
        path.rename(old)
        served.send(signal.SIGUSR1)
        served.line("opened again")
        ask(port, "/new")
        code, _ = served.end()

    found = [json.loads(each.read_text()) for each in (old, path)]
    assert (0, ["/old", "/new"]) == (code, [line["path"] for line in found])
