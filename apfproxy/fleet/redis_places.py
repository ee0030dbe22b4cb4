"""Which of the servers that speak Redis' protocol has the record: one, a Sentinel's, a cluster's.

Only one key is asked for, so a cluster is followed by its redirects, and nothing else of it has to
be known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.exceptions import AskError, MovedError, ResponseError

from apfproxy.fleet.store import StoreError
from apfproxy.settings.store_address import Kind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from apfproxy.fleet.redis_access import RedisAccess, RedisLink
    from apfproxy.settings.store_address import StoreAddress

    Question = Callable[[RedisLink, bool], Awaitable[Any]]
    """What is asked over a connection; and whether each command needs ASKING before it."""

MAX_REDIRECTS = 5
"""Of one command, as Redis' own clients have it."""


class RedisPlaces:
    """Finds the server that has the record, and connects to it.

    Nodes are asked in turn, so that one that hangs is not asked again first.
    """

    def __init__(self, address: StoreAddress, access: RedisAccess) -> None:
        self._address = address
        self._access = access
        self._turn = 0
        self._found: tuple[str, int] | None = None  # of a cluster

    async def connect(self) -> RedisLink:
        """A connection to that server, as far as it is known; StoreError."""
        if self._address.kind is Kind.SENTINEL:
            return await self._of_sentinels()
        if self._address.kind is Kind.CLUSTER:
            found, self._found = self._found, None  # of no use if it does not answer
            return await self._access.connect(*(found or self._next()))
        return await self._access.connect(*(self._address.nodes or (("", 0),))[0])

    async def ask(self, link: RedisLink, question: Question) -> tuple[RedisLink, Any]:
        """Ask the server that has the key, by redirects if it is not the one of the connection.

        Returns:
            The connection to that server, which takes the place of the other one; and its answer.

        Raises:
            StoreError: There is none, and the connection is closed.
            ResponseError: The server refuses the command; as above.
        """
        try:
            for _ in range(MAX_REDIRECTS):
                try:
                    return link, await question(link, False)
                except AskError as error:
                    return link, await self._ask_once(error, question)
                except MovedError as error:
                    where = self._where(error)
                    before, link = link, await self._access.connect(*where)
                    await before.close()
                    self._found = where
        except BaseException:
            await link.close()
            raise
        await link.close()
        raise StoreError(f"Redis Cluster: more than {MAX_REDIRECTS} redirects; it changes just now")

    async def _ask_once(self, error: AskError, question: Question) -> Any:  # noqa: ANN401 - of any type
        """Ask a server that is about to have the key."""
        link = await self._access.connect(*self._where(error))
        try:
            return await question(link, True)
        finally:
            await link.close()

    def _where(self, error: AskError) -> tuple[str, int]:
        """Where an error points to; a cluster may leave the host to whoever asks."""
        host = error.host or (self._found or self._address.nodes[0])[0]
        return host, int(error.port)

    def _next(self) -> tuple[str, int]:
        """The node whose turn it is."""
        nodes = self._address.nodes
        self._turn += 1
        return nodes[(self._turn - 1) % len(nodes)]

    async def _of_sentinels(self) -> RedisLink:
        problem = ""
        for _ in self._address.nodes:
            node = self._next()
            try:
                found = await self._ask(*node)
                self._turn -= 1  # it answers, so it is asked first again
                return await self._primary(found)
            except StoreError as error:
                problem = str(error)
        raise StoreError(f"no Sentinel knows the server {self._address.service}: {problem}")

    async def _ask(self, host: str, port: int) -> tuple[str, int]:
        """Where the server is, by a Sentinel; StoreError."""
        link = await self._access.connect_to_sentinel(host, port)
        try:
            answer = await link.execute(
                "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._address.service
            )
        except ResponseError as error:
            raise StoreError(link.explained(error)) from None
        finally:
            await link.close()
        if answer is None:
            raise StoreError(f"the Sentinel at port {port} watches no {self._address.service}")
        try:
            found, number = answer
            return _text(found), int(number)
        except (TypeError, ValueError):
            raise StoreError("a Sentinel says what is no address") from None

    async def _primary(self, found: tuple[str, int]) -> RedisLink:
        """A connection to a server that may be written; StoreError."""
        link = await self._access.connect(*found)
        try:
            role = await link.execute("ROLE")
        except ResponseError as error:
            await link.close()
            raise StoreError(link.explained(error)) from None
        except BaseException:
            await link.close()
            raise
        if not isinstance(role, list) or not role or _text(role[0]) != "master":
            await link.close()
            raise StoreError("the server that Sentinel names is none that can be written yet")
        return link


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
