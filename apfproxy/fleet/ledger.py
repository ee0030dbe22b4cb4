"""One member's side of the ledger: what it has seen of the others, what it claims, what it may use.

The rules, which keep the limit (`docs/fleet.md` has the proof):

1. A member uses its claim, and no more.  It lowers it whenever it likes, and raises it only by a
   swap of the record in which the claims of all sum to the limit at most.
2. What it is to have is its part of the division (`division`).  If it has more, it stops using the
   surplus at once, and lowers its claim as its requests end; if it has less, it claims what the
   others leave.
3. A lease ends by the observer's own clock: so long after it first saw the last beat.  Of a time in
   which it did not reach the store itself `FAILED_PART` of the lease counts at most.  The holder
   counts from before its write, and stops after `HELD` of it, so strictly earlier.
4. While the store is away a member keeps to its claim until its lease ends, and to the safe share
   after that: no more than its claim at first, all of it when everybody's lease is over and the
   store is still away.
5. Others that may have been without the store for so long are counted with the safe share, or with
   their claim if it is more: those that may have written their last beat `HELD` of a lease ago.
6. A newcomer claims no more than a starter share until it has watched the record for a lease, the
   longest that anybody has; nor does a member that comes back after a lease to another record.
7. A record that has fewer writes than were seen is an older one: who is missing there has not left,
   and a claim that is not there counts for nothing.  After a record was lost a member keeps no more
   of its claim than those who wrote since have left.
8. Where seats are fewer than those who want one, they go round, each after a turn: a level is
   hungry that wants a seat and has none, and whoever has nothing and was hungry first has what is
   free first.

Times are seconds of a monotonic clock that the caller reads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from apfproxy.fleet.division import divide_among_levels, rounded, shares_of
from apfproxy.fleet.record import (
    MAX_COUNT,
    MAX_MEMBERS,
    MAX_SEATS,
    VERSION,
    Member,
    Record,
    RecordFullError,
)
from apfproxy.fleet.standing import ALL_OVER, FAILED, LEASE_OVER, READ, WRITTEN, Standing
from apfproxy.flowcontrol.limits import LevelLimits

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from apfproxy.fleet.division import LevelRules, LevelSeats

HELD: Final = 0.8
"""The part of its lease in which the holder uses its claim: clocks may differ by a quarter in rate,
and a turn of the loop may be late."""

FAILED_PART: Final = 0.1
"""The part of a lease that counts at most of a time in which the store was not reached: it comes
back for all at once, but where each second look fails, the seats of the dead are free some time."""

MS_PER_S: Final = 1000

MUCH: Final = 1.25
"""A member that lacks seats says so again once it wants so much more."""

FEWEST: Final = 2
"""A fleet has at least so many members as far as anybody alone knows: nobody takes the whole."""


class DividedLevel(NamedTuple):
    """A level's seats of all members together, and of each of them by key: zeros may be left out.

    Those of an exempt level are not divided.
    """

    level: LevelSeats
    shares: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a member knows of itself as it refreshes.

    Attributes:
        limit: Seats of the server, by its settings.
        levels: Its priority levels, by name.
        configuration: A digest of these.
        demand: Seats that requests use and wait for, by level; of limited levels only.
        used: Seats that they use, in all.
        busy: The levels that use some.
    """

    limit: int
    levels: Mapping[str, LevelRules]
    configuration: str = ""
    demand: Mapping[str, int] = field(default_factory=dict)
    used: int = 0
    busy: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a refresh comes to.

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
    """What is known of another member.

    Attributes:
        entry: Its part of the record, as seen last.
        claim: What it may hold: what its entry says, or said before the store lost writes.
        lease_s: For how long; the same.
        seen_s: When that beat was seen first, or when it was missed first.
        since_s: The same, later by what does not count of times in which the store was not reached.
        after_s: When it was not yet there; infinitely long ago if nobody knows.
        is_present: Whether the record has it.
    """

    def __init__(self, entry: Member, now_s: float, after_s: float) -> None:
        self.entry = entry
        self.claim = entry.claim
        self.lease_s = entry.lease_ms / MS_PER_S
        self.seen_s = now_s
        self.since_s = now_s
        self.after_s = after_s
        self.is_present = True

    def is_live(self, now_s: float) -> bool:
        """Whether it wrote so lately that it cannot be alone: it uses its claim at most."""
        return now_s - self.after_s < HELD * self.lease_s

    def see(self, entry: Member, now_s: float, before_s: float) -> None:
        """The record has it; the look before was at `before_s`."""
        if entry.beat > self.entry.beat:
            self.seen_s, self.since_s, self.after_s = now_s, now_s, before_s
            self.claim, self.lease_s = entry.claim, entry.lease_ms / MS_PER_S
        elif entry.beat < self.entry.beat:
            # A store that lost its last writes: it may hold what is not there any more.
            self.seen_s, self.since_s, self.after_s = now_s, now_s, -math.inf
            self.claim = max(self.claim, entry.claim)
            self.lease_s = max(self.lease_s, entry.lease_ms / MS_PER_S)
        elif now_s - before_s >= self.lease_s:
            self.seen_s = self.since_s = now_s  # it may have come back a moment ago, too
        self.entry, self.is_present = entry, True

    def vanish(self, now_s: float) -> None:
        """The record was lost, and does not have it."""
        if self.is_present:
            self.seen_s, self.since_s, self.after_s = now_s, now_s, -math.inf
            self.is_present = False

    def __repr__(self) -> str:
        return f"<Sighting: {self.claim} seats, beat {self.entry.beat}>"


class Ledger:
    """The side of one member.

    Args:
        key: Its own, see `record.member_key`.
        limit: Seats of the server, by its settings.
        lease_s: Of its claims; it may be changed before a plan.
        replicas: How many members the fleet is meant to have; None if nobody says.

    Attributes (to read only):
        standing: See `standing`.
        claim: What it holds.
        target: What it is to have; it uses no more of its claim.
        others: The others, by key.
        lost: How many others ended without leaving, or seemed to.
        limit: Seats of the server: the least that any member's settings say.
    """

    def __init__(
        self, key: str, limit: int, *, lease_s: float, replicas: int | None = None
    ) -> None:
        self.key = key
        self.lease_s = lease_s
        self.standing = Standing.JOINING
        self.claim = 0
        self.target = 0
        self.others: dict[str, Sighting] = {}
        self.lost = 0
        self._ended: dict[str, int] = {}  # members of the record: the beat that was their last
        self.limit = limit
        self._replicas = replicas or FEWEST
        self._most = 1  # members at once, as seen last
        self._born = ""  # of the record that was read last
        self._writes = 0  # of the next one
        self._known_writes = 0  # of the last one that was read or written
        self._beat = 0  # of the last attempt to write
        self._written_beat = 0
        self._told = 0  # what it said last that it wants
        self._by_level: dict[str, LevelLimits] = {}
        self._hungry: dict[str, int] = {}
        self._first: dict[str, int] = {}  # who was hungry when `_by_level` was made
        self._watched_since_s = math.inf
        self._read_s = -math.inf
        self._has_failed = False  # since then
        self._held_until_s = -math.inf
        self._away_s = math.inf  # the first failure since it read, or that, if it was late

    # What it may use

    def in_force(self) -> int:
        """Seats that it uses at most, as it stands."""
        if self.standing is Standing.HOLDING:
            return min(self.claim, self.target, self.limit)
        if self.standing is Standing.LAPSED:
            return min(self.claim, self.target, self.safe_share())
        return self.safe_share() if self.standing is Standing.ALONE else 0

    def allotment(self, report: Report) -> dict[str, LevelLimits]:
        """What is in force, by level; of an exempt level, its part of what others may borrow."""
        if self.standing is Standing.ALONE:
            return self._division(report, self.in_force(), {})
        return scaled(self._by_level, report.levels, self.in_force(), self._first)

    def safe_share(self) -> int:
        """What each member may use while nobody knows of the others; one request at least."""
        return max(1, self.limit // max(self._replicas, self._most, FEWEST))

    def next_change_s(self) -> float:
        """When `advance` will change something, if nothing happens before; infinite if never."""
        return self._held_until_s if self.standing is Standing.HOLDING else math.inf

    def advance(self, now_s: float) -> None:
        """Let its lease end."""
        if now_s >= self.next_change_s():
            self.standing = LEASE_OVER[self.standing]
            self._away_s = min(self._away_s, now_s)

    def foreseen(self, report: Report) -> int:
        """The seats that it is to have by what it wants now, as far as it knows of the others."""
        return seats_of(self._division(report, self.limit, self._present()), report.levels)

    def is_somebody_short(self) -> bool:
        """Whether another member wants more than it may use."""
        return any(
            sum(each.entry.demand.values()) > each.entry.claim for each in self._present().values()
        )

    # What happens

    def plan(self, record: Record | None, report: Report, now_s: float) -> Plan:
        """Take what the store has, and say what to write.

        What the plan takes away is in force at once; what it gives, with `written`.

        Raises:
            RecordFullError: There is no room for another member.
        """
        # If its lease is shorter now, others may count that from this write on.
        self._held_until_s = min(self._held_until_s, now_s + HELD * self.lease_s)
        self.advance(now_s)
        used_before = self.in_force()
        is_known = self._observe(record, now_s)
        self._fit(report.limit)
        used_before = min(used_before, self.in_force())
        held = self._held(record, is_known=is_known)
        present = self._present()
        divided = self._divided(report, self.limit, present)
        by_level = self._own_part(divided, report, {*present, self.key})
        target = seats_of(by_level, report.levels)
        owed = self._owed(divided)
        free = max(0, self.limit - self._reserved(now_s) - owed)
        if owed:
            # What it had stopped using is on its way to them, though its own turn is again.
            target = min(target, max(used_before, held - owed, free))
        if held + sum(each.claim for each in self.others.values()) > self.limit:
            target = min(target, max(used_before, free))  # the limit was lowered
        claim = min(max(target, report.used), max(held, free))
        most = target
        if now_s < self._watched_since_s + self._longest_lease_s():
            most = min(target, max(held, self.safe_share()))
            claim = min(claim, max(held, self.safe_share()))
        wanted = sum(report.demand.values())
        is_wanting = claim < most and claim < wanted
        is_somebody_new = any(each.entry.beat <= 1 for each in present.values())
        is_news = (
            self.standing is not Standing.HOLDING
            or held < self.claim
            or claim != self.claim
            or (is_wanting and wanted > max(claim, self._told) * MUCH)
            or is_somebody_new
            or not all(each.is_live(now_s) for each in present.values())
        )
        is_urgent = (
            not self._written_beat
            or is_wanting
            or (claim < held and (is_somebody_new or self.is_somebody_short()))
        )
        self._away_s = math.inf if self.standing is Standing.HOLDING else now_s
        self.claim = min(max(held, used_before), claim)
        self.standing = READ[self.standing]
        self.target = target
        self._by_level, self._first = by_level, self._hungry
        self._beat = min(self._beat + 1, MAX_COUNT)
        entry = self._entry(report, claim)
        members = {key: each.entry for key, each in present.items()} | {self.key: entry}
        if len(members) > MAX_MEMBERS:
            raise RecordFullError(f"it has {MAX_MEMBERS} members already, which is the most")
        return Plan(
            record=Record(version=VERSION, born=self._born, writes=self._writes, members=members),
            entry=entry,
            begun_s=now_s,
            is_news=is_news,
            is_urgent=is_urgent,
        )

    def written(self, plan: Plan) -> None:
        """The record of a plan is in the store."""
        self.standing = WRITTEN[self.standing]
        self.claim = plan.entry.claim
        self._known_writes = plan.record.writes
        self._hungry = plan.entry.hungry
        self._written_beat = plan.entry.beat
        self._told = sum(plan.entry.demand.values())
        self._held_until_s = plan.begun_s + HELD * self.lease_s
        self._away_s = math.inf

    def failed(self, limit: int, now_s: float, *, is_full: bool = False) -> None:
        """The store was not reached, or what it has is of no use; `limit` as in a report.

        If the record `is_full`, those who are in it can write, and their leases go on: the room of
        those who have ended is free some time.
        """
        self._fit(limit)
        self.advance(now_s)
        self.standing = FAILED[self.standing]
        self._away_s = min(self._away_s, now_s)
        # Not before it has tried again: the others may have been faster to find the store back.
        is_over = now_s >= self._away_s + self._longest_lease_s()
        # The store can be read, and showed that nobody writes.
        is_idle = not self._has_failed and all(
            self._read_s - each.seen_s > each.lease_s for each in self.others.values()
        )
        if self.standing is Standing.LAPSED and (is_over or is_idle):
            self.standing = ALL_OVER[self.standing]
        self._has_failed |= not is_full

    # Parts of the above

    def _fit(self, limit: int) -> None:
        """Take the least limit; where it is lower, what is in force is less by the same part."""
        before, in_force = self.limit, self.in_force()
        self.limit = min([limit, *(each.entry.limit for each in self.others.values())])
        if self.limit < before:
            self.target = min(self.target, in_force * self.limit // before)

    def _present(self) -> dict[str, Sighting]:
        return {key: each for key, each in self.others.items() if each.is_present}

    def _longest_lease_s(self) -> float:
        return max([self.lease_s, *(each.lease_s for each in self.others.values())])

    def _reserved(self, now_s: float) -> int:
        """Seats that the others may be using."""
        share = self.safe_share()
        return sum(
            each.claim if each.is_live(now_s) else max(each.claim, share)
            for each in self.others.values()
        )

    def _owed(self, divided: Mapping[str, DividedLevel]) -> int:
        """Free seats that it leaves to others: to each that has none, and was hungry before it."""
        since = min(self._hungry.values(), default=math.inf)
        return sum(
            not each.claim
            and min(each.entry.hungry.values(), default=math.inf) < since
            and any(level.shares.get(key) for level in divided.values())
            for key, each in self._present().items()
        )

    def _observe(self, record: Record | None, now_s: float) -> bool:
        """Note what the record says of the others; whether it is the one of before, maybe older."""
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
        self._writes = min(0 if record is None else record.writes + 1, MAX_COUNT)
        entries = {} if record is None else record.members
        for key, entry in entries.items():
            if key == self.key or self._ended.get(key) == entry.beat:
                continue
            known = self.others.get(key)
            if known is None:
                # If nobody was there under this key a moment ago, it is new, and lives.
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
        if self.standing is not Standing.HOLDING:
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

    def _entry(self, report: Report, claim: int) -> Member:
        """What it says of itself, with so many seats claimed."""
        allotted = scaled(self._by_level, report.levels, min(claim, self.target), self._first)
        without = (
            name
            for name, each in allotted.items()
            if report.demand.get(name) and not each.nominal and name not in report.busy
        )
        return Member(
            beat=self._beat,
            lease_ms=math.ceil(self.lease_s * MS_PER_S),
            limit=report.limit,
            configuration=report.configuration,
            claim=claim,
            used=min(report.used, MAX_SEATS),
            demand={name: min(seats, MAX_SEATS) for name, seats in report.demand.items() if seats},
            hungry={
                name: min(self._hungry.get(name, self._writes), self._writes) for name in without
            },
        )

    def _division(
        self, report: Report, limit: int, others: Mapping[str, Sighting]
    ) -> dict[str, LevelLimits]:
        """Its part of so many seats, by level."""
        return self._own_part(self._divided(report, limit, others), report, {*others, self.key})

    def _divided(
        self, report: Report, limit: int, others: Mapping[str, Sighting]
    ) -> dict[str, DividedLevel]:
        """So many seats, by level and member."""
        demand: dict[str, dict[str, int]] = {name: {} for name in report.levels}
        hungry: dict[str, dict[str, int]] = {name: {} for name in report.levels}
        entries = [(key, each.entry.demand, each.entry.hungry) for key, each in others.items()]
        for key, wanted, waited in (*entries, (self.key, report.demand, self._hungry)):
            for found, values in ((demand, wanted), (hungry, waited)):
                for name, seats in values.items():
                    if name in found:
                        found[name][key] = seats
        divided = divide_among_levels(
            limit,
            report.levels,
            {name: sum(by_member.values()) for name, by_member in demand.items()},
            {name: min(by_member.values()) for name, by_member in hungry.items() if by_member},
        )
        members = [*others, self.key]
        return {
            name: DividedLevel(
                level,
                {}
                if report.levels[name].is_exempt
                else shares_of(
                    name, level.seats, members, demand[name], hungry[name], self._writes
                ),
            )
            for name, level in divided.items()
        }

    def _own_part(
        self, divided: Mapping[str, DividedLevel], report: Report, members: Collection[str]
    ) -> dict[str, LevelLimits]:
        """Its part of what is divided among members, itself one of them, by level."""
        count, rank = len(members), sum(key < self.key for key in members)
        found: dict[str, LevelLimits] = {}
        for name, (level, shares) in divided.items():
            whole, seats, before = level.limits, level.seats, 0
            if report.levels[name].is_exempt:
                seats = whole.nominal
                own = piece(seats, rank, 1, count)
            else:
                own = shares.get(self.key, 0)
                before = sum(part for key, part in shares.items() if key < self.key)
            found[name] = LevelLimits(
                own,
                min(piece(whole.lower, before, own, seats), own) if seats else 0,
                own + piece(max(0, whole.upper - seats), rank, 1, count),
            )
        return found


def refresh(record: Record | None, member: Ledger, report: Report, now_s: float) -> Record:
    """The record that a member writes in place of one that it read; see `Ledger.plan`."""
    return member.plan(record, report, now_s).record


def piece(amount: int, before: int, own: int, whole: int) -> int:
    """The part of an amount for `own` of a whole, after `before` of it: all parts sum to it."""
    return amount * (before + own) // whole - amount * before // whole


def seats_of(by_level: Mapping[str, LevelLimits], levels: Mapping[str, LevelRules]) -> int:
    """The seats of all levels that are limited."""
    return sum(each.nominal for name, each in by_level.items() if not levels[name].is_exempt)


def scaled(
    by_level: Mapping[str, LevelLimits],
    levels: Mapping[str, LevelRules],
    seats: int,
    hungry: Mapping[str, int],
) -> dict[str, LevelLimits]:
    """What there is of a target while others hold the rest: the same part of each level.

    Of levels that are equal in that, those come first that have been hungry for longest.

    A level that is not there any more, or was not when the target was made, has nothing.
    """
    limited = {
        name: each
        for name, each in by_level.items()
        if name in levels and not levels[name].is_exempt
    }
    total = sum(each.nominal for each in limited.values())
    found = {name: each for name, each in by_level.items() if name in levels}
    if seats >= total:
        return found
    amounts = {name: each.nominal * seats / total for name, each in limited.items()}
    whole = rounded(
        amounts,
        seats,
        lambda name: (hungry.get(name, math.inf), -limited[name].nominal, name),
    )
    for name, each in limited.items():
        own = whole[name]
        found[name] = LevelLimits(own, min(each.lower, own), own + each.upper - each.nominal)
    return found
