"""Finds the server limit: the least concurrency at which the server does about all that it can.

How much a server does by how much is asked of it at once rises, then is flat or falls.  Where it
stops to rise, at the knee, more requests in the server only wait there, out of reach of fair
queuing.  So:

1. **Goodput, not latency, decides.**  The curve (`load_curve`) is measured by having other limits
   for a moment: with twice or half as many seats while the knee is sought, between two known
   concurrencies when it lies there, and a little above or below now and then once it is found.
   Latency alone cannot tell a server that became slow from one that became full.
2. **The knee** is the least concurrency with `target` of the highest goodput.  Where noise leaves
   that open, less is taken; but on the way up more is tried as long as noise may have hidden that
   the server does more.
3. **Up only while requests wait**, since no more than is asked for can be measured; down whenever
   less does as well.  Where too little is asked for to know, the limit stays.
4. **Distress** (429, 503, 504, resets, time-outs) takes a part of the limit at once, and keeps
   it from coming back for some time; `distress` says when it counts.
5. **A change of the server** shows as another goodput than was seen at the same concurrency; then
   what was seen is forgotten.  A server that stands still teaches nothing until it goes on.

Nothing here rests on a least latency, which a server that is always overloaded never shows.

Source, for comparison: the gradient controller of Envoy and Gradient2 of Netflix' concurrency
limits take latency over a least or a mean one for the signal; Vegas and BBR have the product of
throughput and least latency for it; the search is Heiss and Wagner's incremental steps (VLDB 1991)
with a memory.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from apfproxy.base.transitions import Event
from apfproxy.flowcontrol.distress import Distress
from apfproxy.flowcontrol.load_curve import SURE, LoadCurve, Sample, knee_index, smoothed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apfproxy.flowcontrol.load_curve import Point
    from apfproxy.flowcontrol.load_meter import LoadClass

NEAR: Final = 1.25
"""Concurrencies so near to each other are near enough."""
USUAL: Final = 16
"""More are looked at first below this limit, and fewer above, where nothing is known yet."""
FIRST_STEP: Final = 2.0
NEXT_STEP: Final = 1.5
PROBE_STEP: Final = 0.15
PROBE_ERRORS: Final = 7.0
MOST_PROBE_STEP: Final = 0.5
"""A probe differs by so many errors of a sample, so that more shows beside the noise."""
LOADED_STEP: Final = 0.33
FIRST_PAUSE_S: Final = 4.0
LONGEST_PAUSE_S: Final = 6.0
"""Between two looks at other limits once one is found."""
FREE_PART: Final = 0.75
"""A knee at less of the concurrency is below it, if the last few samples have it so."""
SURE_SAMPLES: Final = 3
MAY_BE: Final = 1.6
"""Standard errors by which noise may have misled the way up."""
FREE_STEP: Final = 0.7
"""The part of its concurrency that is tried where nothing waits, and nothing is known of less."""
LEAST_ASKED: Final = 3.0
SURE_OF_SEARCH: Final = 0.09
"""As `SURE` while the knee is sought: noise must not end the way down from far above."""
A_SEAT: Final = 1.3
"""Between concurrencies that differ by so much at most no other one is sought."""
LOADED: Final = 0.8
"""The part of its goodput for each request from which down a server has more than it should."""
ASKED_S: Final = 30.0
"""For so long no more is expected to be asked for than was while nothing waited."""
LONGEST_LOOK_S: Final = 1.0
"""After a longer time the proxy itself stood still, which tells nothing of the server."""
LEAST_SAMPLE_S: Final = 0.3
LEAST_RESPONSES: Final = 8
FEW_S: Final = 5.0
"""After so long fewer responses do."""
COARSE: Final = (0.06, 2.0)
FINE: Final = (0.025, 2.0)
"""A sample ends with this error, or after so many seconds."""
CHANGED: Final = 0.2
"""The least difference of goodput, as a logarithm, that is a change of the server."""
DISTRESS_CUT: Final = 0.7
DISTRESS_S: Final = 15.0
LEAST_STALL_S: Final = 0.5
LONGEST_SETTLING_S: Final = 3.0
SETTLED: Final = 2.0
"""Latencies after which a change of the limit is over: those that did not begin while it drained
lack among the responses of one latency later."""
LONGEST_DRAIN_S: Final = 10.0
"""Levels that have a seat at least may use more in all than a small limit: that never drains."""
LONGEST_GAP_S: Final = 2.0
"""In a sample; after a longer time without load another one begins."""
KEPT_DECISIONS: Final = 10
LEAST_REACH: Final = 0.05
"""The least seats in use over the limit: idle priority levels may keep seats that others lack."""


@dataclass(frozen=True, slots=True)
class FinderSettings:
    """Bounds of the limit, where it begins, and the part of the highest goodput that it is for.

    `lag_s` is the time that another limit takes to be in force, as it does in a fleet.
    """

    least: int
    most: int
    initial: int
    target: float
    lag_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Load:
    """Requests since the last look.

    Attributes:
        seats: In use, of levels that are limited; of a fleet, those of all members.
        is_waiting: Whether requests wait for seats.
        responses: Class to the count of its responses and their seconds, each once a seat.
        distress: Responses, or failures to respond, that tell of the server's distress.
        part: The part of a fleet's responses that these are, more than 0.
    """

    duration_s: float
    seats: float
    is_waiting: bool
    responses: Mapping[LoadClass, tuple[float, float]]
    distress: int = 0
    part: float = 1.0


@dataclass(frozen=True, slots=True)
class Decision:
    """A limit, when it was set (in seconds of the clock of `LimitFinder.look`), and why."""

    at_s: float
    limit: int
    reason: str
    kind: str = ""


class FinderState(enum.StrEnum):
    SEARCHING = "searching"
    HOLDING = "holding"
    PROBING = "probing"
    """It has another limit for a moment, to see whether that is better by now."""


TRANSITIONS: Final = {
    FinderState.SEARCHING: {
        "found": FinderState.HOLDING,
        "search": FinderState.SEARCHING,
    },
    FinderState.HOLDING: {"probe": FinderState.PROBING, "search": FinderState.SEARCHING},
    FinderState.PROBING: {"found": FinderState.HOLDING, "search": FinderState.SEARCHING},
}
FOUND: Final = Event("found", TRANSITIONS)
PROBE: Final = Event("probe", TRANSITIONS)
SEARCH: Final = Event("search", TRANSITIONS)


class LimitFinder:
    """Sets `limit` from what it sees at each `look`, some ten a second.

    Where it only observes, it tries no other limits: `limit` is what the curve says by itself.

    Attributes:
        found: The knee, in seats; None while it is not known.
        decisions: The last ones, the newest last, without probes that are over.
        decided: How many there were, by kind.
    """

    def __init__(self, settings: FinderSettings, *, is_observing: bool = False) -> None:
        self.settings = settings
        self.is_observing = is_observing
        self.limit = settings.initial
        self.found: int | None = None
        self.state = FinderState.SEARCHING
        self.decisions: deque[Decision] = deque(maxlen=KEPT_DECISIONS)
        self.decided = dict.fromkeys((each.kind for each in REASONS), 0)
        self.curve = LoadCurve()
        self._now_s = 0.0
        self._begun_s: float | None = None
        self._settled_s = 0.0
        self._drained_s = 0.0
        self._gathered_s = 0.0
        self._seats = 0.0  # in use lately
        self._latency_s = 0.05
        self._stalled_s = 0.0
        self._has_stalled = False
        self._sample: Sample | None = None
        self._suspicions = 0
        self._disagreements = 0
        self._samples_past = 0  # in a row, that have a knee below what is asked for
        # The search
        self._step = FIRST_STEP
        self._is_down_first = settings.initial > USUAL
        self._ceiling = math.inf
        self._ceiling_until_s = 0.0
        self._distress = Distress()
        self._cut_until_s = 0.0
        # The concurrency that is held, and the last sample there while requests waited
        self._home = float(settings.initial)
        self._origin = settings.initial  # the limit before the search: good until another is found
        self._reach = 1.0  # seats in use over the limit, while requests wait
        self._at_home: Sample | None = None
        self._probes = 0
        self._is_free_probe = False
        # What was asked for at a time while nothing waited
        self._asked = math.inf
        self._asked_until_s = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._probe_s = 0.0

    def look(self, now_s: float, load: Load) -> None:
        """Learn from what happened since the last look, and set the limit."""
        if load.duration_s <= 0:
            return
        self._now_s = now_s
        if load.duration_s > LONGEST_LOOK_S:
            self._sample = None
            return
        self._seats += 0.3 * (load.seats - self._seats)
        responses = sum(count for count, _ in load.responses.values())
        if responses:
            taken_s = sum(taken_s for _, taken_s in load.responses.values())
            self._latency_s += 0.3 * (taken_s / responses - self._latency_s)
        if self._stands_still(load, responses) or self._is_in_distress(load, responses):
            return
        if self._begun_s is None and responses:
            self._begun_s = now_s
            self._drain()
        if self._begun_s is None or now_s - self._begun_s < min(2 * self._latency_s, 3.0):
            return  # short responses come first
        is_over = load.seats > self.limit * self._reach * 1.1 + 0.5
        if is_over and now_s < self._drained_s and not self.is_observing:
            self._settle(SETTLED * self._latency_s)
        if now_s < self._settled_s or load.seats < 0.5:  # noqa: PLR2004  of a seat
            return
        self._gather(load, responses)

    def adopt(self, now_s: float, limit: int) -> None:
        """Have a limit that was found elsewhere; what was seen here stays."""
        self._now_s = now_s
        if limit == self.limit:
            return
        self._search(is_down_first=False)
        self._set(limit * self._reach, ADOPTED)
        self.limit = limit  # whatever the bounds are here
        self._home = limit * self._reach
        self._origin = limit
        self._at_home = self.found = None

    def resize(self, factor: float) -> None:
        """Have the limit and the curve of so many times as many servers, once any was seen."""
        if self._begun_s is None:
            return
        self.curve.scale(factor)
        self._sample = self._at_home = None
        self._home *= factor
        if not self.is_observing:
            self._set(self.limit * factor * self._reach, RESIZED)

    # What is seen

    def _stands_still(self, load: Load, responses: float) -> bool:
        longest_s = max(LEAST_STALL_S, 5 * self._latency_s)
        if not responses and load.seats >= 1 and not load.distress:
            self._stalled_s += load.duration_s
            if self._stalled_s > longest_s:
                self._sample, self._has_stalled = None, True
            elif self._sample is not None:
                _extend(self._sample, load)
                self._gathered_s = self._now_s
            return True
        if self._has_stalled:  # what was in it took as long
            self._has_stalled = False
            self._latency_s = min(self._latency_s, 0.5)
            self._settle(2 * self._latency_s + 0.2)
        self._stalled_s = 0.0
        return False

    def _is_in_distress(self, load: Load, responses: float) -> bool:
        distress = self._distress
        distress.see(load.duration_s, load.distress, responses)
        if not distress.is_high and not distress.is_mass:
            return False
        self._sample = None
        if distress.is_high and self._now_s >= self._cut_until_s and not self.is_observing:
            self._cut()
        return True

    def _cut(self) -> None:
        part, settings = self._distress.part, self.settings
        self._cut_until_s = self._now_s + 1.0 + min(2 * self._latency_s, LONGEST_SETTLING_S)
        helps = self._distress.note_cut(self._now_s, self.limit, settings.least)
        self._search(is_down_first=helps)
        if not helps:
            self._ceiling_until_s = self._now_s
            return
        most = self.limit * self._reach
        seats = min(max(self._seats, most / 2), most)
        self.curve.forget(above=seats * 0.75)
        self._ceiling, self._ceiling_until_s = seats * 0.95, self._now_s + DISTRESS_S
        self._set(seats * DISTRESS_CUT, DISTRESSED, f": {100 * part:.0f} % of them lately")
        self._origin = self.limit

    def _gather(self, load: Load, responses: float) -> None:
        self.curve.weigh(self._now_s, load.responses)
        sample, gap_s = self._sample, self._now_s - self._gathered_s - load.duration_s
        self._gathered_s = self._now_s
        if sample is None or gap_s > LONGEST_GAP_S:
            sample = self._sample = Sample(0.0, 0.0, 0.0, 0.0, {}, [])
        _extend(sample, load)
        counts = {each: count for each, (count, _) in load.responses.items()}
        sample.responses += responses
        for each, count in counts.items():
            sample.counts[each] = sample.counts.get(each, 0.0) + count / load.part
        sample.parts.append((load.duration_s, counts))
        few = sample.responses < LEAST_RESPONSES and sample.duration_s < FEW_S
        least_s = max(LEAST_SAMPLE_S, min(self._latency_s, FEW_S))
        if sample.duration_s < least_s or few:
            return
        self.curve.look_at_noise(sample)
        is_coarse = self.state is FinderState.SEARCHING and self._step > NEXT_STEP
        error, longest_s = COARSE if is_coarse else FINE
        if self.curve.error(sample.responses) > error and sample.duration_s < longest_s:
            return
        self._sample = None
        self._learn(sample)

    def _learn(self, sample: Sample) -> None:
        is_binding = sample.waiting_s >= sample.duration_s / 2
        is_more = sample.concurrency > self.limit * self._reach
        if not is_binding:
            self._asked, self._asked_until_s = sample.concurrency, self._now_s + ASKED_S
        if (is_binding or is_more) and not self.is_observing:
            self._reach = min(max(sample.concurrency / self.limit, LEAST_REACH), 1 / LEAST_REACH)
        self._look_for_more(sample, is_binding=is_binding)
        deviation, error = self.curve.deviation(self._now_s, sample)
        self.curve.look_at_speed(self._now_s, sample)
        if abs(deviation) > max(CHANGED, 3 * error):
            self._suspicions += 1
            if self._suspicions == 1 and abs(deviation) < max(3 * CHANGED, 6 * error):
                return
            self.curve.forget()
            self._search(is_down_first=deviation < 0)
        self._suspicions = 0
        if self.state is FinderState.HOLDING:
            self._at_home = sample if is_binding else None
        self.curve.add(self._now_s, sample)
        self._decide(sample, is_binding=is_binding)

    def _look_for_more(self, sample: Sample, *, is_binding: bool) -> None:
        """See whether a probe above has more than it had before: then the server can do more."""
        home = self._at_home
        if self.state is not FinderState.PROBING or home is None or not is_binding:
            return
        ratio = sample.concurrency / home.concurrency
        if sample.concurrency <= self._home * 1.05 + 0.4:
            return
        more = self.curve.goodput(sample.counts, sample.duration_s)
        before = self.curve.goodput(home.counts, home.duration_s)
        error = self.curve.error(sample.responses)
        if before and more / before > max(1 + 0.6 * (ratio - 1), math.exp(1.5 * error)):
            self.curve.forget()
            self.curve.add(self._now_s, home)
            self._search(is_down_first=False)

    # What is decided

    def _decide(self, sample: Sample, *, is_binding: bool) -> None:
        seen = self.curve.points(self._now_s)
        points = smoothed(seen)
        is_searching = self.state is FinderState.SEARCHING
        sure = SURE_OF_SEARCH if is_searching else SURE
        index = knee_index(points, self.settings.target, sure)
        knee = points[index].concurrency
        # Less is asked for than the server can do: there is no reason to take any of it away.
        is_free = not is_binding and sample.concurrency < 0.9 * self.limit * self._reach
        if is_free:
            is_past = knee < FREE_PART * sample.concurrency
            self._samples_past = self._samples_past + 1 if is_past else 0
            is_free = self._samples_past < SURE_SAMPLES
        self.found = None if is_free else self._limit_for(knee)
        if self.is_observing:
            if self.found is not None and abs(self.found - self.limit) > 0.1 * self.limit:
                self._set(knee, OBSERVED)
            return
        rises = is_searching and is_binding and may_rise(seen, sample.concurrency)
        limit, reason = self._next(points, index, is_binding=is_binding, may_rise=rises)
        is_next_far = reason in (MORE, LESS)
        if is_searching:
            if limit:
                self._is_down_first = False
                self._set(limit, reason)
            else:
                self._hold(knee, is_free=is_free)
            return
        is_other = abs(knee - self._home) > 0.08 * self._home
        is_other = is_other and self._limit_for(knee) != self._limit_for(self._home)
        if self.state is FinderState.PROBING:
            self._pause_s = FIRST_PAUSE_S if is_other else min(1.2 * self._pause_s, LONGEST_PAUSE_S)
            if is_other and limit and is_next_far:
                self._search(is_down_first=False)
                self._set(limit, reason)
            else:
                is_free = is_free or (self._is_free_probe and not is_other)
                self._hold(knee if is_other else self._home, is_free=is_free)
        elif is_free:
            self._look_below(points, index, sample)
        elif self._now_s >= self._probe_s:
            self._probe(sample, has_too_much=is_loaded(points, index))
        elif is_other and not is_next_far:
            self._disagreements += 1
            if self._disagreements > 1:
                self._hold(knee, is_free=False)
        else:
            self._disagreements = 0

    def _look_below(self, points: list[Point], index: int, sample: Sample) -> None:
        """Have fewer seats where nothing waits, and yet the server may have too much."""
        if self._now_s < self._probe_s:
            return
        if is_loaded(points, index):
            self._search(is_down_first=True)
            knee = points[index].concurrency
            self._set(max(knee / self._step, self.settings.least * self._reach), LESS)
        elif points[0].concurrency > FREE_PART * sample.concurrency >= LEAST_ASKED:
            # About the same was asked for all the time, which says nothing of less.
            self.state = PROBE[self.state]
            self._is_free_probe = True
            self._home = sample.concurrency
            self._set(FREE_STEP * sample.concurrency, PROBED)

    def _next(
        self, points: list[Point], index: int, *, is_binding: bool, may_rise: bool
    ) -> tuple[float, Reason]:
        """The concurrency to look at next, and why; 0 if the knee is known."""
        knee, top = points[index].concurrency, points[-1].concurrency
        is_top = index == len(points) - 1
        least, most = (each * self._reach for each in (self.settings.least, self.settings.most))
        if self._now_s < self._ceiling_until_s:
            most = min(most, max(least, self._ceiling))
        if may_rise and top < most * 0.97 - 0.5:
            return min(most, max(top * self._step, top + 1)), MORE
        if index == 0:
            is_open = self._is_down_first or not is_binding or not is_top
            if knee > least + 0.6 and is_open:
                return max(least, knee / self._step), LESS
        else:
            below = points[index - 1]
            is_far = knee / below.concurrency > NEAR and knee - below.concurrency > A_SEAT
            growth = points[index].goodput / below.goodput if below.goodput else math.inf
            is_bent = growth < 1 + 0.85 * (knee / below.concurrency - 1)
            if is_far and (is_bent or (is_binding and not is_top)):
                return math.sqrt(knee * below.concurrency), BETWEEN
        if is_top and knee < most * 0.97 - 0.5 and is_binding:
            return min(most, max(knee * self._step, knee + 1)), MORE
        if self._now_s < self._asked_until_s:
            most = min(most, self._asked)
        # With a low target the knee is far below the most that the server does.
        above = knee / self.settings.target
        if is_binding and top < min(most, 1.7 * above) - 0.5:
            return min(most, max(2 * above, knee + 1)), ABOVE
        return 0.0, HELD

    def _hold(self, knee: float, *, is_free: bool) -> None:
        self._is_free_probe = False
        if self.state is not FinderState.HOLDING:
            self.state = FOUND[self.state]
            self._probe_s = self._now_s + self._pause_s
        self._step = NEXT_STEP
        self._disagreements = 0
        self._home = knee
        if not is_free:
            self._set(knee, HELD)
            self._origin = self.limit
        elif self.limit < self._origin:
            self._set(self._origin * self._reach, UNASKED)

    def _probe(self, sample: Sample, *, has_too_much: bool) -> None:
        """Have another limit for a moment; a far lower one if the server may have too much."""
        self._probes += 1
        limit = self._limit_for(self._home)
        side = -1 if self._probes % 3 == 0 else 1
        error = self.curve.error(FINE[1] * sample.responses / sample.duration_s)
        part = min(PROBE_ERRORS * error, MOST_PROBE_STEP)
        part = max(part, LOADED_STEP if has_too_much and side < 0 else PROBE_STEP)
        step = max(1, round(part * limit))
        if not self.settings.least <= limit + side * step <= self.settings.most:
            side = -side
        self.state = PROBE[self.state]
        self._set((limit + side * step) * self._reach, PROBED)

    def _search(self, *, is_down_first: bool) -> None:
        self.state = SEARCH[self.state]
        self._step = NEXT_STEP
        self._is_down_first = is_down_first
        self._pause_s = FIRST_PAUSE_S
        self._origin = self.limit

    def _limit_for(self, concurrency: float) -> int:
        """The limit with which so many seats are in use while requests wait."""
        limit = round(concurrency / self._reach)
        return min(max(limit, self.settings.least), self.settings.most)

    def _set(self, concurrency: float, reason: Reason, more: str = "") -> None:
        before = self.limit
        self.limit = self._limit_for(concurrency)
        self._sample = None
        if self.limit != before:
            self._settle(SETTLED * self._latency_s * max(self.limit / before, 1.0))
            self._drain()
        if reason is HELD and self.decisions and self.decisions[-1].kind == PROBED.kind:
            self.decisions.pop()  # it is over, and what came before it is told again
        last = self.decisions[-1] if self.decisions else None
        is_other = self.limit != (self.settings.initial if last is None else last.limit)
        if is_other or (reason is HELD and (last is None or last.kind != HELD.kind)):
            self.decided[reason.kind] += 1
            text = reason.text + more
            self.decisions.append(Decision(self._now_s, self.limit, text, reason.kind))

    def _drain(self) -> None:
        """Let no sample begin for some time while more seats are in use than the limit allows."""
        pause_s = min(3 * self._latency_s + 1.0, LONGEST_DRAIN_S)
        self._drained_s = self._now_s + pause_s + self.settings.lag_s

    def _settle(self, pause_s: float) -> None:
        """Let no sample begin before the requests of now are through."""
        pause_s = min(pause_s, LONGEST_SETTLING_S) + 0.05 + self.settings.lag_s
        self._settled_s = max(self._settled_s, self._now_s + pause_s)
        self._sample = None


class Reason(NamedTuple):
    """Why another limit is set: the label of a metric, and the words for people."""

    kind: str
    text: str


MORE: Final = Reason("more", "requests wait, and the server did more with more seats so far")
LESS: Final = Reason("fewer", "the server may do as much with fewer seats: they are tried")
BETWEEN: Final = Reason("between", "the best limit lies between two that were tried")
ABOVE: Final = Reason("above", "more seats are tried, to see whether the server does more")
OBSERVED: Final = Reason("observed", "the responses so far say so; no other limit was tried")
HELD: Final = Reason("found", "the fewest seats with which the server does about all that it can")
PROBED: Final = Reason("probe", "another limit is tried for a moment, as the server may change")
DISTRESSED: Final = Reason(
    "distress", "the server rejects requests (429, 503, 504), fails them or is late"
)
UNASKED: Final = Reason("unasked", "too little is asked for to know more: as before the search")
RESIZED: Final = Reason("endpoints", "another number of endpoints is healthy")
ADOPTED: Final = Reason("adopted", "another proxy that shares the limit found it")
REASONS: Final = (
    *(MORE, LESS, BETWEEN, ABOVE, OBSERVED, HELD, PROBED),
    *(DISTRESSED, UNASKED, RESIZED, ADOPTED),
)


def _extend(sample: Sample, load: Load) -> None:
    sample.duration_s += load.duration_s
    sample.seat_s += load.seats * load.duration_s
    if load.is_waiting:
        sample.waiting_s += load.duration_s


def may_rise(seen: list[Point], concurrency: float) -> bool:
    """Whether noise leaves open that goodput rises with concurrency up to the highest one."""
    if len(seen) < 2 or seen[-1].concurrency > concurrency * NEAR:  # noqa: PLR2004  a pair
        return False
    below, top = seen[-2:]
    at_most = below.goodput * top.concurrency / below.concurrency
    return top.goodput > at_most * math.exp(-MAY_BE * math.hypot(below.error, top.error))


def is_loaded(points: list[Point], index: int) -> bool:
    """Whether a request takes longer at this concurrency than it does at another one."""
    best = max(each.goodput / each.concurrency for each in points)
    return points[index].goodput < LOADED * best * points[index].concurrency
