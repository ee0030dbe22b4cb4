"""The proxy's credentials for a Kubernetes API: a TLS context and `Authorization`.

Files are read before each request, of which there are few.  A changed certificate that cannot be
used, such as one without its new key, leaves the former TLS context in use; a token that cannot be
read fails the request.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import logging
import os
import ssl
from typing import TYPE_CHECKING

from apfproxy.base.files import fingerprint
from apfproxy.base.tls_files import lifetime
from apfproxy.sources.exec_credential import Credential, ExecProgram
from apfproxy.sources.kubeconfig import KubeconfigError, Pem, content
from apfproxy.sources.token_file import TokenFile, TokenFileError

if TYPE_CHECKING:
    from apfproxy.base.tls_files import Lifetime
    from apfproxy.sources.kubeconfig import ApiAccess

logger = logging.getLogger(__name__)


class ApiCredentials:
    """The credentials that an access names.

    Attributes:
        context: For new connections; None without TLS.
        problem: Why changed files of TLS are not in use.

    Raises:
        KubeconfigError: They cannot be used.
    """

    def __init__(self, access: ApiAccess) -> None:
        self._access = access
        self._token_file = None
        if access.token_file is not None:
            self._token_file = TokenFile(access.token_file, min_characters=1)
        self._program = None if access.program is None else ExecProgram(access.program)
        self._given = Credential()  # by the program
        self._lifetime: tuple[bytes, Lifetime | None] = (b"", None)
        """The token of the file that was read last, and for how long it is good."""
        self._lock = asyncio.Lock()
        self._fingerprint = fingerprint(access.paths)
        self.context: ssl.SSLContext | None = None
        self.problem: str | None = None
        if access.server.startswith("https:"):
            self.context = tls_context(access)
        try:
            self.authorization()
        except TokenFileError as error:
            raise KubeconfigError(str(error)) from error

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

        TokenFileError if a file has no token, ExecError if a program gives no credential.
        """
        async with self._lock:
            given = self._given if self._program is None else await self._program.credential()
            return await asyncio.to_thread(self._refresh, given)

    def refused(self) -> None:
        """Run the program again, if there is one: the API has refused the credential."""
        if self._program is not None:
            self._program.refused()

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
        return self.authorization()

    def _refresh_tls(self, *, is_new: bool) -> None:
        found = fingerprint(self._access.paths)
        if found == self._fingerprint and not is_new and self.problem is None:
            return
        try:
            self.context = tls_context(self._access)
        except KubeconfigError as error:
            if self.problem is None:
                logger.warning("changed, but not taken, what was there stays in use: %s", error)
            self.problem = str(error)
            return
        self.problem = None
        if found != self._fingerprint:
            logger.info("changed, and loaded again: %s", ", ".join(self._access.paths))
        self._fingerprint = found

    def authorization(self) -> str | None:
        """The value of `Authorization`, or TokenFileError; None if there is none to be sent."""
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
    """The TLS settings of an access, or KubeconfigError; blocks on the file system."""
    # Not `create_default_context`, which from Python 3.13 on refuses CAs without key identifiers,
    # as clusters have them.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if access.is_unverified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif access.authorities is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        pem = access.authorities
        data = content(pem)
        try:
            # Comments between the certificates may be of any letters.
            context.load_verify_locations(cadata=data.decode("ascii", "ignore"))
        except (ssl.SSLError, ValueError) as error:
            raise KubeconfigError(f"{named(pem)}: is no PEM of certificates") from error
    if access.certificate is not None and access.key is not None:
        load_own(context, access.certificate, access.key)
    return context


def load_own(context: ssl.SSLContext, certificate: Pem, key: Pem) -> None:
    """Give a context the client's own certificate."""
    try:
        pair = content(certificate) + b"\n" + content(key)
        # OpenSSL takes files only; this one is on no disk, and gone at once.
        with open(os.memfd_create("apfproxy"), "wb") as file:  # noqa: PTH123 - has no path
            file.write(pair)
            file.flush()
            # An empty password, or OpenSSL would ask for one at the terminal.
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password="")
    except (ssl.SSLError, OSError) as error:
        raise KubeconfigError(
            f"{named(certificate)} and {named(key)}: are no certificate and its key, as PEM"
            f" without a password, that can be read: {error.strerror or type(error).__name__}"
        ) from error


def named(pem: Pem) -> str:
    """What to call a PEM."""
    return pem.path or "the data in the kubeconfig"
