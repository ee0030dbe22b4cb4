"""kubectl for tests: one scenario, played against a server direct and behind the proxy."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any

from tests.end_to_end.manifests import listed
from tests.end_to_end.programs import installed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.end_to_end.manifests import Object

PROGRAM = "APFPROXY_KUBECTL"
"""Names another kubectl than the one on the path."""
COMMAND_S = 100
"""A command that takes longer hangs."""
LOST_RACE = "Unknown stream id"
"""Before 1.34, kubectl reads from a WebSocket before its streams are there (kubernetes#131203).

The server has run the command then, though kubectl may have lost what came of it.  A command that
must not be run twice waits for input, which kubectl sends once its streams are there.
"""
ATTEMPTS = 5

HIDES_OWNERS = 21
"""From this minor version on `managedFields` are not shown."""
OWNERS = re.compile(r"managed ?fields|\bf:|\bmanager: ", re.IGNORECASE)

CHANGING = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"\b\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}\b"), "TIME"),
    (re.compile(r"^([WIE])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", re.MULTILINE), r"\1 "),
    # What comes as the server sent it, by --raw, has no space there.
    (re.compile(r"((?:resourceVersion|Resource Version)\"?: *\"?)\d+"), r"\1VERSION"),
    (re.compile(r"(?<=\s)(?:\d+[smhdy]){1,2}(?=\s|$)"), "AGE"),
    (re.compile(r"(\"serverAddress\":\")[^\"]+"), r"\1ADDRESS"),
    (re.compile(r"((?:LIVE|MERGED)-)\d+"), r"\1N"),
    (re.compile(r"((?:LIVE|MERGED)-N\S*\s)\d{4}-\d\d-\d\d .*"), r"\1TIME"),
    # Columns are as wide as the ages in them; what follows + or - is indented.
    (re.compile(r"(?<=[^\s+-]) {2,}"), "  "),
)
"""Holds what differs from run to run, and what stands for it in transcripts."""


def find_kubectl() -> str:
    """The program: that which the environment names, or the one on the path."""
    return installed(os.environ.get(PROGRAM) or "kubectl")


def minor_version(program: str, home: Path) -> int:
    text = subprocess.run(  # noqa: S603  kubectl
        [program, "version", "--client", "-o", "json"],
        env=environment(home),
        capture_output=True,
        check=True,
        timeout=COMMAND_S,
    ).stdout
    return int(json.loads(text)["clientVersion"]["minor"].rstrip("+"))


def environment(home: Path) -> dict[str, str]:
    """An environment without a configuration: nothing of the user's is read or written."""
    return {
        "HOME": str(home),
        "PATH": os.environ.get("PATH", ""),
        "TMPDIR": str(home),
    }


@dataclass(frozen=True)
class Result:
    """Holds what a command came to; a text, with what changes from run to run replaced."""

    command: tuple[str, ...]
    code: int
    out: str
    err: str


@dataclass
class Kubectl:
    """kubectl, of one server."""

    program: str
    minor: int
    server: str
    home: Path
    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    transcript: list[Result] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return environment(self.home) | self.variables

    def command(self, *arguments: str) -> list[str]:
        cache = str(self.home / "cache")
        return [self.program, "--server", self.server, "--cache-dir", cache, *arguments]

    def run(self, *arguments: str, stdin: str = "", **variables: str) -> Result:
        """Run a command; again where it falls over its own feet, see `LOST_RACE`."""
        for _ in range(ATTEMPTS):
            done = subprocess.run(  # noqa: S603  kubectl
                self.command(*arguments),
                env=self.environment | variables,
                cwd=self.folder,
                input=stdin,
                capture_output=True,
                text=True,
                check=False,
                timeout=COMMAND_S,
            )
            if LOST_RACE not in done.stderr:
                break
        result = Result(
            arguments, done.returncode, self._normal(done.stdout), self._normal(done.stderr)
        )
        self.transcript.append(replace(result, out=self._comparable(result.out)))
        return result

    def __call__(self, *arguments: str, stdin: str = "", **variables: str) -> str:
        result = self.run(*arguments, stdin=stdin, **variables)
        assert 0 == result.code, result
        return result.out

    def create(self, *objects: Object) -> str:
        return self("create", "-f", "-", stdin=listed(*objects))

    def fail(self, *arguments: str, stdin: str = "", code: int = 1) -> str:
        result = self.run(*arguments, stdin=stdin)
        assert code == result.code, result
        return result.err

    def json(self, *arguments: str) -> Any:  # noqa: ANN401  JSON
        return json.loads(self(*arguments, "-o", "json"))

    def read(self, path: str) -> Any:  # noqa: ANN401  JSON
        text = subprocess.run(  # noqa: S603  kubectl
            self.command("get", "--raw", path),
            env=self.environment,
            capture_output=True,
            check=True,
            timeout=COMMAND_S,
        ).stdout
        return json.loads(text)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[IO[str]]:
        """Run a command until the end of the context: what it writes.

        It is ended too if it takes too long, so that nothing waits for ever for a line.
        """
        with subprocess.Popen(  # noqa: S603  kubectl
            self.command(*arguments),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            limit = threading.Timer(COMMAND_S, process.kill)
            limit.start()
            try:
                assert process.stdout is not None
                yield process.stdout
            finally:
                limit.cancel()
                process.send_signal(signal.SIGTERM)

    def record(self, text: str) -> None:
        self.transcript.append(Result((), 0, self._comparable(self._normal(text)), ""))

    def _comparable(self, text: str) -> str:
        """A text, without the order of fields' owners, which depends on the second."""
        try:
            obj = json.loads(text)
        except ValueError:
            is_shown = self.minor < HIDES_OWNERS and OWNERS.search(text)
            return "(with the owners of fields)" if is_shown else text
        if isinstance(obj, dict) and "managedFields" in obj.get("metadata", {}):
            obj["metadata"]["managedFields"].sort(
                key=lambda owner: [
                    owner["manager"],
                    owner["operation"],
                    owner.get("subresource", ""),
                ]
            )
            return json.dumps(obj)
        return text

    def _normal(self, text: str) -> str:
        text = text.replace(self.server, "SERVER").replace(str(self.home), "HOME")
        for pattern, stand_in in CHANGING:
            text = pattern.sub(stand_in, text)
        return text


@dataclass(frozen=True)
class Targets:
    """Servers that a scenario is played against."""

    program: str
    minor: int
    urls: dict[str, str]
    homes: Path
    variables: dict[str, str]

    def clients(self, folder: Path) -> list[Kubectl]:
        return [
            Kubectl(self.program, self.minor, url, self._home(name), folder, self.variables)
            for name, url in self.urls.items()
        ]

    def play(self, scenario: Callable[[Kubectl], None], folder: Path) -> None:
        """Play a scenario against all servers at once, and compare what they answered."""
        clients = self.clients(folder)
        with ThreadPoolExecutor(len(clients)) as pool:
            for done in [pool.submit(scenario, client) for client in clients]:
                done.result()
        first, *others = [client.transcript for client in clients]
        for other in others:
            for one, same in zip(first, other, strict=True):
                assert one == same, f"{one.out}{one.err}\n--- and\n{same.out}{same.err}"

    def _home(self, name: str) -> Path:
        home = self.homes / name
        home.mkdir(exist_ok=True)
        return home
