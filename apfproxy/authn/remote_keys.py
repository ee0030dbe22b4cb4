"""The public keys that an issuer publishes: at a URL, or where its discovery says.

They are fetched for the first token; again in the background once they are ten minutes old and in
use; and again, at most every ten seconds, when a token names a key that is not among them.  One
fetch at a time is under way, for all who wait; if it fails, the last keys stay.

Source: OpenID Connect Discovery 1.0, 4; coreos/go-oidc for what kube-apiserver does.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import aiohttp

from apfproxy.authn.api_exchange import JSON_HEAD, bounded_body, new_session
from apfproxy.authn.web_keys import MAX_SET_BYTES, KeySet, KeySource, WebKeysError, parse_jwks
from apfproxy.base.address import is_local
from apfproxy.base.strict_json import StrictJsonError, read_object
from apfproxy.base.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Callable

DISCOVERY_PATH = "/.well-known/openid-configuration"

TIMEOUT_S = 10.0
"""Of one fetch, with both documents and their redirects."""
REFRESH_S = 600.0
"""Keys in use are fetched again after this; kube-apiserver's discovery says one hour."""
REFETCH_S = 10.0
"""Between attempts while there are keys, as in kube-apiserver."""
FIRST_REFETCH_S = 1.0
"""Between attempts while there are none, and every token of the issuer is refused."""
MAX_REDIRECTS = 3
NOT_FETCHED = "not fetched yet"
"""The problem of keys that nobody has needed so far."""

REDIRECTS = frozenset({301, 302, 303, 307, 308})

logger = logging.getLogger(__name__)


def url_problem(url: str) -> str:
    """Why keys cannot be fetched from a URL safely; "" if they can."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        return "no URL"
    if parts.scheme not in {"http", "https"} or not host:
        return "no https URL"
    if parts.username is not None or parts.password is not None:
        return "has a user or password, which would be shown in logs"
    if parts.fragment:
        return "has a fragment"
    if parts.scheme == "http" and not is_local(host):
        return "not https: whoever is on the way could sign tokens"
    return ""


class RemoteKeys(KeySource):
    """Keys that are fetched.

    Args:
        issuer: Whose discovery is asked if `jwks_url` is None.
        ca_file: PEM of the CAs of the server; the system's if None.

    Raises:
        WebKeysError: The URL is not one to fetch keys from, or the CA file cannot be used.
    """

    def __init__(
        self,
        issuer: str,
        jwks_url: str | None = None,
        *,
        ca_file: str | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._issuer = issuer
        self._jwks_url = jwks_url
        self._ca_file = ca_file
        self._now_s = now_s
        self._fetched_s = self._attempted_s = float("-inf")
        self._fetching: asyncio.Task[None] | None = None
        self.problem = NOT_FETCHED
        if problem := url_problem(jwks_url or issuer):
            raise WebKeysError(f"{jwks_url or issuer}: {problem}")
        if ca_file is not None:
            # It is read again for each fetch; a bad one is told now.
            tls_context(ca_file)

    def current(self) -> KeySet:
        """The keys known now; old ones are fetched again meanwhile."""
        if (
            self._keys.keys
            and self._fetching is None
            and self._now_s() - self._fetched_s >= REFRESH_S
            and self.can_refresh()
        ):
            self._start()
        return self._keys

    def age_s(self) -> float:
        """Seconds since the last fetch; infinite without one."""
        return self._now_s() - self._fetched_s

    def can_refresh(self) -> bool:
        """Whether a fetch is under way, or the last one is long enough ago."""
        pause_s = REFETCH_S if self._keys.keys else FIRST_REFETCH_S
        return self._fetching is not None or self._now_s() - self._attempted_s >= pause_s

    async def refresh(self) -> None:
        """Wait for the fetch that is under way, or for a new one if it is time for one."""
        if self._fetching is None:
            if not self.can_refresh():
                return
            self._start()
        assert self._fetching is not None
        # Unlike `await`, this does not cancel the fetch with one of those who wait.
        await asyncio.wait((self._fetching,))

    async def close(self) -> None:
        """Give up the fetch that is under way."""
        if (fetching := self._fetching) is not None:
            fetching.cancel()
            await asyncio.wait((fetching,))
            # A task that had not begun did not reset it.
            self._fetching = None

    def _start(self) -> None:
        self._attempted_s = self._now_s()
        self._fetching = spawn(self._fetch(), name=f"keys of {self._issuer}")

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                self._keys = await self._fetched_keys()
        except TimeoutError:
            self._fail(f"no answer within {TIMEOUT_S:g} s")
        except (WebKeysError, aiohttp.ClientError, OSError, ValueError) as error:
            self._fail(str(error) or type(error).__name__)
        except Exception:
            self._fail("an error of the proxy itself, see its log")
            raise
        else:
            self._fetched_s = self._now_s()
            self.problem = ""
        finally:
            self._fetching = None

    def _fail(self, problem: str) -> None:
        if problem != self.problem:
            logger.warning("the keys of %s cannot be fetched: %s", self._issuer, problem)
        self.problem = problem

    async def _fetched_keys(self) -> KeySet:
        # Reading the system's CAs takes tens of milliseconds.
        context = await asyncio.to_thread(tls_context, self._ca_file)
        async with new_session(ssl=context, headers=JSON_HEAD) as session:
            url = self._jwks_url or await self._discovered_url(session)
            return parse_jwks(await get(session, url), url)

    async def _discovered_url(self, session: aiohttp.ClientSession) -> str:
        where = self._issuer.rstrip("/") + DISCOVERY_PATH
        try:
            document = read_object(await get(session, where))
        except StrictJsonError as error:
            raise WebKeysError(f"{where}: no discovery document: {error}") from error
        if document.get("issuer") != self._issuer:
            raise WebKeysError(f"{where}: of another issuer; the setting must be equal to it")
        url = document.get("jwks_uri")
        if not isinstance(url, str) or (problem := url_problem(url)):
            problem = "missing" if not isinstance(url, str) else problem
            raise WebKeysError(f"{where}: jwks_uri: {problem}")
        return url


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """What servers are verified with; WebKeysError if the file cannot be used."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError as error:
        raise WebKeysError(f"{ca_file}: no PEM of certificates") from error
    except OSError as error:
        raise WebKeysError(f"{ca_file}: {error.strerror or error}") from error


async def get(session: aiohttp.ClientSession, url: str) -> bytes:
    """A document, also if it has moved on the same server; WebKeysError if there is none."""
    place = url
    for _ in range(MAX_REDIRECTS + 1):
        async with session.get(place, allow_redirects=False) as response:
            if response.status in REDIRECTS:
                target = urljoin(place, response.headers.get("Location", ""))
                if origin(target) != origin(url):
                    raise WebKeysError(f"{url}: redirects to another server; give the URL there")
                place = target
                continue
            if response.status != 200:  # noqa: PLR2004 - its own name
                raise WebKeysError(f"{url}: status {response.status}")
            data = await bounded_body(response, MAX_SET_BYTES)
            if data is None:
                raise WebKeysError(f"{url}: longer than {MAX_SET_BYTES} bytes")
            return data
    raise WebKeysError(f"{url}: redirects more than {MAX_REDIRECTS} times")


def origin(url: str) -> tuple[str, str | None, int | None]:
    """The server of a URL, or ValueError."""
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default
