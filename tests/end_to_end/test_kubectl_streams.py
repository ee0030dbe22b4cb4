"""kubectl streams over TLS, through the proxy: exec, logs and port-forward."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import random
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import termios
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import pytest

from tests.end_to_end.api_servers import in_thread
from tests.end_to_end.kubectl import COMMAND_S, PROGRAM, Kubectl, find_kubectl, minor_version
from tests.end_to_end.served import command
from tests.end_to_end.streaming_upstream.server import StreamingUpstream
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    Scenario = Callable[[Kubectl, str], None]

WEBSOCKETS_FROM = 31
"""From this minor version on kubectl streams over WebSocket unless it is told not to."""
WEBSOCKET, SPDY = "websocket", "spdy"
PROTOCOLS = {
    WEBSOCKET: {"v5.channel.k8s.io", "SPDY/3.1+portforward.k8s.io"},
    SPDY: {"SPDY/3.1 v4.channel.k8s.io", "SPDY/3.1 portforward.k8s.io"},
}
"""Agreed on for commands and for port-forwards."""
TOKENS = TOKEN, WRONG_TOKEN = "static-token-of-tess", "static-token-of-nobody"
LISTENS = r"listens on 127\.0\.0\.1:(\d+) with TLS and HTTP/2,"
LINES = "".join(f"{number} of many lines\n" for number in range(20_000))
PIECE_BYTES = 200_000


def spoken_protocols() -> tuple[str, ...]:
    """The protocols that the kubectl on this machine knows; without one the tests say so."""
    program = shutil.which(os.environ.get(PROGRAM) or "kubectl")
    if program is None:
        return tuple(PROTOCOLS)
    with tempfile.TemporaryDirectory() as home:
        knows_both = minor_version(program, Path(home)) >= WEBSOCKETS_FROM
    return tuple(PROTOCOLS) if knows_both else (SPDY,)


class Stage(NamedTuple):
    """An upstream and a proxy before it."""

    folder: Path
    upstream: StreamingUpstream
    port: int


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("stage")
    authority = Authority("tests")
    authority.write(folder)
    authority.issue("127.0.0.1", usage="server").write(folder, "server")
    authority.issue("system:apfproxy").write(folder, "proxy")
    (folder / "tokens.csv").write_text(f"{TOKEN},tess,uid-of-tess\n")
    with (
        in_thread(upstream(folder)) as made,
        command("serve", "--settings", str(settings(folder, made.port))) as served,
    ):
        port = int(served.line(LISTENS)[1])
        assert served.process.stderr is not None
        reader = threading.Thread(target=served.lines.extend, args=(served.process.stderr,))
        reader.start()
        yield Stage(folder, made, port)
        served.process.terminate()
        reader.join()
        assert 0 == served.process.wait(COMMAND_S)
    assert [] == [line for line in served.lines for token in TOKENS if token in line]


@contextlib.asynccontextmanager
async def upstream(folder: Path) -> AsyncIterator[StreamingUpstream]:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(folder / "server.crt", folder / "server.key")
    async with StreamingUpstream().running(tls) as made:
        yield made


def settings(folder: Path, port: int) -> Path:
    """A file of settings of a proxy that names the user to the upstream."""
    path = folder / "settings.yaml"
    path.write_text(
        json.dumps(
            {
                "downstream": {
                    "listen": "127.0.0.1:0",
                    "overload": {"loopDelay": None},
                    "tls": {"certificateFile": "server.crt", "keyFile": "server.key"},
                },
                "upstream": {
                    "url": f"https://127.0.0.1:{port}",
                    "identity": "frontProxy",
                    "tls": {
                        "caFile": "ca.crt",
                        "certificateFile": "proxy.crt",
                        "keyFile": "proxy.key",
                    },
                },
                "authentication": {"tokenFile": "tokens.csv"},
                "drain": {"timeout": "5s"},
                "admin": None,
                "logLevel": "debug",
            }
        )
    )
    return path


def kubectl_of(stage: Stage, protocol: str, home: Path, token: str) -> Kubectl:
    folder = home / "folder"
    folder.mkdir()
    cluster = {"certificate-authority": str(stage.folder / "ca.crt"), "server": "https://none"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": {"token": token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text(json.dumps(config))
    names = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS")
    variables = dict.fromkeys(names, str(protocol == WEBSOCKET).lower())
    program, url = find_kubectl(), f"https://127.0.0.1:{stage.port}"
    return Kubectl(program, minor_version(program, home), url, home, folder, variables)


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
    except OSError:  # no one has the other end any more
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


SCENARIOS = (run_commands, follow_logs, forward_ports)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[each.__name__ for each in SCENARIOS])
@pytest.mark.parametrize("protocol", spoken_protocols())
def test_streams(stage: Stage, tmp_path: Path, protocol: str, scenario: Scenario) -> None:
    """The upstream is told the user, and hears the protocol that was asked for."""
    pod = f"{protocol}-{SCENARIOS.index(scenario)}"
    scenario(kubectl_of(stage, protocol, tmp_path, TOKEN), pod)

    streams = [each for each in stage.upstream.asked if each.pod == pod]
    protocols = {each.protocol for each in streams if each.what != "log"}
    assert protocols
    assert set() == protocols - PROTOCOLS[protocol]
    assert {"tess"} == {each.user for each in streams}


def test_unknown_token(stage: Stage, tmp_path: Path) -> None:
    """Kubectl is told why it gets no stream."""
    said = kubectl_of(stage, SPDY, tmp_path, WRONG_TOKEN).fail("exec", "web-0", "--", "echo")
    assert "You must be logged in to the server" in said
