"""Objects that come one by one, put in force as they come.

An object that is not valid stays in force as it last was valid, or is left out if it never was; the
others are in force, and all problems are reported.  Where the objects come from sees to it that
they are valid; but one that another version of a program wrote may be none for this one, and may
stay for long: it is not to hold up the others, nor to change what a restart brings.  The mandatory
objects are always in force, even while they are missing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.api.decode import Problem
from apfproxy.api.flowcontrol.additions import PREFIX
from apfproxy.api.flowcontrol.types import kind_of
from apfproxy.sources.files import MAX_LOGGED_PROBLEMS, log_unused
from apfproxy.sources.object_files import effective_objects

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.api.flowcontrol.types import FlowControlObject
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.digest import Digest
    from apfproxy.sources.files import LoadObserver

    Relevant = list[tuple[object, ...]]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is to be put in force.

    Attributes:
        valid: Those that count, as they last were valid, by kind and name.
        problems: Why others do not, or not as they are now.
        relevant: What of the objects makes a difference to requests.
        digest: To be committed; None where nothing of that has changed.
    """

    valid: dict[tuple[str, str], FlowControlObject]
    problems: tuple[Problem, ...]
    relevant: Relevant
    digest: Digest | None


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
        self._relevant: Relevant | None = None
        self._valid: dict[tuple[str, str], FlowControlObject] = {}  # by kind and name
        self._dangling: tuple[str, ...] = ()  # told already
        self.problems: tuple[Problem, ...] = ()

    def __repr__(self) -> str:
        return f"<InForce of {self.name}: {len(self.problems)} problems>"

    def prepare(self, read: Iterable[FlowControlObject | Problem]) -> Prepared:
        """Work out which objects are to be put in force that are not yet.

        Nothing is put in force, so another thread may call this, one at a time: of thousands of
        objects it takes so long that requests should not wait for it.
        """
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
        relevant: Relevant = [
            (type(each), each.metadata.name, each.metadata.uid, each.spec, own_annotations(each))
            for each in objects
        ]
        digest = None
        if relevant != self._relevant:
            digest = self._controller.digest(effective_objects(objects, with_suggested=False))
        valid = {(kind_of(each), each.metadata.name): each for each in objects}
        return Prepared(valid, tuple(problems), relevant, digest)

    def put(self, prepared: Prepared) -> None:
        """Put in force what was prepared last, and report what is wrong with others."""
        digest, problems = prepared.digest, prepared.problems
        if digest is None and problems == self.problems:
            return
        if problems != self.problems:
            self._tell(problems)
        self.problems = problems
        if digest is not None:
            self._commit(digest, len(prepared.valid))
            self._valid = prepared.valid
            self._relevant = prepared.relevant
        if self._on_load is not None:
            self._on_load(self.problems, self._dangling)

    def _commit(self, digest: Digest, count: int) -> None:
        self._controller.commit(digest)
        logger.info(
            "generation %d of the configuration: %d objects from %s",
            self._controller.generation,
            count,
            self.name,
        )
        told = frozenset(self._dangling)
        log_unused([text for text in digest.problems if text not in told])
        self._dangling = digest.problems

    def _tell(self, problems: tuple[Problem, ...]) -> None:
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
