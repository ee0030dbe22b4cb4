"""The proxy's own questions to the upstream's API: small objects posted and answered as JSON.

Few are sent at a time and few wait, so that a flood of unknown tokens cannot become one of reviews;
clients' addresses take turns (`fair_line`).  Errors quote neither question nor response, as either
may hold a token; errors of the client library, which may hold one too, are neither shown nor
chained.

A question is asked again after a temporary failure, with the delays of Kubernetes' webhooks
(kubernetes/apiserver, pkg/util/webhook/webhook.go), within its time limit.  If there is another
server, it is asked next, the first time at once, and no attempt but the last may take all the time.

Responses are not trusted: bounded, not decompressed, redirects not followed, cookies not kept.
"""

from __future__ import annotations

import asyncio
import enum
import json
import logging
import os
import random
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import yarl

from apfproxy import __version__
from apfproxy.authn.fair_line import FairLine, LineFullError, Place
from apfproxy.base.rare_log import RareLog
from apfproxy.base.strict_json import StrictJsonError, read_object

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Mapping
    from ssl import SSLContext

    from apfproxy.settings import EndpointAddress

# A review repeats the token, 16 KiB at most, and may name thousands of groups.
MAX_ANSWER_BYTES = 1 << 20
MAX_WAITING_PER_SLOT = 64  # at 10 ms each the last one waits 0.6 s
MAX_ATTEMPTS = 3  # Kubernetes tries five times, for 6 s in all; here a client waits
FIRST_DELAY_S = 0.5
DELAY_FACTOR = 1.5
DELAY_JITTER = 0.2  # the random part by which a delay is longer, so that not all come again at once

OK_STATUSES = frozenset({200, 201, 202})
PASSING_STATUSES = frozenset({429, 500, 502, 503, 504})  # temporary failures
ACCESS_STATUSES = frozenset({401, 403})
CLOSED = "the proxy is about to end"
FORBIDDEN_HINT = "; bind the proxy's own user to the cluster role system:auth-delegator"

logger = logging.getLogger(__name__)


class Unasked(enum.StrEnum):
    """Why a question was never sent; also the `reason` label of a metric."""

    QUEUE_FULL = "queue-full"  # too many were waiting
    TIME_OUT = "time-out"  # its turn did not come in time


class UpstreamApiError(Exception):
    """The upstream's API gave no usable response; if that `may_pass`, it may help to ask again."""

    def __init__(self, what: str, *, may_pass: bool = False) -> None:
        super().__init__(what)
        self.may_pass = may_pass


class UpstreamApi:
    """The API of one upstream.

    Args:
        choose: The server to ask next, which is not the one given if there is another; None if none
            is known.
        ssl_context: The current TLS settings; None for the system's.
        token: The proxy's own current bearer token, if it has one.
        max_concurrent: Questions under way; `MAX_WAITING_PER_SLOT` times as many may wait.
        timeout_s: For one question, with its waiting and all attempts.
        server_name: In the servers' certificates, if not that of `choose`, or the address.
        host: The Host field, if not that of the address.

    Attributes:
        line: Questions that wait or are under way.
        stand_ins_total: Times that a cached response stood in for a new one; the caches count them.
        problem: Why the last question had no response; None if it had one.
    """

    def __init__(
        self,
        choose: Callable[[EndpointAddress | None], EndpointAddress | None],
        ssl_context: Callable[[], ssl.SSLContext | None],
        token: Callable[[], bytes | None],
        max_concurrent: int,
        timeout_s: float,
        *,
        server_name: str | None = None,
        host: str | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._choose = choose
        self._avoided: EndpointAddress | None = None  # that gave no answer last
        self._ssl_context = ssl_context
        self._token = token
        self.line = FairLine(max_concurrent, max_concurrent * MAX_WAITING_PER_SLOT)
        self._timeout_s = timeout_s
        self._server_name = server_name
        self._host = host
        self._sleep = sleep
        self._sessions: dict[str, aiohttp.ClientSession] = {}  # by the path of a Unix socket, or ""
        # One that fails now and then would otherwise log two lines for each question.
        self._log = RareLog(logger, time.monotonic_ns)
        self._is_closed = False
        self.asked_total = 0
        self.failures_total = 0
        self.unasked_total: dict[str, int] = dict.fromkeys(Unasked, 0)
        self.stand_ins_total = 0
        self.problem: str | None = None

    async def post(
        self, path: str, obj: object, address: str = "", *, comes_first: bool = False
    ) -> dict[str, Any]:
        """Post an object; the JSON object that answers it, or UpstreamApiError.

        Clients' addresses take turns; of one address those that come first go before the others.
        """
        if self._is_closed:
            raise UpstreamApiError(CLOSED)
        body = json.dumps(obj, separators=(",", ":")).encode()
        place = Place(address, comes_first=comes_first)
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._post_until_answered(path, body, place)
        except LineFullError:
            problem = f"{path}: too many questions are waiting already"
            raise self._unanswered(place, Unasked.QUEUE_FULL, problem) from None
        except TimeoutError:
            problem = f"{path}: no answer within {self._timeout_s:g} s"
            raise self._unanswered(place, Unasked.TIME_OUT, problem) from None
        except UpstreamApiError as error:
            self._failed(error)
            raise
        if self.problem is not None:
            self._log.log(logging.INFO, "again", "the upstream's API answers again: %s", path)
            self.problem = None
        return answer

    async def close(self) -> None:
        """Drop all connections; questions under way fail, and no more are asked."""
        self._is_closed = True
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    def _unanswered(self, place: Place, reason: Unasked, what: str) -> UpstreamApiError:
        error = UpstreamApiError(what)
        if place.turns:
            self._failed(error)
        else:
            self.unasked_total[reason] += 1
        return error

    def _failed(self, error: UpstreamApiError) -> None:
        self.failures_total += 1
        if self.problem is None:
            text = "the upstream's API gives no verdict: %s"
            self._log.log(logging.WARNING, "failed", text, error)
        self.problem = str(error)

    async def _post_until_answered(self, path: str, body: bytes, place: Place) -> dict[str, Any]:
        delay_s = FIRST_DELAY_S
        for attempt in range(MAX_ATTEMPTS - 1):
            one = self._choose(None)
            has_others = one is not None and self._choose(one) != one
            limit_s = self._timeout_s / MAX_ATTEMPTS if has_others else None
            try:
                return await self._post_in_turn(path, body, place, limit_s)
            except UpstreamApiError as error:
                if not error.may_pass:
                    raise
            if has_others and attempt == 0:
                continue
            # The jitter needs no secrecy.
            await self._sleep(delay_s * (1 + random.random() * DELAY_JITTER))  # noqa: S311
            delay_s *= DELAY_FACTOR
        return await self._post_in_turn(path, body, place)

    async def _post_in_turn(
        self, path: str, body: bytes, place: Place, limit_s: float | None = None
    ) -> dict[str, Any]:
        try:
            await self.line.wait(place)
            if place.turns == 1:
                self.asked_total += 1
            return await self._post_once(path, body, limit_s)
        finally:
            self.line.leave(place)

    async def _post_once(self, path: str, body: bytes, limit_s: float | None) -> dict[str, Any]:
        if (server := self._choose(self._avoided)) is None:
            raise UpstreamApiError(f"{path}: no server of the upstream is known", may_pass=True)
        try:
            async with asyncio.timeout(limit_s):
                answer = await self._post_to(server, path, body)
        except TimeoutError:
            self._avoided = server
            raise UpstreamApiError(f"{path}: no answer in time", may_pass=True) from None
        except (UpstreamApiError, asyncio.CancelledError):  # as when the time is over
            self._avoided = server
            raise
        if self._avoided == server:
            self._avoided = None
        return answer

    async def _post_to(self, server: EndpointAddress, path: str, body: bytes) -> dict[str, Any]:
        if self._is_closed:
            raise UpstreamApiError(CLOSED)
        address = server.address
        head = {**JSON_HEAD, "Content-Type": "application/json"}
        if self._host is not None:
            head["Host"] = self._host
        if (token := self._token()) is not None:
            head["Authorization"] = f"Bearer {token.decode('latin-1')}"
        try:
            session = self._sessions.get(address.path)
            if session is None:
                session = self._sessions[address.path] = new_session(socket_path=address.path)
            async with session.post(
                yarl.URL(f"{'https' if address.is_tls else 'http'}://{address.authority}{path}"),
                data=body,
                headers=head,
                ssl=self._ssl_context() or True,
                server_hostname=self._server_name or server.server_name,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None),
            ) as response:
                if response.status not in OK_STATUSES:
                    hint = FORBIDDEN_HINT if response.status in ACCESS_STATUSES else ""
                    raise UpstreamApiError(
                        f"{path}: the upstream answered {response.status}{hint}",
                        may_pass=response.status in PASSING_STATUSES,
                    )
                answer = await bounded_body(response, MAX_ANSWER_BYTES)
        except EXCHANGE_ERRORS as error:
            what, may_pass = explained(error, "the upstream")
            raise UpstreamApiError(f"{path}: {what}", may_pass=may_pass) from None
        if answer is None:
            raise UpstreamApiError(f"{path}: the answer is longer than {MAX_ANSWER_BYTES} bytes")
        try:
            return read_object(answer)
        except StrictJsonError as error:
            raise UpstreamApiError(f"{path}: the answer is no JSON object: {error}") from None


EXCHANGE_ERRORS = (aiohttp.ClientError, OSError, ValueError, RuntimeError)

JSON_HEAD = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"apfproxy/{__version__}",
}


def new_session(
    *,
    ssl: SSLContext | bool = True,
    headers: Mapping[str, str] | None = None,
    socket_path: str = "",
) -> aiohttp.ClientSession:
    """A session that uses nothing of the environment or of earlier responses.

    With a path it connects to that Unix socket, whatever the URLs say.
    """
    unix = aiohttp.UnixConnector(socket_path, limit=0) if socket_path else None
    return aiohttp.ClientSession(
        connector=unix or aiohttp.TCPConnector(limit=0, ssl=ssl),
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
    )


async def bounded_body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes | None:
    """The body of a response; None if it is longer than that."""
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > max_bytes:
            return None
    return bytes(data)


def connect_failure(error: aiohttp.ClientConnectorError) -> str:
    number = error.errno or 0
    # asyncio's text for an errno of the system has the address in it.  Numbers of name resolution,
    # below zero, and of OpenSSL are none of the system, and have useful texts.
    if number > 0 and not isinstance(error, aiohttp.ClientSSLError):
        return os.strerror(number)
    # An end during the handshake has neither number nor text.
    return error.strerror or str(error.os_error) or "the other side closed the connection"


def explained(error: Exception, server: str) -> tuple[str, bool]:
    """Why an exchange with `server` failed, and whether it may help to try again."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"{server}'s certificate is no good: {error.certificate_error}", False
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {connect_failure(error)}", True
    if isinstance(error, (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, OSError)):
        return "the connection broke", True
    return f"the exchange went wrong: {type(error).__name__}", False
