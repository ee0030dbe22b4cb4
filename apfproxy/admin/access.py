"""Access to the admin listener: its certificate, tokens, and the CAs of clients' certificates.

1. Without a file of tokens and without a CA everybody may who reaches it.
2. Else a request needs one of the tokens, as a bearer token or as a basic password; or its
   connection a certificate of one of the CAs.  Tokens of writers may read, too.
3. A Unix socket needs neither: its mode says who may connect.
4. The health pages are open to all, since probes have no credentials, and they name no client.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import enum
import hmac
import logging
import time
from typing import TYPE_CHECKING, Final

from apfproxy.base.files import MAX_PEM_BYTES, FileChanges, read_file
from apfproxy.base.health_checks import PAGES
from apfproxy.base.rare_log import RareLog
from apfproxy.base.tls_files import TlsFile
from apfproxy.proxy.tls import ServerTls, peer_certificates
from apfproxy.settings import DownstreamTlsSettings
from apfproxy.settings.change import NO_CHANGE, Change
from apfproxy.sources.token_file import tokens_in

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from aiohttp import web

    from apfproxy.authn.certificates import ClientCertificates
    from apfproxy.settings import Settings

ADMIN_ACCESS = "admin-access"
OPEN: Final = tuple(f"/{page}" for page in PAGES)

log = logging.getLogger(__name__)


class Refusal(enum.StrEnum):
    NO_CREDENTIALS = "no-credentials"
    WRONG_CREDENTIALS = "wrong-credentials"


class Credentials:
    """The credentials that some settings ask for; OperatorError if a file is of no use."""

    def __init__(self, settings: Settings) -> None:
        tls = settings.admin_tls
        self.files = files = FileChanges()
        self.tokens: tuple[bytes, ...] = ()
        self.tls: ServerTls | None = None
        self.certificates: ClientCertificates | None = None
        self.asks_for_tokens = settings.admin_read_token_file is not None
        self._client_ca = tls.client_ca_file
        if tls.certificate_file is not None:
            cas = [TlsFile("adminTls.clientCaFile", each) for each in [self._client_ca] if each]
            own = DownstreamTlsSettings(
                certificate_file=tls.certificate_file, key_file=tls.key_file
            )
            self.tls = ServerTls(own, cas, section="adminTls")
            files.add(self.tls.paths, self._load_tls)
        paths = filter(None, (settings.admin_read_token_file, settings.admin_token_file))
        self._token_files = tuple(paths)
        if self.asks_for_tokens:
            files.add(self._token_files, self._load_tokens)

    def _load_tls(self) -> None:
        assert self.tls is not None, "there is a certificate"
        self.tls.load()
        if self._client_ca is not None:
            from apfproxy.authn.certificates import ClientCertificates  # noqa: PLC0415 - as in TLS

            # As those of front proxies, which count whatever they name, as a URI alone.
            self.certificates = ClientCertificates(None, read_file(self._client_ca, MAX_PEM_BYTES))

    def _load_tokens(self) -> None:
        self.tokens = tuple(token for path in self._token_files for token in tokens_in(path))

    @property
    def are_asked_for(self) -> bool:
        return self.asks_for_tokens or self.certificates is not None

    def have(self, token: bytes) -> bool:
        """Whether a token is one of them; compared with all, each in constant time."""
        return True in [hmac.compare_digest(token, each) for each in self.tokens]

    def accept(self, leaf: bytes, chain: Sequence[bytes]) -> bool:
        """Whether a client's certificate is of one of the CAs, and valid now."""
        return self.certificates is not None and self.certificates.judge(leaf, chain).is_front_proxy


class AdminAccess:
    """Decides who may read the listener, by the settings in force."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._credentials = Credentials(settings)
        self._is_started = False
        self._log = RareLog(log, time.monotonic_ns)
        self.refused: dict[str, int] = dict.fromkeys(Refusal, 0)

    def __repr__(self) -> str:
        asks = "asks for credentials" if self._credentials.are_asked_for else "open"
        return f"<AdminAccess: {asks}>"

    @property
    def context(self) -> ssl.SSLContext | None:
        tls = self._credentials.tls
        return None if tls is None else tls.context

    @property
    def asks_for_tokens(self) -> bool:
        return self._credentials.asks_for_tokens

    def refusal(self, request: web.Request) -> Refusal | None:
        credentials, transport = self._credentials, request.transport
        if not credentials.are_asked_for or is_open(request.path):
            return None
        if transport and isinstance(transport.get_extra_info("sockname"), str | bytes):
            return None  # it came over a Unix socket
        shown = request.headers.getall("Authorization", [])
        token = token_of(shown)
        if token is not None and credentials.have(token):
            return None
        leaf, chain = (None, ()) if transport is None else peer_certificates(transport)
        if leaf is not None and credentials.accept(leaf, chain):
            return None
        return Refusal.WRONG_CREDENTIALS if shown or leaf else Refusal.NO_CREDENTIALS

    def record(self, refusal: Refusal, address: str) -> None:
        self.refused[refusal] += 1
        self._log.log(
            logging.WARNING,
            refusal,
            "the admin listener refused a request of %s: %s",
            address or "this machine",
            refusal.replace("-", " "),
        )

    def problem(self) -> str | None:
        """Why changed files are not in force, or which certificate expires; None if all is well."""
        credentials, now_s = self._credentials, time.time()
        problems = credentials.files.problems
        expiries = () if credentials.tls is None else credentials.tls.expiries
        problems += [text for each in expiries if (text := each.problem(now_s)) is not None]
        return "; ".join(problems) or None

    def start(self) -> None:
        self._is_started = True
        self._credentials.files.start("the admin listener's files")

    def stop(self) -> None:
        self._credentials.files.stop()

    async def read_again(self) -> None:
        await self._credentials.files.check()

    async def prepare(self, settings: Settings) -> Change:
        """Load what other settings name; OperatorError if it cannot be used."""
        if parts_of(settings) == parts_of(self._settings):
            return NO_CHANGE
        made = await asyncio.to_thread(Credentials, settings)
        return Change(lambda: self._put(settings, made))

    def _put(self, settings: Settings, made: Credentials) -> None:
        self.stop()
        self._settings, self._credentials = settings, made
        if self._is_started:
            self.start()


def parts_of(settings: Settings) -> object:
    return settings.admin_tls, settings.admin_read_token_file, settings.admin_token_file


def is_open(path: str) -> bool:
    return any(path == page or path.startswith(f"{page}/") for page in OPEN)


def token_of(shown: Sequence[str]) -> bytes | None:
    """None for no token, or several."""
    if len(shown) != 1:
        return None
    scheme, _, text = shown[0].strip().partition(" ")
    data = text.strip().encode("utf-8", "surrogateescape")
    if scheme.lower() == "bearer":
        return data
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(data, validate=True).partition(b":")[2]
    except binascii.Error:
        return None
