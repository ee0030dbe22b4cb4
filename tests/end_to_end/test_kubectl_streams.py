"""kubectl streams over TLS: exec, attach, cp, logs and port-forward, direct and proxied alike."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import random
import shutil
import socket
import struct
import subprocess
import tempfile
import termios
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from tests.end_to_end.api_servers import in_thread
from tests.end_to_end.kubectl import COMMAND_S, PROGRAM, Kubectl, find_kubectl, minor_version
from tests.end_to_end.streaming_upstream.identities import described
from tests.end_to_end.streaming_upstream.stage import (
    ACCOUNT,
    CERTIFICATE,
    CREDENTIALS,
    DIRECT,
    FRONT_PROXY,
    IMPERSONATE,
    MODES,
    PASS_THROUGH,
    PROXY_TOKEN,
    STATIC_TOKEN,
    STRANGER,
    TARGETS,
    TOKEN,
    WRONG_TOKEN,
    Stage,
    proxies,
    upstreams,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Scenario = Callable[[Kubectl, str], None]

WEBSOCKETS_FROM = 31
"""From this minor version on kubectl streams over WebSocket unless it is told not to."""
WEBSOCKET, SPDY = "websocket", "spdy"
PROTOCOLS = {
    WEBSOCKET: {"v5.channel.k8s.io", "SPDY/3.1+portforward.k8s.io"},
    SPDY: {"SPDY/3.1 v4.channel.k8s.io", "SPDY/3.1 portforward.k8s.io"},
}
"""What is agreed on for commands and for port-forwards."""


def spoken_protocols() -> tuple[str, ...]:
    program = shutil.which(os.environ.get(PROGRAM) or "kubectl")
    if program is None:
        return tuple(PROTOCOLS)
    with tempfile.TemporaryDirectory() as home:
        knows_both = minor_version(program, Path(home)) >= WEBSOCKETS_FROM
    return tuple(PROTOCOLS) if knows_both else (SPDY,)


LINES = "".join(f"{number} of many lines\n" for number in range(20_000))
BIG_BYTES = 2_000_000
PIECE_BYTES = 200_000


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with in_thread(upstreams(tmp_path_factory.mktemp("stage"))) as made, proxies(made):
        yield made


class Player:
    """Plays scenarios with one credential over one protocol."""

    def __init__(self, stage: Stage, credential: str, protocol: str, homes: Path) -> None:
        self.stage = stage
        self.protocol = protocol
        self._credential = credential
        self._homes = homes
        self._program = find_kubectl()
        self._minor = minor_version(self._program, homes)

    def kubectl(self, target: str) -> Kubectl:
        home = self._homes / target
        folder = home / "folder"
        folder.mkdir(parents=True)
        self.stage.write_kubeconfig(home, self._credential)
        is_websocket = str(self.protocol == WEBSOCKET).lower()
        names = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS")
        variables = dict.fromkeys(names, is_websocket)
        url = self.stage.url(target)
        return Kubectl(self._program, self._minor, url, home, folder, variables)

    def play(self, scenario: Scenario, targets: tuple[str, ...], pod: str) -> None:
        clients = [self.kubectl(target) for target in targets]
        with ThreadPoolExecutor(len(clients)) as pool:
            for done in [pool.submit(scenario, client, pod) for client in clients]:
                done.result()
        first, *others = [client.transcript for client in clients]
        for target, other in zip(targets[1:], others, strict=True):
            for one, same in zip(first, other, strict=True):
                assert one == same, target


def in_terminal(kubectl: Kubectl, *arguments: str, columns: int, rows: int) -> str:
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
    with subprocess.Popen(  # noqa: S603  kubectl
        kubectl.command(*arguments), env=kubectl.environment, stdin=its, stdout=its, stderr=its
    ) as process:
        os.close(its)
        text = b""
        while data := _read_terminal(ours):
            text += data
        os.close(ours)
        assert 0 == process.wait(COMMAND_S), text
    return text.decode()


def _read_terminal(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # nobody has the other end any more
        return b""


def read_to(lines: IO[str], part: str) -> str:
    seen = ""
    for line in lines:
        seen += line
        if part in line:
            return line
    raise AssertionError(seen)


def local_port(lines: IO[str]) -> int:
    line = read_to(lines, "Forwarding from 127.0.0.1:")
    return int(line.split(":")[1].split()[0])


def echoed(port: int, data: bytes) -> bytes:
    received = bytearray()
    with socket.create_connection(("127.0.0.1", port), COMMAND_S) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(1 << 16):
            received += piece
    return bytes(received)


def run_commands(kubectl: Kubectl, pod: str) -> None:
    assert "one two\n" == kubectl("exec", pod, "--", "echo", "one", "two")
    assert LINES == kubectl("exec", "-i", pod, "--", "cat", stdin=LINES)
    failed = kubectl.run("exec", pod, "--", "exit", "3")
    assert (3, "going\n") == (failed.code, failed.out)
    assert "gone wrong\n" in failed.err
    assert "nothing: not found" in kubectl.fail("exec", pod, "--", "nothing", code=127)
    size = in_terminal(kubectl, "exec", "-it", pod, "--", "size", columns=91, rows=17)
    assert "91x17" in size


def attach(kubectl: Kubectl, pod: str) -> None:
    assert "started\n" == kubectl("attach", pod)
    assert "started\n" + LINES == kubectl("attach", "-i", pod, stdin=LINES)


def copy(kubectl: Kubectl, pod: str) -> None:
    data = random.Random(4).randbytes(BIG_BYTES)  # noqa: S311  not a secret
    (kubectl.folder / "big.bin").write_bytes(data)
    (kubectl.folder / "tree" / "leaf").mkdir(parents=True)
    (kubectl.folder / "tree" / "leaf" / "name.txt").write_text("a name\n")
    kubectl("cp", "big.bin", f"{pod}:/there.bin")
    kubectl("cp", "tree", f"{pod}:/tree")
    kubectl("cp", f"{pod}:/there.bin", "back.bin")
    kubectl("cp", f"{pod}:/tree", "back")
    assert data == (kubectl.folder / "back.bin").read_bytes()
    assert "a name\n" == (kubectl.folder / "back" / "leaf" / "name.txt").read_text()
    missing = kubectl.run("cp", f"{pod}:/none", "none")
    assert missing.code
    assert "none: Cannot stat" in missing.out + missing.err


def follow_logs(kubectl: Kubectl, pod: str) -> None:
    with kubectl.running("logs", "--follow", pod) as lines:
        assert "started\n" == lines.readline()
        # Not run twice, as it has input: see `LOST_RACE`.
        kubectl("exec", "-i", pod, "--", "log", stdin="second line\n")
        assert "second line\n" == lines.readline()
        kubectl("exec", pod, "--", "stop")
        assert "" == lines.readline()
    assert "started\nsecond line\n" == kubectl("logs", pod)


def forward_ports(kubectl: Kubectl, pod: str) -> None:
    data = random.Random(5).randbytes(PIECE_BYTES)  # noqa: S311  not a secret
    with (
        kubectl.running("port-forward", pod, ":80") as lines,
        ThreadPoolExecutor(2) as pool,
    ):
        port = local_port(lines)
        assert [data, data] == list(pool.map(lambda _: echoed(port, data), range(2)))
    with kubectl.running("port-forward", pod, ":81") as lines:
        port = local_port(lines)
        with contextlib.suppress(ConnectionError):  # it may be cut before it is of use
            assert b"" == echoed(port, b"")
        read_to(lines, "nothing listens on port 81 of the pod")


def whoami(kubectl: Kubectl, pod: str) -> str:
    return kubectl("exec", pod, "--", "whoami")


SCENARIOS = (run_commands, attach, copy, follow_logs, forward_ports)

ASSERTED_BY = {CERTIFICATE: FRONT_PROXY, TOKEN: PASS_THROUGH, ACCOUNT: IMPERSONATE}
"""Credential to the mode of the proxy that streams are played through."""


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[each.__name__ for each in SCENARIOS])
@pytest.mark.parametrize("protocol", spoken_protocols())
@pytest.mark.parametrize("credential", CREDENTIALS)
def test_streams(
    stage: Stage, tmp_path: Path, credential: str, protocol: str, scenario: Scenario
) -> None:
    """Everything works the same through the proxy, over the protocol that was asked for."""
    targets = (DIRECT, ASSERTED_BY[credential])
    pod = f"{credential}-{protocol}-{SCENARIOS.index(scenario)}"

    Player(stage, credential, protocol, tmp_path).play(scenario, targets, pod)

    for target in targets:
        streams = [each for each in stage.upstreams[target].asked if each.pod == pod]
        protocols = {each.protocol for each in streams if each.what != "log"}
        assert protocols
        assert set() == protocols - PROTOCOLS[protocol]
        assert {described(stage.users[credential])} == {described(each.user) for each in streams}


@pytest.mark.parametrize(
    ("credential", "modes"),
    [
        # A certificate ends where TLS does.
        (CERTIFICATE, (FRONT_PROXY, IMPERSONATE)),
        (TOKEN, MODES),
        (ACCOUNT, MODES),
    ],
)
def test_identities(stage: Stage, tmp_path: Path, credential: str, modes: tuple[str, ...]) -> None:
    """The upstream sees the same user, however the proxy tells it, and whatever else is claimed."""

    def scenario(kubectl: Kubectl, pod: str) -> None:
        assert described(stage.users[credential]) == kubectl("exec", pod, "--", "whoami")

    Player(stage, credential, SPDY, tmp_path).play(scenario, (DIRECT, *modes), "web-0")


def test_unknown_token(stage: Stage, tmp_path: Path) -> None:
    """A token that is nobody's gets no stream, and kubectl is told why as by the server itself."""

    def scenario(kubectl: Kubectl, pod: str) -> None:
        assert "You must be logged in to the server" in kubectl.fail("exec", pod, "--", "whoami")

    Player(stage, STRANGER, SPDY, tmp_path).play(scenario, TARGETS, "web-0")


def test_impersonation_is_judged(stage: Stage, tmp_path: Path) -> None:
    """Who may not be somebody else is told so by the upstream, which knows who really asks."""

    def scenario(kubectl: Kubectl, pod: str) -> None:
        path = f"/api/v1/namespaces/default/pods/{pod}/log"
        refusal = kubectl.fail("--as", "root", "get", "--raw", path)
        assert "tess may not impersonate" in refusal

    targets = (DIRECT, PASS_THROUGH, FRONT_PROXY)
    Player(stage, TOKEN, SPDY, tmp_path).play(scenario, targets, "web-0")


def test_secrets_are_not_logged(stage: Stage) -> None:
    secrets = (STATIC_TOKEN, WRONG_TOKEN, PROXY_TOKEN, stage.token)
    for lines in stage.logs.values():
        text = "".join(lines)
        assert [] == [secret for secret in secrets if secret in text]
