"""Bytes of clients that wait in the proxy: counted where they are kept, and bounded.

A request that fits is passed on in the event that brought it, so nothing of it is counted.  Counted
are the heads and bodies of requests that wait for anything (the rest of a body, an authentication,
seats, a connection), large heads as long as their requests last, and what has come of heads and
blocks that are not whole.  What is over a bound is refused; what is counted already stays.

1. A connection may hold so much, however many streams it has.
2. An address may hold so much; without a setting, as much as is left free.  So the first one gets
   half of it all, and two of them a third each: there is always room for one that comes later.
3. All of them together may hold so much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.base.memory import default_bytes
from apfproxy.base.sockets import UNIX_PEER
from apfproxy.proxy.counters import Bound

if TYPE_CHECKING:
    from apfproxy.proxy.counters import ListenerCounters
    from apfproxy.settings import DownstreamSettings

LARGE_HEAD_BYTES: Final = 8192
"""Heads up to this size are not counted once their requests go on: most clients' have 2 KiB, those
with tokens of many groups 6."""
LARGE_PART_BYTES: Final = 4096
"""Parts of heads up to this size are not counted."""


class Holding:
    """What is held for one connection.

    Attributes:
        held: In bytes.
    """

    __slots__ = ("_address", "_all", "held")

    def __init__(self, holdings: Holdings, address: str) -> None:
        self._all = holdings
        self._address = address
        self.held = 0

    def change(self, by: int) -> Bound | None:
        """Hold so much more, or less, unless that is over a bound, which is returned.

        Less is never over one.
        """
        holdings = self._all
        if by > 0:
            bound = holdings.bound_on(self.held, self._address, by)
            if bound is not None:
                holdings.counters.held_refusals[bound] += 1
                return bound
        self.held += by
        holdings.change(self._address, by)
        return None

    def __repr__(self) -> str:
        return f"<Holding of {self._address}: {self.held} bytes>"


class Holdings:
    """What is held for all connections of a listener.

    Attributes:
        by_address: The same by the client's address; without zeros.
        counters: Has the sum, and counts what was refused.
        free_bytes: A head of so many bytes is not counted where its request goes on at once; -1
            while memory is short, since every request is refused then.
    """

    def __init__(self, settings: DownstreamSettings, counters: ListenerCounters) -> None:
        self.counters = counters
        self.by_address: dict[str, int] = {}
        self.free_bytes = LARGE_HEAD_BYTES
        self._most = 0
        self._most_of_address: int | None = None
        self.most_of_connection = 0
        self.configure(settings)

    def configure(self, settings: DownstreamSettings) -> None:
        """Put other bounds in force, for what comes from now on."""
        limits = settings.limits
        most = limits.max_held_bytes
        self._most = default_bytes(settings.overload.memory_bytes) if most is None else most
        self._most_of_address = limits.max_held_bytes_per_address
        self.most_of_connection = limits.max_held_bytes_per_connection

    @property
    def is_short(self) -> bool:
        """Whether the memory of the process itself is short."""
        return self.free_bytes < 0

    def set_short(self, *, is_short: bool) -> None:
        """Say whether it is."""
        self.free_bytes = -1 if is_short else LARGE_HEAD_BYTES

    def holding(self, address: str) -> Holding:
        """A connection of an address, which holds nothing yet."""
        return Holding(self, address)

    def bound_on(self, held: int, address: str, more: int) -> Bound | None:
        """The bound over which a connection would be that holds more; None if it may."""
        if self.is_short:
            return Bound.OVERLOAD
        if held + more > self.most_of_connection:
            return Bound.CONNECTION
        left = self._most - self.counters.held_bytes
        if more > left:
            return Bound.PROCESS
        if address != UNIX_PEER:
            most = left - more if self._most_of_address is None else self._most_of_address
            if self.by_address.get(address, 0) + more > most:
                return Bound.ADDRESS
        return None

    def change(self, address: str, by: int) -> None:
        """Count so much more, or less, of an address."""
        self.counters.held_bytes += by
        left = self.by_address.get(address, 0) + by
        if left:
            self.by_address[address] = left
        else:
            self.by_address.pop(address, None)

    def __repr__(self) -> str:
        return f"<Holdings: {self.counters.held_bytes} of {self._most} bytes>"
