"""The identities in force: watched, on the health pages, and replaced when settings change.

Requests under way end under those with which they began, so these stay open for a while.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from apfproxy.app.identities import Identities
from apfproxy.base.faults import Part
from apfproxy.base.files import STALE_FILES_S
from apfproxy.base.health_checks import READYZ
from apfproxy.base.tasks import Supervised, spawn
from apfproxy.settings.change import NO_CHANGE, Change

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.app.identities import Choose
    from apfproxy.base.clock import Clock
    from apfproxy.base.health_checks import HealthChecks
    from apfproxy.settings import Settings

IDENTIFICATION = "identification"
"""The health check."""

SPARE_S = 5.0
"""Beside the time of a review, until nobody asks the identities before any more."""


class IdentitiesInForce:
    """The identities of a process.

    Attributes:
        current: Those in force.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        health: HealthChecks,
        *,
        choose: Choose,
        on_clients_change: Callable[[], None],
        on_own_change: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._health = health
        self._choose = choose
        self._on_clients_change = on_clients_change
        self._on_own_change = on_own_change
        self.current = self._load(settings)
        self._retiring: set[asyncio.Task[None]] = set()
        self._watching = self._supervised(self.current)
        self._watch: asyncio.Task[None] | None = None
        self._is_started = False
        self._list()

    def start(self) -> None:
        """Watch the files."""
        self._is_started = True
        if self.current.files.has_groups:
            self._watch = self._watching.start()

    async def prepare(self, settings: Settings) -> Change:
        """Load what other settings name.

        Raises:
            OperatorError: Something cannot be used; a line for each.
        """
        if parts_of(settings) == parts_of(self._settings):
            return NO_CHANGE
        # In a thread, as it reads files, and may import what takes a tenth of a second.
        identities = await asyncio.to_thread(self._load, settings)
        return Change(lambda: self._put(settings, identities))

    def _put(self, settings: Settings, identities: Identities) -> None:
        before, self.current = self.current, identities
        counters = before.authenticator.counters
        identities.authenticator.counters = counters  # they count for the whole process
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        task = spawn(self._retire(before, grace_s(self._settings)), name="closing old identities")
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)
        self._settings = settings
        self._watching = self._supervised(identities)
        if self._is_started:
            self.start()
        self._health.discard(IDENTIFICATION)
        self._list()

    async def _retire(self, identities: Identities, after_s: float) -> None:
        try:
            await asyncio.sleep(after_s)
        finally:
            await identities.close()

    async def close(self) -> None:
        """Ask nobody any more; harmless once done."""
        ending = {*self._retiring, *filter(None, (self._watch,))}
        self._watch = None
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        await self.current.close()

    def _load(self, settings: Settings) -> Identities:
        return Identities(
            settings,
            self._clock,
            choose=self._choose,
            on_clients_change=self._on_clients_change,
            on_own_change=self._on_own_change,
        )

    def _supervised(self, identities: Identities) -> Supervised:
        return Supervised(
            Part.IDENTITY_FILES,
            "watching certificates, keys and tokens",
            identities.files.watch,
            stale_after_s=STALE_FILES_S,
        )

    def _list(self) -> None:
        """List the check where anything may be wrong later."""
        identities, watching = self.current, self._watching
        if identities.can_fail:
            self._health.add(
                IDENTIFICATION,
                pages=(READYZ,),
                is_blocking=False,
                look=lambda: watching.problem() or identities.problem(),
            )


def parts_of(settings: Settings) -> tuple[object, ...]:
    """All settings that identities are made of."""
    upstream = settings.upstream
    return (
        settings.downstream.tls,
        settings.downstream.http2.is_enabled,
        settings.authentication,
        *(upstream.address, upstream.tls, upstream.identity, upstream.token_file),
        upstream.host_header,
    )


def grace_s(settings: Settings) -> float:
    """How long a question about a client may take that was begun."""
    authentication = settings.authentication
    reviews = (authentication.token_review, authentication.impersonation.access_review)
    return SPARE_S + sum(each.timeout_s for each in reviews)
