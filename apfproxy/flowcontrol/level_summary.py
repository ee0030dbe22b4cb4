"""The seats of all priority levels on one page: what they are entitled to, and what they have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from apfproxy.flowcontrol.classifier import ALL
from apfproxy.flowcontrol.limit_view import LimitView  # noqa: TC001 - msgspec reads it
from apfproxy.flowcontrol.limits import enough_for_a_seat, levelled
from apfproxy.flowcontrol.priority_level import level_shares
from apfproxy.objects.additions import PRIORITY
from apfproxy.objects.field_errors import counted
from apfproxy.objects.go_text import rfc3339
from apfproxy.objects.validation import PRIORITY_LEVELS
from apfproxy.request.attributes import ANONYMOUS_NAME, UNAUTHENTICATED_GROUP, UNVERIFIED_PREFIXES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.objects.types import FlowSchema, Subject


class LevelSummary(msgspec.Struct, frozen=True, rename="camel"):
    """One priority level; all but shares and percentages is in seats.

    Attributes:
        type: `Limited` or `Exempt`.
        is_quiescing: Whether its object is gone and it only drains.
        is_reachable: Whether any request can come to it, see `reachable_levels`.
        borrowing_limit_percent: None if it may borrow whatever there is, or is exempt.
        lendable, borrowing: What it can lend, and borrow, at most; None where nothing limits it.
        minimum, maximum: Between them the current limit moves.
    """

    name: str
    type: str
    is_quiescing: bool
    shares: int
    lendable_percent: int
    borrowing_limit_percent: int | None
    nominal: int
    lendable: int
    borrowing: int | None
    minimum: int
    maximum: int | None
    current: int
    seats_in_use: int
    is_reachable: bool = True
    priority: int | None = None


class Sums(msgspec.Struct, frozen=True, rename="camel"):
    """Over all levels; nominal limits are rounded up, so theirs can exceed the server's."""

    shares: int
    nominal: int
    lendable: int
    minimum: int
    current: int
    seats_in_use: int


class LevelsSummary(msgspec.Struct, frozen=True, rename="camel"):
    """All levels, in the order of their names, and the seats that they have in all.

    Attributes:
        shared_limit: Seats of a limit that others share, of which these are the part of now; None
            if no one does.
        members: How many share it; None if no one does, or an older version does not say.
        found_limit: The limit that is found; None where the settings say it.
    """

    server_concurrency_limit: int
    levels: tuple[LevelSummary, ...]
    sums: Sums
    shared_limit: int | None = None
    members: int | None = None
    found_limit: LimitView | None = None


def summarize_levels(
    controller: Controller, *, knows_users: bool = True, is_plain: bool = False
) -> LevelsSummary:
    reachable = reachable_levels(
        controller.flow_schemas(), knows_users=knows_users, is_plain=is_plain
    ) | set(PRIORITY_LEVELS)
    levels = tuple(
        _summary(level, is_reachable=name in reachable)
        for name, level in sorted(controller.levels.items())
    )
    return LevelsSummary(
        server_concurrency_limit=controller.server_concurrency_limit,
        levels=levels,
        sums=Sums(
            **{
                name: sum(getattr(level, name) for level in levels)
                for name in Sums.__struct_fields__
            }
        ),
    )


def kept_for_nobody(summary: LevelsSummary) -> str | None:
    """A sentence on seats that levels without requests do not lend; None if there are none."""
    kept = [level for level in summary.levels if not level.is_reachable and level.minimum]
    if not kept:
        return None
    seats = sum(level.minimum for level in kept)
    keep = "keeps" if len(kept) == 1 else "keep"
    return (
        f"{', '.join(level.name for level in kept)} {keep} {seats} of the server's"
        f" {summary.server_concurrency_limit} seats, and no request can come there: no FlowSchema"
        " that sends requests there matches any client that these settings know; authenticate"
        " clients, set lendablePercent to 100, or leave the objects out (--preset http, or"
        " --no-suggested-objects and objects of your own)"
    )


def shortfalls(summary: LevelsSummary) -> list[str]:
    """A sentence for each thing that the seats are too few for, with the number that is enough."""
    server, total = summary.server_concurrency_limit, summary.sums.shares
    levels = [
        level
        for level in summary.levels
        if level.type == "Limited" and level.shares and level.priority is None
    ]
    lent = {
        level.name: enough
        for level in levels
        if not level.minimum
        and (enough := enough_for_a_seat(level.shares, total, level.lendable_percent)) is not None
    }
    rounded = {
        level.name: -(-total // level.shares)
        for level in levels
        if server * level.shares < total and level.name not in PRIORITY_LEVELS
    }
    too_few = f"{counted(server, 'seat')} {'is' if server == 1 else 'are'} too few"
    found = []
    if lent:
        found.append(
            f"{too_few} for {', '.join(lent)}: by rounding all may be lent, so"
            f" that the limit is 0 while the level is idle; {max(lent.values())} are enough"
        )
    if rounded:
        found.append(
            f"{too_few} for {', '.join(rounded)}: the shares buy less than one"
            f" seat, which is rounded up; {max(rounded.values())} are enough"
        )
    shares = {level.name: level.shares for level in summary.levels}
    compared = {level.name for level in levels} - set(PRIORITY_LEVELS)
    found += [
        f"{too_few} to tell {', '.join(names)} apart: their shares differ, and each has"
        f" {counted(seats, 'seat')}; {enough} are enough, or give them an {PRIORITY}"
        for names, seats, enough in levelled(server, shares, compared)
    ]
    return found


def _summary(level: PriorityLevel, *, is_reachable: bool) -> LevelSummary:
    shares, lendable_percent, borrowing_percent = level_shares(level.configuration)
    is_exempt = level.is_exempt
    return LevelSummary(
        name=level.name,
        type="Exempt" if is_exempt else "Limited",
        is_quiescing=level.is_quiescing,
        shares=shares,
        lendable_percent=lendable_percent,
        borrowing_limit_percent=borrowing_percent,
        nominal=level.nominal_limit,
        lendable=level.nominal_limit - level.lower_limit,
        borrowing=None if is_exempt else level.upper_limit - level.nominal_limit,
        minimum=level.lower_limit,
        maximum=None if is_exempt else level.upper_limit,
        current=level.current_limit,
        seats_in_use=level.queue_set.seats_in_use,
        is_reachable=is_reachable,
        priority=level.additions.priority,
    )


def reachable_levels(
    flow_schemas: Iterable[FlowSchema], *, knows_users: bool, is_plain: bool
) -> set[str]:
    """Names of the levels that FlowSchemas can send a request to, whatever their order.

    Without `knows_users` nothing verifies users: every client is in the group of the
    unauthenticated.  An API that `is_plain` has no resources.
    """
    return {
        schema.spec.priority_level_configuration.name
        for schema in flow_schemas
        if any(
            (rule.non_resource_rules or (rule.resource_rules and not is_plain))
            and any(knows_users or _can_be_unverified(subject) for subject in rule.subjects)
            for rule in schema.spec.rules
        )
    }


def _can_be_unverified(subject: Subject) -> bool:
    if subject.user is not None:
        name = subject.user.name
        return name in {ALL, ANONYMOUS_NAME} or name.startswith(UNVERIFIED_PREFIXES)
    return subject.group is not None and subject.group.name in {ALL, UNAUTHENTICATED_GROUP}


FLOW_SCHEMA = "FlowSchema"
PRIORITY_LEVEL = "PriorityLevelConfiguration"


class NamedObject(msgspec.Struct, frozen=True, rename="camel"):
    """An object; `uid` is as responses name it, made of kind and name if no server gave it one.

    Attributes:
        priority_level: Where a FlowSchema leads, or the level itself.
        what: What the object does, and what a level is doing now, in words.
    """

    kind: str
    name: str
    uid: str
    priority_level: str
    what: str


def named_objects(controller: Controller) -> Iterator[NamedObject]:
    """All priority levels, those that are going too, then all FlowSchemas, each by name."""
    for _, level in sorted(controller.levels.items()):
        yield NamedObject(PRIORITY_LEVEL, level.name, level.uid, level.name, _what_of(level))
    in_force = controller.in_force
    for name in sorted({*in_force.flow_schemas, *in_force.dangling}):
        level_name = in_force.dangling.get(name)
        if level_name is not None:
            what = f"not used: its priority level {level_name} does not exist"
        else:
            spec = in_force.flow_schemas[name].spec
            level_name = spec.priority_level_configuration.name
            precedence = spec.matching_precedence
            what = f"matching precedence {precedence}, leads to priority level {level_name}"
            until_s = in_force.flow_schemas[name].additions.until_s
            what += "" if until_s is None else f", until {rfc3339(until_s)}"
        uid = in_force.checked[FLOW_SCHEMA, name].uid
        yield NamedObject(FLOW_SCHEMA, name, uid, level_name, what)


def with_uid(objects: Iterable[NamedObject], uid: str) -> list[NamedObject]:
    """List objects with a UID: one, unless an object was copied with its UID."""
    return [each for each in objects if each.uid == uid]


def _what_of(level: PriorityLevel) -> str:
    if level.is_quiescing:
        return "its object is gone; it ends its last requests"
    if level.is_exempt:
        return "exempt: its requests are never limited"
    queue_set, queues = level.queue_set, level.queue_set.config.queues
    how = f"{queues} queues" if queues else "rejects what does not fit"
    what = f"nominally {counted(level.nominal_limit, 'seat')}, {how}"
    if queue_set.is_idle:
        return what
    in_use = f"{queue_set.seats_in_use} of {counted(level.current_limit, 'seat')} in use"
    return f"{what}; now {in_use}, requests that wait: {queue_set.requests_waiting}"
