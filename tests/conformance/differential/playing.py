"""Sends the requests to servers, and keeps what a real one answered.

`python -m tests.conformance.differential.playing` asks the server that `APFPROXY_REAL_APISERVER`
names (see `tests/end_to_end/real_cluster.py`), and writes its answers to where
`test_differential.py` reads them.  That server is one that nobody else uses, without other objects
than it makes itself, run with `--runtime-config=resource.k8s.io/v1beta1=true
--disable-admission-plugins=ServiceAccount` and no controllers beside it.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conformance.differential.comparing import is_discovery, normal, served
from tests.conformance.differential.requests import requests
from tests.conformance.differential.steps import Answer, Server
from tests.end_to_end.real_cluster import AUTHORITY, TOKEN, URL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.differential.steps import Step

RECORDING = Path(__file__).parent.parent / "vectors" / "differential.json.gz"
SEED = 0
SHARE = 0.35
"""Of the requests that are recorded: some thousands."""


def real_server() -> Server:
    """The server that the environment names."""
    return Server(os.environ[URL], os.environ.get(TOKEN, ""), os.environ.get(AUTHORITY, ""))


def kept(answer: Answer) -> dict[str, Any]:
    """An answer without what differs in every run."""
    body = served(answer.body) if is_discovery(answer.body) else answer.body
    return {
        "status": answer.status,
        "content_type": answer.content_type,
        "warnings": normal(answer.warnings),
        "body": normal(body),
    }


def recorded() -> Iterator[tuple[Step, Answer]]:
    """The requests that were recorded, with the answers of the real server."""
    answers = json.loads(gzip.decompress(RECORDING.read_bytes()))
    steps = {step.id: step for step in requests(SEED, SHARE)}
    assert list(steps) == list(answers), "the requests have changed: record them again"
    return ((steps[name], Answer(**answer)) for name, answer in answers.items())


def record() -> int:
    """Ask the real server, and write what it answers; the number of requests."""
    server = real_server()
    answers = {step.id: kept(server.answer(step)) for step in requests(SEED, SHARE)}
    server.close()
    data = json.dumps(answers, separators=(",", ":"), sort_keys=False).encode()
    RECORDING.write_bytes(gzip.compress(data, 9, mtime=0))
    return len(answers)


if __name__ == "__main__":
    print(f"recorded the answers to {record()} requests in {RECORDING}")  # noqa: T201 - a command
