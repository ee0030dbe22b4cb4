"""Who gains and who loses, in a sentence each: by a second configuration, or by the only one.

Clients with names that differ in their digits alone, such as `operator-0` and `operator-1`, share a
sentence if they fare alike.  A difference that nobody would notice is none:

1. waits, by their 99th percentile: less than 10 ms, or than a tenth of the longer one;
2. served requests: less than 1 %;
3. rejected ones: less than 0.5 % of the requests.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apfproxy.objects.field_errors import counted
from apfproxy.simulation.amounts import duration_text, part_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Row = dict[str, Any]

LEAST_WAIT_S = 0.01
LEAST_PART_OF_WAIT = 0.1
LEAST_SERVED = 0.01
LEAST_REJECTED = 0.005
LONG_WAIT_S = 0.1
"""Where there is nothing to compare with."""
MOST_SENTENCES = 6

DIGITS = re.compile(r"[0-9]+")


class Side(enum.StrEnum):
    """How clients fare, in the order of the sentences; the last two are of one configuration."""

    LOSES = "loses"
    TRADES = "trades"
    WINS = "wins"
    SAME = "same"
    WAITS = "waits"
    OTHERS = "others"


@dataclass(slots=True)
class Change:
    """What one client, or some that fare alike, have in two configurations.

    Attributes:
        waits: Differences of the 99th percentiles that count, in seconds.
        size: How much it matters, to sort by.
    """

    name: str
    clients: int = 0
    before: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    size: float = 0.0

    def add(self, before: Row, after: Row) -> None:
        """Add a client."""
        self.clients += 1
        for totals, row in ((self.before, before), (self.after, after)):
            for name in ("requests", "executed", "rejectedTotal"):
                totals[name] = totals.get(name, 0) + row[name]
        wait_s = after["waitP99"] - before["waitP99"]
        longer_s = max(after["waitP99"], before["waitP99"])
        if abs(wait_s) >= max(LEAST_WAIT_S, LEAST_PART_OF_WAIT * longer_s):
            self.waits.append(wait_s)
        self.size = max(self.size, abs(wait_s) + abs(self.served) + abs(self.rejected))

    @property
    def rejected(self) -> float:
        """More of all requests are rejected, as a part of them; 0 if nobody would notice."""
        more = rejected_part(self.after) - rejected_part(self.before)
        return more if abs(more) >= LEAST_REJECTED else 0.0

    @property
    def served(self) -> float:
        """More requests are served, as a part of those before; 0 if nobody would notice.

        Fewer are not said twice, where they are the rejected ones.
        """
        before, after = self.before["executed"], self.after["executed"]
        if not before:
            return float(bool(after))
        more = after / before - 1
        asked = self.after["requests"] / max(self.before["requests"], 1) - 1
        if self.rejected * more < 0 and abs(asked) < LEAST_SERVED:
            return 0.0
        return more if abs(more) >= LEAST_SERVED else 0.0

    def phrases(self) -> tuple[list[str], list[str]]:
        """What is better, and what is worse."""
        is_one = self.clients == 1
        good: list[str] = []
        bad: list[str] = []
        if served := self.served:
            how = f"{part_text(abs(served))} {'more' if served > 0 else 'less'}"
            if not self.before["executed"]:
                how = "at last"
            (good if served > 0 else bad).append(f"{'is' if is_one else 'are'} served {how}")
        for into, sign, word in ((good, -1, "less"), (bad, 1, "longer")):
            if waits := sorted(abs(wait) for wait in self.waits if wait * sign > 0):
                into.append(f"{'waits' if is_one else 'wait'} {span_text(waits)} {word} at p99")
        if rejected := self.rejected:
            now, then = (rejected_part(each) for each in (self.after, self.before))
            (bad if rejected > 0 else good).append(
                f"{'has' if is_one else 'have'} {part_text(now) if now else 'no requests'}"
                f"{' of the requests' if now else ''} rejected instead of"
                f" {part_text(then) if then else 'none'}"
            )
        return good, bad

    @property
    def side(self) -> Side:
        """How they fare."""
        good, bad = self.phrases()
        if good and bad:
            return Side.TRADES
        return Side.WINS if good else Side.LOSES if bad else Side.SAME

    def text(self) -> str:
        """The sentence."""
        good, bad = self.phrases()
        who = self.name if self.clients == 1 else f"{self.name} ({self.clients} clients)"
        return f"{who} " + ", but ".join(" and ".join(each) for each in (good, bad) if each)


def verdict(configurations: Sequence[Row]) -> list[dict[str, str]]:
    """The sentences about one or two configurations, each with its side; at least one.

    The configurations are reports that have all their clients.
    """
    if len(configurations) == 1:
        return pressed(configurations[0]["clients"])
    before, after = (
        {row["client"]: row for row in each["clients"] if row["requests"]}
        for each in configurations
    )
    groups: dict[tuple[str, Side], Change] = {}
    same = 0
    for name in after.keys() & before.keys():
        one = Change(name)
        one.add(before[name], after[name])
        if one.side is Side.SAME:
            same += 1
            continue
        group = groups.setdefault((pattern(name), one.side), Change(name))
        group.name = min(name, group.name) if not group.clients else pattern(name)
        group.add(before[name], after[name])
    order = sorted(groups.items(), key=lambda each: (-each[1].size, each[0]))
    told = [(side, change) for (_, side), change in order[:MOST_SENTENCES]]
    told.sort(key=lambda each: list(Side).index(each[0]))
    found = [{"side": side.value, "text": change.text()} for side, change in told]
    if rest := sum(change.clients for _, change in order[MOST_SENTENCES:]):
        text = f"{counted(rest, 'more client')} fare differently, but not as much"
        found.append({"side": Side.SAME.value, "text": text})
    if same or not found:
        text = f"{counted(same, 'client')} would notice no difference"
        found.append({"side": Side.SAME.value, "text": text})
    return found


def pressed(clients: Iterable[Row]) -> list[dict[str, str]]:
    """Who waits long or is rejected, worst first, and how the others fare."""
    groups: dict[str, list[Row]] = {}
    others: list[Row] = []
    for row in clients:
        if row["waitP99"] >= LONG_WAIT_S or rejected_part(row) >= LEAST_REJECTED:
            groups.setdefault(pattern(row["client"]), []).append(row)
        elif row["requests"]:
            others.append(row)
    order = sorted(
        groups.items(),
        key=lambda each: (-max(row["waitP99"] + rejected_part(row) for row in each[1]), each[0]),
    )
    found = [
        {"side": Side.WAITS.value, "text": pressed_text(name, rows)}
        for name, rows in order[:MOST_SENTENCES]
    ]
    if rest := sum(len(rows) for _, rows in order[MOST_SENTENCES:]):
        text = f"{counted(rest, 'more client')} wait or are rejected, but not as much"
        found.append({"side": Side.WAITS.value, "text": text})
    if others or not found:
        most_s = max((row["waitP99"] for row in others), default=0.0)
        name = "other client" if found else "client"
        is_one = len(others) == 1
        wait = f"wait{'s' if is_one else ''} at most {duration_text(most_s)}"
        if not most_s:
            wait = f"{'does' if is_one else 'do'} not wait"
        text = f"{counted(len(others), name)} {wait} at p99"
        found.append({"side": Side.OTHERS.value, "text": text})
    return found


def pressed_text(name: str, rows: list[Row]) -> str:
    """How clients fare that are under pressure."""
    is_one = len(rows) == 1
    who = rows[0]["client"] if is_one else f"{name} ({len(rows)} clients)"
    phrases = []
    if waits := sorted(row["waitP99"] for row in rows if row["waitP99"] >= LEAST_WAIT_S):
        phrases.append(f"{'waits' if is_one else 'wait'} {span_text(waits)} at p99")
    totals = {key: sum(row[key] for row in rows) for key in ("requests", "rejectedTotal")}
    if part := rejected_part(totals):
        has = "has" if is_one else "have"
        phrases.append(f"{has} {part_text(part)} of the requests rejected")
    return f"{who} {' and '.join(phrases)}"


def rejected_part(row: Row | dict[str, int]) -> float:
    """Of all requests, those that were rejected."""
    return row["rejectedTotal"] / max(row["requests"], 1)


def span_text(ascending: list[float]) -> str:
    """Durations in seconds, from the shortest to the longest."""
    low, high = duration_text(ascending[0]), duration_text(ascending[-1])
    return low if low == high else f"{low} to {high}"


def pattern(name: str) -> str:
    """The name with a star for each number in it."""
    return DIGITS.sub("*", name)
