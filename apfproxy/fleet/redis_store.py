"""A record in a server that speaks Redis' protocol: a hash with `version` and `data`.

Each write has a version that its writer draws, so it is that of no other write, also of one that a
failover has lost.  A script compares and writes at once.  redis-py follows Sentinels and clusters;
after any failure the next question makes a client from the settings again, whose files may have
changed.

The server removes a key that is not written for `KEPT_S`, so that fleets of the past leave
nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import secrets
import ssl
from typing import TYPE_CHECKING, Any

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
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
    NoScriptError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
)

from apfproxy.base.errors import OperatorError
from apfproxy.base.files import read_named
from apfproxy.base.tasks import Backoff, spawn
from apfproxy.base.tls_files import Pem, client_context
from apfproxy.fleet.record import MAX_RECORD_BYTES
from apfproxy.fleet.store import Stored, StoreError, Swapped
from apfproxy.settings.store_address import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.settings import FleetSettings
    from apfproxy.settings.store_address import StoreAddress

    Client = Redis | RedisCluster

PREFIX = "apfproxy:"
"""The start of all keys and channels, as an ACL names them."""
KEPT_S = 86400
VERSION_BYTES = 12
MAX_VERSION_BYTES = 64

CONNECT_S = 2.0
RESPONSE_S = 5.0
"""For a server that hangs; callers give up sooner."""
LATE_S = 1.0
"""How long a response may take after its caller has given up, before its connection is closed."""
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0
"""Between two tries to listen; a listener that lasted as long is well."""
BETWEEN_MESSAGES_S = 0.005
"""Each says the same, so many at once need no haste; a flood of them leaves time for requests."""
SILENCE_S = 15.0
"""After so long the server is asked whether it is still there; after twice as long it is not."""

MAX_PASSWORD_BYTES = 4096
MAX_PROBLEM = 200
FIRST_LETTERS = 4
"""Shorter passwords would be found in any text."""

WRONG_TYPES = (TypeError, LookupError, AttributeError)
CONNECTION_ERRORS = (
    *(RedisError, RedisClusterException, OSError, ValueError, EOFError, RuntimeError),
    *WRONG_TYPES,
)
"""All errors of redis-py, ValueError for a wrong host, and uvloop's RuntimeError for a reset."""

DATA_USER = "the user in fleet.store, and fleet.passwordFile"
NO_RECORD = "has something else than a record: delete it"

logger = logging.getLogger(__name__)

THERE = f"""\
local function there()
  if redis.call('HSTRLEN', KEYS[1], 'data') > {MAX_RECORD_BYTES}
    or redis.call('HSTRLEN', KEYS[1], 'version') > {MAX_VERSION_BYTES} then
    return redis.error_reply('TOOLONG')
  end
  return redis.call('HMGET', KEYS[1], 'version', 'data')
end
"""
"""The record, unless it is longer than a record: so what redis-py reads is bounded."""

READ = f"""\
{THERE}
return there()
"""

SWAP = f"""\
{THERE}
local at = redis.call('HGET', KEYS[1], 'version') or ''
if at ~= ARGV[1] then return there() end
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('HSET', KEYS[1], 'version', ARGV[2], 'data', ARGV[3])
if at == '' then redis.call('EXPIRE', KEYS[1], ARGV[4]) end
if ARGV[5] ~= '' then
  local told = redis.pcall('PUBLISH', ARGV[5], ARGV[6])
  if type(told) == 'table' then return told.err end
end
return 'written'
"""
"""Arguments: version seen, version, data, seconds, channel or nothing, message there.

EXPIRE comes first, so that a user who may not do it writes nothing, rather than something that it
is then told has failed; a new key is given its time after it is there.  A user who may not PUBLISH
has written nevertheless, and gets the reason instead.
"""


class TlsConnection(SSLConnection):
    """A connection with a TLS context of ours: redis-py's own trusts the system's CAs, too."""

    def __init__(self, *, tls: ssl.SSLContext, **others: Any) -> None:  # noqa: ANN401 - redis-py's
        super().__init__(**others)
        self.ssl_context.context = tls


class Servers:
    """Makes clients of the servers of an address, by files that may have changed; OperatorError."""

    def __init__(self, address: StoreAddress, fleet: FleetSettings) -> None:
        self._address = address
        self._fleet = fleet
        self._turn = 0  # of the node that is asked first
        self._secrets: tuple[str, ...] = ()
        self._read_files()

    def _read_files(self) -> tuple[str, str, ssl.SSLContext | None]:
        """Passwords of the servers and of Sentinels, and TLS; blocks on the file system."""
        fleet, given = self._fleet, self._address.password
        own = given if fleet.password_file is None else password_of(fleet.password_file)
        path = fleet.sentinel_password_file
        sentinel = "" if path is None else password_of(path)
        self._secrets = tuple(filter(None, (own, sentinel)))
        if not self._address.is_tls:
            return own, sentinel, None
        authorities, shown = None, None
        if fleet.ca_file is not None:
            authorities = Pem(path=fleet.ca_file)
        if fleet.certificate_file is not None and fleet.key_file is not None:
            shown = Pem(path=fleet.certificate_file), Pem(path=fleet.key_file)
        return own, sentinel, client_context(authorities, shown)

    async def connect(self, *, listens: bool = False) -> Client:
        """A client of the server that has the record or, to listen, the channel; StoreError."""
        try:
            own, sentinel, tls = await asyncio.to_thread(self._read_files)
        except OperatorError as error:
            raise StoreError(str(error)) from error
        address = self._address
        options = _options(address.user, own)
        nodes = [*address.nodes[self._turn :], *address.nodes[: self._turn]] or [("", 0)]
        if address.kind is Kind.CLUSTER and not listens:
            return await _cluster(nodes, options, tls)
        options["db"] = address.database
        if address.kind is not Kind.SENTINEL:
            return _client(nodes[0], address.path, options, tls)
        client = _client(await self._primary(nodes, sentinel, tls), "", options, tls)
        try:
            role = await client.execute_command("ROLE")  # type: ignore[no-untyped-call]  # redis-py's
        except BaseException:
            await client.aclose()
            raise
        if not isinstance(role, list) or role[:1] != [b"master"]:
            await client.aclose()
            raise StoreError("the server that Sentinel names is none that can be written yet")
        return client

    async def _primary(
        self, nodes: list[tuple[str, int]], password: str, tls: ssl.SSLContext | None
    ) -> tuple[str, int]:
        """The server that Sentinels name, else why: redis-py's `discover_master` does not say."""
        service, problem = self._address.service, ""
        for host, port in nodes:
            client = _client((host, port), "", _options("", password), tls)
            try:
                found = await client.execute_command(  # type: ignore[no-untyped-call]  # redis-py's
                    "SENTINEL", "GET-MASTER-ADDR-BY-NAME", service
                )
                if found is not None:
                    return found[0].decode(), int(found[1])
                problem = f"the Sentinel at {host}:{port} watches no {service}"
            except CONNECTION_ERRORS as error:
                problem = self.explained(error, "fleet.sentinelPasswordFile")
            finally:
                await client.aclose()
        raise StoreError(f"no Sentinel knows the server {service}: {problem}")

    def failed(self) -> None:
        self._turn = (self._turn + 1) % (len(self._address.nodes) or 1)

    def explained(self, error: BaseException, settings: str = DATA_USER) -> str:
        """The problem, in one line, without a password; `settings` have user and password."""
        text = self._shown(error)
        for each in _causes(error):
            if isinstance(each, ssl.SSLCertVerificationError):
                why = each.verify_message.rstrip(".")
                return (
                    f"the certificate of Redis is not good: {why}; see the host in fleet.store,"
                    " and fleet.caFile"
                )
            if isinstance(each, AuthenticationError):
                return f"Redis refuses user or password: {text}; see {settings}"
            if isinstance(each, NoPermissionError):
                return (
                    f"Redis does not permit it: {text}; see docs/fleet-stores.md for the rights of"
                    " a member's user"
                )
        if isinstance(error, ReadOnlyError):
            return "Redis is a replica, which cannot be written"
        if isinstance(error, ResponseError):
            return f"Redis says: {text}"
        return f"Redis does not answer: {text}"

    def _shown(self, error: BaseException) -> str:
        text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        if isinstance(error, RuntimeError):
            text = "the connection was reset"
        if isinstance(error, WRONG_TYPES):
            text = "its response makes no sense"
        if isinstance(error, TimeoutError) and not str(error):
            text = f"nothing came for {RESPONSE_S:g} s"
        for secret in self._secrets:
            if len(secret) >= FIRST_LETTERS:
                text = text.replace(secret, "...")
            elif isinstance(error, ResponseError):
                text = type(error).__name__  # a server may repeat what it was told
        return text[:MAX_PROBLEM]


class RedisStore:
    """One record; connects when it is used, and again after a failure; OperatorError."""

    def __init__(self, address: StoreAddress, fleet: FleetSettings, key: str) -> None:
        self._servers = Servers(address, fleet)
        # Braces have a cluster place all keys of a record by what is in them.
        self.key = f"{PREFIX}{{{key}}}"
        self.channel = f"{self.key}:urgent"
        self._own = secrets.token_hex(8)
        self._asking = asyncio.Lock()
        self._client: Client | None = None
        self._question: asyncio.Task[Any] | None = None  # the last one, which may be over
        self._is_told = True  # whether the others were told of the last urgent change
        self._listener: asyncio.Task[None] | None = None

    async def read(self) -> Stored:
        was_connected = self._client is not None
        try:
            return _stored(await self._run(READ))
        except StoreError:
            if not was_connected:
                raise
        # The server may have gone since it was last asked, and another one be in its place.
        return _stored(await self._run(READ))

    async def swap(self, data: bytes, seen: Stored, *, is_urgent: bool = False) -> Swapped:
        """Write if no member has since `seen`; StoreError, after which it may be written or not."""
        if len(data) > MAX_RECORD_BYTES:
            raise StoreError(f"the record has {len(data)} bytes, more than {MAX_RECORD_BYTES}")
        version = secrets.token_hex(VERSION_BYTES)
        channel = self.channel if is_urgent else ""
        # As the server has it, whatever bytes another client has written.
        before = seen.version.encode("latin-1")
        found = await self._run(SWAP, before, version, data, KEPT_S, channel, self._own)
        if not isinstance(found, bytes):
            return Swapped(is_done=False, stored=_stored(found))
        if is_urgent:
            was_told, self._is_told = self._is_told, found == b"written"
            if was_told and not self._is_told:
                logger.warning(
                    "Redis does not tell other members of urgent changes, which they see only at"
                    " their next look: %s",
                    found.decode("utf-8", "replace")[:MAX_PROBLEM],
                )
        return Swapped(is_done=True, stored=Stored(data, version))

    def listen(self, on_urgent: Callable[[], None]) -> None:
        """Call `on_urgent` when another member wrote something urgent, or may have."""
        assert self._listener is None, "one listener"
        listener = Listener(self._servers, self.channel, self._own.encode(), on_urgent)
        self._listener = spawn(listener.run(), name=f"listener to {self.channel}")

    async def close(self) -> None:
        for task in (self._listener, self._question):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
        self._listener = self._question = None
        await self._leave()

    async def _leave(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _run(self, script: str, *arguments: str | bytes | int) -> Any:  # noqa: ANN401 - of any type
        """The result of a script, or StoreError.

        A caller may have less time than it takes to reach a server that is far away.  So the
        question goes on for a while when its caller gives up, and the next one finds a connection.
        """
        async with self._asking:
            if self._question is not None:
                await asyncio.wait([self._question])
            self._question = question = spawn(
                self._ask(script, arguments), name=f"question for {self.key}"
            )
            try:
                await asyncio.wait([question])
            except asyncio.CancelledError:
                asyncio.get_running_loop().call_later(LATE_S, question.cancel)
                raise
            found = question.result()
        if isinstance(found, StoreError):
            raise found
        return found

    async def _ask(self, script: str, arguments: tuple[str | bytes | int, ...]) -> Any:  # noqa: ANN401 - of any type
        is_well = False
        try:
            async with asyncio.timeout(RESPONSE_S):
                if self._client is None:
                    self._client = await self._servers.connect()
                found = await self._evaluated(self._client, script, arguments)
            is_well = True
        except StoreError as error:
            return error
        except CONNECTION_ERRORS as error:
            text = str(error)
            if "TOOLONG" in text:
                found = f"the key {self.key} has more than {MAX_RECORD_BYTES} bytes: delete it"
            elif "WRONGTYPE" in text:
                found = f"the key {self.key} {NO_RECORD}"
            else:
                found = self._servers.explained(error)
            return StoreError(found)
        finally:
            if not is_well:
                self._servers.failed()
                await self._leave()
        return found

    async def _evaluated(
        self, client: Client, script: str, arguments: tuple[str | bytes | int, ...]
    ) -> Any:  # noqa: ANN401 - of any type
        digest = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
        try:
            return await client.execute_command("EVALSHA", digest, 1, self.key, *arguments)
        except NoScriptError:  # which it learns by this, and needs no other right
            return await client.execute_command("EVAL", script, 1, self.key, *arguments)


class Listener:
    """Listens to a channel, for ever; connects again after each failure.

    `on_urgent` is called when anything but `own` is said there, and when that may have been missed.
    """

    def __init__(
        self, servers: Servers, channel: str, own: bytes, on_urgent: Callable[[], None]
    ) -> None:
        self._servers = servers
        self._channel = channel
        self._own = own
        self._on_urgent = on_urgent
        self._has_failed = False
        self._listens_since_s = math.inf  # of the loop's clock

    async def run(self) -> None:
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        now_s = asyncio.get_running_loop().time
        while True:
            self._listens_since_s = math.inf
            try:
                await self._follow()
            except (StoreError, *CONNECTION_ERRORS) as error:
                if not self._has_failed:
                    is_told = isinstance(error, StoreError)
                    logger.warning(
                        "%s; urgent changes of other members are seen only at the next look",
                        error if is_told else self._servers.explained(error),
                    )
                self._has_failed = True
            # One that subscribed and failed at once is not well again.
            if now_s() - self._listens_since_s >= LONGEST_PAUSE_S:
                backoff.reset()
            await asyncio.sleep(backoff.next_s())

    async def _follow(self) -> None:
        async with asyncio.timeout(RESPONSE_S):
            client = await self._servers.connect(listens=True)
        assert isinstance(client, Redis), "of one node"
        is_asked = False
        try:
            async with client, client.pubsub() as pubsub:
                async with asyncio.timeout(RESPONSE_S):
                    await pubsub.subscribe(self._channel)
                while True:
                    message = await pubsub.get_message(timeout=SILENCE_S)
                    if message is not None:
                        is_asked = False
                        self._take(message)
                        await asyncio.sleep(BETWEEN_MESSAGES_S)
                    elif is_asked:
                        raise StoreError("Redis does not answer")
                    else:
                        is_asked = True
                        await pubsub.ping()
        finally:
            self._servers.failed()

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "subscribe":
            self._listens_since_s = asyncio.get_running_loop().time()
            if self._has_failed:
                logger.info("urgent changes of other members are seen at once again")
                self._has_failed = False
                self._on_urgent()
        elif message["type"] == "message" and message["data"] != self._own:
            self._on_urgent()


def password_of(path: str) -> str:
    """The password in a file, without the end of its line; OperatorError if there is none."""
    try:
        password = read_named(path, MAX_PASSWORD_BYTES, OperatorError).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        password = ""
    if not password or "\n" in password:
        raise OperatorError(
            f"{path}: has no password: write one line of at most {MAX_PASSWORD_BYTES} bytes"
        )
    return password


def _options(user: str, password: str) -> dict[str, Any]:
    return {
        "username": user or None,
        "password": password or None,
        "socket_connect_timeout": CONNECT_S,
        # With a limit redis-py sends by `asyncio.wait_for`, which before Python 3.12 may lose
        # that its caller is cancelled.
        "socket_timeout": None,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,  # which all versions speak
    }


def _client(
    node: tuple[str, int], path: str, options: dict[str, Any], tls: ssl.SSLContext | None
) -> Redis:
    kind: type[Any] = Connection
    place: dict[str, Any] = {"host": node[0], "port": node[1], "socket_keepalive": True}
    if path:
        kind, place = UnixDomainSocketConnection, {"path": path}
    elif tls is not None:
        kind = TlsConnection
        place["tls"] = tls
    return Redis.from_pool(ConnectionPool(kind, max_connections=1, **place, **options))


async def _cluster(
    nodes: list[tuple[str, int]], options: dict[str, Any], tls: ssl.SSLContext | None
) -> RedisCluster:
    cluster = RedisCluster(
        startup_nodes=[ClusterNode(host, port) for host, port in nodes],
        require_full_coverage=False,  # one slot is enough
        **options,
    )
    if tls is not None:
        # Of nodes that it is yet to find, and of those that it begins with.
        cluster.connection_kwargs |= {"connection_class": TlsConnection, "tls": tls}
        for node in cluster.startup_nodes:
            node.connection_class = TlsConnection
            node.connection_kwargs["tls"] = tls
    try:
        return await cluster.initialize()
    except IndexError:  # redis-py looks for the first one
        raise StoreError("the cluster in fleet.store has no node with slots yet") from None


def _causes(error: BaseException | None) -> list[BaseException]:
    """An error with all its causes: redis-py's own have only their text."""
    causes: list[BaseException] = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return causes


def _stored(found: Any) -> Stored:  # noqa: ANN401 - of any type
    """The record in the result of a script; StoreError if there is none in it."""
    if not isinstance(found, list) or [type(each) for each in found] not in (
        [bytes, bytes],
        [type(None), type(None)],
    ):
        raise StoreError(f"the key {NO_RECORD}")
    version, data = found
    return Stored(None, "") if version is None else Stored(data, version.decode("latin-1"))
