"""Asks the admin listener of a running proxy."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import msgspec

from apfproxy.base.errors import OperatorError
from apfproxy.cli.errors import CommandError
from apfproxy.cli.parameters import AdminAddress
from apfproxy.cli.terminal_text import shown
from apfproxy.sources.token_file import TokenFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.settings import Address

TIMEOUT_S = 10.0
"""To connect, for the head of an answer, and for the whole of it."""
LARGEST_ANSWER_BYTES = 64 << 20
Shape = TypeVar("Shape")

MAX_SHOWN = 300
"""Characters of an error's text that are passed on."""
REMEDY = "give its own --admin address, or --offline for an answer without a proxy"


def of_cluster(cluster: str | None, target: str) -> str:
    """The address of a page of one of several clusters; None for that of a proxy with one."""
    return target if cluster is None else f"/clusters/{quote(cluster, safe='')}{target}"


def fetch_json(address: Address, target: str, remedy: str = REMEDY) -> Any:  # noqa: ANN401 - any JSON
    """Get a page as JSON; CommandError if there is no such listener, or it has no such answer.

    `remedy` says what to do where nobody answers.
    """
    url, connection = address.url, connection_to(address)
    try:
        connection.request("GET", target, headers=headers_for(address))
        response = connection.getresponse()
        body = whole(response)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        reason = shown(" ".join(reason.split()))
        remedy = tls_remedy(address, error) or remedy
        raise CommandError(f"no proxy answers at {url}: {reason}; {remedy}") from error
    finally:
        connection.close()
    if response.status == http.client.NOT_FOUND and target.startswith("/clusters/"):
        said = " ".join(body[:MAX_SHOWN].decode(errors="replace").split())
        if not said.startswith("cluster: "):
            raise CommandError(
                f"{url} has no page of a cluster; leave out --cluster if it has none"
            )
    return answer_json(url, response.status, body)


def tls_remedy(address: Address, error: BaseException | None) -> str:
    """What to do if TLS is why there is no answer; empty if it is not."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "give --admin-ca-file, the CA that signed the certificate of the admin listener"
    if isinstance(error, ssl.SSLError):
        return f"if the admin listener speaks no TLS, give --admin http://{address.authority}"
    if isinstance(error, ConnectionResetError) and not address.is_tls and not address.path:
        return f"if the admin listener speaks TLS, give --admin https://{address.authority}"
    return ""


def whole(response: http.client.HTTPResponse, now_s: Callable[[], float] = time.monotonic) -> bytes:
    """The body; TimeoutError if it takes too long, also if it comes byte by byte."""
    latest, body = now_s() + TIMEOUT_S, bytearray()
    while part := response.read1(LARGEST_ANSWER_BYTES):
        body += part
        if len(body) > LARGEST_ANSWER_BYTES:
            break  # cut, it is no JSON
        if now_s() > latest:
            raise TimeoutError(f"its answer is not whole after {TIMEOUT_S:g} s")
    return bytes(body)


class UnixConnection(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path
        self.sock: socket.socket | None = None

    def connect(self) -> None:
        """Connect."""
        self.sock = connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(TIMEOUT_S)
        connection.connect(self._path)


def connection_to(address: Address) -> http.client.HTTPConnection:
    """A connection that is made with its first request."""
    if address.path:
        return UnixConnection(address.path)
    context = context_for(address)
    if context is None:
        return http.client.HTTPConnection(address.host, address.port, timeout=TIMEOUT_S)
    return http.client.HTTPSConnection(
        address.host, address.port, timeout=TIMEOUT_S, context=context
    )


def headers_for(address: Address) -> dict[str, str]:
    """The fields of a question; CommandError if there is no token where there should be."""
    headers = {"Accept": "application/json"}
    if isinstance(address, AdminAddress) and address.token_file is not None:
        try:
            headers["Authorization"] = f"Bearer {TokenFile(address.token_file).token().decode()}"
        except OperatorError as error:
            raise CommandError(f"--admin-token-file: {error}") from error
    return headers


def context_for(address: Address) -> ssl.SSLContext | None:
    """What TLS is spoken with; None for plain text.  CommandError if a file cannot be used."""
    if not address.is_tls:
        return None
    files = address if isinstance(address, AdminAddress) else None
    try:
        context = ssl.create_default_context(cafile=None if files is None else files.ca_file)
    except OSError as error:
        raise CommandError(f"--admin-ca-file: {_problem_of(error)}") from error
    if files is not None and files.cert_file is not None:
        try:
            context.load_cert_chain(files.cert_file, files.key_file, password="")
        except OSError as error:
            raise CommandError(f"--admin-cert-file: {_problem_of(error)}") from error
    return context


def _problem_of(error: OSError) -> str:
    """What is wrong with a file, in a few words."""
    return getattr(error, "reason", None) or error.strerror or str(error)


def answer_json(url: str, status: int, body: bytes) -> Any:  # noqa: ANN401 - any JSON
    """What an answer of the admin listener says; CommandError if it is an error, or no JSON."""
    if status != http.client.OK:
        text = " ".join(body[:MAX_SHOWN].decode(errors="replace").split())
        said = "".join(letter if letter.isprintable() else "?" for letter in text)
        if said.startswith("cluster: "):
            raise CommandError(f"{url}: {said}")
        if status == http.client.UNAUTHORIZED:
            raise CommandError(
                f"{url} answers 401: it needs other credentials; give --admin-token-file, or"
                " --admin-cert-file and --admin-key-file"
            )
        if status == http.client.NOT_FOUND:
            said = "it has no such page; is that the admin listener of a proxy of this version?"
        raise CommandError(f"{url} answers {status}: {said}")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise CommandError(
            f"{url} does not answer with JSON; is that an admin listener?"
        ) from error


def fetch_as(address: Address, target: str, shape: type[Shape]) -> Shape:
    """Get a page as a record of a type of msgspec.

    CommandError if there is no such listener, or it has no such answer.
    """
    return read_as(address, fetch_json(address, target), shape)


def read_as(address: Address, answer: object, shape: type[Shape]) -> Shape:
    """An answer as a record; CommandError if it is none of them."""
    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError as error:
        raise CommandError(
            f"{address.url} is no admin listener of this version of apfproxy: {error}"
        ) from error
