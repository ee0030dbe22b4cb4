"""The objects of a configuration by the UIDs that answers name them by.

An answer has the UIDs of its FlowSchema and its priority level, as kube-apiserver's answers do.  An
object that no server gave a UID has one that is made of its kind and name, so it is the same in
every process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from apfproxy.objects.field_errors import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.priority_level import PriorityLevel

FLOW_SCHEMA = "FlowSchema"
PRIORITY_LEVEL = "PriorityLevelConfiguration"


class NamedObject(msgspec.Struct, frozen=True, rename="camel"):
    """An object, and what it is.

    Attributes:
        kind: Of Kubernetes.
        name: Unique among the objects of the kind.
        uid: As answers name it.
        priority_level: That a FlowSchema leads to, or that a level is.
        what: What the object does, and what a level is doing now, in words.
    """

    kind: str
    name: str
    uid: str
    priority_level: str
    what: str


def named_objects(controller: Controller) -> Iterator[NamedObject]:
    """All objects: priority levels, those that are going too, then FlowSchemas, each by name."""
    for _, level in sorted(controller.levels.items()):
        yield NamedObject(PRIORITY_LEVEL, level.name, level.uid, level.name, _what_of(level))
    in_force = controller.in_force
    levels = {
        name: schema.spec.priority_level_configuration.name
        for name, schema in in_force.flow_schemas.items()
    }
    for name, level_name in sorted({**levels, **in_force.dangling}.items()):
        checked = in_force.checked[FLOW_SCHEMA, name]
        if name in in_force.dangling:
            what = f"not used: its priority level {level_name} does not exist"
        else:
            precedence = in_force.flow_schemas[name].spec.matching_precedence
            what = f"matching precedence {precedence}, leads to priority level {level_name}"
        yield NamedObject(FLOW_SCHEMA, name, checked.uid, level_name, what)


def with_uid(objects: Iterable[NamedObject], uid: str) -> list[NamedObject]:
    """Those of a UID; one at most, unless somebody has copied an object with its UID."""
    return [each for each in objects if each.uid == uid]


def _what_of(level: PriorityLevel) -> str:
    if level.is_quiescing:
        return "its object is gone; it ends its last requests"
    if level.is_exempt:
        return "exempt: its requests are never limited"
    queue_set = level.queue_set
    queues = queue_set.config.queues
    how = f"{queues} queues" if queues else "rejects what does not fit"
    what = f"nominally {counted(level.nominal_limit, 'seat')}, {how}"
    if queue_set.is_idle:
        return what
    in_use = f"{queue_set.seats_in_use} of {level.current_limit} seats are in use"
    return f"{what}; now {in_use}, requests that wait: {queue_set.requests_waiting}"
