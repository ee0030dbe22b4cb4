"""The addresses of a DNS name as endpoints: each A and AAAA record that the system resolves.

1. The name is resolved again after an interval, with jitter: the system's resolver does not tell
   for how long a response is valid.
2. A response that fails or is empty leaves the known endpoints in use; pauses grow then.
3. A lookup cannot be given up once the system has it.  It runs in a thread of its own, one at a
   time for a name, so that a resolver that hangs holds neither the event loop nor other threads.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from apfproxy.base.tasks import Backoff
from apfproxy.settings import Address, EndpointAddress
from apfproxy.upstream.found_endpoints import FoundEndpoints

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable

    Answer = tuple[str, ...] | Exception

ANSWER_S = 10.0  # the system's resolver asks twice for 5 s each by default
# The part by which an interval is longer or shorter, so that many proxies do not ask at once.
JITTER = 0.1
FIRST_PAUSE_S = 1.0  # after a failure; twice as long after each further one, up to the interval

logger = logging.getLogger(__name__)


def system_addresses(host: str) -> Iterable[str]:
    """The addresses of a host, of those families of which this machine has one; it blocks.

    Raises OSError or UnicodeError if there are none.
    """
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(address[0]) for *_, address in found]


class Resolver:
    """Asks a blocking function for addresses of hosts, in threads, one for each host."""

    def __init__(self, look_up: Callable[[str], Iterable[str]] | None = None) -> None:
        self._look_up = look_up
        self._asking: dict[str, asyncio.Future[Answer]] = {}

    def ask(self, host: str) -> asyncio.Future[Answer]:
        """The addresses or the error to come, which several may wait for: none cancels it."""
        asking = self._asking.get(host)
        if asking is None:
            loop = asyncio.get_running_loop()
            asking = self._asking[host] = loop.create_future()
            look_up = self._look_up or system_addresses
            # A daemon: the end of the process does not wait for it.
            threading.Thread(
                target=self._work, args=(host, look_up, loop), name=f"resolving {host}", daemon=True
            ).start()
        return asking

    def _work(
        self, host: str, look_up: Callable[[str], Iterable[str]], loop: asyncio.AbstractEventLoop
    ) -> None:
        answer: Answer
        try:
            answer = tuple(look_up(host))
        except Exception as error:  # noqa: BLE001  who asked sees to it
            answer = error
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(partial(self._settle, host, answer))

    def _settle(self, host: str, answer: Answer) -> None:
        asking = self._asking.pop(host)
        if not asking.done():
            asking.set_result(answer)


class DnsEndpoints:
    """The addresses of the host of `address`, all with its port; certificates are the host's."""

    def __init__(
        self,
        address: Address,
        interval_s: float,
        resolver: Resolver,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.name = address.url
        self.found = FoundEndpoints(self.name)
        self._address = address
        self._interval_s = interval_s
        self._resolver = resolver
        self._sleep = sleep
        self._chance = chance
        self._backoff = Backoff(FIRST_PAUSE_S, max(FIRST_PAUSE_S, interval_s), chance)
        self._why: str | None = None

    def problem(self) -> str | None:
        """Why the endpoints may be others by now; None while they are of the last response."""
        return None if self._why is None else f"{self.name}: {self._why}; {self.found.kept}"

    async def run(self) -> None:
        while True:
            answer = await self._answer()
            if isinstance(answer, tuple) and answer:
                if self._why is not None:
                    self._why = None
                    logger.info("%s: is resolved again", self.name)
                self._backoff.reset()
                self.found.put(self._endpoints(answer))
                pause_s = self._interval_s * (1 + JITTER * (2 * self._chance() - 1))
            else:
                self._failed(why(answer))
                pause_s = self._backoff.next_s()
            await self._sleep(pause_s)

    async def _answer(self) -> Answer:
        asking = self._resolver.ask(self._address.host)
        done, _ = await asyncio.wait((asking,), timeout=ANSWER_S)
        if not done:
            self._failed(f"the resolver has not answered within {ANSWER_S:g} s")
            await asyncio.wait((asking,))
        return asking.result()

    def _endpoints(self, hosts: Iterable[str]) -> list[EndpointAddress]:
        at = self._address
        name = at.host.rstrip(".")  # a dot at the end says that the name is whole
        addresses = (Address(host=host, port=at.port, is_tls=at.is_tls) for host in hosts)
        return [EndpointAddress(address=each, server_name=name) for each in addresses]

    def _failed(self, what: str) -> None:
        before, self._why = self._why, what
        if before != what:
            logger.warning("%s: %s; %s", self.name, what, self.found.kept)

    def leave(self, servers: Collection[str]) -> None:
        """Do nothing; a source that asks an API does more here, and below."""

    async def close(self) -> None:
        """End nothing, as nothing is left."""

    def __repr__(self) -> str:
        return f"<DnsEndpoints {self.problem() or self.name}>"


def why(answer: Answer) -> str:
    if isinstance(answer, tuple):
        return "cannot be resolved: the name has no address"
    if isinstance(answer, UnicodeError):
        return "cannot be resolved: no name of a host"
    if isinstance(answer, OSError):
        return f"cannot be resolved: {answer.strerror or answer}"
    raise answer
