"""Credentials from a program that a kubeconfig names, as clients of managed clusters use.

The program is run without a terminal: for the first credential, when one expires, and when the API
has refused one.  Its process group is killed when it takes too long or writes too much, and when
nobody waits for it any more.

Source: Kubernetes documentation, "Authenticating", "client-go credential plugins", and the
reference of `client.authentication.k8s.io/v1`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from apfproxy.objects.field_errors import one_line
from apfproxy.objects.go_text import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP = "client.authentication.k8s.io"
API_VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
MAX_BYTES = 1 << 20
"""Of the program's output, and of its errors."""
PIECE_BYTES = 1 << 16
MAX_MESSAGE = 300
"""Characters of its errors that are shown."""
WITHIN_S = 30.0
EARLY_S = 10.0
"""A credential is replaced so long before it expires."""


class ExecError(Exception):
    """The program gave no credential.  Quotes none of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCommand:
    """A program in a kubeconfig; its arguments and variables may be secrets, and are in no repr.

    Attributes:
        path: Of the program, or its name on the PATH.
        api_version: Of its input and output.
        cluster: The cluster that it is told of, if any.
    """

    path: str
    arguments: tuple[str, ...] = field(default=(), repr=False)
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    api_version: str = API_VERSIONS[0]
    hint: str = ""
    cluster: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A bearer token, or PEM of a client certificate and its key; "" for what there is not."""

    token: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    expires_s: float | None = None


class ExecProgram:
    """The program, and the last credential from it."""

    def __init__(self, command: ExecCommand, wall_s: Callable[[], float] = time.time) -> None:
        self._command = command
        self._wall_s = wall_s
        self._last: Credential | None = None

    def refused(self) -> None:
        """The API has refused the last credential."""
        self._last = None

    async def credential(self) -> Credential:
        """The current credential, after a run of the program if need be, or ExecError."""
        last = self._last
        if last is None or (
            last.expires_s is not None and last.expires_s - EARLY_S <= self._wall_s()
        ):
            last = self._last = read_credential(await run(self._command), self._command)
        return last


async def run(command: ExecCommand) -> bytes:
    """What the program says; ExecError if it fails, says too much or takes too long."""
    path = shutil.which(command.path)
    hint = f"; {command.hint}" if command.hint else ""
    if path is None:
        raise ExecError(f"{one_line(command.path)}: there is no such program{hint}")
    spec: dict[str, Any] = {"interactive": False}
    if command.cluster is not None:
        spec["cluster"] = command.cluster
    told = {"kind": "ExecCredential", "apiVersion": command.api_version, "spec": spec}
    environment = {
        **os.environ,
        **dict(command.environment),
        "KUBERNETES_EXEC_INFO": json.dumps(told),
    }
    try:
        # Not awaited, so that a cancellation leaves no unknown process behind.
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - the operator named it
            [path, *command.arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ExecError(f"{command.path}: cannot be run: {reason}") from None
    try:
        answer, complaints = await outputs(process)
    except TimeoutError:
        raise ExecError(f"{command.path}: did not end within {WITHIN_S:g} s") from None
    if max(len(answer), len(complaints)) > MAX_BYTES:
        raise ExecError(f"{command.path}: says more than {MAX_BYTES} bytes")
    if process.returncode:
        complaint = one_line(" ".join(complaints.decode(errors="replace").split())[:MAX_MESSAGE])
        raise ExecError(f"{command.path}: ended with {process.returncode}: {complaint}{hint}")
    return answer


async def outputs(process: subprocess.Popen[bytes]) -> list[bytes]:
    """What a process says on its standard output and standard error until its end."""
    try:
        async with asyncio.timeout(WITHIN_S):
            said = await asyncio.gather(
                *(beginning(file, process) for file in (process.stdout, process.stderr))
            )
            await asyncio.to_thread(process.wait)
    except BaseException:
        kill(process)
        await asyncio.to_thread(process.wait)
        raise
    return said


async def beginning(file: IO[bytes] | None, process: subprocess.Popen[bytes]) -> bytes:
    """The output of a process; of one that writes too much, and is killed, its beginning."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), file
    )
    data = bytearray()
    try:
        while piece := await reader.read(PIECE_BYTES):
            data += piece
            if len(data) > MAX_BYTES:
                kill(process)
                break
    finally:
        transport.close()
    return bytes(data)


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and what is left of its group."""
    if process.returncode is None:  # else its number may be another's by now
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def read_credential(said: bytes, command: ExecCommand) -> Credential:
    """The credential in what a program said."""
    try:
        found = json.loads(said) if len(said) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("kind") != "ExecCredential":
        raise ExecError(f"{command.path}: what it says is no ExecCredential")
    if found.get("apiVersion") != command.api_version:
        raise ExecError(f"{command.path}: what it says is not of {command.api_version}")
    status = found.get("status")
    if not isinstance(status, dict):
        raise ExecError(f"{command.path}: what it says has no status")
    names = ("token", "clientCertificateData", "clientKeyData", "expirationTimestamp")
    values = [status.get(name) or "" for name in names]
    if not all(isinstance(value, str) for value in values):
        raise ExecError(f"{command.path}: {' or '.join(names)} is no string")
    token, certificate, key, expires = values
    if not (token or certificate) or bool(certificate) != bool(key):
        raise ExecError(f"{command.path}: gave neither a token nor a certificate with its key")
    if not (token.isascii() and token.isprintable()):
        raise ExecError(f"{command.path}: the token is no bearer token")
    try:
        expires_s = parse_time(expires) if expires else None
    except ValueError:
        raise ExecError(f"{command.path}: expirationTimestamp is no time") from None
    return Credential(token=token, certificate=certificate, key=key, expires_s=expires_s)
