"""Credentials from a program."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.base.errors import OperatorError
from apfproxy.sources import api_credentials
from apfproxy.sources.api_credentials import (
    ApiCredentials,
    Credential,
    read_credential,
    run,
)
from apfproxy.sources.kubeconfig import ApiAccess, ExecCommand

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VERSION = "client.authentication.k8s.io/v1"
SECRET = "s3cr3t"  # noqa: S105 - of nobody


def said(**status: object) -> bytes:
    """What a program says."""
    return json.dumps({"kind": "ExecCredential", "apiVersion": VERSION, "status": status}).encode()


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Make a program of lines of a shell: its path."""

    def make(lines: str) -> str:
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o700)
        return str(path)

    return make


async def test_is_told(program: Callable[[str], str]) -> None:
    """The program gets its arguments, its variables, and what there is to know; no terminal."""
    path = program('cat; printf "%s %s %s" "$1" "$OWN" "$KUBERNETES_EXEC_INFO"')
    command = ExecCommand(
        path=path, arguments=("a b",), environment=(("OWN", "c"),), cluster={"server": "s"}
    )
    expected = {
        "kind": "ExecCredential",
        "apiVersion": VERSION,
        "spec": {"interactive": False, "cluster": {"server": "s"}},
    }

    assert f"a b c {json.dumps(expected)}" == (await run(command)).decode()
    assert "'c'" not in repr(command)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            "echo first >&2; echo second >&2; exit 3",
            "ended with 3: first second; hint",
            id="fails",
        ),
        pytest.param("printf '\\33[2J' >&2; exit 3", r"3: \\x1b\[2J; hint", id="escapes"),
        pytest.param("exec sleep 60", "did not end within 0.1 s", id="hangs"),
        pytest.param("setsid sleep 1", "did not end within 0.1 s", id="lets-others-hang"),
        pytest.param("exec yes", "says more than 1048576 bytes", id="says-too-much"),
    ],
)
async def test_fails(
    lines: str,
    expected: str,
    program: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program that fails or hangs is an error, with its own words."""
    if "sleep" in lines:
        monkeypatch.setattr(api_credentials, "WITHIN_S", 0.1)

    with pytest.raises(OperatorError, match=expected):
        await run(ExecCommand(path=program(lines), hint="hint"))


async def test_ends_with_the_wait_for_it(program: Callable[[str], str], tmp_path: Path) -> None:
    """When nobody waits any more, the program and what it has started end at once."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    running = asyncio.ensure_future(
        run(ExecCommand(path=program(f"exec 3>{fifo}; echo begun >&3; sleep 60 & wait")))
    )
    file = await asyncio.to_thread(fifo.open)
    with file:
        said = [await asyncio.to_thread(file.readline)]
        running.cancel()
        await asyncio.wait((running,))
        said.append(await asyncio.to_thread(file.read))  # comes to its end with the last writer

    assert ["begun\n", ""] == said
    assert running.cancelled()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(said(token=SECRET), Credential(token=SECRET), id="token"),
        pytest.param(
            said(clientCertificateData="c", clientKeyData="k"),
            Credential(certificate="c", key="k"),
            id="certificate",
        ),
        pytest.param(
            said(token=SECRET, expirationTimestamp="1970-01-01T00:01:00Z"),
            Credential(token=SECRET, expires_s=60.0),
            id="expires",
        ),
    ],
)
def test_read(data: bytes, expected: Credential) -> None:
    """A credential is a token, or a certificate with its key, perhaps for a time."""
    found = read_credential(data, ExecCommand(path="x"))

    assert expected == found
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"s3cr3t", "is no ExecCredential", id="no-json"),
        pytest.param(
            said(token=SECRET).replace(b"/v1", b"/v1alpha1"), "is not of client", id="version"
        ),
        pytest.param(
            b'{"kind":"ExecCredential","apiVersion":"%s"}' % VERSION.encode(),
            "gave neither",
            id="status",
        ),
        pytest.param(said(), "gave neither", id="nothing"),
        pytest.param(said(token=SECRET, clientKeyData="k"), "gave neither", id="half"),
        pytest.param(said(token=SECRET, expirationTimestamp="soon"), "is no time", id="time"),
    ],
)
def test_no_credential(data: bytes, expected: str) -> None:
    """What is no credential is refused, without showing it."""
    with pytest.raises(OperatorError, match=expected) as caught:
        read_credential(data, ExecCommand(path="x"))

    assert SECRET not in str(caught.value)


async def test_is_run_when_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is run at first, shortly before its credential expires, and after a refusal."""
    runs: list[Any] = []

    async def run_it(command: ExecCommand) -> bytes:
        runs.append(command)
        return said(token=f"t{len(runs)}", expirationTimestamp="1970-01-01T00:01:00Z")

    monkeypatch.setattr(api_credentials, "run", run_it)
    now_s = 0.0
    access = ApiAccess(server="http://h", program=ExecCommand(path="x"))
    credentials = ApiCredentials(access, lambda: now_s)
    shown = [await credentials.refresh() for _ in range(2)]
    credentials.refused()
    shown.append(await credentials.refresh())
    now_s = 51.0
    shown.append(await credentials.refresh())

    assert [f"Bearer t{number}" for number in (1, 1, 2, 3)] == shown
