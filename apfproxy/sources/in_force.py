"""Objects of one place, put in force as they change.

Of objects that change one by one, as in an API or a store, an invalid one stays in force as it last
was valid, or is left out if it never was: another version of a program may have written it, and it
holds up no other.  Files are taken as a whole or not at all.  A FlowSchema may dangle: its level
may come later.  The mandatory objects are always in force.  From the time of its annotation `until`
on an object is as if it were not there: a built-in one of its name is in force again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from apfproxy.base.errors import OperatorError
from apfproxy.base.faults import Part, report
from apfproxy.base.files import STALE_FILES_S, at_rest, notifications, watch_files
from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.objects.additions import PREFIX, UNTIL
from apfproxy.objects.decode import Problem, parts_of
from apfproxy.objects.field_errors import counted
from apfproxy.objects.reading import read_object
from apfproxy.objects.types import FlowControlObject, kind_of
from apfproxy.sources.object_files import decode_files, effective_objects, in_force_at, read_files

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence

    from apfproxy.base.files import Roots
    from apfproxy.flowcontrol.controller import Controller, Digest
    from apfproxy.flowcontrol.preset import Preset
    from apfproxy.sources.object_files import FileContents

    LoadObserver = Callable[[tuple[Problem, ...], tuple[str, ...]], None]
    """Is told why parts of a load are not in force, and a line for each unused FlowSchema."""
    Relevant = list[tuple[object, ...]]
    State = tuple[str, str, object]
    """Kind, name, and the state of an object, which is another thing after each change."""

MAX_LOGGED_PROBLEMS = 20
PAUSE_S = 0.02  # between two configurations: thousands of objects may be applied in a row
# A pause is at least so many times as long as the last load: requests need the processor.
REST = 4
RETRY_S = 5.0  # after an unexpected failure
LOOK_S = 60.0  # the longest pause between looks for objects that have ended: the clock may be set
STALE_LOOK_S = 5 * LOOK_S

logger = logging.getLogger(__name__)


def refuse(problems: Iterable[Problem]) -> None:
    """Raise OperatorError, with a line for each part of a problem, if there are any."""
    if texts := "\n".join(parts_of(problems)):
        raise OperatorError(texts)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A configuration that is to be put in force.

    Attributes:
        valid: The objects as they last were valid, by kind and name.
        problems: Why objects are left out, or not in force as they are now.
        relevant: The parts of objects that make a difference to requests.
        digest: To be committed; None if nothing relevant has changed, or may be put in force.
        next_end_s: When the next of its objects ends, in seconds since 1970; infinite if none does.
    """

    valid: dict[tuple[str, str], FlowControlObject]
    problems: tuple[Problem, ...]
    relevant: Relevant
    digest: Digest | None
    next_end_s: float


class InForce:
    """The objects of one place that are in force.

    Args:
        name: The place, in messages; "" if nothing is to be read there.
        content: Makes the content of an object from its kind and state.
        is_whole: Whether objects are taken as a whole or not at all.
        with_suggested: Whether the suggested objects of `preset` are among the built-in ones.
    """

    def __init__(
        self,
        name: str,
        controller: Controller,
        on_load: LoadObserver | None = None,
        *,
        content: Callable[[str, Any], object] = lambda _, state: state,
        is_whole: bool = False,
        with_suggested: bool = False,
        preset: Preset = KUBERNETES,
    ) -> None:
        self.name = name
        self._controller = controller
        self._on_load = on_load
        self._content = content
        self._is_whole = is_whole
        self._with_suggested = with_suggested
        self._preset = preset
        self._relevant: Relevant | None = None
        self._read: dict[tuple[str, str], tuple[object, FlowControlObject | Problem]] = {}
        self._dangling: tuple[str, ...] = ()  # told already
        self.valid: dict[tuple[str, str], FlowControlObject] = {}
        self.problems: tuple[Problem, ...] = ()
        self._next_end_s = math.inf
        self._has_changed = asyncio.Event()

    def read(self, states: Iterable[State]) -> list[FlowControlObject | Problem]:
        """Read each object once for each of its states; a thread may call this."""
        before, self._read = self._read, {}
        for kind, name, state in states:
            known = before.get((kind, name))
            if known is None or known[0] is not state:
                found = read_object(self._content(kind, state))
                if isinstance(found, list):
                    texts = tuple(map(str, found))
                    known = state, Problem(self.name, texts, None, kind, name, tuple(found))
                else:
                    known = state, found
            self._read[kind, name] = known
        return [found for _, found in self._read.values()]

    def prepare(self, read: Iterable[FlowControlObject | Problem]) -> Prepared:
        """Digest what is not in force yet; a thread may call it: thousands of objects take long."""
        objects: list[FlowControlObject] = []
        problems: list[Problem] = []
        for each in read:
            if not isinstance(each, Problem):
                objects.append(each)
                continue
            problems.append(each)
            if (former := self.valid.get((each.kind, each.name))) is not None:
                objects.append(former)
        current = in_force_at(objects, time.time())
        # Statuses and labels change often, and make no difference to requests.
        relevant: Relevant = [
            (type(each), each.metadata.name, each.metadata.uid, each.spec, own_annotations(each))
            for each in current
        ]
        digest = None
        if relevant != self._relevant and not (problems and self._is_whole):
            digest = self._controller.digest(
                effective_objects(current, with_suggested=self._with_suggested, preset=self._preset)
            )
        valid = {(kind_of(each), each.metadata.name): each for each in objects}
        ends = [each.additions.until_s for each in current]
        next_end_s = min((each for each in ends if each is not None), default=math.inf)
        return Prepared(valid, tuple(problems), relevant, digest, next_end_s)

    def put(self, prepared: Prepared) -> None:
        digest, problems = prepared.digest, prepared.problems
        if not (problems and self._is_whole):
            self.valid = prepared.valid
        if digest is None and problems == self.problems:
            return
        if problems != self.problems:
            self._tell(problems)
        self.problems = problems
        if digest is not None:
            self._commit(digest, len(prepared.relevant), is_empty=not prepared.valid)
            self._relevant = prepared.relevant
            self._next_end_s = prepared.next_end_s
            self._has_changed.set()
        if self._on_load is not None:
            self._on_load(self.problems, self._dangling)

    def put_first(self, prepared: Prepared) -> None:
        """Put in force what there is at first; OperatorError, and nothing, with any problem."""
        refuse(prepared.problems)
        self.put(prepared)

    def _commit(self, digest: Digest, count: int, *, is_empty: bool) -> None:
        self._controller.commit(digest)
        if self.name:
            logger.log(
                logging.WARNING if is_empty else logging.INFO,
                "generation %d of the configuration: %s from %s",
                self._controller.generation,
                "no objects at all" if is_empty else counted(count, "object"),
                self.name,
            )
        unused = [text for text in digest.problems if text not in self._dangling]
        for line in unused[:MAX_LOGGED_PROBLEMS]:
            logger.warning("%s", line)
        if len(unused) > MAX_LOGGED_PROBLEMS:
            logger.warning("and %d more that are not used", len(unused) - MAX_LOGGED_PROBLEMS)
        self._dangling = digest.problems

    def _tell(self, problems: tuple[Problem, ...]) -> None:
        for text in islice(parts_of(problems), MAX_LOGGED_PROBLEMS):
            logger.error("%s", text)
        if problems:
            whole = "the configuration stays as it was"
            single = "what is not valid stays as it last was valid, or is left out"
            count = f"{len(problems)} problems" if len(problems) > 1 else "a problem"
            text = whole if self._is_whole else single
            logger.error("%s in %s: %s", count, self.name, text)

    async def load(self, states: Sequence[State]) -> None:
        self.put(await asyncio.to_thread(lambda: self.prepare(self.read(states))))

    async def end_in_time(self, beat: Callable[[], None]) -> None:
        """Have each object in force until its end, by the clock as it is set, until cancelled."""
        self._has_changed = asyncio.Event()  # of this loop
        while True:
            pause_s = min(LOOK_S, max(0.0, self._next_end_s - time.time()))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._has_changed.wait()
            self._has_changed.clear()
            beat()
            end_s, before = self._next_end_s, self.valid
            if len(in_force_at(before.values(), time.time())) != len(self._relevant or ()):
                prepared = await asyncio.to_thread(self.prepare, list(before.values()))
                if self.valid is before:  # else others are in force by now
                    self.put(replace(prepared, problems=self.problems))
                for (kind, name), each in self.valid.items():
                    if end_s <= (each.additions.until_s or 0.0) < self._next_end_s:
                        logger.info("%s %s has ended (%s)", kind, name, UNTIL)


async def load_when_woken(
    wake: asyncio.Event,
    load: Callable[[], Awaitable[None]],
    name: str,
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Load after each wake, until cancelled; changes during a load or a pause are one."""
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
    """The annotations that say something to this program, sorted."""
    return tuple(
        sorted(item for item in obj.metadata.annotations.items() if item[0].startswith(PREFIX))
    )


class ObjectFiles:
    stale_after_s: float | None = STALE_FILES_S

    def __init__(
        self,
        paths: tuple[str, ...],
        controller: Controller,
        *,
        with_suggested: bool = True,
        preset: Preset = KUBERNETES,
        on_load: LoadObserver | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        changes: Callable[[Roots], AsyncGenerator[object, None]] = notifications,
    ) -> None:
        self.paths = paths
        self.in_force = InForce(
            ", ".join(paths),
            controller,
            on_load,
            is_whole=True,
            with_suggested=with_suggested,
            preset=preset,
        )
        self._sleep = sleep
        self._changes = changes
        self._reloading = asyncio.Lock()
        self._fingerprint = b""

    def load_first(self) -> None:
        """Put the files' objects in force, or raise OperatorError; blocks on the file system."""
        contents, self._fingerprint = self._contents()
        self.in_force.put_first(self._prepare(contents))

    async def prepare(self) -> Prepared:
        """Prepare the files' objects, in place of `load_first`; OperatorError."""
        contents, self._fingerprint = await asyncio.to_thread(self._contents)
        prepared = await asyncio.to_thread(self._prepare, contents)
        refuse(prepared.problems)
        return prepared

    async def reload(self) -> bool:
        """Read the files again, and put them in force if all is valid; whether they had changed."""
        async with self._reloading:
            found = await at_rest(self._contents, self._fingerprint, self._sleep)
            if found is None:
                return False
            contents, fingerprint = found
            # In a thread: it takes seconds for thousands of objects.
            self.in_force.put(await asyncio.to_thread(self._prepare, contents))
            self._fingerprint = fingerprint  # only now: what could not be taken is tried again
            return True

    def _contents(self) -> tuple[FileContents, bytes]:
        contents = read_files(self.paths)
        return contents, contents.fingerprint()

    def _prepare(self, contents: FileContents) -> Prepared:
        read = decode_files(contents)
        for each in read.left_out[:MAX_LOGGED_PROBLEMS]:
            logger.info("%s", each)
        return self.in_force.prepare((*read.objects, *read.problems))

    async def watch(self, beat: Callable[[], None]) -> None:
        """Reload after each change, until cancelled; see `watch_files`."""
        await watch_files(self.paths, self.reload, beat, self._changes)
