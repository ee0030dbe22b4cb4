"""The process as a service: whoever runs it is told how it is, and another one can succeed it."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from apfproxy.app.succession import Succession
from apfproxy.base.faults import Part
from apfproxy.base.tasks import Recurring

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.app.given_sockets import Heritage
    from apfproxy.app.service_manager import ServiceManager
    from apfproxy.base.signals import Signals


class Service:
    """What begins once the process serves, and ends before it does."""

    def __init__(self, manager: ServiceManager) -> None:
        self.manager = manager
        self._signs_of_life: Recurring | None = None
        self._succession: Succession | None = None

    def begin(
        self,
        signals: Signals,
        heritage: Callable[[], Heritage],
        is_well: Callable[[], bool],
    ) -> None:
        """Tell that the process serves, and that it lives while it is well; SIGUSR2 has a meaning.

        `heritage` is what a successor gets; OperatorError if there can be none.
        """
        self._succession = Succession(heritage, self.manager, signals.end)
        signals.on_succession(self._succession.ask)
        self.show(is_well)

    def show(self, is_well: Callable[[], bool]) -> None:
        """Tell that the process serves, and that it lives while it is well."""
        self.manager.ready()
        if period_s := self.manager.ping_period_s:

            def show_life() -> None:
                if is_well():
                    self.manager.alive()

            loop = asyncio.get_running_loop()
            self._signs_of_life = Recurring(Part.LOOP, loop, period_s, math.inf, show_life)
            self._signs_of_life.start()

    async def end(self, within_s: float) -> bool:
        """Tell that the process ends; whether it is succeeded, and so only leaves."""
        if self._succession is not None:
            await self._succession.stop()
            if self._succession.successor is not None or self.manager.is_relieved:
                return True
        self.manager.stopping(within_s)
        return False

    def stop(self) -> None:
        """Give no more signs of life; harmless if it never began."""
        if self._signs_of_life is not None:
            self._signs_of_life.stop()
