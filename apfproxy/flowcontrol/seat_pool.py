"""Seats that several priority levels have together, and take by their priorities.

Levels with the annotation `apfproxy.io/priority` have one pool: what the division of limits gives
to them together.  (Kubernetes divides in proportion to demand, so that no level can go before
another one, and only limits, so that a level waits for the next division though seats are freed
every moment.)  Each seat that is freed goes to one of the requests that wait then:

1. A level is sure of its part of the pool: what its shares are of all shares in the pool.  Whole
   seats of that it may always have in use.  For the fraction it has one more in turns: as soon as
   fewer of the dispatches were its own than its part of them, while it waited.  So levels differ
   however few seats there are.
2. A level that has not what it is sure of gets the next seat; of several, that of the greatest
   priority.
3. Else the level of the greatest priority gets it; of equal ones the one that uses least of its
   part.
4. A request that needs more seats than are free has them saved up for it.
5. No one has more than its upper limit, or takes what a level never lends.

Between these events each level has a seat limit of its own, of which the sum is the pool: a
request that fits there asks no one else.  One that does not fit takes what is idle at other levels;
while nothing is, every seat that comes back is shared out again.  No request is interrupted, and no
more seats are used than the pool has, but for what executed already when it became smaller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.flowcontrol.queue_set import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apfproxy.flowcontrol.queue_set import QueueSet

TURN: Final = 1 << 32
"""Credit for a dispatch of one seat."""


class PoolMember:
    """A priority level's side of the pool.

    Attributes:
        lower, upper: Seats that it never lends, and that it has at most, or `UNLIMITED`.
        sure: Whole seats that it is sure of.
        gain: Credit for each seat that is dispatched of the pool, while something waits here.
        credit: What it has gained, less what it was given; from one turn less than nothing to two.
    """

    def __init__(self, queue_set: QueueSet, priority: int, shares: int) -> None:
        self.queue_set = queue_set
        self.priority = priority
        self.shares = shares
        self.lower = 0
        self.upper = UNLIMITED
        self.sure = 0
        self.gain = 0
        self.credit = 0

    @property
    def idle(self) -> int:
        queue_set = self.queue_set
        return max(0, queue_set.seat_limit - max(queue_set.seats_in_use, self.lower))

    @property
    def lacks_its_part(self) -> bool:
        used = self.queue_set.seats_in_use
        return used < self.sure or (used == self.sure and self.credit >= TURN)

    @property
    def is_at_its_bound(self) -> bool:
        """Whether its next request would be beyond its upper limit, and not alone."""
        if self.upper == UNLIMITED:
            return False
        queue_set = self.queue_set
        return queue_set.seats_in_use + min(queue_set.next_seats(), self.upper) > self.upper


class SeatPool:
    """The seats of all levels with a priority, the greatest first."""

    def __init__(self) -> None:
        self.size = 0
        self.members: list[PoolMember] = []

    def replace(self, members: Sequence[PoolMember]) -> None:
        """Have other levels, or other bounds, priorities and shares of theirs; `resize` comes next.

        The queue sets of levels that are not there any more are to be told their limits again.
        """
        left = {each.queue_set.name: each for each in self.members}
        for member in members:
            before = left.pop(member.queue_set.name, None)
            if before is not None:
                member.credit = before.credit
            else:
                member.queue_set.share_out = self.share_out
        for gone in left.values():
            gone.queue_set.leave_pool()
        self.members = sorted(members, key=lambda member: -member.priority)

    def resize(self, size: int, targets: Mapping[str, int], now_ns: int) -> None:
        """Have so many seats, and dispatch what fits.

        Seats in use stay with their levels, the greatest priority first; the others go by
        `targets`.
        """
        self.size = left = size
        total = sum(member.shares for member in self.members) or 1
        limits = []
        for member in self.members:
            part = min(left, member.queue_set.seats_in_use)
            limits.append(part)
            left -= part
            member.sure = size * member.shares // total
            member.gain = -(-TURN * member.shares // total)
        for index, member in enumerate(self.members):
            more = min(left, max(0, targets[member.queue_set.name] - limits[index]))
            limits[index] += more
            left -= more
        limits[0] += left
        for member, limit in zip(self.members, limits, strict=True):
            member.queue_set.set_seat_limit(limit, now_ns)
        self.share_out(now_ns)

    def share_out(self, now_ns: int) -> None:
        """Dispatch what fits, and tell it; every queue set has settled."""
        members = self.members
        while (member := self._next()) is not None:
            queue_set = member.queue_set
            widest = min(self.size, member.upper)
            seats = min(queue_set.next_seats(), widest)
            lacking = queue_set.seats_in_use + seats - queue_set.seat_limit
            if lacking > 0 and not self._take(member, lacking, now_ns):
                break
            self._count(member, seats)
            queue_set.dispatch_next(widest, now_ns)
        is_contended = any(member.queue_set.requests_waiting for member in members)
        for member in members:
            member.queue_set.is_contended = is_contended
        for member in members:
            member.queue_set.tell()

    def foreseen_limit(self, queue_set: QueueSet, limits: Mapping[str, int]) -> int:
        """The seats that requests of a level may use if another one arrives.

        `limits` are the current limits by then, by level, of which those here sum up to the pool.
        """
        others = [each for each in self.members if each.queue_set is not queue_set]
        if any(other.queue_set.requests_waiting for other in others):
            return queue_set.seat_limit
        idle = sum(other.idle for other in others)
        size = sum(limits[each.queue_set.name] for each in self.members)
        return queue_set.seat_limit + idle + max(0, size - self.size)

    def _next(self) -> PoolMember | None:
        """The level that gets the next seat; None if nothing waits that may have one."""
        best: PoolMember | None = None
        is_lacking = False
        for member in self.members:
            queue_set = member.queue_set
            if not queue_set.requests_waiting or self.size == 0 or member.is_at_its_bound:
                continue
            lacks = member.lacks_its_part
            if (
                best is None
                or (lacks and not is_lacking)
                or (
                    lacks == is_lacking
                    and member.priority == best.priority
                    and queue_set.seats_in_use * best.shares
                    < best.queue_set.seats_in_use * member.shares
                )
            ):
                best, is_lacking = member, lacks
        return best

    def _take(self, taker: PoolMember, seats: int, now_ns: int) -> bool:
        """Take idle seats of others, the least priority first; whether there were enough."""
        taken = 0
        for member in reversed(self.members):
            part = min(seats - taken, member.idle) if member is not taker else 0
            if part > 0:
                queue_set = member.queue_set
                queue_set.set_seat_limit(queue_set.seat_limit - part, now_ns)
                taken += part
        queue_set = taker.queue_set
        queue_set.set_seat_limit(queue_set.seat_limit + taken, now_ns)
        return taken == seats

    def _count(self, chosen: PoolMember, seats: int) -> None:
        for member in self.members:
            if member.queue_set.requests_waiting:
                member.credit = min(2 * TURN, member.credit + seats * member.gain)
        chosen.credit = max(-TURN, chosen.credit - seats * TURN)
