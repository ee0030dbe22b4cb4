"""Objects that change one by one, put in force as they come.

An invalid object stays in force as it last was valid, or is left out if it never was; the others
are in force, and all problems are reported.  An object that another version of a program wrote may
be invalid here for long: it does not hold up the others.  The mandatory objects are always in
force, even while they are missing.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from apfproxy.base.faults import Part, report
from apfproxy.objects.additions import PREFIX
from apfproxy.objects.decode import Problem, parts_of
from apfproxy.objects.field_errors import counted
from apfproxy.objects.reading import read_object
from apfproxy.objects.types import FlowControlObject, kind_of
from apfproxy.sources.files import MAX_LOGGED_PROBLEMS, log_unused
from apfproxy.sources.object_files import effective_objects

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Iterable

    from apfproxy.flowcontrol.controller import Controller, Digest
    from apfproxy.sources.files import LoadObserver

    Relevant = list[tuple[object, ...]]

PAUSE_S = 0.02
"""Between two configurations: thousands of objects may be applied in a row, each one a change."""
REST = 4
"""A pause is so many times as long as making the last configuration, if that is more: it leaves the
processor to requests."""
RETRY_S = 5.0
"""After an unexpected failure."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is to be put in force.

    Attributes:
        valid: The objects as they last were valid, by kind and name.
        problems: Why objects are left out, or not in force as they are now.
        relevant: What of the objects makes a difference to requests.
        digest: To be committed; None if nothing relevant has changed.
    """

    valid: dict[tuple[str, str], FlowControlObject]
    problems: tuple[Problem, ...]
    relevant: Relevant
    digest: Digest | None


class InForce:
    """What is in force of the objects of one place, which messages call by its name."""

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

    @property
    def valid(self) -> tuple[FlowControlObject, ...]:
        """The objects that are in force, each as it last was valid."""
        return tuple(self._valid.values())

    def read(self, kind: str, name: str, content: object) -> FlowControlObject | Problem:
        """An object by its content, or why it is not valid."""
        found = read_object(content)
        if not isinstance(found, list):
            return found
        messages = tuple(str(error) for error in found)
        return Problem(self.name, messages, None, kind, name, tuple(found))

    def prepare(self, read: Iterable[FlowControlObject | Problem]) -> Prepared:
        """Digest what is not in force yet; puts nothing in force, so one other thread may call it.

        Requests should not wait for it: it takes long for thousands of objects.
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
        # Statuses and labels change often, and make no difference to requests.
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
            "generation %d of the configuration: %s from %s",
            self._controller.generation,
            counted(count, "object"),
            self.name,
        )
        told = frozenset(self._dangling)
        log_unused([text for text in digest.problems if text not in told])
        self._dangling = digest.problems

    def _tell(self, problems: tuple[Problem, ...]) -> None:
        for text in islice(parts_of(problems), MAX_LOGGED_PROBLEMS):
            logger.error("%s", text)
        if problems:
            logger.error(
                "%s in %s: what is not valid stays as it last was valid, or is left out",
                f"{len(problems)} problems" if len(problems) > 1 else "a problem",
                self.name,
            )


async def load_when_woken(
    wake: asyncio.Event,
    load: Callable[[], Awaitable[None]],
    name: str,
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Load after each wake, for ever; changes during a load or a pause are taken together."""
    while True:
        await wake.wait()
        wake.clear()
        begun_s = time.monotonic()
        pause_s = PAUSE_S
        try:
            await load()
        except Exception as error:  # noqa: BLE001  what is in force stays so
            report(Part.OBJECTS, error, f"the configuration in {name} cannot be taken")
            wake.set()
            pause_s = RETRY_S
        await sleep(max(pause_s, REST * (time.monotonic() - begun_s)))


def own_annotations(obj: FlowControlObject) -> tuple[tuple[str, str], ...]:
    """The annotations of an object that say something to this program, sorted."""
    return tuple(
        sorted(item for item in obj.metadata.annotations.items() if item[0].startswith(PREFIX))
    )
