"""Who may write the objects that configure the proxy.

1. Reading is as free as the other pages of the listener.
2. With a token, a write needs it as a bearer token.
3. Without one, a write has to come over a listener that this machine alone can reach.  A browser
   on it is no such client: any web page can make it send requests to 127.0.0.1.  So what a browser
   sends for a page is refused (`Origin`, `Sec-Fetch-Site`), and so is a `Host` that is no name of
   this machine, since a page's own host name can be made to resolve to 127.0.0.1.
"""

from __future__ import annotations

import hmac
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from apfproxy.apiserver.errors import StatusError, internal_error
from apfproxy.apiserver.responses import failure
from apfproxy.base.address import is_local, name_in_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web
    from aiohttp.typedefs import Handler

READING = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITES = frozenset({"same-origin", "none"})
"""Values of `Sec-Fetch-Site` that requests of foreign pages do not have."""
UNAUTHORIZED = StatusError(401, "Unauthorized", "Unauthorized")
NO_TOKEN = internal_error("the token that writers need cannot be had; the server's log says why")

log = logging.getLogger(__name__)


@dataclass(slots=True)
class WriteGuard:
    """Before the handler of an API.

    Attributes:
        is_local: Whether only this machine can reach the listener.
        token: The current token of writers; None if none is needed.  ValueError says why there is
            none to compare with.
        checks_host: Whether `Host` has to be a name of this machine; not so behind a proxy.
    """

    handler: Handler
    is_local: Callable[[], bool]
    token: Callable[[], bytes] | None = None
    checks_host: bool = field(default=True, kw_only=True)
    _problem: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method not in READING and (refusal := self._refusal(request)) is not None:
            return await failure(request, refusal)
        return await self.handler(request)

    def _refusal(self, request: web.Request) -> StatusError | None:
        if self.token is not None:
            if (token := self._current_token(self.token)) is None:
                return NO_TOKEN
            return None if _has_token(request, token) else UNAUTHORIZED
        if not self.is_local():
            return _refused(
                "this listener can be reached from other machines;"
                " start the proxy with --admin-token-file, or with --admin on a loopback address"
            )
        if "Origin" in request.headers:
            return _refused("it comes from a web page (Origin)")
        if not OWN_SITES.issuperset(request.headers.getall("Sec-Fetch-Site", [])):
            return _refused("it comes from a web page (Sec-Fetch-Site)")
        if self.checks_host and not is_local(name_in_host(request.headers.get("Host", ""))):
            return _refused(
                "its Host is no name of this machine, such as 127.0.0.1 or localhost;"
                " use --admin-token-file to allow others"
            )
        return None

    def _current_token(self, token: Callable[[], bytes]) -> bytes | None:
        """The current token; None if there is none: the reason is only logged."""
        try:
            found, problem = token(), ""
        except ValueError as error:
            found, problem = None, str(error)
        if problem and problem != self._problem:
            log.error("nobody may write: %s", problem)
        self._problem = problem
        return found


def _has_token(request: web.Request, token: bytes) -> bool:
    shown = request.headers.getall("Authorization", [])
    if len(shown) != 1 or not shown[0].lower().startswith("bearer "):
        return False
    text = shown[0].partition(" ")[2].strip()
    return hmac.compare_digest(text.encode("utf-8", "surrogateescape"), token)


def _refused(reason: str) -> StatusError:
    return StatusError(403, "Forbidden", f"forbidden: writing is not allowed: {reason}", {})
