"""Connections to servers that speak Redis' protocol: passwords, TLS, and errors in words."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

from redis.asyncio import Redis
from redis.asyncio.connection import (
    Connection,
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    NoPermissionError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from apfproxy.base.errors import OperatorError
from apfproxy.base.files import read_named
from apfproxy.fleet.redis_parser import BoundedParser
from apfproxy.fleet.store import StoreError
from apfproxy.sources.api_credentials import tls_context
from apfproxy.sources.kubeconfig import ApiAccess, Pem

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis.asyncio.client import PubSub

    from apfproxy.settings import FleetSettings
    from apfproxy.settings.store_address import StoreAddress

CONNECT_S = 2.0
ANSWER_S = 5.0
"""For a server that hangs; callers give up sooner."""
MAX_PASSWORD_BYTES = 4096
MAX_PROBLEM = 200
"""Characters that are shown of what a server says."""
FIRST_LETTERS = 4
"""A shorter password is no part of a text that it could be found in."""

WRONG_TYPES = (TypeError, LookupError, AttributeError)
"""What redis-py trips over if a server answers what no Redis does."""
CONNECTION_ERRORS = (RedisError, OSError, ValueError, EOFError, RuntimeError, *WRONG_TYPES)
"""What redis-py raises; ValueError for a host that is no name, and uvloop's RuntimeError for a
connection that was reset just before something was written."""
DATA_USER = "the user in fleet.store, and fleet.passwordFile"
CERTIFICATE = "the host in fleet.store, and fleet.caFile"
SENTINEL_USER = "fleet.sentinelPasswordFile"
RIGHTS = "docs/fleet-stores.md for the rights of a member's user"


class GivenTls:
    """A TLS context, in the place where redis-py keeps the maker of one."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    def get(self) -> ssl.SSLContext:
        """The context."""
        return self._context


class TlsConnection(SSLConnection):
    """A connection with a TLS context of ours.

    redis-py's own trusts the system's CAs beside those that it is given.
    """

    def __init__(self, *, given: GivenTls, **others: Any) -> None:  # noqa: ANN401 - redis-py's
        super().__init__(**others)
        self.ssl_context = given  # type: ignore[assignment]  # of which only `get` is used


class RedisLink:
    """One connection to a server; it is used by one task at a time.

    Args:
        pool: Of that connection.
        secret: What no message may have; "" for none.
        settings: Those that have the user and the password, in words.
    """

    def __init__(self, pool: ConnectionPool, secret: str, settings: str) -> None:
        self._pool = pool
        self._secret = secret
        self._settings = settings
        self._client: Redis = Redis(connection_pool=pool)

    async def execute(self, *command: str | bytes | int) -> Any:  # noqa: ANN401 - of any type
        """The answer to a command.

        Raises:
            StoreError: There is none.
            ResponseError: The server refuses it.
        """
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py's
        except (AuthenticationError, NoPermissionError, ReadOnlyError) as error:
            raise StoreError(self.explained(error)) from None
        except ResponseError:
            raise
        except CONNECTION_ERRORS as error:
            raise StoreError(self.explained(error)) from None

    def pubsub(self) -> PubSub:
        """Subscriptions over the connection, which then does nothing else."""
        return self._client.pubsub()

    def explained(self, error: BaseException) -> str:
        """What is wrong, in one line, without the password."""
        text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        if isinstance(error, RuntimeError):
            text = "the connection was reset"
        if isinstance(error, WRONG_TYPES):
            text = "what it says is no answer"
        if isinstance(error, TimeoutError) and not str(error):
            text = f"nothing came for {ANSWER_S:g} s"
        if len(self._secret) >= FIRST_LETTERS:
            text = text.replace(self._secret, "...")
        elif self._secret and isinstance(error, ResponseError):
            text = type(error).__name__  # a server may repeat what it was told
        text = text[:MAX_PROBLEM]
        reason = error.__context__  # redis-py's own has its text alone
        if isinstance(reason, ssl.SSLCertVerificationError):
            why = reason.verify_message.rstrip(".")
            return f"the certificate of Redis is not good: {why}; see {CERTIFICATE}"
        if isinstance(error, AuthenticationError):
            return f"Redis refuses user or password: {text}; see {self._settings}"
        if isinstance(error, NoPermissionError):
            return f"Redis does not permit it: {text}; see {RIGHTS}"
        if isinstance(error, ReadOnlyError):
            return "Redis is a replica, which cannot be written"
        if isinstance(error, ResponseError):
            return f"Redis says: {text}"
        return f"Redis does not answer: {text}"

    async def close(self) -> None:
        """End the connection; harmless once done."""
        try:
            await self._client.aclose()
        finally:
            await self._pool.disconnect()


class RedisAccess:
    """How to connect to the servers of an address.

    Files are read for each connection, so that they may change.
    """

    def __init__(self, address: StoreAddress, fleet: FleetSettings) -> None:
        self._address = address
        self._password_file = fleet.password_file
        self._sentinel_password_file = fleet.sentinel_password_file
        self._tls = ApiAccess(
            server="",
            authorities=_pem(fleet.ca_file),
            certificate=_pem(fleet.certificate_file),
            key=_pem(fleet.key_file),
        )

    def check(self) -> None:
        """See that the files can be used; blocks on the file system.

        Raises:
            OperatorError: One cannot be.
        """
        if self._address.is_tls:
            tls_context(self._tls)
        for path in (self._password_file, self._sentinel_password_file):
            if path is not None:
                password_of(path)

    async def connect(self, host: str, port: int) -> RedisLink:
        """A connection to a server; StoreError."""
        return await self._opened(host, port, self._address.user, self._password, data=True)

    async def connect_to_sentinel(self, host: str, port: int) -> RedisLink:
        """A connection to a Sentinel; StoreError."""
        return await self._opened(host, port, "", self._sentinel_password, data=False)

    def _password(self) -> str:
        path = self._password_file
        return self._address.password if path is None else password_of(path)

    def _sentinel_password(self) -> str:
        path = self._sentinel_password_file
        return "" if path is None else password_of(path)

    async def _opened(
        self, host: str, port: int, user: str, read_password: Callable[[], str], *, data: bool
    ) -> RedisLink:
        try:
            password, context = await asyncio.to_thread(self._read, read_password)
        except OperatorError as error:
            raise StoreError(str(error)) from error
        place: dict[str, Any] = {"host": host, "port": port, "socket_keepalive": True}
        kind: type[Any] = Connection
        if context is not None:
            kind = TlsConnection
            place["given"] = GivenTls(context)
        elif self._address.path:
            kind, place = UnixDomainSocketConnection, {"path": self._address.path}
        pool: ConnectionPool = ConnectionPool(
            kind,
            max_connections=1,
            db=self._address.database if data else 0,
            username=user or None,
            password=password or None,
            socket_connect_timeout=CONNECT_S,
            # With a limit redis-py sends by `asyncio.wait_for`, which before Python 3.12 may lose
            # that its caller is cancelled.
            socket_timeout=None,
            retry=Retry(NoBackoff(), 0),
            protocol=2,  # which all versions speak
            parser_class=BoundedParser,
            **place,
        )
        return RedisLink(pool, password, DATA_USER if data else SENTINEL_USER)

    def _read(self, read_password: Callable[[], str]) -> tuple[str, ssl.SSLContext | None]:
        context = tls_context(self._tls) if self._address.is_tls else None
        return read_password(), context


def password_of(path: str) -> str:
    """The password in a file, without the end of its line; blocks on the file system.

    Raises:
        OperatorError: There is none.
    """
    try:
        password = read_named(path, MAX_PASSWORD_BYTES, OperatorError).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        password = ""
    if not password or "\n" in password:
        raise OperatorError(
            f"{path}: has no password: write one line of at most {MAX_PASSWORD_BYTES} bytes"
        )
    return password


def _pem(path: str | None) -> Pem | None:
    return None if path is None else Pem(path=path)
