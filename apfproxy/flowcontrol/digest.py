"""A configuration that is ready to be put in force, and what each of its objects comes to.

Both are values: what is in force and what is yet to be share what they have in common.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from apfproxy.flowcontrol.classifier import Classifier
from apfproxy.objects.additions import (
    NO_FLOW_SCHEMA_ADDITIONS,
    addition_errors,
    flow_schema_additions,
)
from apfproxy.objects.types import FlowSchema, kind_of, stable_uid
from apfproxy.objects.validation import validate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.objects.types import FlowControlObject, PriorityLevelConfiguration


@dataclass(frozen=True, slots=True)
class Digest:
    """A configuration that has been checked and can be committed.

    Attributes:
        priority_levels: By name, mandatory ones included.
        flow_schemas: By name, mandatory ones included, dangling ones not.
        classifier: Over these FlowSchemas.
        dangling: FlowSchema name to the name of the priority level that does not exist.
        problems: One line each: what is skipped or not used, and why.
        unused_additions: How many of them are additions that are wrong.
        checked: Each object that was given, by its kind and name, with what was found.
        new_levels: What levels that were not there will be, until they are committed.
    """

    priority_levels: Mapping[str, PriorityLevelConfiguration] = field(default_factory=dict)
    flow_schemas: Mapping[str, FlowSchema] = field(default_factory=dict)
    classifier: Classifier = field(default_factory=lambda: Classifier(()))
    dangling: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    unused_additions: int = 0
    checked: Mapping[tuple[str, str], Checked] = field(default_factory=dict)
    new_levels: dict[str, PriorityLevel] = field(default_factory=dict)


class Checked:
    """What an object that was given comes to, whatever else is given; immutable.

    Attributes:
        object: The object, with its defaults.
        errors: Why it is skipped, one line each; empty if it counts.
        unused: What is wrong with its additions, one line each.
        uid: As the response's headers name it.
        additions: Of a FlowSchema that counts; else none.
    """

    __slots__ = ("additions", "errors", "object", "uid", "unused")

    def __init__(self, given: FlowControlObject) -> None:
        self.object = given
        kind, name = kind_of(given), given.metadata.name
        self.errors = tuple(
            f"{kind} {name!r}: {error}; the object is skipped" for error in validate(given)
        )
        self.unused: tuple[str, ...] = ()
        self.uid = stable_uid(given)
        self.additions = NO_FLOW_SCHEMA_ADDITIONS
        if not self.errors:
            self.unused = tuple(
                f"{kind} {name!r}: {error}; the addition does not count"
                for error in addition_errors(given)
            )
            if isinstance(given, FlowSchema):
                self.additions = flow_schema_additions(given)

    def is_of(self, given: FlowControlObject) -> bool:
        """Whether an object comes to the same, since it says the same."""
        return self.object is given or self.object == given
