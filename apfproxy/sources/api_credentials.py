"""The proxy's credentials for a Kubernetes API: a TLS context and `Authorization`.

Files are read before each request, of which there are few.  A changed certificate that cannot be
used, such as one without its new key, leaves the former TLS context in use; a token that cannot be
read fails the request.

A program that a kubeconfig names, as clients of managed clusters use, is run without a terminal:
for the first credential, when one expires, and when the API has refused one.  Its process group is
killed when it takes too long or writes too much, and when the wait for it ends.

Source: Kubernetes documentation, "Authenticating", "client-go credential plugins", and the
reference of `client.authentication.k8s.io/v1`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import json
import logging
import os
import shutil
import signal
import ssl
import subprocess
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import msgspec

from apfproxy.base.errors import OperatorError
from apfproxy.base.files import fingerprint
from apfproxy.base.tls_files import Pem, client_context, lifetime
from apfproxy.objects.field_errors import one_line
from apfproxy.objects.go_text import parse_time
from apfproxy.sources.token_file import TokenFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.base.tls_files import Lifetime
    from apfproxy.sources.kubeconfig import ApiAccess, ExecCommand

MAX_BYTES = 1 << 20
"""The size of a program's output, and of its errors."""
MAX_MESSAGE = 300
"""Characters of its errors that are shown."""
WITHIN_S = 30.0
EARLY_S = 10.0
"""A credential is replaced so long before it expires."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A bearer token, or PEM of a client certificate and its key; "" for what there is not."""

    token: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    expires_s: float | None = None


class CredentialStatus(msgspec.Struct, rename="camel"):
    """The part of an ExecCredential that a program writes."""

    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class ExecCredential(msgspec.Struct, rename="camel", tag_field="kind", tag="ExecCredential"):
    """The output of a program."""

    api_version: str = ""
    status: CredentialStatus | None = None


class ApiCredentials:
    """The credentials that an access names.

    Attributes:
        context: For new connections; None without TLS.
        problem: Why changed files of TLS are not in use.

    Raises:
        OperatorError: They cannot be used.
    """

    def __init__(self, access: ApiAccess, wall_s: Callable[[], float] = time.time) -> None:
        self._access = access
        self._wall_s = wall_s
        self._token_file = None
        if access.token_file is not None:
            self._token_file = TokenFile(access.token_file, min_characters=1)
        self._given = Credential()  # by the program
        self._is_due = access.program is not None  # whether it is to be run
        self._lifetime: tuple[bytes, Lifetime | None] = (b"", None)
        """The token of the file that was read last, and for how long it is good."""
        self._lock = asyncio.Lock()
        self._fingerprint = fingerprint(access.paths)
        self.context: ssl.SSLContext | None = None
        self.problem: str | None = None
        if access.server.startswith("https:"):
            self.context = tls_context(access)
        self._authorization()

    @property
    def server_name(self) -> str | None:
        """The name in the server's certificate, if not that of the URL."""
        return self._access.server_name

    @property
    def own_token(self) -> tuple[str, Lifetime | None]:
        """The file of the token, "" for one that is no file's, and for how long it is good.

        A program renews what it gives by itself.
        """
        path = "" if self._token_file is None else str(self._token_file.path)
        return path, self._lifetime[1]

    async def refresh(self) -> str | None:
        """Read changed files; the value of `Authorization`, if there is one.

        OperatorError if a file has no token, or a program gives no credential: no output is quoted.
        """
        async with self._lock:
            given, program = self._given, self._access.program
            expires_s = given.expires_s
            if expires_s is not None and expires_s - EARLY_S <= self._wall_s():
                self._is_due = True
            if self._is_due and program is not None:
                given = read_credential(await run(program), program)
                self._is_due = False
            return await asyncio.to_thread(self._refresh, given)

    def refused(self) -> None:
        """Run the program again, if there is one: the API has refused the credential."""
        self._is_due = True

    def _refresh(self, given: Credential) -> str | None:
        before, self._given = self._given, given
        is_new = (given.certificate, given.key) != (before.certificate, before.key)
        if is_new:
            has_own = bool(given.certificate)
            self._access = dataclasses.replace(
                self._access,
                certificate=Pem(data=given.certificate.encode()) if has_own else None,
                key=Pem(data=given.key.encode()) if has_own else None,
            )
        if self.context is not None:
            self._refresh_tls(is_new=is_new)
        return self._authorization()

    def _refresh_tls(self, *, is_new: bool) -> None:
        found = fingerprint(self._access.paths)
        if found == self._fingerprint and not is_new and self.problem is None:
            return
        try:
            self.context = tls_context(self._access)
        except OperatorError as error:
            if self.problem is None:
                logger.warning("changed, but not taken, what was there stays in use: %s", error)
            self.problem = str(error)
            return
        self.problem = None
        if found != self._fingerprint:
            logger.info("changed, and loaded again: %s", ", ".join(self._access.paths))
        self._fingerprint = found

    def _authorization(self) -> str | None:
        """The value of `Authorization`, or OperatorError; None if there is none to be sent."""
        access = self._access
        if self._given.token:
            return f"Bearer {self._given.token}"
        token = access.token and access.token.encode()
        if self._token_file is not None:
            token = self._token_file.token()
        if token:
            if token != self._lifetime[0]:
                self._lifetime = (token, lifetime(token))
            return f"Bearer {token.decode()}"
        if access.username:
            pair = f"{access.username}:{access.password}".encode()
            return f"Basic {base64.b64encode(pair).decode()}"
        return None


def tls_context(access: ApiAccess) -> ssl.SSLContext:
    """The TLS settings of an access, or OperatorError; blocks on the file system."""
    certificate, key = access.certificate, access.key
    own = None if certificate is None or key is None else (certificate, key)
    context = client_context(access.authorities, own)
    if access.is_unverified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def run(command: ExecCommand) -> bytes:
    """The output of a program; OperatorError if it fails, says too much or takes too long."""
    path = shutil.which(command.path)
    hint = f"; {command.hint}" if command.hint else ""
    if path is None:
        raise OperatorError(f"{one_line(command.path)}: there is no such program{hint}")
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
        raise OperatorError(f"{command.path}: cannot be run: {reason}") from None
    try:
        async with asyncio.timeout(WITHIN_S):
            output, complaints = await asyncio.gather(
                *(_beginning(file, process) for file in (process.stdout, process.stderr))
            )
            await asyncio.to_thread(process.wait)
    except TimeoutError:
        raise OperatorError(f"{command.path}: did not end within {WITHIN_S:g} s") from None
    finally:
        _kill(process)
        await asyncio.to_thread(process.wait)
    if max(len(output), len(complaints)) > MAX_BYTES:
        raise OperatorError(f"{command.path}: says more than {MAX_BYTES} bytes")
    if process.returncode:
        complaint = one_line(" ".join(complaints.decode(errors="replace").split())[:MAX_MESSAGE])
        raise OperatorError(f"{command.path}: ended with {process.returncode}: {complaint}{hint}")
    return output


async def _beginning(file: IO[bytes] | None, process: subprocess.Popen[bytes]) -> bytes:
    """The output of a process; of one that writes too much, and is killed, its beginning."""
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
    """End a process and what is left of its group."""
    if process.returncode is None:  # else its number may be another's by now
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def read_credential(output: bytes, command: ExecCommand) -> Credential:
    """The credential in the output of a program, or OperatorError."""
    try:
        found = msgspec.json.decode(output, type=ExecCredential)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise OperatorError(f"{command.path}: what it says is no ExecCredential") from None
    if found.api_version != command.api_version:
        raise OperatorError(f"{command.path}: what it says is not of {command.api_version}")
    status = found.status or CredentialStatus()
    token = status.token or ""
    certificate, key = status.client_certificate_data or "", status.client_key_data or ""
    if not (token or certificate) or bool(certificate) != bool(key):
        raise OperatorError(f"{command.path}: gave neither a token nor a certificate with its key")
    if not (token.isascii() and token.isprintable()):
        raise OperatorError(f"{command.path}: the token is no bearer token")
    try:
        expires = status.expiration_timestamp
        expires_s = parse_time(expires) if expires else None
    except ValueError:
        raise OperatorError(f"{command.path}: expirationTimestamp is no time") from None
    return Credential(token=token, certificate=certificate, key=key, expires_s=expires_s)
