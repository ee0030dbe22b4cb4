"""A server's goodput at each concurrency, from the responses that passed.

Goodput is the responses of a second, each counted by the weight of its class: the time that
responses of the class take, compared with those of other classes under the same load.  So a change
of the mix from cheap requests to dear ones is no change of the server.  Where requests take several
seats a response counts once for each.

The curve is kept at concurrencies that lie some percent apart.  What was seen at one of them loses
weight with time.  Counts are kept by class, so that a weight that becomes better known counts for
what was seen before, too.

A server may be slower now than a moment ago at the same concurrency, as others share its machine.
How much it varies is learned, and what is seen at one concurrency while it is slow is set against
how slow it was at another one just before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apfproxy.flowcontrol.load_meter import LoadClass

    Counts = Mapping[LoadClass, float]

APART: Final = 1.12
"""Concurrencies of which one is so many times the other are told apart."""
ALL_APART: Final = 9
"""Below, each whole concurrency is told apart."""
HALVED_S: Final = 30.0
"""A sample counts half after this time."""
FORGOTTEN_S: Final = 90.0
WEIGHED: Final = 300.0
"""Responses of a class that its weight is the mean of, about."""
LEAST_S: Final = 1e-6
"""Responses that took no time, by the clock, would have no weight."""
LEAST_COUNT: Final = 0.01
"""Classes with fewer responses are as good as forgotten."""
LEAST_NOISE: Final = 0.01
STEADY: Final = 0.15
"""The part of a new look at the noise in what is known of it."""
LEAST_SURPRISE: Final = 0.2
MOST_SURPRISE: Final = 3.0
"""No sample's surprise counts for more: this, or so many times what is usual."""
SPEED_S: Final = 4.0
"""For about so long a server stays slower or faster than usual."""
SURE: Final = 0.06
"""An error of a point makes for less concurrency by this part of the goodput at most."""


@dataclass(slots=True)
class Sample:
    """Responses of some time at about the same concurrency, in seats and seconds.

    Attributes:
        seat_s: Seats in use, times seconds.
        waiting_s: Seconds in which requests waited for seats.
        counts: Responses by class, each counted once a seat; of a fleet, those of all members.
        parts: The seconds of each look, and the responses that were seen in it.
    """

    duration_s: float
    seat_s: float
    waiting_s: float
    responses: float
    counts: dict[LoadClass, float]
    parts: list[tuple[float, dict[LoadClass, float]]]

    @property
    def concurrency(self) -> float:
        return self.seat_s / self.duration_s


@dataclass(frozen=True, slots=True)
class Point:
    """One point of the curve: `error` is the standard error of its goodput, as a part of it."""

    concurrency: float
    goodput: float
    error: float
    age_s: float = 0.0


class _Seen:
    """Samples at one concurrency; the older one is, the less it counts."""

    def __init__(self) -> None:
        self.duration_s = 0.0
        self.seat_s = 0.0
        self.responses = 0.0
        self.samples = 0.0
        self.variances = 0.0  # of the server's speed, summed over the samples
        self.at_s = 0.0
        self.counts: dict[LoadClass, float] = {}

    @property
    def variance(self) -> float:
        return self.variances / self.samples**2

    def add(self, now_s: float, sample: Sample, speed: float, variance: float) -> None:
        """Add a sample; at half the speed a second counts as half of one."""
        kept = math.exp2((self.at_s - now_s) / HALVED_S) if self.duration_s else 0.0
        self.at_s = now_s
        self.duration_s = self.duration_s * kept + sample.duration_s * speed
        self.seat_s = self.seat_s * kept + sample.seat_s * speed
        self.responses = self.responses * kept + sample.responses
        self.samples = self.samples * kept + 1.0
        self.variances = self.variances * kept + variance
        counts = {
            each: count * kept for each, count in self.counts.items() if count * kept > LEAST_COUNT
        }
        for each, count in sample.counts.items():
            counts[each] = counts.get(each, 0.0) + count
        self.counts = counts


class _Weight:
    """The seconds that a response of a class takes where others take what they weigh."""

    def __init__(self) -> None:
        self.value_s = 0.0
        self.at_s = 0.0
        self._count = 0.0

    def add(self, now_s: float, count: float, found_s: float) -> None:
        self.at_s = now_s
        self._count = min(self._count + count, WEIGHED)
        self.value_s += (found_s - self.value_s) * min(1.0, count / self._count)


class _Speed:
    """How fast the server is lately, as a logarithm: 0 if it is as usual.

    Source: a Kalman filter of a value that returns to 0 (an Ornstein-Uhlenbeck process).
    """

    def __init__(self) -> None:
        self.unrest = 0.0  # the variance of the value over a long time
        self.value = self.variance = 0.0
        self._at_s = 0.0

    def be_surprised(self, deviation: float, counted: float) -> None:
        """Learn the unrest from a sample: its deviation, and the part of counting in its square."""
        most = max(LEAST_SURPRISE, MOST_SURPRISE * math.sqrt(self.unrest))
        surprise = min(deviation**2, most**2) - counted
        self.unrest = max(0.0, self.unrest + STEADY * (surprise - self.unrest))

    def pass_time(self, now_s: float) -> None:
        kept = math.exp((self._at_s - now_s) / SPEED_S)
        self._at_s = now_s
        self.value *= kept
        self.variance = self.variance * kept**2 + self.unrest * (1 - kept**2)

    def see(self, deviation: float, counted: float) -> None:
        gain = self.variance / (self.variance + counted)
        self.value += gain * (deviation - self.value)
        self.variance *= 1 - gain


class LoadCurve:
    """Goodput by concurrency.

    Attributes:
        noise: The square of the coefficient of variation of one response's part in the goodput.
    """

    def __init__(self) -> None:
        self.noise = 1.0
        self._speed = _Speed()
        self._slowdown = 1.0  # of responses lately, over the weights of their classes
        self._weights: dict[LoadClass, _Weight] = {}
        self._seen: dict[int, _Seen] = {}

    def weigh(self, now_s: float, responses: Mapping[LoadClass, tuple[float, float]]) -> None:
        """Learn what the responses of each class take: their count, and their seconds in all."""
        weights = self._weights
        known = [each for each in responses if each in weights]
        expected_s = sum(weights[each].value_s * responses[each][0] for each in known)
        taken_s = sum(responses[each][1] for each in known)
        if expected_s > 0 and taken_s > 0:
            self._slowdown = taken_s / expected_s
        for each, (count, taken_s) in responses.items():
            if count > 0:
                weight = weights.setdefault(each, _Weight())
                weight.add(now_s, count, max(taken_s, LEAST_S) / count / self._slowdown)

    def goodput(self, counts: Counts, duration_s: float) -> float:
        """The goodput of responses, but for those of classes that were forgotten."""
        weights = self._weights
        return (
            sum(weights[each].value_s * count for each, count in counts.items() if each in weights)
            / duration_s
        )

    def error(self, responses: float) -> float:
        """The standard error of the goodput of so many responses, as a part of it."""
        return math.sqrt(self.noise / max(responses, 1.0))

    def look_at_noise(self, sample: Sample) -> None:
        parts = [
            (sum(counts.values()), self.goodput(counts, duration_s))
            for duration_s, counts in sample.parts
        ]
        mean = sum(goodput for _, goodput in parts) / len(parts)
        if len(parts) > 2 and mean:  # noqa: PLR2004  two say little
            square = sum(count * (goodput / mean - 1.0) ** 2 for count, goodput in parts)
            found = min(square / (len(parts) - 1), 4.0 * self.noise)
            self.noise += STEADY * (max(found, LEAST_NOISE) - self.noise)

    def look_at_speed(self, now_s: float, sample: Sample) -> None:
        """Learn how much the server's speed varies, whether it changed for good or for a moment."""
        deviation, counted = self._compare(now_s, sample)
        if counted < math.inf:
            self._speed.be_surprised(deviation, counted)

    def add(self, now_s: float, sample: Sample) -> None:
        speed = self._speed
        speed.pass_time(now_s)
        deviation, counted = self._compare(now_s, sample)
        if counted < math.inf:
            speed.see(deviation, counted)
        seen = self._seen.setdefault(_place(sample.concurrency), _Seen())
        seen.add(now_s, sample, math.exp(speed.value), speed.variance)

    def deviation(self, now_s: float, sample: Sample) -> tuple[float, float]:
        """The logarithm of what the sample has to what was seen there, and its standard error."""
        deviation, counted = self._compare(now_s, sample)
        return deviation, math.sqrt(counted + self._speed.unrest)

    def _compare(self, now_s: float, sample: Sample) -> tuple[float, float]:
        """The deviation, and the variance that counting and what was seen before have in it."""
        seen = self._seen.get(_place(sample.concurrency))
        if seen is None or now_s - seen.at_s > FORGOTTEN_S:
            return 0.0, math.inf
        before = self.goodput(seen.counts, seen.duration_s)
        now = self.goodput(sample.counts, sample.duration_s)
        errors = self.error(sample.responses), self.error(seen.responses)
        counted = errors[0] ** 2 + errors[1] ** 2 + seen.variance
        return (math.log(now / before) if now and before else 0.0), counted

    def forget(self, above: float = 0.0) -> None:
        """Forget what was seen at this concurrency, in seats, and above."""
        self._seen = {
            place: seen
            for place, seen in self._seen.items()
            if seen.seat_s / seen.duration_s < above
        }

    def scale(self, factor: float) -> None:
        """Have it as it would be of so many times as many servers."""
        scaled: dict[int, _Seen] = {}
        for seen in self._seen.values():
            seen.seat_s *= factor
            seen.counts = {each: count * factor for each, count in seen.counts.items()}
            scaled[_place(seen.seat_s / seen.duration_s)] = seen
        self._seen = scaled

    def points(self, now_s: float) -> list[Point]:
        """The curve as it was seen, by concurrency, after what is too old is forgotten."""
        self._weights = {
            each: weight
            for each, weight in self._weights.items()
            if now_s - weight.at_s <= FORGOTTEN_S
        }
        self._seen = {
            place: seen for place, seen in self._seen.items() if now_s - seen.at_s <= FORGOTTEN_S
        }
        found = [
            Point(
                seen.seat_s / seen.duration_s,
                self.goodput(seen.counts, seen.duration_s),
                math.hypot(self.error(seen.responses), math.sqrt(seen.variance)),
                now_s - seen.at_s,
            )
            for seen in self._seen.values()
        ]
        return sorted(found, key=lambda point: point.concurrency)


def smoothed(points: Iterable[Point]) -> list[Point]:
    """The curve without falls before its highest point: neighbours that fall share their mean.

    Source: the pool-adjacent-violators algorithm, weighted by the errors.
    """
    points = list(points)
    top = max(
        range(len(points)), key=lambda index: points[index].goodput * _at_least(points[index])
    )
    pools: list[tuple[float, float, int]] = []  # goodput, weight, points
    for point in points[: top + 1]:
        pools.append((point.goodput, max(point.error, 1e-4) ** -2, 1))
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            (upper, more, after), (lower, less, before) = pools.pop(), pools.pop()
            mean = (upper * more + lower * less) / (more + less)
            pools.append((mean, more + less, before + after))
    found: list[Point] = []
    for goodput, weight, count in pools:
        for _ in range(count):
            own = points[len(found)]
            found.append(Point(own.concurrency, goodput, weight**-0.5, own.age_s))
    return found + points[top + 1 :]


def knee_index(points: Sequence[Point], target: float, sure: float = SURE) -> int:
    """The index of the least concurrency with this part of the highest goodput.

    Goodput counts as high as its error leaves open where that makes for less concurrency.
    """
    highest = max(each.goodput * (1 - min(each.error, sure)) for each in points)
    return next(
        index
        for index, each in enumerate(points)
        if each.goodput * (1 + min(each.error, sure)) >= target * highest
    )


def _at_least(point: Point) -> float:
    return point.goodput * (1.0 - min(point.error, 1.0))


def _place(concurrency: float) -> int:
    if concurrency < ALL_APART:
        return -round(concurrency)
    return round(math.log(concurrency, APART))
