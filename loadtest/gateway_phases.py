"""The phases of a gateway's run, and what each promises."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from loadtest.clients import Outcome, percentile
from loadtest.gateway_servers import NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadtest.origin import Entry

GOOD = "200"
DETECTED_WITHIN_S = 3.0
"""By then a gateway has to know that a server hangs or fails: two checks, and the time of each."""
FOLLOWS_WITHIN_S = {"killed": 1.0, "back": 2.0}
"""How soon the limit has to follow; where health checks have to see it first, those count, too."""
SLACK_S = 0.05
"""For what is on its way between processes of a busy machine."""
BALANCE = 0.1
"""By how much a server's share of the requests may differ from that of the others."""
SETTLED = 2 / 3
"""For a phase, after which the balance counts."""
FEWEST_TO_BALANCE = 600
"""Requests to a server: of fewer, chance alone makes a difference of a tenth."""


class Event(enum.StrEnum):
    """Holds what a phase begins with."""

    ALL = "all"
    """Nothing; all servers are well."""
    KILLED = "killed"
    HUNG = "hung"
    SLOW = "slow"
    FAILING = "failing"
    DRAINED = "drained"
    BACK = "back"


FAULTS = (Event.KILLED, Event.HUNG, Event.SLOW, Event.FAILING, Event.DRAINED)
WHOLE = (Event.ALL, Event.BACK)
"""Phases in which all servers are well."""


class WatchEnd(NamedTuple):
    """A watch that ended: when, at which origin, and whether in order."""

    at_s: float
    origin: str
    is_clean: bool


@dataclass(slots=True)
class Notes:
    """Holds what clients saw: their requests, the ends of watches, and open watches by origin."""

    outcomes: list[Outcome] = field(default_factory=list)
    watch_ends: list[WatchEnd] = field(default_factory=list)
    watching: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Phase:
    """A part of the run.

    Attributes:
        event: What happens at its beginning.
        victim: The number of the server that it happens to; None for none.
        begun_s: When that begins.
        done_s: When it has happened.
        end_s: When the next phase begins.
        limit: Seats that there must be then.
        follows_s: After which time from `begun_s` there were; None if not in this phase.
        watching: Watches by server at the end.
        counts: Answers by result.
        own: Bad ones that the victim had before anybody could know.
        bad: Other bad answers, by result.
        p99_ms: Of good answers.
        requests: To each server, once all has settled.
        spread: By how much the share of a healthy server differs from the mean at most.
    """

    event: Event
    victim: int | None = None
    begun_s: float = 0.0
    done_s: float = 0.0
    end_s: float = 0.0
    limit: int = 0
    follows_s: float | None = None
    watching: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    own: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    p99_ms: float = 0.0
    requests: dict[str, int] = field(default_factory=dict)
    spread: float = 0.0

    @property
    def label(self) -> str:
        return self.event if self.victim is None else f"{self.event} {NAMES[self.victim]}"

    def excuses(self, outcome: Outcome, seen_by: set[int]) -> bool:
        """Whether a bad answer is the victim's own."""
        if self.victim is None or seen_by - {self.victim}:
            return False
        match self.event:
            case Event.KILLED:
                return outcome.due_s <= self.done_s + SLACK_S
            case Event.HUNG:
                return outcome.due_s <= self.begun_s + DETECTED_WITHIN_S
            case Event.FAILING:
                return (
                    outcome.origin == NAMES[self.victim]
                    and outcome.due_s <= self.begun_s + DETECTED_WITHIN_S
                )
        return False

    def ends_watch(self, end: WatchEnd) -> bool:
        return (
            self.event in (Event.KILLED, Event.HUNG)
            and self.victim is not None
            and end.origin in ("", NAMES[self.victim])
            and self.begun_s <= end.at_s <= self.end_s + SLACK_S
        )


def schedule(servers: int) -> list[Phase]:
    phases = [Phase(Event.ALL)]
    for at, fault in enumerate(FAULTS):
        phases += [Phase(fault, at % servers), Phase(Event.BACK, at % servers)]
    return phases


def judge(
    phases: Sequence[Phase], notes: Notes, journals: Sequence[Sequence[Entry]]
) -> tuple[list[str], dict[str, int]]:
    wrong: list[str] = []
    seen: dict[int, list[int]] = {}
    for at, journal in enumerate(journals):
        for entry in journal:
            seen.setdefault(entry.number, []).append(at)
    outcomes: list[list[Outcome]] = [[] for _ in phases]
    at = 0
    for outcome in sorted(notes.outcomes, key=lambda each: each.due_s):
        while at + 1 < len(phases) and outcome.due_s >= phases[at + 1].begun_s:
            at += 1
        phase = phases[at]
        phase.counts[outcome.result] += 1
        outcomes[at].append(outcome)
        got_it = seen.get(outcome.number, [])
        if outcome.result == GOOD:
            if NAMES.index(outcome.origin) not in got_it:
                wrong.append(f"{outcome} was not seen by the server that answered it")
        elif any(
            each.excuses(outcome, set(got_it))
            for each in phases[: at + 2]
            if each.begun_s <= outcome.done_s and outcome.due_s <= each.end_s
        ):
            phase.own += 1
        else:
            phase.bad[outcome.result] += 1
    doubled = [
        outcome
        for outcome in notes.outcomes
        if outcome.is_write and len(seen.get(outcome.number, [])) > 1
    ]
    wrong += [f"{outcome} was seen by {seen[outcome.number]}" for outcome in doubled[:10]]
    for number, phase in enumerate(phases):
        good = [each for each in outcomes[number] if each.result == GOOD]
        if good:
            phase.p99_ms = percentile([each.done_s - each.due_s for each in good], 99) * 1000
        from_s = phase.begun_s + (phase.end_s - phase.begun_s) * SETTLED
        phase.requests = {
            NAMES[index]: sum(from_s <= entry.at_s < phase.end_s for entry in journal)
            for index, journal in enumerate(journals)
        }
        judge_phase(phase, wrong)
    broken = Counter(
        each.origin or "none"
        for each in notes.watch_ends
        if not each.is_clean and not any(phase.ends_watch(each) for phase in phases)
    )
    wrong += [f"{count} watches of {origin} were broken off" for origin, count in broken.items()]
    totals = {
        "requests": len(notes.outcomes),
        "good": sum(phase.counts[GOOD] for phase in phases),
        "own": sum(phase.own for phase in phases),
        "bad": sum(sum(phase.bad.values()) for phase in phases),
        "doubled_writes": len(doubled),
        "repeated_reads": sum(len(each) > 1 for each in seen.values()) - len(doubled),
        "watches_ended": len(notes.watch_ends),
        "watches_ended_in_order": sum(each.is_clean for each in notes.watch_ends),
    }
    return wrong, totals


def judge_phase(phase: Phase, wrong: list[str]) -> None:
    label = phase.label
    if phase.bad:
        wrong.append(f"{label}: bad answers that were not the server's own: {dict(phase.bad)}")
    is_whole = phase.event in WHOLE
    counts = [
        count
        for name, count in phase.requests.items()
        if is_whole or phase.victim is None or name != NAMES[phase.victim]
    ]
    mean = sum(counts) / len(counts)
    phase.spread = max(abs(count - mean) for count in counts) / mean if mean else 1.0
    if phase.spread > BALANCE and mean >= FEWEST_TO_BALANCE:
        wrong.append(f"{label}: the shares of servers that are well differ by {phase.spread:.0%}")


def judge_limits(phases: Sequence[Phase]) -> list[str]:
    wrong = []
    for phase in phases:
        within_s = FOLLOWS_WITHIN_S.get(phase.event, DETECTED_WITHIN_S)
        if phase.follows_s is None and phase.end_s - phase.begun_s < within_s:
            continue  # it had no time to
        if phase.follows_s is None:
            wrong.append(f"{phase.label}: the limit did not become {phase.limit}")
        elif phase.follows_s > within_s:
            wrong.append(f"{phase.label}: the limit followed after {phase.follows_s:.2f} s")
    return wrong
