"""Where the pages have the state from: this process, or the workers whose parent it is."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from apfproxy.admin.gathering import gathered
from apfproxy.admin.live_state import of_whole_server
from apfproxy.admin.questions import ASK, Question, RefusedError, replies
from apfproxy.admin.state import ProcessState, WorkerState, of_worker, summed
from apfproxy.base.health_checks import HealthCheck, HealthRegistry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator

    from apfproxy.admin.gathering import ProcessParts
    from apfproxy.admin.questions import Asked
    from apfproxy.admin.state import CheckState

WITHIN_S: Final = 3.0
"""For a whole reply, which takes a worker some milliseconds; who asks us waits for 5 s or more."""
STARTING, SILENT, DRAINING, ENDED = "starting", "silent", "draining", "ended"
WHY_NOT: Final = {
    STARTING: "it is starting",
    SILENT: "it shows no life",
    ENDED: "it has no process",
}
"""Why a worker in such a state tells nothing."""


class States(ABC):
    """A source."""

    @abstractmethod
    async def state(self) -> ProcessState:
        """All of it as of now: of several workers the sum."""

    @abstractmethod
    async def each(self) -> dict[str, ProcessState]:
        """That of this process, "", and of each worker that tells something, by its name."""

    @abstractmethod
    async def ask(self, question: Question, worker: str | None = None) -> dict[str, bytes]:
        """What each worker replies by its name, or that one alone, in lines; RefusedError."""

    @abstractmethod
    def health(
        self, page: str, excluded: Collection[str], name: str = "", *, worker: str | None = None
    ) -> HealthRegistry:
        """The checks of a health page, or with a name of the page of one check.

        The page of several workers fails only where no worker is well, or a check of their parent
        fails; what fails in one is listed.  RefusedError.
        """

    @abstractmethod
    async def one(self, worker: str) -> ProcessState:
        """That of one worker; RefusedError."""


class OwnStates(States):
    """This process alone.

    Args:
        parts: It as it is now.
        asked: What answers questions about one of its clusters; None if there is none of the name.
    """

    def __init__(
        self, parts: Callable[[], ProcessParts], asked: Callable[[str], Asked | None]
    ) -> None:
        self._parts = parts
        self._asked = asked

    async def state(self) -> ProcessState:
        states = gathered(self._parts())
        for found in states:  # noqa: B007 - the last one is whole
            await asyncio.sleep(0)
        return found

    async def each(self) -> dict[str, ProcessState]:
        return {"": await self.state()}

    async def one(self, worker: str) -> ProcessState:
        raise no_worker(worker)

    async def ask(self, question: Question, worker: str | None = None) -> dict[str, bytes]:
        if worker is not None:
            raise no_worker(worker)
        lines = []
        for line in self.replies(question):
            lines.append(line)
            await asyncio.sleep(0)
        return {"": b"".join(lines)}

    def health(self, *_: object, worker: str | None = None) -> HealthRegistry:
        if worker is not None:
            raise no_worker(worker)
        return HealthRegistry(self._parts().health)

    async def encoded(self) -> bytes:
        """The state for a parent."""
        return msgspec.msgpack.encode(await self.state())

    def reply(self, arguments: bytes) -> Iterator[bytes]:
        """The reply to a parent's question, encoded, in lines."""
        return self.replies(msgspec.msgpack.decode(arguments, type=Question))

    def replies(self, question: Question) -> Iterator[bytes]:
        """The reply to a question, in lines."""
        asked = self._asked(question.cluster)
        return iter(()) if asked is None else replies(question, asked)


class Told(NamedTuple):
    """A worker's process, as its parent knows it.

    Attributes:
        place: The worker's number; another process may have the same for a while.
        state: `starting`, `serving`, `silent`, `draining` or `ended`.
        trouble: Why it starts, or has no process; "" where that is the first start.
        shows_life: Whether there was a sign of life lately; one that drains may hang, too.
        last: Its last state, encoded; None before that.
        ask: Asks it; OSError if it does not reply.
    """

    place: int
    pid: int
    state: str
    trouble: str = ""
    shows_life: bool = True
    last: bytes | None = None
    ask: Callable[[str, bytes, float], Awaitable[bytes]] | None = None

    @property
    def why_not(self) -> str:
        """Why it tells nothing; "" if it does."""
        reason = WHY_NOT.get(self.state if self.shows_life else SILENT, "")
        if not reason and self.last is None:
            reason = "it has told nothing yet"
        return f"{reason}: {self.trouble}" if reason and self.trouble else reason

    def state_last(self) -> ProcessState | None:
        """What it told last."""
        return None if self.last is None else msgspec.msgpack.decode(self.last, type=ProcessState)

    def state_now(self) -> ProcessState | None:
        """The same, unless it tells nothing now."""
        return None if self.why_not else self.state_last()


class WorkersStates(States):
    """The workers of this process.

    Args:
        workers: Those that there are now.
        parts: This process as it is now.
        restarts: How many were started again since they had ended by themselves.
        no_reply: What a question raises that has no reply.
    """

    def __init__(
        self,
        workers: Callable[[], Iterable[Told]],
        parts: Callable[[], ProcessParts],
        restarts: Callable[[], int],
        no_reply: type[Exception] = OSError,
    ) -> None:
        self._workers = workers
        self._parts = parts
        self._restarts = restarts
        self._no_reply = no_reply
        self._ended: ProcessState | None = None

    def end(self, last: bytes | None) -> None:
        """Keep what a process has counted that has ended."""
        if last is not None:
            counted = msgspec.msgpack.decode(last, type=ProcessState)
            former = [] if self._ended is None else [self._ended]
            self._ended = summed([*former, counted])

    def named(self) -> dict[str, Told]:
        """Those that tell something, or should, by name: the number, or with the process."""
        there = list(self._workers())
        taken = {each.place for each in there if each.state != STARTING}
        there = [each for each in there if each.state != STARTING or each.place not in taken]
        places = [each.place for each in there]
        return {
            f"{each.place}-{each.pid}"
            if each.state == DRAINING and places.count(each.place) > 1
            else str(each.place): each
            for each in there
        }

    def told(self, worker: str) -> Told:
        """The worker of a name; RefusedError unless it tells something."""
        there = self.named()
        if worker not in there:
            raise no_worker(worker, there)
        if why_not := there[worker].why_not:
            raise RefusedError(503, f"worker {worker}: {why_not}\n")
        return there[worker]

    async def one(self, worker: str) -> ProcessState:
        state = self.told(worker).state_now()
        assert state is not None, "it tells something"
        return of_worker(state, worker)

    async def state(self) -> ProcessState:
        own, *states = (await self.each()).values()
        silent = [each.state_last() for each in self.named().values() if each.why_not]
        found = summed([*states, own], [each for each in (self._ended, *silent) if each])
        for cluster in found.clusters:
            of_whole_server(cluster)
        return found

    async def each(self) -> dict[str, ProcessState]:
        *_, own = gathered(self._parts())
        found = {"": own}
        for name, worker in self.named().items():
            problem, state = worker.why_not, worker.state_now()
            own.workers.append(WorkerState(name=name, state=worker.state, problem=problem))
            if state is not None:
                found[name] = of_worker(state, name)
                await asyncio.sleep(0)
        own.restarts = self._restarts()
        return found

    async def ask(self, question: Question, worker: str | None = None) -> dict[str, bytes]:
        workers = self.named() if worker is None else {worker: self.told(worker)}
        data = msgspec.msgpack.encode(question)
        asked = [self._ask(each, data) for each in workers.values()]
        replies = dict(zip(workers, await asyncio.gather(*asked), strict=True))
        found = {name: each for name, each in replies.items() if isinstance(each, bytes)}
        if not found:
            lines = (f"worker {name}: {problem!s}\n" for name, problem in replies.items())
            raise RefusedError(503, "no worker answers\n" + "".join(lines))
        return found

    async def _ask(self, worker: Told, data: bytes) -> bytes | str:
        if worker.why_not or worker.ask is None:
            return worker.why_not
        try:
            return await worker.ask(ASK, data, WITHIN_S)
        except self._no_reply as error:
            return str(error) or type(error).__name__

    def health(
        self, page: str, excluded: Collection[str], name: str = "", *, worker: str | None = None
    ) -> HealthRegistry:
        if worker is not None:
            state = self.told(worker).state_now()
            return HealthRegistry(map(check_of, [] if state is None else state.health))
        own = {each.name: each for each in self._parts().health}
        failing: list[HealthCheck] = []
        problems: dict[str, list[str]] = {}
        well: dict[str, str | None] = {}
        for each, told in self.named().items():
            state, prefix = told.state_now(), f"worker/{each}"
            checks = [] if state is None else [of for of in state.health if page in of.pages]
            well[prefix] = told.why_not or None
            for check in checks:
                found = problems.setdefault(check.name, [])
                full = f"{prefix}/{check.name}"
                for problem in check.problems if not {check.name, full} & {*excluded} else ():
                    found.append(f"{prefix}: {problem}")
                    failing.append(HealthCheck(full, (page,), is_blocking=False, reported=problem))
                    if check.is_blocking:
                        well[prefix] = f"{page} check failed"
        is_any = any(each is None or prefix in excluded for prefix, each in well.items())
        listed = [
            HealthCheck(prefix, (page,), is_blocking=not is_any, reported=each)
            for prefix, each in well.items()
        ]
        for check_name, found in problems.items():
            if check_name not in own and (not found or check_name == name):
                is_all, text = len(found) >= len(well), "; ".join(found) or None
                listed.append(HealthCheck(check_name, (page,), is_blocking=is_all, reported=text))
        return HealthRegistry([*own.values(), *listed, *failing])


def no_worker(name: str, there: Collection[str] = ()) -> RefusedError:
    """The refusal of a name that no worker has."""
    known = f"there are {', '.join(there)}" if there else "this process has no workers"
    return RefusedError(404, f"worker: there is none named {name!r}; {known}\n")


def check_of(check: CheckState) -> HealthCheck:
    """A check as its own process has it."""
    problem = next(iter(check.problems), None)
    return HealthCheck(check.name, tuple(check.pages), check.is_blocking, problem)
