"""The server limit that is found, as pages, metrics and commands show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from apfproxy.flowcontrol.load_curve import knee_index, smoothed

if TYPE_CHECKING:
    from apfproxy.flowcontrol.limit_finder import LimitFinder


class DecisionView(msgspec.Struct, frozen=True):
    """A limit, when it was set (in seconds since 1970), and why, in words and by kind."""

    time: float
    limit: int
    kind: str
    reason: str


class CurvePoint(msgspec.Struct, frozen=True):
    """One point of the curve.

    Attributes:
        concurrency: Seats in use.
        goodput: As a part of the highest.
        error: The standard error of the goodput, as a part of it.
        age: Seconds since it was last seen.
    """

    concurrency: float
    goodput: float
    error: float
    age: int


class LimitView(msgspec.Struct, frozen=True, rename="camel"):
    """A server limit that is found; see `LimitFinder`.

    Attributes:
        limit: In force, in seats; where it only observes, what would have been chosen.
        found: The limit at the knee of the curve; None while it is not known.
        knee: The concurrency there, in seats in use.
        is_leading: Whether this proxy tries other limits, or follows another that does.
        min, max, initial, target: The settings; the target is a part of the highest goodput.
        decisions: The last ones, the newest last.
        decided: How many there were, by kind.
        highest_goodput: Responses a second, each weighed by the seconds that its class takes.
    """

    limit: int = 0
    state: str = ""
    found: int | None = None
    knee: float | None = None
    is_observing: bool = False
    is_leading: bool = True
    min: int = 0
    max: int = 0
    initial: int = 0
    target: float = 0.0
    decisions: tuple[DecisionView, ...] = ()
    decided: dict[str, int] = {}
    highest_goodput: float = 0.0
    curve: tuple[CurvePoint, ...] = ()

    @property
    def chosen(self) -> int | None:
        """The limit that would be chosen by what was seen; None while nothing tells."""
        return self.found or (self.limit if self.decisions else None)


def limit_view(
    finder: LimitFinder, now_s: float, unix_s: float, *, is_leading: bool = True
) -> LimitView:
    """The view of a finder; `now_s` is the time of its clock, and `unix_s` since 1970."""
    settings = finder.settings
    points = finder.curve.points(now_s)
    smooth = smoothed(points) if points else []
    highest = max((each.goodput for each in smooth), default=0.0)
    knee = smooth[knee_index(smooth, settings.target)].concurrency if smooth else None
    return LimitView(
        finder.limit,
        str(finder.state),
        finder.found,
        None if knee is None or finder.found is None else round(knee, 1),
        finder.is_observing,
        is_leading,
        settings.least,
        settings.most,
        settings.initial,
        settings.target,
        tuple(
            DecisionView(round(unix_s - now_s + each.at_s, 1), each.limit, each.kind, each.reason)
            for each in finder.decisions
        ),
        dict(finder.decided),
        highest,
        tuple(
            CurvePoint(
                round(each.concurrency, 1),
                round(each.goodput / (highest or 1.0), 3),
                round(each.error, 3),
                int(each.age_s),
            )
            for each in points
        ),
    )
