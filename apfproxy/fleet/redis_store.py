"""A record in a server that speaks Redis' protocol: a hash with `version` and `data`.

Each write has a version that its writer draws, so it is that of no other write, also of one that a
failover has lost.  A script compares and writes at once.

A key that nobody writes for `KEPT_S` is removed by the server, so that fleets of the past leave
nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import NoScriptError, ResponseError

from apfproxy.base.tasks import spawn
from apfproxy.fleet.record import MAX_RECORD_BYTES
from apfproxy.fleet.redis_access import MAX_PROBLEM, RedisAccess
from apfproxy.fleet.redis_listener import RedisListener
from apfproxy.fleet.redis_places import RedisPlaces
from apfproxy.fleet.store import Stored, StoreError, Swapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.fleet.redis_access import RedisLink
    from apfproxy.settings import FleetSettings
    from apfproxy.settings.store_address import StoreAddress

PREFIX = "apfproxy:"
"""Of all keys and channels, as an ACL names them."""
KEPT_S = 86400
VERSION_BYTES = 12
LATE_S = 1.0
"""How long an answer that nobody waits for any more may take, before the connection is given up."""

logger = logging.getLogger(__name__)

THERE = f"""\
local function there()
  if redis.call('HSTRLEN', KEYS[1], 'data') > {MAX_RECORD_BYTES} then
    return redis.error_reply('TOOLONG')
  end
  return redis.call('HMGET', KEYS[1], 'version', 'data')
end
"""
"""What is there, unless it is longer than a record."""

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
"""Arguments: version seen, version, data, seconds, channel or nothing, what to say there.

To set the time comes first, so that a user who may not do it writes nothing, rather than something
that it is then told has failed; what is new is given its time after it is there.  Who may not tell
the others has written nevertheless, and gets the reason instead.
"""


@dataclass(slots=True)
class Question:
    """A script that is run, with its arguments; and what came of it."""

    script: Script
    arguments: tuple[str | bytes | int, ...]
    answer: Any = None
    problem: StoreError | None = None


class Script(NamedTuple):
    """A script, and the name that the server knows it by."""

    text: str
    digest: str

    @classmethod
    def of(cls, text: str) -> Script:
        """The script of a text."""
        return cls(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


READING, SWAPPING = Script.of(READ), Script.of(SWAP)


class RedisStore:
    """One record; connects when it is used, and again after a failure.

    Args:
        address: Where the servers are.
        fleet: Passwords and TLS.
        key: Of the record.

    Raises:
        OperatorError: A file that the settings name cannot be used.
    """

    def __init__(self, address: StoreAddress, fleet: FleetSettings, key: str) -> None:
        access = RedisAccess(address, fleet)
        access.check()
        self._places = RedisPlaces(address, access)
        # Braces have a cluster place all keys of a record by what is in them.
        self.key = f"{PREFIX}{{{key}}}"
        self.channel = f"{self.key}:urgent"
        self._own = secrets.token_hex(8)
        self._asking = asyncio.Lock()
        self._link: RedisLink | None = None
        self._opening: asyncio.Task[None] | None = None
        self._late: asyncio.Task[None] | None = None  # the last question, which may be over
        self._problem = ""  # of the last try to connect
        self._is_told = True  # whether the others were told of the last urgent change
        self._listener: RedisListener | None = None

    async def read(self) -> Stored:
        """What is there; StoreError."""
        was_connected = self._link is not None
        try:
            return _stored(await self._run(READING))
        except StoreError:
            if not was_connected:
                raise
        # The server may have gone since it was last asked, and another one be in its place.
        return _stored(await self._run(READING))

    async def swap(self, data: bytes, seen: Stored, *, is_urgent: bool = False) -> Swapped:
        """Write if nobody has since `seen`; StoreError, after which it may be written or not."""
        if len(data) > MAX_RECORD_BYTES:
            raise StoreError(f"the record has {len(data)} bytes, more than {MAX_RECORD_BYTES}")
        version = secrets.token_hex(VERSION_BYTES)
        answer = await self._run(
            SWAPPING,
            _bytes(seen.version),
            version,
            data,
            KEPT_S,
            self.channel if is_urgent else "",
            self._own,
        )
        if isinstance(answer, bytes):
            if is_urgent:
                self._note_told(answer)
            return Swapped(is_done=True, stored=Stored(data, version))
        return Swapped(is_done=False, stored=_stored(answer))

    def _note_told(self, answer: bytes) -> None:
        """Log it if the others cannot be told any more."""
        was_told, self._is_told = self._is_told, answer == b"written"
        if was_told and not self._is_told:
            logger.warning(
                "Redis does not tell other members of urgent changes, which they see only at their"
                " next look: %s",
                answer.decode("utf-8", "replace")[:MAX_PROBLEM],
            )

    def listen(self, on_urgent: Callable[[], None]) -> None:
        """Call `on_urgent` when another member wrote something urgent, from now on."""
        assert self._listener is None, "one listener"
        self._listener = RedisListener(self._places, self.channel, self._own, on_urgent)
        self._listener.start()

    async def close(self) -> None:
        """End the connections; harmless once done."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.close()
        for task in (self._opening, self._late):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
        self._opening = self._late = None
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def _run(self, script: Script, *arguments: str | bytes | int) -> Any:  # noqa: ANN401 - of any type
        """What a script returns; StoreError."""
        async with self._asking:
            if self._late is not None:
                await asyncio.wait([self._late])
            if self._link is None:
                await self._connect()
            link, self._link = self._link, None
            if link is None:
                raise StoreError(self._problem)
            question = Question(script, arguments)
            self._late = spawn(self._answer(link, question), name=f"question for {self.key}")
            try:
                await asyncio.shield(self._late)
            except asyncio.CancelledError:
                # With its answer the connection is of use again, if that does not take for ever.
                asyncio.get_running_loop().call_later(LATE_S, self._late.cancel)
                raise
            if question.problem is not None:
                raise question.problem
            return question.answer

    async def _connect(self) -> None:
        """Have a connection, or a problem.

        A caller may have less time than it takes to connect to a server that is far away.  So that
        goes on when a caller gives up, and the next one finds how far it is.
        """
        if self._opening is None or self._opening.done():
            self._opening = spawn(self._open(), name=f"connection for {self.key}")
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        try:
            # redis-py connects with the first question.  The answer is old when it is wanted.
            self._link, _ = await self._ask(await self._places.connect(), READING)
        except StoreError as error:
            self._problem = str(error)

    async def _answer(self, link: RedisLink, question: Question) -> None:
        try:
            self._link, question.answer = await self._ask(
                link, question.script, *question.arguments
            )
        except StoreError as error:
            question.problem = error

    async def _ask(
        self, link: RedisLink, script: Script, *arguments: str | bytes | int
    ) -> tuple[RedisLink, Any]:
        """The connection to be used from now on, and what a script returns; StoreError."""

        async def question(link: RedisLink, is_asking: bool) -> Any:  # noqa: ANN401 - of any type
            for command in (("EVALSHA", script.digest), ("EVAL", script.text)):
                if is_asking:
                    await link.execute("ASKING")
                try:
                    return await link.execute(*command, 1, self.key, *arguments)
                except NoScriptError:
                    continue  # it does not know the script yet
            raise StoreError("Redis says that it does not know a script that it was just given")

        try:
            return await self._places.ask(link, question)
        except ResponseError as error:
            raise StoreError(self._explained(error, link)) from None

    def _explained(self, error: ResponseError, link: RedisLink) -> str:
        text = str(error)
        if "TOOLONG" in text:
            return f"the key {self.key} has more than {MAX_RECORD_BYTES} bytes: delete it"
        if "WRONGTYPE" in text:
            return f"the key {self.key} has something else than a record: delete it"
        return link.explained(error)

    def __repr__(self) -> str:
        return f"<RedisStore {self.key}: {'connected' if self._link else 'not connected'}>"


def _stored(answer: Any) -> Stored:  # noqa: ANN401 - of any type
    """What a script has found; StoreError if that is nothing that scripts of ours return."""
    if not isinstance(answer, list) or [type(each) for each in answer] not in (
        [bytes, bytes],
        [type(None), type(None)],
    ):
        raise StoreError("the key has something else than a record: delete it")
    version, data = answer
    if version is None:
        return Stored(None, "")
    return Stored(data, version.decode("latin-1"))


def _bytes(version: str) -> bytes:
    """A version as the server has it, whatever bytes somebody else has written."""
    return version.encode("latin-1")
