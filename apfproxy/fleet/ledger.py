"""One member's side of the record: what it knows of the others, what it claims, what it may use.

The rules, which keep the limit (`docs/fleet.md` has the proof):

1. **Use.**  A member uses its claim, and no more.  It lowers it whenever it likes, and raises it
   only by a swap of the record in which the claims of all sum to the limit at most.
2. **Entitlement** (`_entitlement`).  It is entitled to its part of the division of what all want
   (`division`).
3. **Reserve** (`_reserved`).  What the others may be using is theirs: what they claim, or the safe
   share, if that is more and they wrote their last beat `HELD` of a lease ago, since they may be
   without the store.
4. **Grow or shrink** (`_resized`).  If it has more than it is entitled to, it stops using the
   surplus at once, and lowers its claim as its requests end; if it has less, it claims what the
   others' reserve leaves.  A newcomer claims no more than a starter share until it has watched the
   record for a lease, the longest that any member has; nor does one that comes back after a lease
   to another record.
5. **Lease.**  It ends by the observer's own clock: so long after it first saw the last beat.  Of a
   time in which it did not reach the store itself `FAILED_PART` of the lease counts at most.  The
   holder counts from before its write, and stops after `HELD` of it, so strictly earlier.
6. **Without the store** a member keeps to its claim until its lease ends, and to the safe share
   after that: no more than its claim at first, all of it when everybody's lease is over and the
   store is still away.
7. **Lost writes.**  A record that has fewer writes than were seen is an older one: who is missing
   there has not left, and a claim that is not there counts for nothing.  After a record was lost a
   member keeps no more of its claim than those who wrote since have left.

Times are seconds of a monotonic clock that the caller reads.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from apfproxy.base.transitions import Event
from apfproxy.fleet.division import part_of, scaled, seats_of
from apfproxy.fleet.record import (
    MAX_COUNT,
    MAX_MEMBERS,
    MAX_SEATS,
    VERSION,
    Member,
    Record,
    RecordFullError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apfproxy.fleet.division import LevelRules
    from apfproxy.flowcontrol.limits import LevelLimits

HELD: Final = 0.8
"""The part of its lease in which the holder uses its claim: clocks may differ by a quarter in rate,
and a turn of the loop may be late."""

FAILED_PART: Final = 0.1
"""The part of a lease that counts at most of a time in which the store was not reached: it comes
back for all at once, but where each second look fails, the seats of the dead are free some time."""

MS_PER_S: Final = 1000

MUCH: Final = 1.25
"""A member that lacks seats repeats that once it wants so much more."""

FEWEST: Final = 2
"""The members that one alone assumes at least: none takes the whole."""


class LeaseState(enum.StrEnum):
    """How a member stands to its fleet: what it may use, by when it wrote last.

    1. `joining`: it has neither written nor failed to.  It has no seats yet.
    2. `held`: its lease runs.  It may use its claim.
    3. `expired`: its lease is over, since the store is away, or it comes back.  It uses no more
       than its claim, nor than the safe share: others may still hold theirs.
    4. `partitioned`: the store has been away for so long that no lease runs, and still is.
       It uses the safe share.
    """

    JOINING = "joining"
    HELD = "held"
    EXPIRED = "expired"
    PARTITIONED = "partitioned"


TRANSITIONS: Final = {
    LeaseState.JOINING: {
        "read": LeaseState.JOINING,
        "written": LeaseState.HELD,
        "failed": LeaseState.PARTITIONED,
    },
    LeaseState.HELD: {
        "read": LeaseState.HELD,
        "written": LeaseState.HELD,
        "failed": LeaseState.HELD,
        "lease-over": LeaseState.EXPIRED,
    },
    LeaseState.EXPIRED: {
        "read": LeaseState.EXPIRED,
        "written": LeaseState.HELD,
        "failed": LeaseState.EXPIRED,
        "all-over": LeaseState.PARTITIONED,
    },
    LeaseState.PARTITIONED: {
        "read": LeaseState.EXPIRED,
        "written": LeaseState.HELD,
        "failed": LeaseState.PARTITIONED,
    },
}

READ: Final = Event("read", TRANSITIONS)
WRITTEN: Final = Event("written", TRANSITIONS)
FAILED: Final = Event("failed", TRANSITIONS)
LEASE_OVER: Final = Event("lease-over", TRANSITIONS)
"""Its last write is too long ago."""
ALL_OVER: Final = Event("all-over", TRANSITIONS)
"""The last writes of all others are too long ago, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Holds what a member knows of itself as it looks at the record.

    Attributes:
        limit: Seats of the server, by its settings.
        levels: Its priority levels, by name.
        configuration: A digest of these.
        demand: Seats that requests use and wait for, by level; of limited levels only.
        used: Seats that they use, in all.
    """

    limit: int
    levels: Mapping[str, LevelRules]
    configuration: str = ""
    demand: Mapping[str, int] = field(default_factory=dict)
    used: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Holds what a member is to write.

    Attributes:
        record: To be written in place of that which was read.
        entry: Of this member in it.
        begun_s: When it was made; the lease counts from then.
        is_news: Whether it says more than that the member lives.
        is_urgent: Whether the others should look at once: a member lacks seats that others hold.
    """

    record: Record
    entry: Member
    begun_s: float
    is_news: bool
    is_urgent: bool


class Sighting:
    """Holds what is known of another member.

    Attributes:
        entry: Its part of the record, as seen last.
        claim: What it may hold: what its entry says, or said before the store lost writes.
        seen_s: When that beat was seen first, or when it was missed first.
        since_s: The same, later by what does not count of times in which the store was not reached.
        after_s: When it was not yet there; infinitely long ago if that is unknown.
        is_present: Whether the record has it.
    """

    def __init__(self, entry: Member, now_s: float, after_s: float) -> None:
        self.entry = entry
        self.claim = entry.claim
        self.seen_s = now_s
        self.since_s = now_s
        self.after_s = after_s
        self.is_present = True

    @property
    def lease_s(self) -> float:
        return self.entry.lease_ms / MS_PER_S

    def is_live(self, now_s: float) -> bool:
        """Whether it wrote so lately that it cannot be alone: it uses its claim at most."""
        return now_s - self.after_s < HELD * self.lease_s

    def see(self, entry: Member, now_s: float, before_s: float) -> None:
        if entry.beat > self.entry.beat:
            self.seen_s, self.since_s, self.after_s = now_s, now_s, before_s
            self.claim = entry.claim
        elif entry.beat < self.entry.beat:
            # A store that lost its last writes: it may hold what is not there any more.
            self.seen_s, self.since_s, self.after_s = now_s, now_s, -math.inf
            self.claim = max(self.claim, entry.claim)
        elif now_s - before_s >= self.lease_s:
            self.seen_s = self.since_s = now_s  # it may have come back a moment ago, too
        self.entry, self.is_present = entry, True

    def vanish(self, now_s: float) -> None:
        if self.is_present:
            self.seen_s, self.since_s, self.after_s = now_s, now_s, -math.inf
            self.is_present = False


class Ledger:
    """The side of one member.

    Args:
        key: Its own, see `record.member_key`.
        limit: Seats of the server, by its settings.
        lease_s: Of its claims.
        replicas: How many members the fleet is meant to have; None if unknown.

    Attributes (to read only):
        state: See `LeaseState`.
        claim: What it holds.
        target: What it is to have; it uses no more of its claim.
        others: The others, by key.
        lost: How many others ended without leaving, or seemed to.
        limit: Seats of the server: the least that any member's settings say.
        entry: Its own part of the record, as it wrote it last; None before.
        assumed: To set, where members find the limit: what it is as long as none names less than
            its settings allow, such as before the next one leads; None elsewhere.
    """

    def __init__(
        self, key: str, limit: int, *, lease_s: float, replicas: int | None = None
    ) -> None:
        self.key = key
        self.lease_s = lease_s
        self.state = LeaseState.JOINING
        self.claim = 0
        self.target = 0
        self.others: dict[str, Sighting] = {}
        self.lost = 0
        self.limit = limit
        self.entry: Member | None = None
        self.assumed: int | None = None
        self._ended: dict[str, int] = {}  # members of the record: the beat that was their last
        self._replicas = replicas or FEWEST
        self._most = 1  # members at once, as seen last
        self._born = ""  # of the record that was read last
        self._known_writes = 0  # of the last one that was read or written
        self._beat = 0  # of the last attempt to write
        self._written_beat = 0
        self._written_demand = 0
        self._by_level: Mapping[str, LevelLimits] = {}
        self._watched_since_s = math.inf
        self._read_s = -math.inf
        self._has_failed = False  # since then
        self._held_until_s = -math.inf
        self._away_s = math.inf  # the first failure since it read, or that, if it was late

    # What it may use

    def in_force(self) -> int:
        if self.state is LeaseState.HELD:
            return min(self.claim, self.target, self.limit)
        if self.state is LeaseState.EXPIRED:
            return min(self.claim, self.target, self.safe_share())
        return self.safe_share() if self.state is LeaseState.PARTITIONED else 0

    def allotment(self, report: Report) -> dict[str, LevelLimits]:
        """Seats in force by level; of an exempt level, its part of what others may borrow."""
        if self.state is LeaseState.PARTITIONED:
            return part_of(self.key, self.in_force(), report.levels, {self.key: report.demand})
        return scaled(self._by_level, report.levels, self.in_force())

    def safe_share(self) -> int:
        """Seats of each member while it knows nothing of the others; one at least."""
        return max(1, self.limit // max(self._replicas, self._most, FEWEST))

    def next_change_s(self) -> float:
        """When `advance` will change something, if nothing happens before; infinite if never."""
        return self._held_until_s if self.state is LeaseState.HELD else math.inf

    def advance(self, now_s: float) -> None:
        if now_s >= self.next_change_s():
            self.state = LEASE_OVER[self.state]
            self._away_s = min(self._away_s, now_s)

    def foreseen(self, report: Report) -> int:
        """The seats that it is entitled to by what it wants now, as far as it knows the others."""
        return seats_of(self._entitlement(report), report.levels)

    def is_somebody_short(self) -> bool:
        return any(
            sum(each.entry.demand.values()) > each.entry.claim for each in self._present().values()
        )

    # What happens

    def plan(self, record: Record | None, report: Report, now_s: float) -> Plan:
        """Take what the store has, and say what to write; RecordFullError.

        What the plan takes away is in force at once; what it gives, with `written`.
        """
        self.advance(now_s)
        usable = self.in_force()
        is_known = self._observe(record, now_s)
        self._fit(report.limit)
        usable = min(usable, self.in_force())
        held = self._held(record, is_known=is_known)
        by_level = self._entitlement(report)
        entitled, reserved = seats_of(by_level, report.levels), self._reserved(now_s)
        target, wish, claim = self._resized(entitled, reserved, held, usable, report.used, now_s)
        present = self._present()
        wanted = sum(report.demand.values())
        is_wanting = claim < min(wish, wanted)
        is_somebody_new = any(each.entry.beat <= 1 for each in present.values())
        is_news = (
            self.state is not LeaseState.HELD
            or held < self.claim
            or claim != self.claim
            or (is_wanting and wanted > max(claim, self._written_demand) * MUCH)
            or is_somebody_new
            or not all(each.is_live(now_s) for each in present.values())
        )
        is_urgent = (
            not self._written_beat
            or is_wanting
            or (claim < held and (is_somebody_new or self.is_somebody_short()))
        )
        self._away_s = math.inf if self.state is LeaseState.HELD else now_s
        self.claim = min(max(held, usable), claim)
        self.state = READ[self.state]
        self.target = target
        self._by_level = by_level
        self._beat = min(self._beat + 1, MAX_COUNT)
        entry = Member(
            beat=self._beat,
            lease_ms=math.ceil(self.lease_s * MS_PER_S),
            limit=report.limit,
            configuration=report.configuration,
            claim=claim,
            used=min(report.used, MAX_SEATS),
            demand={name: min(seats, MAX_SEATS) for name, seats in report.demand.items() if seats},
        )
        members = {key: each.entry for key, each in present.items()} | {self.key: entry}
        if len(members) > MAX_MEMBERS:
            raise RecordFullError(f"it has {MAX_MEMBERS} members already, which is the most")
        writes = 0 if record is None else min(record.writes + 1, MAX_COUNT)
        return Plan(
            record=Record(version=VERSION, born=self._born, writes=writes, members=members),
            entry=entry,
            begun_s=now_s,
            is_news=is_news,
            is_urgent=is_urgent,
        )

    def written(self, plan: Plan) -> None:
        self.state = WRITTEN[self.state]
        self.claim = plan.entry.claim
        self.entry = plan.entry
        self._known_writes = plan.record.writes
        self._written_beat = plan.entry.beat
        self._written_demand = sum(plan.entry.demand.values())
        self._held_until_s = plan.begun_s + HELD * self.lease_s
        self._away_s = math.inf

    def failed(self, limit: int, now_s: float, *, is_full: bool = False) -> None:
        """The store was not reached, or what it has is of no use; `limit` as in a report.

        If the record `is_full`, those who are in it can write, and their leases go on.
        """
        self._fit(limit)
        self.advance(now_s)
        self.state = FAILED[self.state]
        self._away_s = min(self._away_s, now_s)
        # Not before it has tried again: the others may have been faster to find the store back.
        is_over = now_s >= self._away_s + self._longest_lease_s()
        # The store can be read, and showed that no member writes.
        is_idle = not self._has_failed and all(
            self._read_s - each.seen_s > each.lease_s for each in self.others.values()
        )
        if self.state is LeaseState.EXPIRED and (is_over or is_idle):
            self.state = ALL_OVER[self.state]
        self._has_failed |= not is_full

    # The rules

    def _entitlement(self, report: Report) -> dict[str, LevelLimits]:
        demand = {key: each.entry.demand for key, each in self._present().items()}
        return part_of(self.key, self.limit, report.levels, demand | {self.key: report.demand})

    def _reserved(self, now_s: float) -> int:
        """Rule 3: seats that the others may be using."""
        share = self.safe_share()
        return sum(
            each.claim if each.is_live(now_s) else max(each.claim, share)
            for each in self.others.values()
        )

    def _resized(
        self, entitled: int, reserved: int, held: int, usable: int, used: int, now_s: float
    ) -> tuple[int, int, int]:
        """Rule 4: what it may use of its claim, what it would claim, and what it claims.

        The others count on `held` of its claim; `usable` was in force, `used` is in use.
        """
        free = max(0, self.limit - reserved)
        target = entitled
        if held + sum(each.claim for each in self.others.values()) > self.limit:
            target = min(target, max(usable, free))  # the limit was lowered
        wish, most = target, max(held, free)
        if now_s < self._watched_since_s + self._longest_lease_s():
            starter = max(held, self.safe_share())
            wish, most = min(wish, starter), min(most, starter)
        return target, wish, min(max(target, used), most)

    # Parts of the above

    def _fit(self, limit: int) -> None:
        """Take the least limit; where it is lower, what is in force is less by the same part."""
        before, in_force = self.limit, self.in_force()
        self.limit = min([limit, *(each.entry.limit for each in self.others.values())])
        if self.assumed is not None and self.limit == limit:
            self.limit = min(limit, self.assumed)
        if self.limit < before:
            self.target = min(self.target, in_force * self.limit // before)

    def _present(self) -> dict[str, Sighting]:
        return {key: each for key, each in self.others.items() if each.is_present}

    def _longest_lease_s(self) -> float:
        return max([self.lease_s, *(each.lease_s for each in self.others.values())])

    def _observe(self, record: Record | None, now_s: float) -> bool:
        """Note what the record says of the others; whether it is the known one, maybe older."""
        was_away = now_s - self._read_s >= self.lease_s
        is_known = record is not None and record.born == self._born
        # A store that lost its last writes may have lost whole members by that.
        is_same = is_known and record is not None and record.writes >= self._known_writes
        if was_away and not is_same:
            self._watched_since_s = now_s
        before_s, self._read_s = self._read_s, now_s
        if self._has_failed:
            # The others may have been kept from the store, too.
            for each in self.others.values():
                each.since_s += max(0.0, now_s - before_s - FAILED_PART * each.lease_s)
        self._has_failed = False
        self._born = f"{self.key}/{self._beat}" if record is None else record.born
        self._known_writes = 0 if record is None else record.writes
        entries = {} if record is None else record.members
        for key, entry in entries.items():
            if key == self.key or self._ended.get(key) == entry.beat:
                continue
            known = self.others.get(key)
            if known is None:
                # If no entry was there under this key a moment ago, it is new, and lives.
                self.others[key] = Sighting(entry, now_s, before_s if is_same else -math.inf)
            else:
                known.see(entry, now_s, before_s)
        for key, each in list(self.others.items()):
            if key not in entries:
                if each.is_present and is_same and not was_away:
                    del self.others[key]  # it has left, or others have found its lease over
                    continue
                each.vanish(now_s)
            if now_s - each.since_s > each.lease_s:
                del self.others[key]
                self._ended[key] = each.entry.beat
                self.lost += 1
        self._ended = {
            key: beat
            for key, beat in self._ended.items()
            if key in entries and entries[key].beat == beat
        }
        self._most = len(self.others) + 1
        return is_known

    def _held(self, record: Record | None, *, is_known: bool) -> int:
        """The part of its claim that the others count on."""
        if self.state is not LeaseState.HELD:
            return 0
        own = None if record is None else record.members.get(self.key)
        if own is not None:
            return self.claim if own.beat >= self._written_beat else 0
        if is_known:
            return 0
        # The record was lost.  The others still count on what they knew, but those who have
        # written since may have known less.
        rest = self.limit - sum(each.claim for each in self._present().values())
        return min(self.claim, max(0, rest))
