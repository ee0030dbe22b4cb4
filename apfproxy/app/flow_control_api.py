"""The flow control group on the admin listener of a proxy, from a store of its own."""

from __future__ import annotations

import random
import time
from functools import partial
from typing import TYPE_CHECKING

from apfproxy.apiserver.app import Api
from apfproxy.apiserver.controllers.bootstrap import Bootstrap
from apfproxy.apiserver.controllers.control import Controllers
from apfproxy.apiserver.controllers.dangling import Dangling
from apfproxy.apiserver.counters import ApiServerCounters
from apfproxy.apiserver.gate import Gate
from apfproxy.apiserver.kinds import FLOW_CONTROL_KINDS
from apfproxy.apiserver.registry import Registry
from apfproxy.apiserver.store.sqlite import SqliteBackend
from apfproxy.apiserver.store.store import Store
from apfproxy.apiserver.write_guard import WriteGuard
from apfproxy.app.store import starting
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.sources.token_file import TokenFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from apfproxy.settings import Settings

CONTROLLERS = frozenset({Bootstrap.name, Dangling.name})
"""Those that the flow control group needs."""


class FlowControlApi:
    """A store of FlowSchemas and PriorityLevelConfigurations, and the API over it.

    `is_local` says whether only this machine can reach the listener.  `on_problem` is called with
    the reason when the disk refuses to write, and with None when it writes again.

    OperatorError if the store's file cannot be used, or there is no token.
    """

    def __init__(
        self,
        path: str,
        settings: Settings,
        *,
        is_local: Callable[[], bool],
        on_problem: Callable[[str | None], None],
    ) -> None:
        token = usable_token(settings.admin_token_file)
        counters = ApiServerCounters()
        with starting("the store cannot be read"):
            self.store = Store(
                backend=SqliteBackend(path), counters=counters, on_problem=on_problem
            )
        # Not for secrets: uids and names are told to everybody.
        chance = random.Random()  # noqa: S311
        registry = Registry(FLOW_CONTROL_KINDS, self.store, time.time, chance)
        self._controllers = Controllers(
            registry,
            CONTROLLERS,
            with_suggested=settings.flow_control.suggested_objects,
            suggested_file=PRESETS[settings.preset].file,
        )
        assert settings.admin is not None, "the settings were checked"
        self._api = Api(registry, chance, settings.admin.from_here.authority)
        self._guard = WriteGuard(self._api.handle, is_local, token)
        self._gate = Gate(self._guard.handle, FLOW_CONTROL_KINDS, counters)

    def prepare_token(self, path: str | None) -> Callable[[], None]:
        """What makes another file have the token of writers; None for none.

        OperatorError if there is no token in it.
        """
        return partial(self._guard.ask_for, usable_token(path))

    def routes(self) -> list[web.RouteDef]:
        """All of the API, for the application of the listener."""
        return self._api.routes(self._gate.handle)

    async def start(self) -> None:
        """Store the built-in objects, and keep them there.

        OperatorError if the store refuses them.
        """
        with starting("the built-in objects cannot be stored"):
            await self._controllers.start()

    async def stop(self) -> None:
        """End watches, finish writes, close the file; harmless once done."""
        await self._controllers.stop()
        await self.store.close()


def usable_token(path: str | None) -> Callable[[], bytes] | None:
    """The current token of a file, which has one now; None if there is no file."""
    if path is None:
        return None
    file = TokenFile(path)
    file.token()
    return file.token
