"""The live page of the admin listener, with its server-sent events and JSON.

The page is plain files beside this module.  It inserts everything about users, FlowSchemas and
errors as text, never as markup, and its policy allows only these files to be loaded or run.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

from aiohttp import web

from apfproxy.admin.live_events import send_events
from apfproxy.admin.live_feed import LiveFeed
from apfproxy.admin.live_history import SAMPLE_S, LiveHistory
from apfproxy.admin.live_recent import recent
from apfproxy.admin.live_requests import level_requests
from apfproxy.admin.live_state import NO_RECENT, live_state
from apfproxy.admin.responses import page_file, page_response
from apfproxy.admin.verdict import verdict
from apfproxy.admin.web import EVENTS_PATH
from apfproxy.base.faults import Part
from apfproxy.base.tasks import Recurring
from apfproxy.flowcontrol.dealer import Dealer
from apfproxy.flowcontrol.queue_set import QueueSetKind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from apfproxy.admin.live_recent import State
    from apfproxy.admin.live_state import LiveInputs
    from apfproxy.flowcontrol.controller import Controller

LIVE_INDEX = {
    "/": "this list; in a browser the live page",
    "/debug/live": "the live page's state, as JSON",
    "/debug/live/requests": "what waits and executes in a level, the oldest; ?priorityLevel=",
    "/debug/live/hand": "a flow's hand of queues; ?priorityLevel=&flowSchema=&flow=",
    EVENTS_PATH: "the same state as server-sent events, as it changes",
}

RECENT_NS = 1_000_000_000
"""Between updates of what is expensive and changes slowly: rates, top flows, the verdict."""


class LivePage:
    """Handlers of the live page.

    Attributes:
        history: The last 15 minutes; the application's life keeps it up to date.
        feed: Who listens.
    """

    def __init__(self, controller: Controller, inputs: LiveInputs) -> None:
        self._controller = controller
        self._inputs = inputs
        self._recent = NO_RECENT
        self._recent_ns: int | None = None
        self._verdict: list[dict[str, str]] = []
        self.history = inputs.history or LiveHistory(
            controller, time.monotonic_ns(), inputs.counters
        )
        self.feed = LiveFeed(self._state, self.history, time.monotonic_ns, time.time)

    def routes(self) -> list[web.RouteDef]:
        """Every address but that of the page itself."""
        return [
            web.get("/debug/live", self.state),
            web.get("/debug/live/hand", self.hand),
            web.get("/debug/live/requests", self.requests),
            web.get(EVENTS_PATH, self.events, allow_head=False),
            web.get("/page/{path:.+}", self.file),
        ]

    def add_to(self, app: web.Application) -> None:
        """Serve the page from an application, for as long as it runs."""
        app.add_routes(self.routes())
        app.cleanup_ctx.append(self._sampling)
        app.on_shutdown.append(self._close)

    async def page(self, request: web.Request) -> web.Response:
        """Answer with the page itself."""
        return await page_file(request, "index.html")

    async def file(self, request: web.Request) -> web.Response:
        """Answer with one of the page's files."""
        return await page_file(request, request.match_info["path"])

    async def state(self, request: web.Request) -> web.Response:
        """Answer with the state, once."""
        return await page_response(
            request, self.feed.state_json(), "application/json; charset=utf-8"
        )

    async def hand(self, request: web.Request) -> web.Response:
        """Answer with the queues that a flow may use."""
        query = request.query
        level = self._controller.levels.get(query.get("priorityLevel", ""))
        if level is None:
            return no_level(request)
        config = level.queue_set.config
        hand: list[int] = []
        if config.kind is QueueSetKind.QUEUE:
            flow = query.get("flow", "") if config.queues > 1 else ""
            hash_ = self._controller.flow_hash(query.get("flowSchema", ""), flow)
            hand = list(Dealer(config.queues, config.hand_size).deal(hash_))
        return web.json_response({"priorityLevel": level.name, "hand": hand})

    async def requests(self, request: web.Request) -> web.Response:
        """Answer with what waits and executes in a level."""
        level = self._controller.levels.get(request.query.get("priorityLevel", ""))
        if level is None:
            return no_level(request)
        found = level_requests(level.queue_set, self._controller.now_ns())
        return web.json_response(found, headers={"Cache-Control": "no-store"})

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Send events until the client goes or the application ends."""
        return await send_events(request, self.feed, self.history)

    def _state(self) -> State:
        now_ns = time.monotonic_ns()
        if self._recent_ns is not None and now_ns - self._recent_ns < RECENT_NS:
            state = live_state(self._controller, self._inputs, self._recent)
        else:
            self._recent_ns = now_ns
            rates, flows = self.history.rates, self._inputs.top_flows()
            refusals = self.history.refusals.per_s()
            self._recent = recent(self._controller, rates, flows, refusals)
            state = live_state(self._controller, self._inputs, self._recent)
            self._verdict = verdict(state, time.time())
        return {"verdict": self._verdict, **state}

    async def _sampling(self, _app: web.Application) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        sampling = Recurring(Part.LIVE_PAGE, loop, SAMPLE_S, math.inf, self._sample)
        sampling.start()
        yield
        sampling.stop()

    def _sample(self) -> None:
        self.history.sample(time.monotonic_ns(), time.time())

    async def _close(self, _app: web.Application) -> None:
        self.feed.close()


def no_level(request: web.Request) -> web.Response:
    """That the level of a question is not there."""
    name = request.query.get("priorityLevel", "")
    text = f"priorityLevel: there is no priority level {name!r}; /debug/live lists them\n"
    return web.Response(text=text, status=404)
