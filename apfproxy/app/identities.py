"""Who clients are, and who the proxy is to the origin: all parts that know, put together.

Whatever they read from files is read again when it changes: what clients' identities hang on is
then found out anew for each, and no connection to the origin that was opened with old credentials
is used again.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from apfproxy.authn.access_review import AccessReviews
from apfproxy.authn.authenticator import Authenticator, Rules
from apfproxy.authn.certificates import ClientCertificates
from apfproxy.authn.credential_fields import is_impersonation
from apfproxy.authn.credentials import UNKNOWN_PEER, Peer
from apfproxy.authn.impersonation import Impersonations
from apfproxy.authn.json_web_tokens import JsonWebTokens, JwtSettingsError, keys_of
from apfproxy.authn.static_tokens import StaticTokens
from apfproxy.authn.token_review import TokenReviews
from apfproxy.authn.upstream_api import UpstreamApi
from apfproxy.authn.web_keys import FileKeys, WebKeysError
from apfproxy.proxy.identification import Identification
from apfproxy.proxy.request_fields import RESERVED_NAMES
from apfproxy.proxy.tls import ClientTls, ServerTls, TlsError
from apfproxy.settings import FRONT_PROXY, IMPERSONATE, PASS_THROUGH
from apfproxy.sources.file_changes import FileChanges
from apfproxy.sources.token_file import TokenFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.authn.verdict import TokenAuthenticator
    from apfproxy.clock import Clock
    from apfproxy.settings import FrontProxySettings, JwtSettings, ReviewSettings, Settings

TOKEN = "token"  # noqa: S105 - a kind of review
ACCESS = "access"

logger = logging.getLogger(__name__)


class IdentitySettingsError(ValueError):
    """Settings of TLS or authentication that cannot be used; the operator's fault."""


class Identities:
    """Loads certificates, keys and tokens, and keeps them as their files have them.

    Args:
        settings: All of them.
        clock: Of the process.
        on_clients_change: Called when what tells clients apart has changed.
        on_own_change: Called when what the proxy is to the origin has changed.

    Attributes:
        authenticator: Finds out who asks.
        review_apis: The upstream's, by the kind of what it is asked, `token` or `access`.
        server_tls: TLS towards clients; None if they speak plain HTTP.
        client_tls: TLS towards the origin; None if it speaks plain HTTP.

    Raises:
        IdentitySettingsError: The settings, or a file that they name, cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        on_clients_change: Callable[[], None],
        on_own_change: Callable[[], None],
    ) -> None:
        check_settings(settings)
        for warning in warnings(settings):
            logger.warning("%s", warning)
        self._settings = settings
        self._clock = clock
        self._on_clients_change = on_clients_change
        self._on_own_change = on_own_change
        self._files = FileChanges()
        self._certificates: ClientCertificates | None = None
        self._own_token = b""
        self._issuers: list[JsonWebTokens] = []
        self._reviews: list[TokenReviews | AccessReviews] = []
        self.review_apis: dict[str, UpstreamApi] = {}
        self.server_tls: ServerTls | None = None
        self.client_tls: ClientTls | None = None
        try:
            self._load_upstream()
            self._load_downstream()
            self.authenticator = self._authenticator()
        except (OSError, ValueError, TlsError) as error:
            if isinstance(error, IdentitySettingsError):
                raise
            raise IdentitySettingsError(str(error)) from error

    def judge(self, leaf_der: bytes, chain: Sequence[bytes] = ()) -> Peer:
        """What a client is by its certificate."""
        certificates = self._certificates
        return UNKNOWN_PEER if certificates is None else certificates.judge(leaf_der, chain)

    @property
    def identification(self) -> Identification:
        """What the proxy needs of it."""
        certificates = self if self._certificates is not None else None
        return Identification(self.authenticator, certificates, self.server_tls, self.client_tls)

    @property
    def has_files(self) -> bool:
        """Whether there is anything to watch."""
        return self._files.has_groups

    @property
    def can_fail(self) -> bool:
        """Whether there is anything that may be a `problem` later."""
        return self.has_files or bool(self.review_apis or self._issuers)

    def problem(self) -> str | None:
        """What cannot be asked, fetched or taken anew at the moment; None while all is well."""
        problems = [
            *self._files.problems,
            *filter(None, (issuer.problem for issuer in self._issuers)),
            *(
                f"{kind} review: {api.problem}"
                for kind, api in self.review_apis.items()
                if api.problem
            ),
        ]
        return "; ".join(problems) or None

    async def check(self) -> None:
        """Load again what has changed, now."""
        await self._files.check()

    async def watch(self, beat: Callable[[], None]) -> None:
        """Load again what changes, for ever; calls `beat` after each look."""
        await self._files.watch(beat)

    async def close(self) -> None:
        """Ask nobody any more."""
        await asyncio.gather(
            *(api.close() for api in self.review_apis.values()),
            *(issuer.close() for issuer in self._issuers),
        )

    def _load_upstream(self) -> None:
        upstream = self._settings.upstream
        if upstream.address.is_tls:
            tls = self.client_tls = ClientTls(upstream.tls, upstream.address.host)
            self._watch(tls.paths, tls.load, self._on_own_change)
        if upstream.token_file is not None:
            file = TokenFile(upstream.token_file, min_characters=1)

            def take() -> None:
                self._own_token = file.token()

            def changed() -> None:
                self._forget_clients()
                self._on_own_change()

            self._watch((upstream.token_file,), take, changed)

    def _load_downstream(self) -> None:
        tls, authentication = self._settings.downstream.tls, self._settings.authentication
        front_proxy = authentication.front_proxy
        client_cas = tuple(filter(None, (authentication.client_ca_file, front_proxy.ca_file)))
        if tls.certificate_file is None:
            return
        server_tls = self.server_tls = ServerTls(tls, client_cas)
        self._watch(server_tls.paths, server_tls.load, lambda: None)
        if not client_cas:
            return

        def load() -> None:
            try:
                self._certificates = ClientCertificates(
                    content(authentication.client_ca_file),
                    content(front_proxy.ca_file),
                    front_proxy.allowed_names,
                )
            except ValueError as error:
                paths = " or ".join(client_cas)
                raise IdentitySettingsError(f"{paths}: a CA cannot be used: {error}") from error

        self._watch(client_cas, load, self._forget_clients)

    def _authenticator(self) -> Authenticator:
        settings = self._settings
        authentication = settings.authentication
        tokens: list[TokenAuthenticator] = []
        if authentication.token_file is not None:
            static = StaticTokens(authentication.token_file)
            self._watch((authentication.token_file,), static.load, self._forget_clients)
            tokens.append(static)
        tokens += [self._issuer(index, jwt) for index, jwt in enumerate(authentication.jwt)]
        if authentication.token_review.is_enabled:
            api = self._api(TOKEN, authentication.token_review)
            reviews = TokenReviews(api, authentication.token_review, self._now_s)
            self._reviews.append(reviews)
            tokens.append(reviews)
        return Authenticator(
            self._clock,
            Rules(
                allows_anonymous=authentication.anonymous,
                judges_certificates=authentication.client_ca_file is not None,
                assertion=settings.upstream.identity,
            ),
            tokens,
            self._impersonations(),
            lambda: self._own_token,
        )

    def _issuer(self, index: int, jwt: JwtSettings) -> JsonWebTokens:
        try:
            keys = keys_of(jwt)
            issuer = JsonWebTokens(jwt, keys)
        except JwtSettingsError as error:
            raise IdentitySettingsError(
                "\n".join(
                    f"authentication.jwt[{index}].{name}: {problem}"
                    for name, problem in error.problems
                )
            ) from error
        except WebKeysError as error:
            raise IdentitySettingsError(f"authentication.jwt[{index}]: {error}") from error
        if isinstance(keys, FileKeys) and jwt.keys_file is not None:
            self._watch((jwt.keys_file,), keys.load, self._forget_clients)
        self._issuers.append(issuer)
        return issuer

    def _impersonations(self) -> Impersonations | None:
        settings = self._settings.authentication.impersonation
        reviews = None
        if settings.access_review.is_enabled:
            api = self._api(ACCESS, settings.access_review)
            reviews = AccessReviews(api, settings.access_review, self._now_s)
            self._reviews.append(reviews)
        elif not settings.users and not settings.groups:
            return None
        return Impersonations(settings, reviews)

    def _api(self, kind: str, settings: ReviewSettings) -> UpstreamApi:
        upstream = self._settings.upstream
        tls = self.client_tls
        api = UpstreamApi(
            f"{'https' if upstream.address.is_tls else 'http'}://{upstream.address}",
            lambda: None if tls is None else tls.context,
            lambda: self._own_token or None,
            settings.max_concurrent,
            settings.timeout_s,
            server_name=upstream.tls.server_name,
            host=upstream.host_header,
        )
        self.review_apis[kind] = api
        return api

    def _watch(
        self, paths: tuple[str, ...], load: Callable[[], None], then: Callable[[], None]
    ) -> None:
        """Load files now, and again when they change; `then` what hangs on them."""

        def reload() -> None:
            load()
            then()

        self._files.add(paths, load, reload)

    def _forget_clients(self) -> None:
        for reviews in self._reviews:
            reviews.clear()
        self._on_clients_change()

    def _now_s(self) -> float:
        return self._clock.now_ns() / 1e9

    def __repr__(self) -> str:
        return f"<Identities: {self.authenticator!r}, {self._files!r}>"


def check_settings(settings: Settings) -> None:
    """See that the settings go together.

    Raises:
        IdentitySettingsError: They do not.
    """
    downstream, upstream = settings.downstream, settings.upstream
    authentication = settings.authentication
    problems = []
    if (downstream.tls.certificate_file is None) != (downstream.tls.key_file is None):
        problems.append("downstream.tls: certificateFile and keyFile go together; give both")
    if (upstream.tls.certificate_file is None) != (upstream.tls.key_file is None):
        problems.append("upstream.tls: certificateFile and keyFile go together; give both")
    if downstream.tls.certificate_file is None:
        problems += [
            f"{name}: needs downstream.tls, over which clients show their certificates"
            for name, value in (
                ("authentication.clientCaFile", authentication.client_ca_file),
                ("authentication.frontProxy.caFile", authentication.front_proxy.ca_file),
                (
                    "downstream.tls.requireClientCertificate",
                    downstream.tls.require_client_certificate or None,
                ),
            )
            if value is not None
        ]
    elif downstream.tls.require_client_certificate and not (
        authentication.client_ca_file or authentication.front_proxy.ca_file
    ):
        problems.append(
            "downstream.tls.requireClientCertificate: needs authentication.clientCaFile or"
            " authentication.frontProxy.caFile, which say whose certificates count"
        )
    if upstream.identity == IMPERSONATE and upstream.token_file is None:
        problems.append("upstream.identity: impersonate needs upstream.tokenFile, the proxy's own")
    is_unknown = upstream.address.is_tls and upstream.tls.certificate_file is None
    if upstream.identity == FRONT_PROXY and is_unknown:
        problems.append(
            "upstream.identity: frontProxy over https needs upstream.tls.certificateFile, by which"
            " the server knows the proxy"
        )
    if not upstream.address.is_tls and any(
        (upstream.tls.ca_file, upstream.tls.server_name, upstream.tls.certificate_file)
    ):
        problems.append("upstream.tls: of no use with an http URL; write https in upstream.url")
    problems += _name_problems(authentication.front_proxy)
    if problems:
        raise IdentitySettingsError("\n".join(problems))


def _name_problems(front_proxy: FrontProxySettings) -> list[str]:
    """What is wrong with the names of front proxies' fields.

    A field whose name means something else already would lose that meaning: without Content-Length,
    for one, a body would be taken for requests.
    """
    kinds = (
        ("usernameHeaders", front_proxy.username_headers),
        ("uidHeaders", front_proxy.uid_headers),
        ("groupHeaders", front_proxy.group_headers),
    )
    problems = [
        f"authentication.frontProxy.{kind}: {name} means something else; choose another name"
        for kind, names in kinds
        for name in names
        if name.lower().encode() in RESERVED_NAMES or is_impersonation(name.lower().encode())
    ]
    for name in front_proxy.extra_header_prefixes:
        prefix = name.lower().encode()
        taken = min((each for each in RESERVED_NAMES if each.startswith(prefix)), default=b"")
        if not taken and (is_impersonation(prefix) or b"impersonate-".startswith(prefix)):
            taken = b"impersonate-user"
        if taken:
            problems.append(
                f"authentication.frontProxy.extraHeaderPrefixes: {name} is the start of"
                f" {taken.decode()} too, which means something else; choose another prefix"
            )
    return problems


def warnings(settings: Settings) -> list[str]:
    """What may be meant otherwise than it will work."""
    found = []
    authentication = settings.authentication
    front_proxy, client_ca = authentication.front_proxy, authentication.client_ca_file
    if client_ca is not None and client_ca == front_proxy.ca_file and not front_proxy.allowed_names:
        found.append(
            "authentication.frontProxy.caFile is authentication.clientCaFile, and allowedNames is"
            " empty: every user's certificate may say who asks; name the front proxies"
        )
    if settings.upstream.identity != PASS_THROUGH:
        return found
    if settings.upstream.tls.certificate_file is not None:
        found.append(
            "upstream.tls.certificateFile with upstream.identity passThrough: a server that takes"
            " the certificate for a user's lets every request run as that user; frontProxy is"
            " probably meant"
        )
    if settings.authentication.client_ca_file is not None:
        found.append(
            "authentication.clientCaFile with upstream.identity passThrough: who has a certificate"
            " is classified by it, but is nobody to the server, since no certificate can be passed"
            " on; use frontProxy or impersonate"
        )
    return found


def content(path: str | None) -> bytes | None:
    """What is in a file, if there is one to read."""
    return None if path is None else Path(path).read_bytes()
