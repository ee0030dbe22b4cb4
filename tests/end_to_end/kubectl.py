"""kubectl for tests, without a configuration of the user's."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from tests.end_to_end.manifests import listed
from tests.end_to_end.programs import installed

if TYPE_CHECKING:
    from collections.abc import Iterator
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

AGE = re.compile(r"(?<=\s)(?:\d+[smhdy]){1,2}(?=\s|$)")
# Columns are as wide as the ages in them; what follows + or - is indented.
SPACES = re.compile(r"(?<=[^\s+-]) {2,}")


def find_kubectl() -> str:
    """The program: that which the environment names, or the one on the path."""
    return installed(os.environ.get(PROGRAM) or "kubectl")


@functools.cache
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
    """The outcome of a command, whose columns are two spaces apart and have no ages."""

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
        out, err = (SPACES.sub("  ", AGE.sub("AGE", each)) for each in (done.stdout, done.stderr))
        return Result(arguments, done.returncode, out, err)

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
