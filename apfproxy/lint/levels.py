"""Priority levels with unsuitable seats, hands or queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.flowcontrol.limits import enough_for_a_seat, level_limits, levelled, nominal_limits
from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.flowcontrol.priority_level import level_shares
from apfproxy.lint.findings import (
    KEPT_IN_VAIN,
    LARGE_HAND,
    LONG_QUEUE,
    NO_SEATS,
    ONE_QUEUE,
    REJECTS_ALL,
    ROUNDED_UP,
    SAME_SEATS,
    TOO_FEW_SEATS,
    UNUSED,
    WIDE_HAND,
    Finding,
)
from apfproxy.objects.additions import MOST_WAIT_NS
from apfproxy.objects.field_errors import counted
from apfproxy.objects.validation import PRIORITY_LEVELS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from apfproxy.flowcontrol.preset import Preset
    from apfproxy.objects.types import (
        LimitedPriorityLevelConfiguration,
        PriorityLevelConfiguration,
        QueuingConfiguration,
    )

KIND = "PriorityLevelConfiguration"
SHARES = "spec.limited.nominalConcurrencyShares"
LENDABLE = "spec.limited.lendablePercent"
QUEUING = "spec.limited.limitResponse.queuing"

SHORT_SERVICE_NS = 10_000_000
"""The time of a small request."""


def level_findings(
    levels: Mapping[str, PriorityLevelConfiguration],
    users: Mapping[str, Sequence[str]],
    reached: Collection[str],
    server_concurrency_limit: int,
    preset: Preset = KUBERNETES,
) -> Iterator[Finding]:
    """Findings of all levels in force, judged together: their shares divide the seats.

    Args:
        levels: All levels by their names.
        users: Level to the names of the FlowSchemas that send requests to it.
        reached: Levels that a request can come to.
        server_concurrency_limit: The seats that are divided.
        preset: The kind of API.
    """
    shares = {name: level_shares(level)[0] for name, level in levels.items()}
    total = sum(shares.values())
    nominal = nominal_limits(server_concurrency_limit, shares)
    all_seats = counted(server_concurrency_limit, "seat")
    compared = {
        name
        for name, level in levels.items()
        if level.spec.limited and name not in PRIORITY_LEVELS and not level.additions.priority
    }
    for names, same, apart in levelled(server_concurrency_limit, shares, compared):
        message = (
            f"{', '.join(names)} have {counted(same, 'seat')} each of {all_seats}, though their"
            f" shares differ ({', '.join(str(shares[name]) for name in names)}); {apart} seats of"
            " the server are enough to tell them apart"
        )
        yield Finding(SAME_SEATS, KIND, names[0], SHARES, message)
    for name, level in levels.items():
        seats = nominal[name]
        _, lendable, borrowing = level_shares(level)
        bounds = level_limits(seats, server_concurrency_limit, lendable, borrowing)
        if name not in PRIORITY_LEVELS:
            if name not in users:
                message = f"no FlowSchema uses it, and it has {seats} of {all_seats}"
                yield Finding(UNUSED, KIND, name, "", message)
            elif name not in reached and bounds.lower:
                message = f"it keeps {bounds.lower} of {all_seats}, and no request reaches"
                message += f" {', '.join(users[name])}"
                yield Finding(KEPT_IN_VAIN, KIND, name, LENDABLE, message)
        limited, additions = level.spec.limited, level.additions
        if limited is None:
            continue
        if not seats:
            if not additions.is_ban:
                yield _without_seats(name, limited, server_concurrency_limit)
        elif server_concurrency_limit * shares[name] < total and name in compared:
            exact = server_concurrency_limit * shares[name] / total
            message = (
                f"{shares[name]} of {total} shares buy {exact:.2g} of {all_seats}, which are"
                f" rounded up to one; {-(-total // shares[name])} seats of the server are enough"
            )
            yield Finding(ROUNDED_UP, KIND, name, SHARES, message)
        enough = enough_for_a_seat(shares[name], total, lendable) if seats else None
        if not bounds.lower and enough is not None and additions.priority is None:
            lent = "it" if seats == 1 else "all of them"
            message = (
                f"of {all_seats} of the server it has {seats}, and may lend {lent};"
                f" from {enough} on it keeps one"
            )
            yield Finding(TOO_FEW_SEATS, KIND, name, LENDABLE, message)
        if (queuing := limited.limit_response.queuing) is not None:
            upper = min(bounds.upper, server_concurrency_limit)
            wait_ns = additions.wait_limit_ns or MOST_WAIT_NS
            # Before a plain API every request takes one seat, however large the hand.
            yield from _hand_findings(name, queuing, 0 if preset.is_plain else seats)
            yield from _queue_findings(name, queuing, upper, wait_ns)


def _without_seats(
    name: str, limited: LimitedPriorityLevelConfiguration, server_concurrency_limit: int
) -> Finding:
    borrows = limited.borrowing_limit_percent is None
    seats = f"no seat of {server_concurrency_limit} is its own"
    borrowed = "it has only what others lend" if borrows else "it may not borrow any"
    kind = NO_SEATS if limited.limit_response.queuing else REJECTS_ALL
    return Finding(kind, KIND, name, SHARES, f"{seats}, and {borrowed}")


def _hand_findings(name: str, queuing: QueuingConfiguration, seats: int) -> Iterator[Finding]:
    """The findings of a hand, in a level with so many seats of its own; 0 if none count."""
    queues, hand = queuing.queues, queuing.hand_size
    field = f"{QUEUING}.handSize"
    if queues == 1:
        message = "all flows wait in one queue"
        yield Finding(ONE_QUEUE, KIND, name, f"{QUEUING}.queues", message)
    elif 2 * hand > queues:
        message = f"any two flows have {2 * hand - queues} or more of {queues} queues in common"
        yield Finding(LARGE_HAND, KIND, name, field, message)
    if hand > seats > 0:
        few = counted(seats, "seat")
        message = f"a hand of {hand} for {few}: no request counts as more than one seat"
        yield Finding(WIDE_HAND, KIND, name, field, message)


def _queue_findings(
    name: str, queuing: QueuingConfiguration, seats: int, wait_ns: int
) -> Iterator[Finding]:
    """The findings of the queues of a level that has so many seats at most, by the longest wait."""
    waiting = queuing.hand_size * queuing.queue_length_limit
    seats = max(seats, 1)  # a level without any serves one request at a time
    served = seats * wait_ns // SHORT_SERVICE_NS
    if waiting > served:
        message = (
            f"one flow may have {waiting} requests wait, and at most {served} are served by"
            f" {counted(seats, 'seat')} before they time out"
        )
        yield Finding(LONG_QUEUE, KIND, name, f"{QUEUING}.queueLengthLimit", message)
