"""The check of the container's health, against a proxy that runs."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.config.expressions import CONFIG
from tests.end_to_end.programs import free_port, installed
from tests.end_to_end.served import command

pytestmark = pytest.mark.e2e

HEALTH = CONFIG / "container-health"
DOCKERFILE = (CONFIG.parent / "Dockerfile").read_text()
LISTENS = r"listens on 127\.0\.0\.1:(\d+), .* admin on 127\.0\.0\.1:(\d+)"


def status(port: int) -> int:
    done = subprocess.run(  # noqa: S603  of this repository
        [installed("bash"), str(HEALTH), str(port)], capture_output=True, check=False
    )
    return done.returncode


def test_health() -> None:
    """A proxy that works is healthy; its client listener, or a closed port, is not."""
    arguments = ("--upstream", "http://127.0.0.1:9", "--listen", "127.0.0.1:0")
    with command("serve", *arguments, "--admin", "127.0.0.1:0") as served:
        port, admin_port = map(int, served.line(LISTENS).groups())
        statuses = status(admin_port), status(port)

    assert 0 == statuses[0]
    assert 0 not in (statuses[1], status(free_port()))


def test_image() -> None:
    """The image has the check, runs it, and is built on an exact release of Python."""
    assert "/source/config/container-health /usr/local/bin/container-health" in DOCKERFILE
    assert 'CMD ["container-health", "8081"]' in DOCKERFILE
    assert re.search(r"^ARG PYTHON=python:\d+\.\d+\.\d+-slim-\w+$", DOCKERFILE, re.MULTILINE)
    for line in re.findall(r"pip install .*", DOCKERFILE):
        assert "--require-hashes -r .ci/requirements-" in line or "--no-deps" in line
    assert {"FROM ${PYTHON} AS build", "FROM ${PYTHON}"} == set(
        re.findall(r"^FROM .*", DOCKERFILE, re.MULTILINE)
    )
