"""The state that the parent of workers shows: the sum of theirs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from apfproxy.admin.live_state import of_whole_server
from apfproxy.admin.questions import ASK, Question, RefusedError, States, no_worker
from apfproxy.admin.state import ProcessState, of_worker, summed
from apfproxy.admin.state import WorkerState as ShownWorker
from apfproxy.base.health_checks import HealthCheck, HealthRegistry
from apfproxy.workers.link import LinkError
from apfproxy.workers.process import WorkerState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from apfproxy.admin.state import CheckState
    from apfproxy.workers.parent import Workers
    from apfproxy.workers.process import WorkerProcess
    from apfproxy.workers.slot import WorkerSlot

STARTING, DRAINING = WorkerState.STARTING, WorkerState.DRAINING
WITHIN_S: Final = 3.0
"""For a whole reply, which takes a worker some milliseconds; clients wait for 5 s or more."""


class Worker(NamedTuple):
    """One of the processes of a slot; None if it has none."""

    slot: WorkerSlot
    process: WorkerProcess | None

    @property
    def why_not(self) -> str:
        """Why it tells nothing; "" if it does."""
        process, trouble = self.process, self.slot.problem
        if process is None:
            reason = "it has no process"
        elif not process.shows_life:
            reason = "it shows no life"
        elif process.state is STARTING:
            reason = "it is starting"
        elif process.last is None:
            reason = "it has told nothing yet"
        else:
            return ""
        return f"{reason}: {trouble}" if trouble else reason

    @property
    def shown_state(self) -> str:
        return WorkerState.ENDED if self.process is None else self.process.shown_state

    @property
    def last(self) -> bytes | None:
        return None if self.process is None else self.process.last

    def state_now(self) -> ProcessState | None:
        """Its last state, unless it tells nothing now."""
        if self.last is None or self.why_not:
            return None
        return state_of(self.last)


class Told(NamedTuple):
    """The last states of workers, at one moment, so that nothing is counted twice, or not at all.

    `living` is by name, `ended` has what is left of others.
    """

    living: dict[str, bytes]
    ended: list[bytes]
    workers: list[ShownWorker]

    def each(self) -> dict[str, ProcessState]:
        return {name: of_worker(state_of(last), name) for name, last in self.living.items()}


class WorkersStates(States):
    """The workers of this process; `health` and `own` are the process itself."""

    def __init__(
        self, workers: Workers, health: HealthRegistry, own: Callable[[], Iterator[ProcessState]]
    ) -> None:
        self._workers = workers
        self._health = health
        self._gathered = own
        self._ended: bytes | None = None

    def end(self, last: bytes | None) -> None:
        """Keep the counts of a process that has ended."""
        if last is not None:
            both = filter(None, (self._ended, last))
            self._ended = msgspec.msgpack.encode(summed(list(map(state_of, both))))

    def named(self) -> dict[str, Worker]:
        """Workers that tell something, or should, by their number, or with the process."""
        found = {}
        for slot in self._workers.slots:
            starting = [each for each in slot.processes if each.state is STARTING]
            others = [each for each in slot.processes if each.state is not STARTING]
            for each in others or starting:
                has_place = each.state is not DRAINING or len(others) == 1
                name = f"{slot.index}" if has_place else f"{slot.index}-{each.pid}"
                found[name] = Worker(slot, each)
            if not slot.processes:
                found[f"{slot.index}"] = Worker(slot, None)
        return found

    def told(self, worker: str) -> Worker:
        there = self.named()
        if worker not in there:
            raise no_worker(worker, there)
        if why_not := there[worker].why_not:
            raise RefusedError(503, f"worker {worker}: {why_not}\n")
        return there[worker]

    async def state(self, worker: str | None = None) -> ProcessState:
        if worker is not None:
            state = self.told(worker).state_now()
            assert state is not None, "it tells something"
            return of_worker(state, worker)
        told = self._told()
        living, ended = told.each().values(), list(map(state_of, told.ended))
        found = summed([*living, self._own(told)], ended)
        for cluster in found.clusters:
            of_whole_server(cluster)
        return found

    async def each(self) -> dict[str, ProcessState]:
        told = self._told()
        return {"": self._own(told), **told.each()}

    def _told(self) -> Told:
        ended = [] if self._ended is None else [self._ended]
        told = Told({}, ended, [])
        for name, each in self.named().items():
            problem = each.why_not
            shown = ShownWorker(name=name, state=each.shown_state, problem=problem)
            told.workers.append(shown)
            if each.last is not None and problem:
                ended.append(each.last)
            elif each.last is not None:
                told.living[name] = each.last
        return told

    def _own(self, told: Told) -> ProcessState:
        *_, own = self._gathered()
        own.restarts, own.workers = self._workers.restarts, told.workers
        return own

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

    async def _ask(self, worker: Worker, data: bytes) -> bytes | str:
        if worker.why_not or worker.process is None:
            return worker.why_not
        try:
            return await worker.process.ask(ASK, data, WITHIN_S)
        except LinkError as error:
            return str(error)

    def health(
        self, page: str, excluded: Collection[str], name: str = "", *, worker: str | None = None
    ) -> HealthRegistry:
        if worker is not None:
            state = self.told(worker).state_now()
            return HealthRegistry(map(check_of, [] if state is None else state.health))
        own = {each.name: each for each in self._health}
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


state_of: Final = msgspec.msgpack.Decoder(ProcessState).decode


def check_of(check: CheckState) -> HealthCheck:
    problem = next(iter(check.problems), None)
    return HealthCheck(check.name, tuple(check.pages), check.is_blocking, problem)
