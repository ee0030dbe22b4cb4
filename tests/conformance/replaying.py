"""Sends requests to the embedded API server and compares its answers with a real one's."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.conformance.comparing import difference
from tests.conformance.known import KNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.conformance.steps import Answer, Server, Step

LISTENING = re.compile(r"on (?:http://)?127\.0\.0\.1:(\d+)[,;]")


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


def compared(
    ours: Server, answers: Iterable[tuple[Step, Answer, bool]]
) -> tuple[list[str], set[str]]:
    """Ask a server of ours what a real one was asked.

    Args:
        ours: The server.
        answers: Requests, the real answers, and whether the owners of fields are compared.

    Returns:
        The differences that are not known, a line each; and the known differences that were met.
    """
    unknown: list[str] = []
    met: set[str] = set()
    for step, real, with_owners in answers:
        what, how = difference(real, ours.answer(step), with_owners=with_owners)
        line = f"{what} {step.id} {step.method} {step.path[:120]} {step.accept}: {how}"
        why = next((why for why, pattern in KNOWN.items() if re.search(pattern, line)), None)
        if what and why is None:
            unknown.append(line)
        elif what and why is not None:
            met.add(why)
    ours.close()
    return unknown, met
