"""Requests read from a log, kept small until they are replayed.

A log is in the order in which requests ended; they are replayed in the order in which they came.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.simulation.kinds import essence, kind_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from apfproxy.flowcontrol.preset import Preset
    from apfproxy.request.attributes import User
    from apfproxy.simulation.kinds import Kind

UNKNOWN_NS: Final = -1
MAX_SHOWN_PROBLEMS = 10

MAX_RECENT = 50_000
"""Targets whose kind is remembered: looking at one anew takes 20 us."""

MANY_KINDS = 100_000
"""About 200 MB; from there on, names of objects no longer tell kinds apart."""


class Records:
    """Requests of a log, to a kind of API.

    Attributes:
        skipped: Lines that are well, but nothing to replay.
        early: Those of them that are of requests which had not ended.
        left_out: Parts of what the log is wrapped in that have no entry.
        foreign: Those of them that are of Google Cloud's own audit log.
        unlogged: Requests that the log has no line of, as it says.
        broken: Lines that are not.
        problems: The first of those: line number, and what is wrong.
        guessed: Requests that never executed when they were logged, so that nobody knows how long
            they would have taken.
        held: Requests that waited, or never executed, when they were logged.
    """

    def __init__(self, preset: Preset = KUBERNETES) -> None:
        self._preset = preset
        self.skipped = 0
        self.early = 0
        self.left_out = 0
        self.foreign = 0
        self.unlogged = 0
        self.broken = 0
        self.problems: list[tuple[int, str]] = []
        self.guessed = 0
        self.held = 0
        self._times_ns = array("q")
        self._services_ns = array("q")
        self._kind_numbers = array("l")
        self._kinds: list[Kind] = []
        self._numbers: dict[Hashable, int] = {}
        self._recent: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._times_ns)

    def add(
        self, time_ns: int, user: User, method: str, target: str, service_ns: int, seats: int = 0
    ) -> None:
        """Add a request that took so long to serve, `UNKNOWN_NS` if it never executed.

        Its time has the same zero as all others; seats of 0 are estimated.  Raises as `kind_of`.
        """
        key = (method, target, user, seats)
        number = self._recent.get(key)
        if number is None:
            number = self._number(
                kind_of(user.name, user, method, target, seats, preset=self._preset)
            )
            if len(self._recent) >= MAX_RECENT:
                self._recent.clear()
            self._recent[key] = number
        self._times_ns.append(time_ns)
        self._services_ns.append(service_ns)
        self._kind_numbers.append(number)
        self.guessed += service_ns == UNKNOWN_NS

    def _number(self, kind: Kind) -> int:
        """The number of the kind that is like this one."""
        kinds = self._kinds
        number = self._numbers.setdefault(
            essence(kind, with_names=len(kinds) < MANY_KINDS), len(kinds)
        )
        if number == len(kinds):
            kinds.append(kind)
        return number

    def break_line(self, line: int, message: str) -> None:
        """Count a line that cannot be read."""
        self.broken += 1
        if len(self.problems) < MAX_SHOWN_PROBLEMS:
            self.problems.append((line, message))

    @property
    def start_ns(self) -> int:
        """When the first request arrived; 0 if there is none."""
        return min(self._times_ns, default=0)

    @property
    def span_ns(self) -> int:
        """From the first arrival to the last."""
        return max(self._times_ns, default=0) - self.start_ns

    def requests(self) -> Iterator[tuple[int, Kind, int]]:
        """Arrival times from 0 on, with kind and service time, in order."""
        times_ns, services_ns, kinds = self._times_ns, self._services_ns, self._kinds
        guesses = self._guesses()
        start_ns = self.start_ns
        for index in sorted(range(len(times_ns)), key=times_ns.__getitem__):
            kind = kinds[self._kind_numbers[index]]
            service_ns = services_ns[index]
            if service_ns == UNKNOWN_NS:
                service_ns = guesses.get(_likeness(kind), guesses[None])
            yield times_ns[index] - start_ns, kind, service_ns

    def _guesses(self) -> dict[tuple[str, str] | None, int]:
        """Mean service time by verb and resource; under None that of all, or 0."""
        sums: dict[tuple[str, str] | None, list[int]] = {None: [0, 0]}
        if self.guessed:
            for service_ns, number in zip(self._services_ns, self._kind_numbers, strict=True):
                kind = self._kinds[number]
                if service_ns != UNKNOWN_NS and not kind.attributes.long_running:
                    for key in (None, _likeness(kind)):
                        found = sums.setdefault(key, [0, 0])
                        found[0] += service_ns
                        found[1] += 1
        return {key: total // max(count, 1) for key, (total, count) in sums.items()}

    def __repr__(self) -> str:
        return f"<Records: {len(self)} requests of {len(self._kinds)} kinds, {self.broken} broken>"


def _likeness(kind: Kind) -> tuple[str, str]:
    return kind.attributes.verb, kind.attributes.group_resource
