"""The embedded apiserver answers recorded requests as kube-apiserver does, direct and proxied."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.conformance import vectors
from tests.conformance.replaying import Server, replay

if TYPE_CHECKING:
    from collections.abc import Iterator

LISTENING = re.compile(r"on (?:http://)?127\.0\.0\.1:(\d+)[,;]")
APISERVER = ("apiserver", "--listen", "127.0.0.1:0", "--controllers=-disruption")
SERVE = ("serve", "--listen", "127.0.0.1:0", "--admin", "none", "--upstream")


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[int]:
    """Run the program until the end of the context: the port that it listens on."""
    command = [sys.executable, "-m", "apfproxy", *arguments]
    with subprocess.Popen(  # noqa: S603 - our own program
        command, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None, "it is a pipe"
        try:
            found = None
            while found is None:
                line = process.stderr.readline()
                assert line, f"{' '.join(arguments)} ended before it listened"
                found = LISTENING.search(line)
            yield int(found[1])
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            process.wait()


@pytest.fixture(scope="module")
def differences() -> dict[str, list[str]]:
    """What differs, by way: each has a server of its own, and both run at once."""
    steps = vectors.load("api_exchanges")
    with (
        running(*APISERVER) as direct,
        running(*APISERVER) as origin,
        running(*SERVE, f"http://127.0.0.1:{origin}") as proxied,
        ThreadPoolExecutor() as threads,
    ):
        ports = {"direct": direct, "proxied": proxied}
        found = {
            way: threads.submit(replay, steps, Server("127.0.0.1", port))
            for way, port in ports.items()
        }
        return {way: result.result() for way, result in found.items()}


@pytest.mark.parametrize("way", ["direct", "proxied"])
def test_answers_are_as_recorded(way: str, differences: dict[str, list[str]]) -> None:
    """Every recorded step is answered as kube-apiserver answered it."""
    assert [] == differences[way]
