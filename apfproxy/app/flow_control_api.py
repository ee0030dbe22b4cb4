"""The flow control group on the admin listener of a proxy, from a store of its own."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

from apfproxy.apiserver.app import Api
from apfproxy.apiserver.controllers.bootstrap import Bootstrap
from apfproxy.apiserver.controllers.control import Controllers
from apfproxy.apiserver.controllers.dangling import Dangling
from apfproxy.apiserver.counters import ApiServerCounters
from apfproxy.apiserver.gate import Gate
from apfproxy.apiserver.kinds import FLOW_CONTROL_KINDS
from apfproxy.apiserver.registry import Registry
from apfproxy.apiserver.store.measured import MeasuredBackend
from apfproxy.apiserver.store.sqlite import SqliteBackend
from apfproxy.apiserver.store.store import Store
from apfproxy.apiserver.write_guard import WriteGuard
from apfproxy.sources.token_file import TokenFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

CONTROLLERS = frozenset({Bootstrap.name, Dangling.name})
"""Those that the flow control group needs."""


class FlowControlApi:
    """A store of FlowSchemas and PriorityLevelConfigurations, and the API over it.

    Args:
        path: The store's SQLite file.
        external_address: What `/api` tells clients to connect to.
        token_file: Has the token that writers need; None for none.
        is_local: Whether only this machine can reach the listener.
        on_problem: Hears when the disk refuses to write, with the reason, and with None when it
            writes again.
        with_suggested: Whether the suggested objects are always there.

    Raises:
        StoreError: The file cannot be used.
        TokenFileError: There is no token.
    """

    def __init__(
        self,
        path: str,
        *,
        external_address: str,
        token_file: str | None,
        is_local: Callable[[], bool],
        on_problem: Callable[[str | None], None],
        with_suggested: bool,
    ) -> None:
        token = None
        if token_file is not None:
            file = TokenFile(token_file)
            file.token()
            token = file.token
        loop = asyncio.get_running_loop()
        counters = ApiServerCounters()

        def report(problem: str | None) -> None:
            loop.call_soon_threadsafe(on_problem, problem)

        backend = MeasuredBackend(SqliteBackend(path), counters, time.monotonic_ns, report)
        self.store = Store(backend=backend)
        # Not for secrets: uids and names are told to everybody.
        chance = random.Random()  # noqa: S311
        registry = Registry(FLOW_CONTROL_KINDS, self.store, time.time, chance)
        self._controllers = Controllers(registry, CONTROLLERS, with_suggested=with_suggested)
        self._api = Api(registry, chance, external_address)
        guard = WriteGuard(self._api.handle, is_local, token)
        self._gate = Gate(guard.handle, FLOW_CONTROL_KINDS, counters)

    def __repr__(self) -> str:
        return f"<FlowControlApi over {self.store!r}>"

    def routes(self) -> list[web.RouteDef]:
        """All of the API, for the application of the listener."""
        return self._api.routes(self._gate.handle)

    async def start(self) -> None:
        """Let the objects be there that always are, and keep them so.

        Raises:
            StatusError: The store refuses them.
        """
        await self._controllers.start()

    async def stop(self) -> None:
        """End watches, finish writes, let go of the file; harmless once done."""
        await self._controllers.stop()
        await self.store.close()
