"""The proxy's credentials for a Kubernetes API: a TLS context and `Authorization`.

Files are read before each request, of which there are few.  A changed certificate that cannot be
used, such as one without its new key, leaves the former TLS context in use; a token that cannot be
read fails the request.

A program that a kubeconfig names (`exec`) is run without a terminal: for the first credential, when
one expires, and when the API has refused one.  Its process group is killed when it takes too long
or writes too much, and when the wait for it ends.

Source: Kubernetes documentation, "client-go credential plugins", and the reference of
`client.authentication.k8s.io/v1`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import json
import math
import os
import shutil
import signal
import ssl
import subprocess
import time
from typing import IO, TYPE_CHECKING, Any

import msgspec

from apfproxy.base.errors import OperatorError
from apfproxy.base.files import FileChanges
from apfproxy.base.tls_files import Pem, client_context, lifetime
from apfproxy.objects.field_errors import one_line
from apfproxy.objects.go_text import parse_time
from apfproxy.sources.token_file import read_token

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.base.tls_files import Lifetime
    from apfproxy.sources.kubeconfig import ApiAccess, Program

MAX_BYTES = 1 << 20  # of a program's output; as many of its errors
MAX_MESSAGE = 300  # characters of its errors that are shown
WITHIN_S = 30.0
EARLY_S = 10.0  # before its expiry a credential is replaced


class Credential(msgspec.Struct, rename="camel", frozen=True):
    """A bearer token, or a certificate and its key as PEM."""

    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None

    def __repr__(self) -> str:
        return "<Credential>"

    @property
    def expires_s(self) -> float:
        """Seconds since 1970; ValueError if it is no time."""
        return parse_time(self.expiration_timestamp) if self.expiration_timestamp else math.inf

    @property
    def own(self) -> tuple[Pem, Pem] | None:
        if not (self.client_certificate_data and self.client_key_data):
            return None
        pair = self.client_certificate_data, self.client_key_data
        return Pem(data=pair[0].encode()), Pem(data=pair[1].encode())


class ExecCredential(msgspec.Struct, rename="camel", tag_field="kind", tag="ExecCredential"):
    api_version: str = ""
    status: Credential | None = None


class ApiCredentials:
    """The credentials that an access names; OperatorError if they cannot be used.

    `context` is for new connections, None without TLS; `problem` says why changed files of TLS are
    not in use.
    """

    def __init__(self, access: ApiAccess, wall_s: Callable[[], float] = time.time) -> None:
        self._access = access
        self._wall_s = wall_s
        self._given = Credential()  # by the program
        self._is_due = access.program is not None  # whether it is to be run
        # The lifetime of the token that was used last.
        self._lifetime: tuple[bytes, Lifetime | None] = (b"", None)
        self._lock = asyncio.Lock()
        self._files = FileChanges()
        self.context: ssl.SSLContext | None = None
        self._files.add(access.paths, self._load_tls)
        self._authorization()

    @property
    def problem(self) -> str | None:
        return "; ".join(self._files.problems) or None

    @property
    def server_name(self) -> str | None:
        """The name in the server's certificate, if not that of the URL."""
        return self._access.server_name

    @property
    def own_token(self) -> tuple[str, Lifetime | None]:
        """The token's file, "" for none, and its lifetime; a program renews what it gives."""
        return self._access.token_file or "", self._lifetime[1]

    async def refresh(self) -> str | None:
        """Read changed files; the value of `Authorization`, if there is one.

        OperatorError if a file has no token, or a program gives no credential.
        """
        async with self._lock:
            program = self._access.program
            if self._given.expires_s - EARLY_S <= self._wall_s():
                self._is_due = True
            if self._is_due and program is not None:
                given = read_credential(await run(program, self._access.told), program)
                if given.own != self._given.own:
                    self._access = dataclasses.replace(self._access, own=given.own)
                    await asyncio.to_thread(self._load_tls)
                self._given, self._is_due = given, False
            await self._files.check()
            return await asyncio.to_thread(self._authorization)

    def refused(self) -> None:
        """The API has refused the credential: run the program again, if there is one."""
        self._is_due = True

    def _load_tls(self) -> None:
        access = self._access
        if access.server.startswith("https:"):
            context = client_context(access.authorities, access.own)
            if access.is_unverified:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            self.context = context

    def _authorization(self) -> str | None:
        access = self._access
        if self._given.token:
            return f"Bearer {self._given.token}"
        token = (access.token or "").encode()
        if access.token_file is not None:
            token = read_token(access.token_file, min_characters=1)
        if token:
            if token != self._lifetime[0]:
                self._lifetime = (token, lifetime(token))
            return f"Bearer {token.decode()}"
        if access.username:
            pair = f"{access.username}:{access.password}".encode()
            return f"Basic {base64.b64encode(pair).decode()}"
        return None


async def run(program: Program, cluster: dict[str, Any] | None) -> bytes:
    """The output of a program; OperatorError if it fails, says too much or takes too long."""
    command, hint = program.command or "", one_line(" ".join((program.install_hint or "").split()))
    path, hint = shutil.which(command), hint and f"; {hint}"
    if path is None:
        raise OperatorError(f"{one_line(command)}: there is no such program{hint}")
    spec: dict[str, Any] = {"interactive": False}
    if cluster is not None:
        spec["cluster"] = cluster
    told = {"kind": "ExecCredential", "apiVersion": program.api_version, "spec": spec}
    environment = {
        **os.environ,
        **{each.name: each.value or "" for each in program.env or ()},
        "KUBERNETES_EXEC_INFO": json.dumps(told),
    }
    try:
        # Not awaited, so that a cancellation leaves no unknown process behind.
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - the operator named it
            [path, *(program.args or ())],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise OperatorError(f"{command}: cannot be run: {reason}") from None
    try:
        async with asyncio.timeout(WITHIN_S):
            output, complaints = await asyncio.gather(
                *(_beginning(file, process) for file in (process.stdout, process.stderr))
            )
            await asyncio.to_thread(process.wait)
    except TimeoutError:
        raise OperatorError(f"{command}: did not end within {WITHIN_S:g} s") from None
    finally:
        _kill(process)
        await asyncio.to_thread(process.wait)
    if max(len(output), len(complaints)) > MAX_BYTES:
        raise OperatorError(f"{command}: says more than {MAX_BYTES} bytes")
    if process.returncode:
        complaint = one_line(" ".join(complaints.decode(errors="replace").split())[:MAX_MESSAGE])
        raise OperatorError(f"{command}: ended with {process.returncode}: {complaint}{hint}")
    return output


async def _beginning(file: IO[bytes] | None, process: subprocess.Popen[bytes]) -> bytes:
    """The output of a process, which is killed if it writes too much: then the beginning."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), file
    )
    try:
        data = await reader.readexactly(MAX_BYTES + 1)
        _kill(process)
    except asyncio.IncompleteReadError as error:
        data = error.partial
    finally:
        transport.close()
    return data


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:  # else its number may be another's by now
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def read_credential(output: bytes, program: Program) -> Credential:
    """The credential in the output of a program, or OperatorError, which quotes none of it."""
    try:
        found = msgspec.json.decode(output, type=ExecCredential)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise OperatorError(f"{program.command}: what it says is no ExecCredential") from None
    if found.api_version != program.api_version:
        raise OperatorError(f"{program.command}: what it says is not of {program.api_version}")
    given = found.status or Credential()
    is_half = bool(given.client_certificate_data) != bool(given.client_key_data)
    if is_half or not (given.token or given.own):
        problem = "gave neither a token nor a certificate with its key"
        raise OperatorError(f"{program.command}: {problem}")
    token = given.token or ""
    if not (token.isascii() and token.isprintable()):
        raise OperatorError(f"{program.command}: the token is no bearer token")
    try:
        _ = given.expires_s
    except ValueError:
        raise OperatorError(f"{program.command}: expirationTimestamp is no time") from None
    return given
