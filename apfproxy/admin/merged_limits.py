"""The limits of several workers as those of one server: each has a part of every level's seats.

What a worker has of a limit that is shared follows what is wanted, so its bounds are of the moment.
Those of the whole are what the objects say for the limit that all share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from apfproxy.flowcontrol.level_summary import LevelsSummary, LevelSummary, Sums
from apfproxy.flowcontrol.limits import LevelLimits, level_limits, nominal_limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

EXEMPT = "Exempt"


def merged_limits(summaries: Sequence[LevelsSummary], *, is_whole: bool) -> LevelsSummary:
    """All levels of all workers.

    Args:
        summaries: Of the workers; at least one.
        is_whole: Whether nobody else has a part of what they share.
    """
    first = summaries[0]
    by_name: dict[str, list[LevelSummary]] = {}
    for summary in summaries:
        for level in summary.levels:
            by_name.setdefault(level.name, []).append(level)
    levels = tuple(_merged(found) for _, found in sorted(by_name.items()))
    limit = sum(each.server_concurrency_limit for each in summaries)
    shared_limit, members = first.shared_limit, first.members
    if is_whole and shared_limit is not None:
        levels = of_whole_server(levels, shared_limit)
        limit, shared_limit, members = shared_limit, None, None
    return LevelsSummary(
        server_concurrency_limit=limit,
        levels=levels,
        sums=Sums(
            **{
                name: sum(getattr(level, name) for level in levels)
                for name in Sums.__struct_fields__
            }
        ),
        shared_limit=shared_limit,
        members=members,
    )


def of_whole_server(levels: Sequence[LevelSummary], limit: int) -> tuple[LevelSummary, ...]:
    """The levels with the bounds that they have of a server's limit."""
    bounds = bounds_of(
        limit,
        {
            level.name: (level.shares, level.lendable_percent, level.borrowing_limit_percent)
            for level in levels
        },
    )
    return tuple(_with_bounds(level, bounds[level.name]) for level in levels)


def bounds_of(
    limit: int, rules: Mapping[str, tuple[int, int, int | None]]
) -> dict[str, LevelLimits]:
    """The bounds of levels, of a server's limit, as `priority_level.level_shares` has their rules.

    Args:
        limit: Seats of the server.
        rules: By the name of the level.
    """
    nominal = nominal_limits(limit, {name: shares for name, (shares, _, _) in rules.items()})
    return {
        name: level_limits(nominal[name], limit, lendable_percent, borrowing_percent)
        for name, (_, lendable_percent, borrowing_percent) in rules.items()
    }


def _with_bounds(level: LevelSummary, bounds: LevelLimits) -> LevelSummary:
    is_exempt = level.type == EXEMPT
    return msgspec.structs.replace(
        level,
        nominal=bounds.nominal,
        lendable=bounds.nominal - bounds.lower,
        borrowing=None if is_exempt else bounds.upper - bounds.nominal,
        minimum=bounds.lower,
        maximum=None if is_exempt else bounds.upper,
    )


def _merged(levels: Sequence[LevelSummary]) -> LevelSummary:
    """One level, as several workers have it; shares and percentages are those of the first one."""
    return msgspec.structs.replace(
        levels[0],
        is_quiescing=all(level.is_quiescing for level in levels),
        is_reachable=any(level.is_reachable for level in levels),
        nominal=sum(level.nominal for level in levels),
        lendable=sum(level.lendable for level in levels),
        borrowing=total(level.borrowing for level in levels),
        minimum=sum(level.minimum for level in levels),
        maximum=total(level.maximum for level in levels),
        current=sum(level.current for level in levels),
        seats_in_use=sum(level.seats_in_use for level in levels),
    )


def total(amounts: Iterable[int | None]) -> int | None:
    """The sum; None, which is without a limit, if any is."""
    found = 0
    for amount in amounts:
        if amount is None:
            return None
        found += amount
    return found
