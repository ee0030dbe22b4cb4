"""The admin listener's pages where there are several clusters.

The pages of a cluster are those of a proxy with one, under `/clusters/NAME/`, or at their own path
with `?cluster=NAME`.  They are made when they are first asked for, and kept for a while: a history
takes 700 kB.  Without a name there is the overview.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import msgspec
from aiohttp import web

from apfproxy.admin.live_history import SAMPLE_S
from apfproxy.admin.responses import header, page_file, page_response, wants_json, wants_page
from apfproxy.admin.table import table_text
from apfproxy.objects.field_errors import closest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from apfproxy.admin.live_page import LivePage
    from apfproxy.admin.overview import Overview, Place, Serving

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

ENOUGH = 2
"""Samples for rates."""
MAX_KEPT = 16
"""Clusters whose history is kept: those that were asked for last."""
MOST_NAMED = 20
"""Names in an error."""

PATH = "/debug/clusters"
CLUSTERS_INDEX = {
    PATH: "every cluster: its servers, its load and what is wrong, as text or JSON",
    "/clusters/NAME/": "the pages of a cluster; also at their own path with ?cluster=NAME",
}
OF_ALL = frozenset({"/metrics", "/livez", "/readyz", "/healthz"})
"""Pages that no cluster has of its own."""
COLUMNS = (
    "Cluster",
    "State",
    "Servers",
    "Seats",
    "Executing",
    "Waiting",
    "ServedPerSecond",
    "FailedPerSecond",
    "RejectedPerSecond",
    "P99Seconds",
    "Where",
    "Problem",
)


@dataclass(frozen=True, slots=True)
class Pages:
    """Those of a cluster; the handlers are by path."""

    live: LivePage
    handlers: Mapping[str, Handler]


class Maker(Protocol):
    """Makes pages."""

    def __call__(self, serving: Any) -> Pages:  # noqa: ANN401  a cluster of the process
        """Those of a cluster that serves."""


def overview_text(state: Mapping[str, Any]) -> str:
    """The overview as a table."""
    rows = [
        (
            row["name"],
            row["state"],
            f"{row['healthyCount']}/{row['endpointCount']}",
            f"{row['seatsInUse']}/{row['serverConcurrencyLimit']}",
            row["executing"],
            row["waiting"],
            *(f"{row[f'{what}PerSecond']:.1f}" for what in ("served", "failed", "rejected")),
            "" if row["p99"] is None else f"{row['p99']:g}",
            row["where"],
            row["problem"],
        )
        for row in state["clusters"]
    ]
    return table_text(COLUMNS, rows)


class SeveralClusters:
    """The pages of all clusters.

    Args:
        places: The clusters that there are.
        make: Makes the pages of one.
        overview: Of all.
        first_s: How long the first look takes, so that it has rates.
    """

    def __init__(
        self,
        places: Callable[[], Iterable[Place]],
        make: Maker,
        overview: Overview,
        first_s: float = SAMPLE_S,
    ) -> None:
        self._first_s = first_s
        self._places = places
        self._make = make
        self.overview = overview
        self._kept: OrderedDict[Serving, Pages] = OrderedDict()

    def routes(self) -> list[web.RouteDef]:
        """The overview, and whatever names a cluster; the last ones of an application."""
        return [
            web.get(PATH, self.all),
            web.get("/clusters/{cluster}/{path:.*}", self.by_path),
            web.get("/clusters/{cluster}", self.redirect),
            web.get("/{path:.*}", self.by_query),
        ]

    def sample(self) -> None:
        """Take a sample of each second; forget the pages of clusters that are gone."""
        self.overview.sample()
        serving = {place.serving for place in self._places()}
        for each in [each for each in self._kept if each not in serving]:
            self._kept.pop(each).live.feed.close()
        now_ns, unix_s = time.monotonic_ns(), time.time()
        for pages in self._kept.values():
            pages.live.history.sample(now_ns, unix_s)

    def close(self) -> None:
        """End all who listen."""
        for pages in self._kept.values():
            pages.live.feed.close()

    async def all(self, request: web.Request) -> web.Response:
        """Answer with the overview."""
        if self.overview.taken < ENOUGH:
            self.overview.sample()
            await asyncio.sleep(self._first_s)
            self.overview.sample()
        state = self.overview.state()
        if wants_json(header(request, "Accept")):
            body = msgspec.json.encode({"time": time.time(), **state})
            return await page_response(request, body, "application/json; charset=utf-8")
        body = overview_text(state).encode(errors="backslashreplace")
        return await page_response(request, body, "text/plain; charset=utf-8")

    async def page(self, request: web.Request) -> web.StreamResponse:
        """Answer with the page of the overview, or of the cluster that the query names."""
        name = request.query.get("cluster")
        if name is not None:
            raise web.HTTPFound(f"clusters/{quote(name, safe='')}/")
        return await page_file(request, "clusters.html")

    async def file(self, request: web.Request) -> web.Response:
        """Answer with one of the pages' files."""
        return await page_file(request, request.match_info["path"])

    async def redirect(self, request: web.Request) -> web.StreamResponse:
        """Say where the pages of a cluster begin."""
        raise web.HTTPFound(f"/clusters/{quote(request.match_info['cluster'], safe='')}/")

    async def by_path(self, request: web.Request) -> web.StreamResponse:
        """Answer with a page of the cluster that the path names."""
        path = request.match_info["path"]
        return await self._answer(request, request.match_info["cluster"], f"/{path}")

    async def by_query(self, request: web.Request) -> web.StreamResponse:
        """Answer with a page of the cluster that the query names."""
        path, name = request.path, request.query.get("cluster")
        if name is not None:
            return await self._answer(request, name, path)
        if path == "/debug/live":
            return await self.all(request)
        how = "?cluster=NAME, --cluster NAME"
        text = f"cluster: name one for {path} ({how}); there are {self._names()}\n"
        return web.Response(text=text, status=400)

    async def _answer(self, request: web.Request, name: str, path: str) -> web.StreamResponse:
        place = next((place for place in self._places() if place.name == name), None)
        if place is None:
            close = closest(name, [place.name for place in self._places()], likeness=0.5)
            hint = f"did you mean {close}?  there are" if close else "there are"
            return web.Response(
                text=f"cluster: there is none named {name!r}; {hint} {self._names()}\n", status=404
            )
        if place.serving is None:
            text = f"cluster: {name} cannot be used: {place.problem}\n"
            return web.Response(text=text, status=503)
        pages = self._pages(place.serving)
        if path == "/" and wants_page(header(request, "Accept")):
            return await pages.live.page(request)
        if path.startswith("/page/"):
            return await page_file(request, path.removeprefix("/page/"))
        if path in OF_ALL:
            raise web.HTTPFound(f"/{path.lstrip('/')}?{request.query_string}")
        handler = pages.handlers.get(path)
        if handler is None:
            known = "\n".join(sorted(pages.handlers))
            return web.Response(text=f"a cluster has these pages:\n{known}\n", status=404)
        return await handler(request)

    def _pages(self, serving: Serving) -> Pages:
        pages = self._kept.get(serving)
        if pages is None:
            pages = self._kept[serving] = self._make(serving)
            while len(self._kept) > MAX_KEPT:
                oldest = next(iter(self._kept))
                self._kept.pop(oldest).live.feed.close()
        self._kept.move_to_end(serving)
        return pages

    def _names(self) -> str:
        names = [place.name for place in self._places()]
        more = len(names) - MOST_NAMED
        return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
