"""The admin listener's pages, of one process or of all workers of one: metrics, health and dumps.

`?worker=N` has any page of one worker.  The pages of one of several clusters are under
`/clusters/NAME/`, or at their own path with `?cluster=NAME`.  They name users and paths: the
listener is meant for the operator's network only.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import logging
import math
import time
from collections import OrderedDict
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
from aiohttp import web

from apfproxy.admin import explain_page, tables
from apfproxy.admin.gathering import summary_of
from apfproxy.admin.history import SAMPLE_S
from apfproxy.admin.live_feed import LiveFeed
from apfproxy.admin.live_state import flow_json, live_state, page_name
from apfproxy.admin.overview import Overview
from apfproxy.admin.questions import Question, RefusedError, States, joined, merged_live, read
from apfproxy.admin.responses import (
    SAFETY,
    header,
    own_names_only,
    page_file,
    page_response,
    sliced_response,
    turn,
    wants_json,
    wants_page,
)
from apfproxy.admin.state import FlowsState, cluster_of, summed
from apfproxy.admin.top_flows import HALF_LIFE_S, MEASURES, largest
from apfproxy.admin.verdict import verdict
from apfproxy.admin.web import WebListener, health_routes
from apfproxy.base.faults import Part, contained
from apfproxy.base.tasks import spawn
from apfproxy.objects.field_errors import closest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from aiohttp.typedefs import Handler

    from apfproxy.admin.access import AdminAccess
    from apfproxy.admin.history import History
    from apfproxy.admin.places import Places
    from apfproxy.admin.state import ClusterState, ProcessState
    from apfproxy.base.health_checks import HealthRegistry

log = logging.getLogger(__name__)

SHUTDOWN_S: Final = 1.0
ONE: Final = "worker"
MISSING: Final = "X-Apfproxy-Missing-Workers"
missing: Final[ContextVar[Sequence[str]]] = ContextVar("missing", default=())
MAX_FEEDS: Final = 16
"""Clusters whose history is kept, in 700 kB each: those that were asked for last."""
MAX_DUMPS: Final = 8
"""At a time, of which one is made while the others wait."""
MOST_NAMED: Final = 20
MEASURED_WITHIN_S: Final = 3.0
ENOUGH: Final = 2
ASKED_S: Final = 60.0
DEFAULT_LIMIT, MAX_LIMIT = 20, 1000
BY: Final = {page_name(each): each for each in MEASURES}
NO_FLEET: Final = "this proxy shares its seats with no other; see fleet.store in its settings\n"
NO_CLUSTERS: Final = "cluster: this proxy has no clusters with names; leave out --cluster NAME\n"
JSON: Final = "application/json; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"

encoded: Final = msgspec.json.encode

DUMPS: Final = "/debug/api_priority_and_fairness"
EVENTS: Final = "/events"
OF_ONE: Final = "/clusters/{cluster}"
OF_ALL: Final = {
    "/metrics": "metrics for Prometheus, as text",
    "/livez": "whether the process works",
    "/readyz": "whether it should get traffic; ?verbose lists the checks",
    "/healthz": "whether the process works, also while it shuts down",
}
OF_SEVERAL: Final = {
    "/debug/clusters": "every cluster: its servers, its load and what is wrong, as text or JSON",
    "/clusters/NAME/": "the pages of a cluster; also at their own path with ?cluster=NAME",
}
OF_THE_API: Final = {
    "/apis": "the objects, for kubectl --server",
    "/openapi/v2": "what they look like",
    "/openapi/v3": "the same by group",
    "/version": "the version of Kubernetes that this behaves as",
}


def listener(
    states: States,
    places: Places,
    access: AdminAccess | None,
    api_routes: Sequence[web.RouteDef] = (),
) -> WebListener:
    return WebListener(AdminPages(states, api_routes).app(), places, access, shutdown_s=SHUTDOWN_S)


class Shown(NamedTuple):
    process: ProcessState
    cluster: ClusterState


class AdminPages:
    def __init__(self, states: States, api_routes: Sequence[web.RouteDef] = ()) -> None:
        self._states = states
        self._api_routes = api_routes
        self._overviews: dict[str, Overview] = {}  # by worker, as the feeds; "" for all
        self._feeds: OrderedDict[tuple[str, str], LiveFeed] = OrderedDict()
        self._has_several = False
        self._asked_s = -math.inf
        self._dumping = asyncio.Lock()
        self._dumps_wanted = 0

    def app(self) -> web.Application:
        app = web.Application(middlewares=[plain_errors, own_names_only])
        app.on_response_prepare.append(add_headers)
        app.add_routes(
            [
                *health_routes(self._checks),
                *self._api_routes,
                web.get("/metrics", self.metrics),
                web.get("/debug/clusters", self.clusters),
            ]
        )
        for prefix in ("", OF_ONE):
            for path, page in OF_A_CLUSTER.items():
                show = partial(page.show, self)
                app.router.add_get(prefix + path, show, allow_head=path != EVENTS)
            app.router.add_get(f"{prefix}/page/{{path:.+}}", page_file)
        app.add_routes(
            [
                web.get(OF_ONE, redirect),
                web.get(f"{OF_ONE}/{{path:.*}}", self.unknown),
            ]
        )
        app.cleanup_ctx.append(self._looking)
        app.on_shutdown.append(self._close)
        return app

    # What happens each second.

    async def _looking(self, _app: web.Application) -> AsyncIterator[None]:
        looking = spawn(self._look_each_second(), name="looking for the live page")
        yield
        looking.cancel()

    async def _look_each_second(self) -> None:
        while True:
            with contained(Part.LIVE_PAGE):
                if self.is_seen():
                    await self.look()
                else:
                    self._overviews.clear()
            # In the middle between two states of workers, which come at whole seconds.
            await asyncio.sleep(1.5 * SAMPLE_S - (time.time() + 0.5 * SAMPLE_S) % SAMPLE_S)

    def is_seen(self) -> bool:
        """Whether to look: at a hundred clusters only while a client looks, too."""
        is_asked = time.monotonic() - self._asked_s < ASKED_S
        return not self._has_several or bool(self._feeds) or is_asked

    async def look(self) -> None:
        """Take a sample of all that is looked at; forget the pages of what is gone."""
        process = await self._states.state()
        self._has_several = process.has_several
        if not process.has_several and any(each.is_serving for each in process.clusters):
            self.feed("", Shown(process, process.clusters[0]))
        states, feeds = {"": process}, list(self._feeds.items())
        overviews = list(self._overviews.items())
        for worker in {worker for worker, _ in (*overviews, *self._feeds)} - {""}:
            with contextlib.suppress(RefusedError):
                states[worker] = await self._states.state(worker)
        now_ns, unix_s = time.monotonic_ns(), time.time()
        for worker, overview in overviews:
            if worker in states:
                overview.take(states[worker], now_ns)
            else:
                self._overviews.pop(worker, None)
        for (worker, name), feed in feeds:
            state = states.get(worker)
            cluster = None if state is None else cluster_of(state.clusters, name)
            if state is None or cluster is None or not cluster.is_serving:
                self._feeds.pop((worker, name), None)
                feed.close()
                continue
            feed.history.take(state.listener, cluster, now_ns, unix_s)
            if not feed.is_empty:
                feed.offer(live(Shown(state, cluster), feed.history), unix_s)

    async def _close(self, _app: web.Application) -> None:
        for feed in self._feeds.values():
            feed.close()

    def feed(self, worker: str, shown: Shown) -> LiveFeed:
        """The page of a cluster, of one worker or of all that there is; from now on it is kept."""
        key = worker, shown.cluster.name
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = LiveFeed()
            now_ns, unix_s = time.monotonic_ns(), time.time()
            feed.history.take(shown.process.listener, shown.cluster, now_ns, unix_s)
            idle = [each for each, of in self._feeds.items() if of.is_empty and each != key]
            for each in idle[: max(0, len(self._feeds) - MAX_FEEDS)]:
                self._feeds.pop(each)
        self._feeds.move_to_end(key)
        return feed

    # What a page is of.

    async def _process(self, request: web.Request) -> ProcessState:
        await turn()  # the state of some workers takes 20 ms
        process = await self._states.state(request.query.get(ONE))
        missing.set([each.name for each in process.workers if each.problem])
        return process

    async def _whole(self, request: web.Request) -> ProcessState:
        of_all_clusters(request)
        return await self._process(request)

    async def _shown(self, request: web.Request) -> Shown:
        process = await self._process(request)
        name = cluster_name(request)
        if process.workers and all(each.problem for each in process.workers):
            lines = [f"worker {each.name}: {each.problem}\n" for each in process.workers]
            raise RefusedError(503, "no worker answers\n" + "".join(lines))
        if not process.has_several:
            if name is not None:
                raise RefusedError(404, NO_CLUSTERS)
            return Shown(process, process.clusters[0])
        names = [each.name for each in process.clusters]
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        known = f"there are {', '.join(names[:MOST_NAMED])}{more}"
        if name is None:
            how = "?cluster=NAME, --cluster NAME"
            raise RefusedError(400, f"cluster: name one for {request.path} ({how}); {known}\n")
        cluster = cluster_of(process.clusters, name)
        if cluster is None:
            close = closest(name, names, likeness=0.6)
            hint = f"did you mean {close}?" if close else known
            raise RefusedError(404, f"cluster: there is none named {name!r}; {hint}\n")
        if not cluster.is_serving:
            raise RefusedError(503, f"cluster: {name} cannot be used: {cluster.problem}\n")
        return Shown(process, cluster)

    async def _ask(self, request: web.Request, kind: str, **words: str) -> dict[str, list[Any]]:
        replies = await self._replies(request, kind, words)
        return {name: read(each) for name, each in replies.items()}

    async def _replies(
        self, request: web.Request, kind: str, words: dict[str, str]
    ) -> dict[str, bytes]:
        shown = await self._shown(request)
        question = Question(kind, shown.cluster.name, words)
        found = await self._states.ask(question, request.query.get(ONE))
        missing.set([each.name for each in shown.process.workers if each.name not in found])
        return found

    async def _ask_any(self, request: web.Request, kind: str, **words: str) -> Any:  # noqa: ANN401
        found = await self._ask(request, kind, **words)
        return next(iter(found.values()))[0]

    # Pages of the process.

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        if (each := request.query.get("workers")) not in {None, "each"}:
            raise RefusedError(400, "workers must be each, or not be there\n")
        process = await self._whole(request)
        states = await self._states.each() if each else {"": process}
        # The library for them takes 5 MiB: a process without scrapes does without.
        module = await asyncio.to_thread(importlib.import_module, "apfproxy.admin.metric_table")
        return await sliced_response(
            request, module.page(module.TABLE, states), module.CONTENT_TYPE
        )

    def _checks(self, request: web.Request, page: str, check: str) -> HealthRegistry:
        of_all_clusters(request)
        excluded = () if check else request.query.getall("exclude", [])
        return self._states.health(page, excluded, check, worker=request.query.get(ONE))

    async def index(self, request: web.Request) -> web.StreamResponse:
        if "cluster" in request.match_info:
            return await self.cluster_index(request)
        if (name := request.query.get("cluster")) is not None:
            raise web.HTTPFound(f"clusters/{quote(name, safe='')}/{of_worker(request)}")
        process = await self._process(request)
        accept = header(request, "Accept")
        if wants_page(accept):
            return await page_file(
                request, "clusters.html" if process.has_several else "index.html"
            )
        of_one = {path: page.what for path, page in OF_A_CLUSTER.items()}
        own = OF_SEVERAL if process.has_several else of_one
        index = {**OF_ALL, **own, **(OF_THE_API if self._api_routes else {})}
        headers = {"Vary": "Accept"}
        if wants_json(accept):
            return web.json_response({"paths": list(index)}, headers=headers)
        width = max(map(len, index))
        lines = [f"{path:<{width}}  {what}\n" for path, what in index.items()]
        return web.Response(text="".join(lines), headers=headers)

    async def cluster_index(self, request: web.Request) -> web.StreamResponse:
        await self._shown(request)
        if wants_page(header(request, "Accept")):
            return await page_file(request, "index.html")
        return await self.unknown(request)

    async def unknown(self, request: web.Request) -> web.StreamResponse:
        path = f"/{request.match_info.get('path', '')}"
        if path in OF_ALL:
            raise web.HTTPFound(f"{path}?{request.query_string}")
        await self._shown(request)
        known = "\n".join(sorted(set(OF_A_CLUSTER) - {"/"}))
        raise RefusedError(404, f"a cluster has these pages:\n{known}\n")

    async def clusters(self, request: web.Request) -> web.StreamResponse:
        process = await self._whole(request)
        if not process.has_several:
            raise web.HTTPNotFound
        self._asked_s = time.monotonic()
        overview = self._overviews.setdefault(request.query.get(ONE, ""), Overview())
        if overview.taken < ENOUGH:
            await self.look()
            await asyncio.sleep(SAMPLE_S)
            await self.look()
            process = await self._process(request)
        found = overview.json(process)
        rows = tables.rows(tables.CLUSTERS, found["clusters"])
        return await table(request, tables.CLUSTERS, rows, {"time": time.time(), **found})

    # Pages of a cluster, by its state.

    async def live(self, request: web.Request) -> web.StreamResponse:
        if cluster_name(request) is None and (await self._process(request)).has_several:
            return await self.clusters(request)
        shown = await self._shown(request)
        history = self.feed(request.query.get(ONE, ""), shown).history
        # A first look has no rates yet; two looks may be at the same state of workers.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MEASURED_WITHIN_S):
                await history.measured(2 if shown.process.workers else 1)
        found = live(await self._shown(request), history)
        return await page_response(request, encoded({"time": time.time(), **found}), JSON)

    async def events(self, request: web.Request) -> web.StreamResponse:
        shown = await self._shown(request)
        feed = self.feed(request.query.get(ONE, ""), shown)
        return await feed.send(request, {"time": time.time(), **live(shown, feed.history)})

    async def limits(self, request: web.Request) -> web.StreamResponse:
        shown = await self._shown(request)
        return await page_response(request, encoded(summary_of(shown.cluster)), JSON)

    async def dump_priority_levels(self, request: web.Request) -> web.StreamResponse:
        rows = tables.rows(tables.PRIORITY_LEVELS, (await self._shown(request)).cluster.levels)
        return await table(request, tables.PRIORITY_LEVELS, rows)

    async def endpoints(self, request: web.Request) -> web.StreamResponse:
        upstream = (await self._shown(request)).cluster.upstream
        rows = tables.rows(tables.ENDPOINTS, upstream.endpoints)
        return await table(request, tables.ENDPOINTS, rows)

    async def fleet(self, request: web.Request) -> web.StreamResponse:
        """Respond with the members of the fleet; in JSON a `FleetView`, or null without one."""
        view = (await self._shown(request)).cluster.fleet
        if view is not None:
            members = tables.members(view)
            return await table(request, members, tables.rows(members, view.members), view)
        if wants_json(header(request, "Accept")):
            return await page_response(request, b"null", JSON)
        return await page_response(request, NO_FLEET.encode(), TEXT)

    # Pages of a cluster, by questions.

    async def dump_queues(self, request: web.Request) -> web.StreamResponse:
        return await self._dump(request, tables.QUEUE_COLUMNS, "queues", {})

    async def dump_requests(self, request: web.Request) -> web.StreamResponse:
        with_details = bool(request.query.get("includeRequestDetails"))
        columns = tables.request_columns(with_details=with_details)
        return await self._dump(request, columns, "requests", {"details": "1" * with_details})

    async def _dump(
        self, request: web.Request, columns: Sequence[str], kind: str, words: dict[str, str]
    ) -> web.StreamResponse:
        """One at a time: each may take a part of a second, and many megabytes."""
        if self._dumps_wanted == MAX_DUMPS:
            raise RefusedError(503, f"{MAX_DUMPS} dumps are being made; ask again soon\n")
        self._dumps_wanted += 1
        try:
            async with self._dumping:
                found = await self._replies(request, kind, words)
                return await table(request, columns, joined(found.values()))
        finally:
            self._dumps_wanted -= 1

    async def requests(self, request: web.Request) -> web.StreamResponse:
        level = request.query.get("priorityLevel", "")
        own = await self._ask(request, "live", level=level)
        found = {name: each[0] for name, each in own.items()}
        shown = found[""] if "" in found else merged_live(found)
        return web.json_response(shown, headers={"Cache-Control": "no-store"})

    async def hand(self, request: web.Request) -> web.StreamResponse:
        names = {"level": "priorityLevel", "schema": "flowSchema", "flow": "flow"}
        words = {name: request.query.get(query, "") for name, query in names.items()}
        return web.json_response(await self._ask_any(request, "hand", **words))

    async def objects(self, request: web.Request) -> web.StreamResponse:
        words = {"uid": request.query["uid"]} if "uid" in request.query else {}
        found = await self._ask_any(request, "objects", **words)
        return await table(request, tables.OBJECTS, tables.rows(tables.OBJECTS, found), found)

    async def explain(self, request: web.Request) -> web.StreamResponse:
        query = request.raw_path.partition("?")[2]
        if not query:
            return web.Response(text=explain_page.USAGE)
        replies = await self._ask(request, "explain", query=query)
        worker, (found, *_) = next(iter(replies.items()))
        if len(replies) > 1:
            note = f"the queues and seats are those of worker {worker} of {len(replies)}"
            found["notes"] = [note, *found["notes"]]
        text = json.dumps(found, indent=2)
        return await page_response(request, text.encode(), JSON)

    async def top_flows(self, request: web.Request) -> web.StreamResponse:
        by, limit = request.query.get("by"), request.query.get("limit", str(DEFAULT_LIMIT))
        if by is not None and by not in BY:
            raise RefusedError(400, f"by must be one of {', '.join(BY)}\n")
        if not (limit.isascii() and limit.isdecimal() and 1 <= int(limit[:9]) <= MAX_LIMIT):
            raise RefusedError(400, f"limit must be a number from 1 to {MAX_LIMIT}\n")
        own = await self._ask(request, "flows", most=str(MAX_LIMIT))
        found = summed([msgspec.convert(each[0], FlowsState) for each in own.values()])
        chosen = largest(found, int(limit), MEASURES if by is None else (BY[by],))
        shown = {
            "halfLifeSeconds": HALF_LIFE_S,
            "capacity": found.capacity,
            "measures": {
                name: {"total": total, "maxOverestimate": error}
                for name, total, error in zip(BY, found.totals, found.errors, strict=False)
            },
            "flows": list(map(flow_json, chosen)),
        }
        return await table(request, tables.FLOWS, tables.rows(tables.FLOWS, chosen), shown)


class Page(NamedTuple):
    show: Callable[[AdminPages, web.Request], Awaitable[web.StreamResponse]]
    what: str


OF_A_CLUSTER: Final = {
    f"{DUMPS}/dump_priority_levels": Page(
        AdminPages.dump_priority_levels, "every priority level and what it did"
    ),
    f"{DUMPS}/dump_queues": Page(AdminPages.dump_queues, "every queue and what waits in it"),
    f"{DUMPS}/dump_requests": Page(
        AdminPages.dump_requests, "every waiting or executing request; ?includeRequestDetails=1"
    ),
    "/": Page(AdminPages.index, "this list; in a browser the live page"),
    "/debug/live": Page(AdminPages.live, "the live page's state, as JSON"),
    "/debug/live/requests": Page(
        AdminPages.requests, "what waits and executes in a level, the oldest; ?priorityLevel="
    ),
    "/debug/live/hand": Page(
        AdminPages.hand, "a flow's hand of queues; ?priorityLevel=&flowSchema=&flow="
    ),
    EVENTS: Page(AdminPages.events, "the same state as server-sent events, as it changes"),
    "/debug/limits": Page(AdminPages.limits, "the seats of every priority level, as JSON"),
    "/debug/objects": Page(
        AdminPages.objects,
        "FlowSchemas and priority levels with their UIDs; ?uid= for that of an answer",
    ),
    "/debug/explain": Page(
        AdminPages.explain,
        "what would happen to a request; without parameters it says how to ask",
    ),
    "/debug/top_flows": Page(
        AdminPages.top_flows,
        "flows that took or waited most lately; ?by=seatSeconds|waitSeconds|rejected|tokens,"
        " ?limit=20",
    ),
    "/debug/endpoints": Page(AdminPages.endpoints, "every server behind, its state and its load"),
    "/debug/fleet": Page(
        AdminPages.fleet, "the members of the fleet that shares the seats, as text or JSON"
    ),
}
"""The pages that each cluster has, in the order in which the index lists them."""


def live(shown: Shown, history: History) -> dict[str, Any]:
    """The state of the live page, with what is wrong in words."""
    history.rate()
    state = live_state(shown.process, shown.cluster, history)
    return {"verdict": verdict(state, time.time()), **state}


async def table(
    request: web.Request,
    columns: Iterable[str],
    rows: Iterable[Sequence[tables.Cell]],
    found: object = None,
) -> web.StreamResponse:
    """A table as text, laid out in a thread; as JSON what it was made of, or else its rows."""
    is_json = wants_json(header(request, "Accept"))
    if is_json and found is not None:
        return await page_response(request, encoded(found), JSON)

    def laid_out() -> bytes:
        text = (tables.table_json if is_json else tables.table_text)(columns, rows)
        # A user's name may have bytes that are no UTF-8, which Python keeps as lone surrogates.
        return text.encode(errors="backslashreplace")

    return await page_response(
        request, await asyncio.to_thread(laid_out), JSON if is_json else TEXT
    )


def cluster_name(request: web.Request) -> str | None:
    return request.match_info.get("cluster") or request.query.get("cluster")


def of_all_clusters(request: web.Request) -> None:
    """RefusedError if a page of the whole process is asked for one cluster."""
    if "cluster" in request.query:
        text = f"cluster: {request.path} is of the whole process; leave cluster out\n"
        raise RefusedError(400, text)


def of_worker(request: web.Request) -> str:
    worker = request.query.get(ONE)
    return "" if worker is None else f"?{ONE}={quote(worker, safe='')}"


@web.middleware
async def plain_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    missing.set(())
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return web.Response(text="404 page not found; / lists what there is\n", status=404)
    except RefusedError as error:
        headers = {"Retry-After": "1"} if error.status == 503 else {}  # noqa: PLR2004
        return web.Response(text=error.text, status=error.status, headers=headers)


async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    for name, value in SAFETY.items():
        response.headers.setdefault(name, value)
    if names := missing.get():
        response.headers[MISSING] = ", ".join(names)


async def redirect(request: web.Request) -> web.StreamResponse:
    name = quote(request.match_info["cluster"], safe="")
    raise web.HTTPFound(f"/clusters/{name}/{of_worker(request)}")
