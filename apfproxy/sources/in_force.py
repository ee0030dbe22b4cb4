"""Objects that come one by one, put in force as they come.

An object that is not valid stays in force as it last was valid, or is left out if it never was; the
others are in force, and all problems are reported.  Where the objects come from sees to it that
they are valid; but one that another version of a program wrote may be none for this one, and may
stay for long: it is not to hold up the others, nor to change what a restart brings.  The mandatory
objects are always in force, even while they are missing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from apfproxy.api.decode import Problem
from apfproxy.api.flowcontrol.additions import PREFIX
from apfproxy.api.flowcontrol.wire import kind_of
from apfproxy.sources.files import MAX_LOGGED_PROBLEMS
from apfproxy.sources.object_files import effective_objects

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.api.flowcontrol.types import FlowControlObject
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.sources.files import LoadObserver

logger = logging.getLogger(__name__)


class InForce:
    """What is in force of the objects of one place.

    Args:
        name: Of the place, for messages.
        controller: Gets the objects.
        on_load: Hears what became of each load that brought something new.

    Attributes:
        problems: Why some objects are not in force as they are now; empty if all are.
    """

    def __init__(
        self, name: str, controller: Controller, on_load: LoadObserver | None = None
    ) -> None:
        self.name = name
        self._controller = controller
        self._on_load = on_load
        self._relevant: list[tuple[object, ...]] | None = None
        self._valid: dict[tuple[str, str], FlowControlObject] = {}  # by kind and name
        self._dangling: tuple[str, ...] = ()  # told already
        self.problems: tuple[Problem, ...] = ()

    def __repr__(self) -> str:
        return f"<InForce of {self.name}: {len(self.problems)} problems>"

    def take(self, read: Iterable[FlowControlObject | Problem]) -> None:
        """Put objects in force that are not yet, and report what is wrong with others."""
        objects: list[FlowControlObject] = []
        problems: list[Problem] = []
        for each in read:
            if not isinstance(each, Problem):
                objects.append(each)
                continue
            problems.append(each)
            if (former := self._valid.get((each.kind, each.name))) is not None:
                objects.append(former)
        # Statuses and labels come and go; only this changes what requests are in for.
        relevant: list[tuple[object, ...]] = [
            (type(each), each.metadata.name, each.metadata.uid, each.spec, own_annotations(each))
            for each in objects
        ]
        is_change = relevant != self._relevant
        if not is_change and tuple(problems) == self.problems:
            return
        if tuple(problems) != self.problems:
            self._tell(problems)
        self.problems = tuple(problems)
        if is_change:
            self._commit(objects)
            self._relevant = relevant
        if self._on_load is not None:
            self._on_load(self.problems, self._dangling)

    def _commit(self, objects: list[FlowControlObject]) -> None:
        digest = self._controller.digest(effective_objects(objects, with_suggested=False))
        self._controller.commit(digest)
        self._valid = {(kind_of(each), each.metadata.name): each for each in objects}
        logger.info(
            "generation %d of the configuration: %d objects from %s",
            self._controller.generation,
            len(objects),
            self.name,
        )
        for text in digest.problems:
            if text not in self._dangling:
                logger.warning("%s", text)
        self._dangling = digest.problems

    def _tell(self, problems: list[Problem]) -> None:
        for problem in problems[:MAX_LOGGED_PROBLEMS]:
            logger.error("%s", problem)
        if problems:
            logger.error(
                "%s in %s: what is not valid stays as it last was valid, or is left out",
                f"{len(problems)} problems" if len(problems) > 1 else "a problem",
                self.name,
            )


def own_annotations(obj: FlowControlObject) -> tuple[tuple[str, str], ...]:
    """The annotations of an object that say something to this program, sorted."""
    return tuple(
        sorted(item for item in obj.metadata.annotations.items() if item[0].startswith(PREFIX))
    )
