"""The admin listener of the parent of workers, and the state that it shows: the sum of theirs.

aiohttp is imported as it starts, in a thread: a parent without this listener has no use for it.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from apfproxy.admin.gathering import admin_state, gathered
from apfproxy.admin.live_state import of_whole_server
from apfproxy.admin.places import BACKLOG
from apfproxy.admin.questions import ASK, Question, RefusedError, States, no_worker
from apfproxy.admin.state import ProcessState, of_worker, summed
from apfproxy.admin.state import WorkerState as ShownWorker
from apfproxy.app.running import admin_places
from apfproxy.base.health_checks import HealthCheck, HealthRegistry
from apfproxy.base.listeners import ADMIN, close
from apfproxy.base.sockets import are_local
from apfproxy.workers.link import LinkError
from apfproxy.workers.process import WorkerState

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Collection, Iterator, Sequence

    from aiohttp import web

    from apfproxy.admin.access import AdminAccess
    from apfproxy.admin.state import CheckState
    from apfproxy.admin.web import WebListener
    from apfproxy.base.listeners import Listeners
    from apfproxy.settings import Settings
    from apfproxy.workers.parent import Workers
    from apfproxy.workers.process import WorkerProcess
    from apfproxy.workers.slot import WorkerSlot

STARTING, DRAINING = WorkerState.STARTING, WorkerState.DRAINING
WITHIN_S: Final = 3.0
"""For a whole reply, which takes a worker some milliseconds; who asks us waits for 5 s or more."""


class ParentAdmin:
    """The listener.

    Args:
        listeners: Open what is listened on.
        workers: Whose pages it has.
        health: The checks of the parent itself.
        access: Who may read.
    """

    def __init__(
        self,
        listeners: Listeners,
        workers: Workers,
        health: HealthRegistry,
        access: AdminAccess,
    ) -> None:
        self._access = access
        self._listeners = listeners
        self._health = health
        self._started_s = time.time()
        self._places = admin_places(time.monotonic_ns)
        self.states = WorkersStates(workers, health, self._gathered)
        self._sockets: list[socket.socket] = []
        self._listener: WebListener | None = None

    def __repr__(self) -> str:
        return f"<ParentAdmin: {self._places}>"

    @property
    def port(self) -> int | None:
        """The port that is listened on; None if there is none."""
        return None if self._listener is None else self._listener.port

    @property
    def written(self) -> str:
        """The address that is listened on, as the settings name it, with its port."""
        return self._listeners.written(ADMIN) if self._sockets else "no address"

    def is_local(self) -> bool:
        """Whether it is on loopback addresses and Unix sockets only."""
        return are_local(self._sockets)

    async def open(self, settings: Settings) -> None:
        """Listen, if the settings name an address; OperatorError if that cannot be.

        Who connects waits for `start`, so what is wrong is known before any worker serves.
        """
        if settings.admin is not None:
            self._sockets = await self._listeners.open(
                ADMIN, settings.admin, BACKLOG, settings.admin_socket_mode
            )

    async def start(self, api_routes: Sequence[web.RouteDef] = ()) -> None:
        """Respond, if `open` has begun to listen; OperatorError if that cannot be."""
        if not self._sockets:
            return
        module = await asyncio.to_thread(importlib.import_module, "apfproxy.admin.admin")
        self._listener = module.listener(self.states, self._places, self._access, api_routes)
        await self._listener.start(self._sockets)

    async def close(self) -> None:
        """Let responses that are under way have their time, then cut all connections."""
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        close(self._sockets)
        self._sockets = []

    def _gathered(self) -> Iterator[ProcessState]:
        return gathered(
            started_s=self._started_s,
            health=self._health,
            admin=admin_state(self._places, self._access.refused),
        )


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
        """Return what it told last, unless it tells nothing now."""
        if self.last is None or self.why_not:
            return None
        return state_of(self.last)


class Told(NamedTuple):
    """Holds what workers told last, of one moment, so that nothing is counted twice, or not at all.

    Attributes:
        living: By name, of those that tell something.
        ended: Of others.
        workers: All.
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
        """Keep what a process has counted that has ended."""
        if last is not None:
            both = filter(None, (self._ended, last))
            self._ended = msgspec.msgpack.encode(summed(list(map(state_of, both))))

    def named(self) -> dict[str, Worker]:
        """List workers that tell something, or should, by name: the number, or with the process."""
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
        """The worker of a name; RefusedError unless it tells something."""
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
        """This process."""
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
    """A check as its own process has it."""
    problem = next(iter(check.problems), None)
    return HealthCheck(check.name, tuple(check.pages), check.is_blocking, problem)
