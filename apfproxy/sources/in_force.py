"""Objects that come all at once, put in force as a whole or not at all.

With any object that is not valid the last good configuration stays, as with files, and all problems
are reported.  Where they come from sees to it that an object is valid; one that another version of
a program wrote may be none for this one.  The mandatory objects are always in force, even while
they are missing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from apfproxy.api.decode import Problem
from apfproxy.api.flowcontrol.additions import PREFIX
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
        problems: Why the last objects are not in force; empty if they are.
    """

    def __init__(
        self, name: str, controller: Controller, on_load: LoadObserver | None = None
    ) -> None:
        self.name = name
        self._controller = controller
        self._on_load = on_load
        self._relevant: list[tuple[object, ...]] | None = None
        self._dangling: tuple[str, ...] = ()  # told already
        self.problems: tuple[Problem, ...] = ()

    def __repr__(self) -> str:
        return f"<InForce of {self.name}: {len(self.problems)} problems>"

    def take(self, read: Iterable[FlowControlObject | Problem]) -> None:
        """Put objects in force if they are all well and not in force yet."""
        read = tuple(read)
        objects = [each for each in read if not isinstance(each, Problem)]
        problems = tuple(each for each in read if isinstance(each, Problem))
        # Statuses and labels come and go; only this changes what requests are in for.
        relevant: list[tuple[object, ...]] = [
            (type(each), each.metadata.name, each.metadata.uid, each.spec, own_annotations(each))
            for each in objects
        ]
        if problems == self.problems and (problems or relevant == self._relevant):
            return
        self.problems = problems
        dangling: tuple[str, ...] = ()
        if problems:
            for problem in problems[:MAX_LOGGED_PROBLEMS]:
                logger.error("%s", problem)
            logger.error(
                "%s in %s: the configuration stays as it was",
                f"{len(problems)} problems" if len(problems) > 1 else "a problem",
                self.name,
            )
        else:
            digest = self._controller.digest(effective_objects(objects, with_suggested=False))
            self._controller.commit(digest)
            self._relevant = relevant
            dangling = digest.problems
            logger.info(
                "generation %d of the configuration: %d objects from %s",
                self._controller.generation,
                len(objects),
                self.name,
            )
            for text in dangling:
                if text not in self._dangling:
                    logger.warning("%s", text)
            self._dangling = dangling
        if self._on_load is not None:
            self._on_load(problems, dangling)


def own_annotations(obj: FlowControlObject) -> tuple[tuple[str, str], ...]:
    """The annotations of an object that say something to this program, sorted."""
    return tuple(
        sorted(item for item in obj.metadata.annotations.items() if item[0].startswith(PREFIX))
    )
