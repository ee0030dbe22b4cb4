"""The events of the live pages of several workers: a feed for each page that somebody looks at."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import web

from apfproxy.admin.live_events import FULL_RETRY_S, send_events
from apfproxy.admin.web import EVENTS_PATH
from apfproxy.admin.worker_answers import ONE, in_service, named
from apfproxy.admin.worker_feed import WorkerFeed
from apfproxy.admin.worker_responses import unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.admin.worker_answers import WorkerAdmin
    from apfproxy.admin.worker_feed import Follow
    from apfproxy.base.health_checks import HealthRegistry

MAX_FEEDS: Final = 16
"""Clusters whose pages are open; each has a connection to every worker, and a history."""


class WorkerFeeds:
    """The feeds that somebody listens to, by what the workers are asked for.

    Args:
        workers: Those that there are now.
        follow: Follows the events of one.
        own: The checks of the process that they belong to.
    """

    def __init__(
        self,
        workers: Callable[[], Sequence[WorkerAdmin]],
        follow: Follow,
        own: HealthRegistry,
    ) -> None:
        self._workers = workers
        self._own = own
        self._follow = follow
        self._feeds: dict[str, WorkerFeed] = {}

    def __repr__(self) -> str:
        return f"<WorkerFeeds: {', '.join(self._feeds) or 'none'}>"

    def routes(self) -> list[web.RouteDef]:
        """The events of the only cluster, and those of each of several."""
        return [
            web.get(EVENTS_PATH, self.events, allow_head=False),
            web.get(f"/clusters/{{cluster}}{EVENTS_PATH}", self.events, allow_head=False),
        ]

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Send events until the client goes or the application ends; with `worker`, of that one."""
        name, target = request.query.get(ONE), request.raw_path
        workers = self._workers if name is None else partial(self._named, name)
        if name is not None and not workers():
            return unknown(name, in_service(self._workers()))
        feed = self._feeds.get(target)
        if feed is None:
            if len(self._feeds) >= MAX_FEEDS:
                return refused("pages of as many clusters are open as may be; close one\n")
            events = request.rel_url.without_query_params(ONE).raw_path_qs
            feed = self._feeds[target] = WorkerFeed(workers, self._follow, self._own, events)
        feed.guests += 1
        try:
            if not await feed.ready():
                why = "".join(f"worker {name}: {why}\n" for name, why in feed.problems.items())
                return refused(f"no worker answers\n{why}")
            return await send_events(request, feed.feed, feed.history)
        finally:
            feed.guests -= 1
            if not feed.guests and self._feeds.get(target) is feed:
                del self._feeds[target]
                feed.stop()

    def _named(self, name: str) -> list[WorkerAdmin]:
        return named(in_service(self._workers()), name)

    async def close(self, _app: web.Application) -> None:
        """End all who listen."""
        for feed in list(self._feeds.values()):
            feed.stop()
        self._feeds.clear()


def refused(text: str) -> web.Response:
    """That there are no events now."""
    return web.Response(text=text, status=503, headers={"Retry-After": FULL_RETRY_S})
