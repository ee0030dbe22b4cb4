"""Authentication of clients, and of the proxy to the upstream: all parts put together.

Files are read again when they change.  Clients are then authenticated again, and no connection to
the upstream that was opened with old credentials is used again.  Other settings make others, which
take the place of those before: requests under way end under those with which they began.

Modules that import cryptography or aiohttp are imported only by settings that need them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, TypeVar

from apfproxy.authn.authenticator import Authenticator, Rules, front_proxy_lines
from apfproxy.authn.impersonation import Impersonations
from apfproxy.authn.secret_files import ApiKeys, BasicKeys, StaticTokens
from apfproxy.authn.unverified_names import NamesOfAddresses
from apfproxy.base.errors import OperatorError
from apfproxy.base.files import MAX_PEM_BYTES, FileChanges, read_file
from apfproxy.base.health_checks import READYZ
from apfproxy.base.tasks import spawn
from apfproxy.base.tls_files import TlsFile, certificates_in, lifetime, token_expiries
from apfproxy.http.credential_fields import BEARER_CHALLENGE
from apfproxy.proxy.http2.available import is_offered
from apfproxy.proxy.tls import ServerTls
from apfproxy.request.attributes import AUTHENTICATED_GROUP, User
from apfproxy.settings import ANONYMOUS, FRONT_PROXY
from apfproxy.settings.contradictions import warnings
from apfproxy.sources.token_file import read_token
from apfproxy.upstream.tls import ClientTls

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.authn.credentials import TokenAuthenticator
    from apfproxy.authn.json_web_tokens import JsonWebTokens
    from apfproxy.authn.reviews import AccessReviews, TokenReviews
    from apfproxy.authn.upstream_api import UpstreamApi
    from apfproxy.base.clock import Clock
    from apfproxy.base.health_checks import HealthChecks
    from apfproxy.base.tls_files import Expiries, Lifetime
    from apfproxy.settings import (
        AuthenticationSettings,
        EndpointAddress,
        JwtSettings,
        ReviewSettings,
        Settings,
    )

    Choose = Callable[[EndpointAddress | None], EndpointAddress | None]

IDENTIFICATION = "identification"
"""The health check."""
TOKEN = "token"  # noqa: S105 - a kind of review
ACCESS = "access"
SPARE_S = 5.0
"""Beside the time of a review, before those of earlier settings are closed."""

OWN_USER = User("apfproxy", (AUTHENTICATED_GROUP,))
"""The user of health checks that the proxy sends as a front proxy; any may, by default."""

logger = logging.getLogger(__name__)

R = TypeVar("R", "TokenReviews", "AccessReviews")


class Identities:
    """Loads certificates, keys and tokens, and keeps them as their files have them.

    `server_tls` is TLS towards clients, `client_tls` towards the upstream; None for plain HTTP.
    `choose` says which endpoint to ask, as of `UpstreamApi`; `review_apis` are by `token` or
    `access`.

    OperatorError if the settings, or a file that they name, cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        choose: Choose,
        on_clients_change: Callable[[], None],
        on_own_change: Callable[[], None],
    ) -> None:
        for warning in warnings(settings):
            logger.warning("%s", warning)
        self._settings = settings
        self._clock = clock
        self._choose = choose
        self._on_clients_change = on_clients_change
        self._on_own_change = on_own_change
        self.files = FileChanges()
        self._own_token = b""
        self._own_lifetime: Lifetime | None = None
        self._issuers: list[JsonWebTokens] = []
        self._reviews: list[TokenReviews | AccessReviews] = []
        self.review_apis: dict[str, UpstreamApi] = {}
        self.server_tls: ServerTls | None = None
        self.client_tls: ClientTls | None = None
        self.names: NamesOfAddresses | None = None
        self._authorities: dict[TlsFile, Expiries] = {}
        """Expiry of issuers' CAs."""
        self._problems: list[str] = []
        self._retiring: set[asyncio.Task[None]] = set()
        """Tasks of earlier settings."""
        self._load_upstream()
        self.authenticator = self._authenticator()
        self._load_downstream()
        if self._problems:
            raise OperatorError("\n".join(dict.fromkeys(self._problems)))

    @property
    def own_lines(self) -> bytes:
        """Header lines by which the proxy authenticates in health checks.

        As a front proxy it has to name a user: its certificate alone is no one's.
        """
        if self._settings.upstream.identity == FRONT_PROXY:
            return front_proxy_lines(OWN_USER)
        return b"Authorization: Bearer %b\r\n" % self._own_token if self._own_token else b""

    def start(self) -> None:
        self.files.start("certificates, keys and tokens")

    def list_in(self, health: HealthChecks) -> None:
        """List the check where anything may be wrong later."""
        health.discard(IDENTIFICATION)
        if self.files.has_groups or self.review_apis or self._issuers:
            health.add(IDENTIFICATION, pages=(READYZ,), is_blocking=False, look=self.problem)

    def succeed(self, before: Identities) -> None:
        """Take the place of others, which may still be asked for a while."""
        # They count for the whole process.
        self.authenticator.counters = before.authenticator.counters
        before.files.stop()
        self._retiring = before._retiring
        task = spawn(before._retire(), name="closing old identities")
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def _retire(self) -> None:
        try:
            await asyncio.sleep(grace_s(self._settings))
        finally:
            await self._end()

    async def close(self) -> None:
        """Ask no one any more, nor those before; harmless once done."""
        await self.files.close()
        ending = list(self._retiring)
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        await self._end()

    async def _end(self) -> None:
        await asyncio.gather(
            *(api.close() for api in self.review_apis.values()),
            *(issuer.close() for issuer in self._issuers),
        )

    def problem(self) -> str | None:
        now_unix_s = time.time()
        problems = (
            *self.files.problems,
            *(issuer.problem for issuer in self._issuers),
            *(
                f"{kind} review: {api.problem}"
                for kind, api in self.review_apis.items()
                if api.problem
            ),
            *(each.problem(now_unix_s) for each in self.expiries()),
            self._token_problem(),
        )
        return "; ".join(filter(None, problems)) or None

    def expiries(self) -> list[Expiries]:
        """The expiries of certificates that settings name, as their files were last loaded."""
        loaded = [tls.expiries for tls in (self.server_tls, self.client_tls) if tls is not None]
        return [each for expiries in (*loaded, self._authorities.values()) for each in expiries]

    def own_tokens(self) -> list[tuple[str, str, Lifetime]]:
        """The proxy's own token if it says for how long it is good: setting, file, lifetime."""
        path, own = self._settings.upstream.token_file, self._own_lifetime
        return [] if path is None or own is None else [("upstream.tokenFile", path, own)]

    def _token_problem(self) -> str | None:
        for setting, path, own in self.own_tokens():
            return token_expiries(TlsFile(setting, path), own).problem(time.time())
        return None

    def _load_upstream(self) -> None:
        upstream = self._settings.upstream
        if upstream.address.is_tls:
            tls = self.client_tls = ClientTls(upstream.tls)
            self._watch(tls.load, *tls.paths, then=self._on_own_change)
        if (path := upstream.token_file) is None:
            return

        def take() -> None:
            self._own_token = read_token(path, min_characters=1)
            self._own_lifetime = lifetime(self._own_token)
            if (problem := self._token_problem()) is not None:
                logger.warning("%s", problem)

        def changed() -> None:
            self._forget_clients()
            self._on_own_change()

        self._watch(take, path, then=changed, setting="upstream.tokenFile")

    def _load_downstream(self) -> None:
        tls, authentication = self._settings.downstream.tls, self._settings.authentication
        front_proxy = authentication.front_proxy
        client_cas = client_cas_of(authentication)
        if tls.certificate_file is None:
            return
        server_tls = self.server_tls = ServerTls(
            tls, client_cas, offers_http2=is_offered(self._settings.downstream.http2)
        )
        self._watch(server_tls.load, *server_tls.paths)
        if not client_cas:
            return
        from apfproxy.authn.certificates import ClientCertificates  # noqa: PLC0415

        def load() -> None:
            users, fronts = (
                None if path is None else read_file(path, MAX_PEM_BYTES)
                for path in (authentication.client_ca_file, front_proxy.ca_file)
            )
            try:
                certificates = ClientCertificates(users, fronts, front_proxy.allowed_names)
            except ValueError as error:
                files = " or ".join(map(str, client_cas))
                raise OperatorError(f"{files}: a CA cannot be used: {error}") from error
            self.authenticator.certificates = certificates

        self._watch(load, *(file.path for file in client_cas), then=self._forget_clients)

    def _authenticator(self) -> Authenticator:
        authentication = self._settings.authentication
        has, forget = authentication.api_keys, self._forget_clients
        tokens: list[TokenAuthenticator] = []
        if (path := authentication.token_file) is not None:
            static = StaticTokens(path)
            self._watch(static.load, path, then=forget, setting="authentication.tokenFile")
            tokens.append(static)
        keys = None
        if has.file is not None:
            keys = ApiKeys(has.file, is_unknown_anonymous=has.unknown == ANONYMOUS)
            self._watch(keys.load, has.file, then=forget, setting="authentication.apiKeys.file")
            tokens += [keys] if has.is_bearer else []
        for index, jwt in enumerate(authentication.jwt):
            self._add_issuer(f"authentication.jwt[{index}]", jwt)
        tokens += self._issuers
        if authentication.token_review.is_enabled:
            from apfproxy.authn.reviews import TokenReviews  # noqa: PLC0415

            tokens.append(self._asked(TokenReviews, TOKEN, authentication.token_review))
        most = authentication.unverified.names_per_address
        self.names = None if most is None else NamesOfAddresses(most, self._clock)
        return Authenticator(
            self._clock,
            Rules(
                allows_anonymous=authentication.anonymous,
                judges_certificates=authentication.client_ca_file is not None,
                assertion=self._settings.upstream.identity,
                challenges=challenges(authentication),
                names=self.names,
            ),
            tokens,
            self._impersonations(),
            lambda: self._own_token,
            keys=keys if has.header is not None else None,
            passwords=BasicKeys(keys) if keys is not None and has.is_basic else None,
        )

    def _add_issuer(self, section: str, jwt: JwtSettings) -> None:
        from apfproxy.authn import json_web_tokens  # noqa: PLC0415
        from apfproxy.authn.web_keys import FileKeys  # noqa: PLC0415

        if jwt.ca_file is not None:
            file = TlsFile(f"{section}.caFile", jwt.ca_file)

            def note() -> None:
                self._authorities[file] = certificates_in(file, is_chain=False)[1]

            self._watch(note, jwt.ca_file)
        try:
            keys = json_web_tokens.keys_of(jwt)
            self._issuers.append(json_web_tokens.JsonWebTokens(jwt, keys))
        except ValueError as error:
            self._problems.append(f"{section}: {error}")
            return
        path = jwt.keys_file or jwt.secret_file
        if isinstance(keys, FileKeys) and path is not None:
            self._watch(keys.load, path, then=self._forget_clients, setting=section)

    def _impersonations(self) -> Impersonations | None:
        settings = self._settings.authentication.impersonation
        if settings.access_review.is_enabled:
            from apfproxy.authn.reviews import AccessReviews  # noqa: PLC0415

            return Impersonations(
                settings, self._asked(AccessReviews, ACCESS, settings.access_review)
            )
        return Impersonations(settings, None) if settings.users or settings.groups else None

    def _asked(
        self,
        make: Callable[[UpstreamApi, ReviewSettings, Callable[[], float]], R],
        kind: str,
        settings: ReviewSettings,
    ) -> R:
        """Reviews of a kind, which ask the upstream's API."""
        from apfproxy.authn.upstream_api import UpstreamApi  # noqa: PLC0415

        upstream, tls = self._settings.upstream, self.client_tls
        api = self.review_apis[kind] = UpstreamApi(
            self._choose,
            lambda: None if tls is None else tls.context,
            lambda: self._own_token or None,
            settings.max_concurrent,
            settings.timeout_s,
            server_name=upstream.tls.server_name,
            # Without one of the settings it is that which all servers have in common.
            host=upstream.host_header
            or (None if upstream.addresses else upstream.address.authority),
        )
        reviews = make(api, settings, lambda: self._clock.now_ns() / 1e9)
        self._reviews.append(reviews)
        return reviews

    def _watch(
        self,
        load: Callable[[], None],
        *paths: str,
        then: Callable[[], None] | None = None,
        setting: str = "",
    ) -> None:
        """Load files now, and again when they change; `then` what hangs on them.

        `setting` is for errors that do not name it yet.
        """

        def reload() -> None:
            load()
            if then is not None:
                then()

        try:
            self.files.add(paths, load, reload)
        except OperatorError as error:  # so that all that is wrong can be said at once
            before = f"{setting}: " if setting else ""
            self._problems += [f"{before}{each}" for each in str(error).splitlines()]

    def _forget_clients(self) -> None:
        for reviews in self._reviews:
            reviews.clear()
        self._on_clients_change()


def challenges(settings: AuthenticationSettings) -> bytes:
    """The challenges of a 401 response: one for each way to authenticate.

    RFC 9110, section 15.5.2, wants one at least; kube-apiserver has none.  Certificates and front
    proxies have no scheme: where there is nothing else, it is that of Kubernetes' tokens.
    """
    keys = settings.api_keys
    has_keys = keys.file is not None
    has_tokens = settings.token_file or settings.jwt or settings.token_review.is_enabled
    schemes = (
        ('Basic realm="apfproxy", charset="UTF-8"', has_keys and keys.is_basic),
        ('Bearer realm="apfproxy"', has_tokens or (has_keys and keys.is_bearer)),
        (f'ApiKey realm="apfproxy", header="{keys.header}"', has_keys and keys.header is not None),
    )
    lines = [f"WWW-Authenticate: {scheme}\r\n" for scheme, is_known in schemes if is_known]
    return "".join(lines).encode() or BEARER_CHALLENGE


def client_cas_of(authentication: AuthenticationSettings) -> tuple[TlsFile, ...]:
    """The files of the CAs of clients' certificates, of users and of front proxies."""
    named = (
        ("clientCaFile", authentication.client_ca_file),
        ("frontProxy.caFile", authentication.front_proxy.ca_file),
    )
    return tuple(
        TlsFile(f"authentication.{setting}", path) for setting, path in named if path is not None
    )


def parts_of(settings: Settings) -> tuple[object, ...]:
    """All settings that identities are made of."""
    upstream = settings.upstream
    return (
        settings.downstream.tls,
        settings.downstream.http2.is_enabled,
        settings.authentication,
        *(upstream.address, upstream.tls, upstream.identity, upstream.token_file),
        upstream.host_header,
    )


def grace_s(settings: Settings) -> float:
    """The longest time of a question about a client that was begun."""
    authentication = settings.authentication
    reviews = (authentication.token_review, authentication.impersonation.access_review)
    return SPARE_S + sum(each.timeout_s for each in reviews)
