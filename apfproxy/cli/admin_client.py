"""Asks the admin listener of a running proxy."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from apfproxy.base.errors import OperatorError
from apfproxy.cli.errors import CommandError
from apfproxy.objects.field_errors import one_line
from apfproxy.sources.token_file import read_token

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.cli.parameters import AdminAddress
    from apfproxy.settings import Address

TIMEOUT_S = 10.0
"""To connect, for the head of a response, and for the whole of it."""
LARGEST_ANSWER_BYTES = 64 << 20
MAX_SHOWN = 600
"""Characters of an error's text that are passed on."""
REMEDY = "give its own --admin address, or --offline for an answer without a proxy"


def of_cluster(cluster: str | None, target: str) -> str:
    """The address of a page of one of several clusters; None for that of a proxy with one."""
    return target if cluster is None else f"/clusters/{quote(cluster, safe='')}{target}"


def fetch(address: AdminAddress, target: str, shape: Any = Any, remedy: str = REMEDY) -> Any:  # noqa: ANN401 - of this shape
    """Get a page of JSON as a type of msgspec.

    CommandError if there is no such listener (with this remedy), or no such page.
    """
    url, connection = address.url, connection_to(address)
    try:
        connection.request("GET", target, headers=headers_for(address))
        response = connection.getresponse()
        body = whole(response)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        reason = one_line(" ".join(reason.split()))
        remedy = tls_remedy(address, error) or remedy
        raise CommandError(f"no proxy answers at {url}: {reason}; {remedy}") from error
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise CommandError(f"{url}{_refusal(response.status, target, body)}")
    try:
        return msgspec.convert(json.loads(body), shape)
    except msgspec.ValidationError as error:
        raise CommandError(
            f"{url} is no admin listener of this version of apfproxy: {error}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise CommandError(
            f"{url} does not answer with JSON; is that an admin listener?"
        ) from error


def _refusal(status: int, target: str, body: bytes) -> str:
    """The words about a response that is an error, which follow the listener's URL."""
    said = one_line(" ".join(body[:MAX_SHOWN].decode(errors="replace").split()))
    if said.startswith("cluster: "):
        return f": {said}"
    if status == http.client.NOT_FOUND:
        if target.startswith("/clusters/"):
            return " has no page of a cluster; leave out --cluster if it has none"
        said = "it has no such page; is that the admin listener of a proxy of this version?"
    if status == http.client.UNAUTHORIZED:
        said = (
            "it needs other credentials; give --admin-token-file, or --admin-cert-file and"
            " --admin-key-file"
        )
    return f" answers {status}: {said}"


def tls_remedy(address: Address, error: BaseException) -> str:
    """A remedy if TLS is why there is no response; empty if it is not."""
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
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path
        self.sock: socket.socket | None = None

    def connect(self) -> None:
        self.sock = connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(TIMEOUT_S)
        connection.connect(self._path)


def connection_to(address: AdminAddress) -> http.client.HTTPConnection:
    """A connection that is made with its first request."""
    if address.path:
        return UnixConnection(address.path)
    place = (address.host, address.port)
    if not address.is_tls:
        return http.client.HTTPConnection(*place, timeout=TIMEOUT_S)
    return http.client.HTTPSConnection(*place, timeout=TIMEOUT_S, context=context_for(address))


def headers_for(address: AdminAddress) -> dict[str, str]:
    """The fields of a request; CommandError if there is no token where there should be."""
    headers = {"Accept": "application/json"}
    if address.token_file is not None:
        try:
            headers["Authorization"] = f"Bearer {read_token(address.token_file).decode()}"
        except OperatorError as error:
            raise CommandError(f"--admin-token-file: {error}") from error
    return headers


def context_for(address: AdminAddress) -> ssl.SSLContext:
    """The settings of TLS; CommandError if a file cannot be used."""
    flag = "--admin-ca-file"
    try:
        context = ssl.create_default_context(cafile=address.ca_file)
        if address.cert_file is not None:
            flag = "--admin-cert-file"
            context.load_cert_chain(address.cert_file, address.key_file, password="")
    except OSError as error:
        problem = getattr(error, "reason", None) or error.strerror or str(error)
        raise CommandError(f"{flag}: {problem}") from error
    return context
