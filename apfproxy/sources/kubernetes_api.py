"""A client of a Kubernetes API: objects as JSON, watches as lines of it.

Responses and lines are bounded.  The API's message about a refusal is shown: it says who may not do
what.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import aiohttp
import msgspec
import yarl

from apfproxy.authn.upstream_api import (
    EXCHANGE_ERRORS,
    JSON_HEAD,
    bounded_body,
    explained,
    new_session,
)
from apfproxy.base.errors import OperatorError
from apfproxy.objects.field_errors import one_line
from apfproxy.sources.api_credentials import ApiCredentials
from apfproxy.sources.kubeconfig import access_of

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Callable,
        Collection,
        Mapping,
    )

    from apfproxy.sources.servers_behind import ServersBehind

Json = dict[str, Any]

# One chunk of a list: etcd's objects have 1.5 MiB at most, those here a few KiB.
MAX_RESPONSE_BYTES = 1 << 26
MAX_EVENT_BYTES = 1 << 22  # no object is larger
MAX_MESSAGE = 300  # characters of the API's message about a refusal that are shown

CONNECT_S = 10.0
LONGEST_S = 30.0  # for a list or a write, from beginning to end; for the head of a watch's response
LIMITS = aiohttp.ClientTimeout(total=LONGEST_S, sock_connect=CONNECT_S)
PATIENCE_S = 1.0  # for a head where another server could be asked; longer after all were too slow
MOST_ASKED = 4  # servers for one question, before the caller is told
SILENCE_S = 150.0  # a watch that is silent for so long is dead: bookmarks come every minute

# Another server may do better, too: one that starts refuses all until its roles are loaded.
TURNED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
UNSENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


class KubernetesApiError(Exception):
    """The API gave no usable response; `status` and `retry_after_s` are 0 where it has none."""

    def __init__(self, what: str, status: int = 0, *, retry_after_s: float = 0.0) -> None:
        super().__init__(what)
        self.status = status
        self.retry_after_s = retry_after_s


def open_api(
    kubeconfig: str | None,
    context: str | None,
    decided: str,
    setting: str,
    behind: ServersBehind | None = None,
) -> KubernetesApi:
    """The API that settings name, as `access_of` has it; OperatorError if there is no way to it.

    If it is the one behind, any of the servers behind is asked.
    """
    access = access_of(kubeconfig, context, decided, setting)
    others = dict if behind is None else partial(behind.of_api, access.server, kubeconfig, context)
    return KubernetesApi(access.server, ApiCredentials(access), others=others)


class KubernetesApi:
    """The API at a URL, perhaps with a path; `server` is the one that was asked last.

    Its methods raise KubernetesApiError where there is no good response.  Before that the other
    known servers of the API were asked, unless something could be done twice; the one that responds
    is asked until it fails.

    Args:
        silence_s: A watch that is silent for so long is given up.
        others: URLs of all known servers of the API, which get the same credentials, in the order
            in which to ask them; with the names in their certificates, if the credentials have none
            and those are not the hosts.
    """

    def __init__(
        self,
        server: str,
        credentials: ApiCredentials,
        *,
        silence_s: float = SILENCE_S,
        others: Callable[[], Mapping[str, str | None]] = dict,
    ) -> None:
        self.server = self._first = server
        self.credentials = credentials
        self._silence_s = silence_s
        self._others = others
        self._has_failed = False
        self._patience_s = PATIENCE_S
        self._watches: dict[aiohttp.ClientResponse, str] = {}  # under way, with their servers
        self._session: aiohttp.ClientSession | None = None

    @property
    def problem(self) -> str | None:
        """Why changed credentials are not in use."""
        return self.credentials.problem

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def get(self, path: str, query: Mapping[str, str]) -> Json:
        return await self._object("GET", path, query)

    async def apply(self, path: str, query: Mapping[str, str], obj: Json) -> Json:
        """Apply fields of an object on the server's side; the whole object."""
        return await self._object("PATCH", path, query, obj, "application/apply-patch+yaml")

    async def create(self, path: str, obj: Json) -> Json:
        return await self._object("POST", path, {}, obj, "application/json")

    async def merge(self, path: str, changes: Json) -> Json:
        """Merge changes into an object; the whole object."""
        return await self._object("PATCH", path, {}, changes, "application/merge-patch+json")

    async def _object(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        obj: Json | None = None,
        content_type: str | None = None,
    ) -> Json:
        body = None if obj is None else msgspec.json.encode(obj)
        async with self._exchange(method, path, query, LIMITS, body, content_type) as (_, response):
            return await _body_of(response, MAX_RESPONSE_BYTES)

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Json | None, None]:
        """Yield None when the watch has begun, then its events, until the API ends it."""
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_S, sock_read=self._silence_s
        )
        async with self._exchange("GET", path, query, timeout) as (server, response):
            self._watches[response] = server
            yield None
            begun = bytearray()  # a line, without its end yet
            async for piece in response.content.iter_any():
                *ended, rest = piece.split(b"\n")
                for part in ended:
                    line = bytes(begun + part)
                    begun.clear()
                    if line.strip():
                        yield _json_object(line)
                begun += rest
                if len(begun) > MAX_EVENT_BYTES:
                    raise KubernetesApiError(f"an event is longer than {MAX_EVENT_BYTES} bytes")
            if begun.strip():
                raise KubernetesApiError("the watch ended within an event")

    def leave(self, servers: Collection[str]) -> None:
        """End the watches at servers that do not work, if another one is known to ask."""
        if all(each in servers for each in self._known()):
            return
        for response, server in self._watches.items():
            if server in servers:
                self._failed(server)
                response.close()

    def _known(self) -> list[str]:
        """All servers, in the order in which to ask them."""
        return list(dict.fromkeys((*self._others(), self._first)))

    def _failed(self, server: str) -> None:
        if self.server == server:
            self._has_failed = True

    def _turn(self) -> None:
        """Ask the next server if the last one failed."""
        if not self._has_failed:
            return
        self._has_failed = False
        known = self._known()
        at = known.index(self.server) + 1 if self.server in known else 0
        self.server = known[at % len(known)]

    @asynccontextmanager
    async def _exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's, of several parts
        body: bytes | None = None,
        content_type: str | None = None,
    ) -> AsyncIterator[tuple[str, aiohttp.ClientResponse]]:
        """Send a request; the server and its good response, as long as the context lasts."""
        server, response = "", None
        try:
            head = dict(JSON_HEAD)
            if (authorization := await self.credentials.refresh()) is not None:
                head["Authorization"] = authorization
            if content_type is not None:
                head["Content-Type"] = content_type
            options = {"data": body, "headers": head, "timeout": timeout}
            server, response = await self._ask(method, path, query, options)
            async with response:
                if response.status not in {HTTPStatus.OK, HTTPStatus.CREATED}:
                    if response.status == HTTPStatus.UNAUTHORIZED:
                        self.credentials.refused()
                    raise await _refusal(response)
                yield server, response
        except OperatorError as error:
            raise KubernetesApiError(str(error)) from None
        except TimeoutError as error:
            self._failed(server)
            is_connecting = isinstance(error, aiohttp.ConnectionTimeoutError)
            what = "cannot connect in time" if is_connecting else "no response in time"
            raise KubernetesApiError(what) from None
        except EXCHANGE_ERRORS as error:
            self._failed(server)
            what, _ = explained(error, "the API server")
            raise KubernetesApiError(what) from None
        finally:
            if response is not None:
                self._watches.pop(response, None)

    async def _ask(
        self, method: str, path: str, query: Mapping[str, str], options: dict[str, Any]
    ) -> tuple[str, aiohttp.ClientResponse]:
        """The first server that gives a good response, or the last one to ask, and the response.

        TimeoutError, or one of EXCHANGE_ERRORS, if there is none.
        """
        session = self._session = self._session or new_session()
        left = min(len(self._known()), MOST_ASKED)
        while True:
            self._turn()
            server, left = self.server, left - 1
            may_repeat = method == "GET" and left > 0
            name = self.credentials.server_name
            if name is None and server != self._first:
                name = self._others().get(server)
            url = yarl.URL(server).joinpath(path.lstrip("/"), encoded=True).with_query(query)
            try:
                async with asyncio.timeout(
                    self._patience_s if len(self._known()) > 1 else LONGEST_S
                ):
                    response = await session.request(
                        method,
                        url,
                        ssl=self.credentials.context or True,
                        server_hostname=name,
                        allow_redirects=False,
                        **options,
                    )
            except (TimeoutError, *EXCHANGE_ERRORS) as error:
                self._failed(server)
                if may_repeat or (left > 0 and isinstance(error, UNSENT)):
                    continue
                if isinstance(error, TimeoutError):
                    self._patience_s = min(2 * self._patience_s, LONGEST_S)
                raise
            if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR or response.status in TURNED:
                self._failed(server)
                if may_repeat:
                    response.close()
                    continue
            self._patience_s = PATIENCE_S
            return server, response


async def _body_of(response: aiohttp.ClientResponse, max_bytes: int) -> Json:
    data = await bounded_body(response, max_bytes)
    if data is None:
        raise KubernetesApiError(f"the response is longer than {max_bytes} bytes", response.status)
    return _json_object(data)


def _json_object(data: bytes) -> Json:
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise KubernetesApiError("the response is no JSON object: is this a Kubernetes API?")
    return found


async def _refusal(response: aiohttp.ClientResponse) -> KubernetesApiError:
    message, after = "", response.headers.get("Retry-After", "")
    with suppress(KubernetesApiError):  # else a load balancer's own page
        message = message_of(await _body_of(response, MAX_EVENT_BYTES))
    return KubernetesApiError(
        f"answered {response.status}{message and ': '}{message}",
        response.status,
        # A date, or what is not within a day, is ignored.
        retry_after_s=float(after) if after.isascii() and after.isdigit() and len(after) < 6 else 0,  # noqa: PLR2004
    )


def message_of(status: Json) -> str:
    """The message of a Status, in one line."""
    message = status.get("message")
    return one_line(" ".join(message.split())[:MAX_MESSAGE]) if isinstance(message, str) else ""
