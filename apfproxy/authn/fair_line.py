"""Turns at something scarce, shared fairly among the addresses that ask for it.

A number of places is under way at once, and a number waits.  Each address has its own line, and the
lines take turns, so an address with a thousand in its line delays another by one turn.  No address
has all turns that are under way.  When the waiting places are full, the newest of the longest line
gives way.  Every step takes constant time.

An address is one of IPv4, or the first 64 bits of one of IPv6, of which a client has as many as it
likes.  Clients behind one proxy or load balancer share one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from apfproxy.base.address import share_of


class LineFullError(Exception):
    """No place is left, or the place went to another."""


@dataclass(eq=False, slots=True)
class Line:
    """The places of one address; `waiting` is in the order of their turns."""

    address: str
    waiting: OrderedDict[Place, None] = field(default_factory=OrderedDict)
    under_way: int = 0


@dataclass(eq=False, slots=True)
class Place:
    """A client that asks: outside, waiting in a line, or under way.

    It is in the line of its address, which may be "", and goes there before those that do not come
    first.  The future is done when its turn has come; it may have several turns.
    """

    address: str
    comes_first: bool = field(default=False, kw_only=True)
    is_under_way: bool = False
    line: Line | None = None
    turn: asyncio.Future[None] | None = None
    turns: int = 0

    def __post_init__(self) -> None:
        self.address = share_of(self.address)


class FairLine:
    """The lines of all addresses.

    Args:
        slots: Turns under way at once, >= 1; of one address at most three quarters, at least one.
        max_waiting: Places that wait, >= 1; of one address at most half of them, at least one.
    """

    def __init__(self, slots: int, max_waiting: int) -> None:
        self._slots = slots
        self._max_under_way_of_one = max(1, slots - -(-slots // 4))
        self._max_waiting = max_waiting
        self._max_waiting_of_one = max(1, max_waiting // 2)
        self._lines: dict[str, Line] = {}
        # Lines that have a waiter and may have one more under way, in the order of turns.
        self._ready: OrderedDict[Line, None] = OrderedDict()
        # Lines by how many wait in them, and the largest such number.
        self._by_length: list[OrderedDict[Line, None]] = [OrderedDict()]
        self._longest = 0
        self.waiting = 0
        self.under_way = 0

    async def wait(self, place: Place) -> None:
        """Wait for a turn; `leave` has to follow, whatever this raises.

        LineFullError if there is no place, or it had to give way.
        """
        line = self._lines.get(place.address)
        if line is None:
            line = self._lines[place.address] = Line(place.address)
        place.line = line
        may_begin = line.under_way < self._max_under_way_of_one
        if self.under_way < self._slots and may_begin and not line.waiting:
            self._begin(line, place)
            return
        if len(line.waiting) >= self._max_waiting_of_one or self.waiting >= self._max_waiting:
            self._make_room(line, place)
        place.turn = asyncio.get_running_loop().create_future()
        self._put_in(line, place)
        if may_begin:
            self._ready[line] = None
        await place.turn

    def leave(self, place: Place) -> None:
        """Give its turn, or its place in a line, to the next; harmless if it has neither."""
        line = place.line
        if line is None:
            return
        if place.is_under_way:
            place.is_under_way = False
            self.under_way -= 1
            line.under_way -= 1
            if line.waiting:
                self._ready[line] = None
            self._serve()
        elif place in line.waiting:
            self._take_out(line, place)
        if not line.waiting and not line.under_way and self._lines.get(line.address) is line:
            del self._lines[line.address]

    def _serve(self) -> None:
        while self._ready and self.under_way < self._slots:
            line, _ = self._ready.popitem(last=False)
            place = next(iter(line.waiting))
            self._take_out(line, place)
            assert place.turn is not None
            if not place.turn.done():  # else who waited is gone, but has not left yet
                place.turn.set_result(None)
                self._begin(line, place)
            if line.waiting and line.under_way < self._max_under_way_of_one:
                self._ready[line] = None

    def _begin(self, line: Line, place: Place) -> None:
        self.under_way += 1
        line.under_way += 1
        place.is_under_way = True
        place.turns += 1

    def _make_room(self, line: Line, place: Place) -> None:
        """Have the newest of the longest line give way, or refuse the one who comes."""
        longest = line
        if len(line.waiting) < min(self._longest, self._max_waiting_of_one):
            longest = next(reversed(self._by_length[self._longest]))
        last = next(reversed(longest.waiting))
        if longest is line and (last.comes_first or not place.comes_first):
            raise LineFullError
        self._take_out(longest, last)
        assert last.turn is not None
        if not last.turn.done():
            last.turn.set_exception(LineFullError())
            last.turn.exception()  # the waiter may be gone, too

    def _put_in(self, line: Line, place: Place) -> None:
        line.waiting[place] = None
        if place.comes_first:
            line.waiting.move_to_end(place, last=False)
        self.waiting += 1
        length = len(line.waiting)
        self._by_length[length - 1].pop(line, None)
        if length == len(self._by_length):
            self._by_length.append(OrderedDict())
        self._by_length[length][line] = None
        self._longest = max(self._longest, length)

    def _take_out(self, line: Line, place: Place) -> None:
        length = len(line.waiting)
        del line.waiting[place]
        self.waiting -= 1
        del self._by_length[length][line]
        if length > 1:
            self._by_length[length - 1][line] = None
        else:
            self._ready.pop(line, None)
        if not self._by_length[self._longest]:
            self._longest -= 1
