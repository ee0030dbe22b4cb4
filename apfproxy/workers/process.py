"""A worker process, as its parent sees it: from its start to its end.

| state | event: next state |
|---|---|
| starting | serve: serving; drain: draining; end: ended |
| serving | drain: draining; end: ended |
| draining | drain: draining; end: ended |

It drains when it is told to, and when it says that it does, since another process has told it.  It
has ended when the kernel says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import math
import os
import pickle
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Final

import msgspec

from apfproxy.base.errors import OperatorError
from apfproxy.base.held_signals import held_in_child
from apfproxy.base.service_manager import NOTIFY_SOCKET, WATCHDOG_PID, WATCHDOG_USEC
from apfproxy.base.transitions import Event
from apfproxy.workers.link import (
    Alive,
    Cut,
    Drain,
    Ending,
    Leave,
    Link,
    Message,
    Renew,
    Serving,
    State,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apfproxy.settings import Settings
    from apfproxy.workers.link import Handlers
    from apfproxy.workers.place import WorkerPlace

NOT_OURS: Final = frozenset({NOTIFY_SOCKET, WATCHDOG_PID, WATCHDOG_USEC})
"""Variables of the service manager, whose service is the parent."""
SILENT_LOOKS: Final = 2
"""Looks in a row without a sign of life, after which pages name a process silent."""
SILENT: Final = "silent"

log = logging.getLogger(__name__)


class WorkerState(enum.StrEnum):
    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"
    ENDED = "ended"


TRANSITIONS: Final[Mapping[WorkerState, Mapping[str, WorkerState]]] = {
    WorkerState.STARTING: {
        "serve": WorkerState.SERVING,
        "drain": WorkerState.DRAINING,
        "end": WorkerState.ENDED,
    },
    WorkerState.SERVING: {"drain": WorkerState.DRAINING, "end": WorkerState.ENDED},
    WorkerState.DRAINING: {"drain": WorkerState.DRAINING, "end": WorkerState.ENDED},
    WorkerState.ENDED: {},
}
SERVE, DRAINS, END = (Event(name, TRANSITIONS) for name in ("serve", "drain", "end"))


class WorkerProcess:
    """One process, which begins with this object; OperatorError if it cannot be started.

    Attributes:
        status: As `subprocess` has it; None before the end.
        last: The last state that it sent, encoded.
        missed: Looks for a sign of life in a row without one.
        served_s: The time of the monotonic clock when it served first; nan before.
        has_settled: Set when it serves, or will not.
        has_read: Set when it has put the settings in force that it was sent last, or will not.
        refused: Why it has not; "" if it has.
    """

    def __init__(
        self,
        place: WorkerPlace,
        command: Sequence[str],
        settings: Settings,
        on_change: Callable[[WorkerProcess], None],
        handlers: Handlers,
    ) -> None:
        self._on_change = on_change
        self.state = WorkerState.STARTING
        self.status: int | None = None
        self.last: bytes | None = None
        self.missed = 0
        self.served_s = math.nan
        self.has_ended, self.has_settled = asyncio.Event(), asyncio.Event()
        self.has_read = asyncio.Event()
        self._number = 0
        self.refused = ""
        self._loop = asyncio.get_running_loop()
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise OperatorError(f"no worker can be started: {error.strerror}") from error
        with theirs:
            try:
                file = open(os.memfd_create("settings"), "wb")  # noqa: PTH123, SIM115 - a descriptor
                with held_in_child(), file:
                    pickle.dump(settings, file)
                    file.flush()
                    self.place = msgspec.structs.replace(
                        place, link=theirs.fileno(), settings=file.fileno()
                    )
                    self._process = subprocess.Popen(  # noqa: S603 - our own command; it takes 1 ms
                        command,
                        env={name: os.environ[name] for name in os.environ if name not in NOT_OURS}
                        | self.place.told(),
                        pass_fds=[theirs.fileno(), file.fileno(), *place.sockets],
                        # What a terminal signals, it signals to the parent alone.
                        process_group=0,
                    )
                self._exit = os.pidfd_open(self._process.pid)
            except OSError as error:
                ours.close()
                reason = error.strerror or error
                raise OperatorError(f"no worker can be started: {command[0]}: {reason}") from error
        self.pid = self._process.pid
        self._loop.add_reader(self._exit, self._on_exit)
        self._link = Link(ours, self._on_message, lambda: None, handlers)

    def tell(self, message: Message) -> None:
        """Harmless if it has ended."""
        self._link.send(message)
        if isinstance(message, Drain | Leave | Cut) and self.state is not WorkerState.ENDED:
            self._become(DRAINS)

    async def ask(self, question: str, arguments: bytes, within_s: float) -> bytes:
        """LinkError if there is no reply."""
        return await self._link.ask(question, arguments, within_s)

    def renew(self, settings: bytes) -> None:
        """Have it put settings in force, and read all files again, which sets `has_read`."""
        if self.state in {WorkerState.STARTING, WorkerState.SERVING}:
            self.has_read.clear()
            self.refused = ""
            self._number += 1
            self._link.send(Renew(self._number, settings))

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)  # harmless if it has ended, too

    def look(self) -> None:
        """Look for a sign of life since the last look; one that starts gives none yet."""
        if self.state is not WorkerState.STARTING:
            self.missed += 1

    @property
    def shows_life(self) -> bool:
        """Also while it drains."""
        return self.missed <= SILENT_LOOKS

    @property
    def shown_state(self) -> str:
        is_silent = self.state is WorkerState.SERVING and not self.shows_life
        return SILENT if is_silent else self.state.value

    @property
    def has_served(self) -> bool:
        return not math.isnan(self.served_s)

    @property
    def ended_how(self) -> str:
        assert self.status is not None, "it has ended"
        if self.status >= 0:
            return f"ended with exit code {self.status}"
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-self.status).name}"
        return f"was ended by signal {-self.status}"

    def _on_message(self, message: Message) -> None:
        if isinstance(message, Alive):
            self.missed = 0
        elif isinstance(message, State):
            self.last = message.data
        elif isinstance(message, Serving):
            if message.number == self._number:
                self.has_read.set()
                self.refused = message.refused
            if self.state is WorkerState.STARTING:
                self.served_s = time.monotonic()
                self._become(SERVE)
        elif isinstance(message, Ending) and self.state is not WorkerState.ENDED:
            self._become(DRAINS)

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._exit)
        os.close(self._exit)
        self.status = self._process.wait()
        self._link.finish()
        self._become(END)

    def _become(self, event: Event[WorkerState]) -> None:
        before, self.state = self.state, event[self.state]
        if before is self.state:
            return
        self.has_settled.set()
        if self.state in {WorkerState.DRAINING, WorkerState.ENDED}:
            self.has_read.set()
        if self.state is WorkerState.ENDED:
            self.has_ended.set()
        self._on_change(self)

    def __repr__(self) -> str:
        return f"<WorkerProcess {self.place.index}: {self.state}, pid {self.pid}>"


async def killed(processes: Sequence[WorkerProcess]) -> None:
    for each in processes:
        if each.state is not WorkerState.ENDED:
            log.warning(
                "worker %d (process %d) does not end, and is killed", each.place.index, each.pid
            )
            each.kill()
    await ended(processes, None)


async def ended(processes: Sequence[WorkerProcess], within_s: float | None) -> bool:
    """Wait for the end of processes, for ever if None; whether all have ended in time."""
    try:
        async with asyncio.timeout(within_s):
            await asyncio.gather(*(each.has_ended.wait() for each in processes))
    except TimeoutError:
        return False
    return True
