"""A restart in which no connection is refused: a new process takes over the listening sockets.

1. SIGUSR2 starts the command of this process again, as it is installed by now.  The new process
   inherits the sockets, on which the kernel holds connections whoever accepts them.
2. It reads its settings, loads its objects, accepts, and says so.  Until then this one goes on, and
   it goes on for good if the new one ends, or takes longer than `START_WITHIN_S`.
3. Then this one accepts no more, and ends as at SIGTERM: with its connections, not with a time in
   which `/readyz` fails, for the new one answers that by now.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

from apfproxy.app.service_manager import WATCHDOG_PID
from apfproxy.base.errors import OperatorError
from apfproxy.base.faults import Part, report
from apfproxy.base.tasks import spawn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.app.given_sockets import Heritage
    from apfproxy.app.service_manager import ServiceManager

START_WITHIN_S = 120.0
"""For the successor to accept connections; objects of a Kubernetes API may take their time."""

END_WITHIN_S = 1.0
"""For one that has closed its descriptors to end, before it is killed."""

log = logging.getLogger(__name__)


class Succession:
    """Starts a successor when asked to.

    Args:
        heritage: What it gets; OperatorError if there can be none.
        manager: Whoever is to know that it is the service from then on.
        end: Begins the end of this process.
        command: Of the successor, if it is not that of this process.

    Attributes:
        successor: The process that accepts by now; None while there is none.
    """

    def __init__(
        self,
        heritage: Callable[[], Heritage],
        manager: ServiceManager,
        end: Callable[[], None],
        command: Sequence[str] = (),
    ) -> None:
        self._heritage = heritage
        self._manager = manager
        self._end = end
        self._command = list(command) or [sys.executable, *sys.orig_argv[1:]]
        self._task: asyncio.Task[None] | None = None
        self._is_ending = False
        self.successor: subprocess.Popen[bytes] | None = None

    def ask(self) -> None:
        """Start one, unless one is starting."""
        if self._task is not None and not self._task.done():
            log.info("SIGUSR2: a successor is starting already")
        elif self.successor is not None:
            log.info("SIGUSR2: there is a successor, which has its own process id")
        elif self._is_ending:
            log.info("SIGUSR2: there is no successor, since the process is about to end")
        else:
            self._task = spawn(self._hand_over(), name="starting a successor")

    async def stop(self) -> None:
        """Start none any more; one that does not accept yet is ended."""
        self._is_ending = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _hand_over(self) -> None:
        log.info("SIGUSR2: starting a successor: %s", shlex.join(self._command))
        try:
            successor = await self._start()
        except OperatorError as error:
            log.error("there is no successor, and this process goes on: %s", error)  # noqa: TRY400 - an error of others
            return
        except Exception as error:  # noqa: BLE001  whatever it is, this process goes on
            report(Part.TASK, error, "there is no successor, and this process goes on")
            return
        self.successor = successor
        self._manager.succeeded_by(successor.pid)
        log.info("process %d accepts connections from now on", successor.pid)
        self._end()

    async def _start(self) -> subprocess.Popen[bytes]:
        """Start a successor, and wait until it accepts; OperatorError if it does not."""
        heritage = self._heritage()
        ours, theirs = os.pipe()
        environment = {name: os.environ[name] for name in os.environ if name != WATCHDOG_PID}
        try:
            process = subprocess.Popen(  # noqa: S603, ASYNC220 - our own command; it takes 1 ms
                self._command,
                env=environment | heritage.told(theirs),
                pass_fds=[theirs, *heritage.all_descriptors],
            )
        except OSError as error:
            os.close(ours)
            raise OperatorError(f"{self._command[0]}: {error.strerror}") from error
        finally:
            os.close(theirs)
        try:
            is_ready = await _is_told(ours)
        except BaseException:
            process.terminate()  # in order, as it may have accepted connections just now
            await _end(process)
            raise
        finally:
            os.close(ours)
        if not is_ready:
            raise OperatorError(await _end(process))
        return process


async def _is_told(descriptor: int) -> bool:
    """Wait until something is written to a pipe: False if not in time, or not before its end."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    loop.add_reader(descriptor, told.set)
    try:
        async with asyncio.timeout(START_WITHIN_S):
            await told.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(descriptor)
    return bool(os.read(descriptor, 1))


async def _end(process: subprocess.Popen[bytes]) -> str:
    """End a process that does not serve: what became of it."""
    try:
        status = await asyncio.to_thread(process.wait, END_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        await asyncio.to_thread(process.wait)
        return f"it did not accept connections within {START_WITHIN_S:g} s"
    return f"it ended with exit code {status}; its log says why"
