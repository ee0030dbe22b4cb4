"""Finds what will not do as meant, in a configuration as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.api.flowcontrol.types import FlowSchema
from apfproxy.lint.findings import DANGLING, Finding
from apfproxy.lint.levels import level_findings
from apfproxy.lint.reachability import same_precedence, tried_in_order, unreachable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from apfproxy.api.flowcontrol.types import FlowControlObject, PriorityLevelConfiguration

DEFAULT_SERVER_CONCURRENCY_LIMIT = 600
"""Seats of a kube-apiserver that nobody configured, and of this proxy."""


def lint(
    objects: Iterable[FlowControlObject],
    server_concurrency_limit: int = DEFAULT_SERVER_CONCURRENCY_LIMIT,
) -> list[Finding]:
    """Judge a configuration.

    Args:
        objects: All that would be in force, the built-in ones included: valid, with their
            defaults, no two of one kind and name.
        server_concurrency_limit: Seats of the whole proxy; >= 1.

    Returns:
        In the order of ids, those of one id in the order of the objects.
    """
    objects = tuple(objects)
    schemas = tried_in_order(each for each in objects if isinstance(each, FlowSchema))
    levels = {each.metadata.name: each for each in objects if not isinstance(each, FlowSchema)}
    in_force = [each for each in schemas if each.spec.priority_level_configuration.name in levels]
    found = [*dangling(schemas, levels)]
    unreached = [*unreachable(in_force)]
    found += unreached
    found += same_precedence(in_force, {each.name for each in unreached})
    used = {each.spec.priority_level_configuration.name for each in in_force}
    found += level_findings(levels, used, server_concurrency_limit)
    return sorted(found, key=lambda each: each.found.id)


def dangling(
    schemas: Iterable[FlowSchema], levels: dict[str, PriorityLevelConfiguration]
) -> Iterator[Finding]:
    """FlowSchemas without their priority level."""
    for schema in schemas:
        level = schema.spec.priority_level_configuration.name
        if level not in levels:
            yield Finding(
                DANGLING,
                "FlowSchema",
                schema.metadata.name,
                "spec.priorityLevelConfiguration.name",
                f'there is no PriorityLevelConfiguration "{level}"',
            )
