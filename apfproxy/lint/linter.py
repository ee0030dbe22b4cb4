"""Finds what will not work as intended, in a configuration as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.flowcontrol.limits import level_limits, nominal_limits
from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.flowcontrol.priority_level import level_shares
from apfproxy.lint.dead_rules import dead_rules
from apfproxy.lint.findings import (
    ADDITION,
    DANGLING,
    KEPT_FOR_NOBODY,
    MATCHES_NOTHING,
    UNREACHABLE,
    Finding,
)
from apfproxy.lint.leases import lease_findings
from apfproxy.lint.levels import level_findings
from apfproxy.lint.managed import managed
from apfproxy.lint.reachability import same_precedence, tried_in_order, unreachable
from apfproxy.objects.field_errors import closest, counted
from apfproxy.objects.types import (
    FlowControlObject,
    FlowSchema,
    PriorityLevelConfiguration,
    kind_of,
)
from apfproxy.objects.validation import PRIORITY_LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from apfproxy.flowcontrol.preset import Preset

DEFAULT_SERVER_CONCURRENCY_LIMIT = 600
"""Seats of a kube-apiserver that nobody configured, and of this proxy."""


def lint(
    objects: Iterable[FlowControlObject],
    server_concurrency_limit: int = DEFAULT_SERVER_CONCURRENCY_LIMIT,
    preset: Preset = KUBERNETES,
) -> list[Finding]:
    """Judge a configuration: all that would be in force, the built-in objects included.

    The preset says what kind of API is behind the proxy.  The objects are valid, have their
    defaults, and no two of one kind have one name.  The findings come in the order of ids, those of
    one id in the order of the objects.
    """
    objects = tuple(objects)
    schemas = tried_in_order(each for each in objects if isinstance(each, FlowSchema))
    levels = {each.metadata.name: each for each in objects if not isinstance(each, FlowSchema)}
    in_force = [each for each in schemas if each.spec.priority_level_configuration.name in levels]
    dead = [each for schema in schemas for each in dead_rules(schema, is_plain=preset.is_plain)]
    matching_nothing = {each.name for each in dead if each.found is MATCHES_NOTHING}
    alive = [each for each in in_force if each.metadata.name not in matching_nothing]
    shadowed = [*unreachable(alive)]
    unreached = {each.name for each in shadowed}
    reached = [each for each in alive if each.metadata.name not in unreached]
    found = [*dangling(schemas, levels), *dead, *shadowed, *same_precedence(reached)]
    found += managed(objects, preset)
    found += additions(objects)
    if not preset.is_plain:
        found += lease_findings(in_force, levels)
    used = {each.spec.priority_level_configuration.name for each in in_force}
    found += level_findings(levels, used, server_concurrency_limit, preset)
    never = {each.name for each in shadowed if each.found is UNREACHABLE}
    ever = [each for each in alive if each.metadata.name not in never]
    found += seats_for_nobody(levels, in_force, ever, server_concurrency_limit)
    return sorted(found, key=lambda each: each.found.id)


def dangling(
    schemas: Iterable[FlowSchema], levels: dict[str, PriorityLevelConfiguration]
) -> Iterator[Finding]:
    """FlowSchemas without their priority level."""
    for schema in schemas:
        level = schema.spec.priority_level_configuration.name
        if level not in levels:
            field = "spec.priorityLevelConfiguration.name"
            message = f'there is no PriorityLevelConfiguration "{level}"'
            if close := closest(level, levels):
                message += f'; did you mean "{close}"?'
            yield Finding(DANGLING, "FlowSchema", schema.metadata.name, field, message)


def seats_for_nobody(
    levels: dict[str, PriorityLevelConfiguration],
    in_force: Iterable[FlowSchema],
    reached: Iterable[FlowSchema],
    server_concurrency_limit: int,
) -> Iterator[Finding]:
    """Levels that keep seats though no request reaches a FlowSchema of theirs."""
    shares = {name: level_shares(level) for name, level in levels.items()}
    nominal = nominal_limits(
        server_concurrency_limit, {name: each[0] for name, each in shares.items()}
    )
    is_reached = {each.spec.priority_level_configuration.name for each in reached}
    schemas: dict[str, list[str]] = {}
    for schema in in_force:
        name = schema.spec.priority_level_configuration.name
        schemas.setdefault(name, []).append(schema.metadata.name)
    for name in schemas.keys() - is_reached - PRIORITY_LEVELS.keys():
        _, lendable, borrowing = shares[name]
        kept = level_limits(nominal[name], server_concurrency_limit, lendable, borrowing).lower
        if kept:
            message = (
                f"it keeps {kept} of {counted(server_concurrency_limit, 'seat')}, and no request"
                f" reaches {', '.join(schemas[name])}"
            )
            field = "spec.limited.lendablePercent"
            yield Finding(KEPT_FOR_NOBODY, "PriorityLevelConfiguration", name, field, message)


def additions(objects: Iterable[FlowControlObject]) -> Iterator[Finding]:
    """Annotations under `apfproxy.io/` with errors."""
    for each in objects:
        for error in each.additions.errors:
            message = str(error).removeprefix(f"{error.field}: ")
            yield Finding(ADDITION, kind_of(each), each.metadata.name, error.field, message)
