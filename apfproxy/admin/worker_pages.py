"""The pages of several workers as those of one proxy.

A page is asked of all workers at once, and what they say is merged.  One that does not answer is
left out; the header `X-Apfproxy-Missing-Workers` names it.  With `?worker=N` any page is that of
one worker, as it is.  Pages that all workers have alike are those of the first one that answers.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec
from aiohttp import web

from apfproxy.admin.admin import BY_ACCEPT, DUMPS
from apfproxy.admin.dumps import PRIORITY_LEVEL_COLUMNS, QUEUE_COLUMNS, request_columns
from apfproxy.admin.endpoints_page import COLUMNS as ENDPOINT_COLUMNS
from apfproxy.admin.endpoints_page import PATH as ENDPOINTS
from apfproxy.admin.explain_page import PATH as EXPLAIN
from apfproxy.admin.explain_page import explanation_json
from apfproxy.admin.limits_page import PATH as LIMITS
from apfproxy.admin.live_state import problems
from apfproxy.admin.merged_dumps import merged_levels, merged_rows
from apfproxy.admin.merged_explanation import merged_explanation
from apfproxy.admin.merged_flows import merged_top_flows
from apfproxy.admin.merged_limits import merged_limits
from apfproxy.admin.merged_live import merged_state
from apfproxy.admin.merged_overview import merged_overview
from apfproxy.admin.merged_requests import merged_requests
from apfproxy.admin.merged_upstream import merged_endpoint_rows
from apfproxy.admin.responses import header, page_file, page_response, wants_json, wants_page
from apfproxy.admin.several_clusters import OF_ALL, overview_text
from apfproxy.admin.several_clusters import PATH as CLUSTERS
from apfproxy.admin.table import table_json, table_text
from apfproxy.admin.top_flows import MEASURES
from apfproxy.admin.top_flows_page import COLUMNS as FLOW_COLUMNS
from apfproxy.admin.top_flows_page import DEFAULT_LIMIT, MAX_LIMIT, flow_cells
from apfproxy.admin.top_flows_page import PATH as TOP_FLOWS
from apfproxy.admin.verdict import verdict
from apfproxy.admin.worker_answers import ONE, json_pages, named, names_of
from apfproxy.admin.worker_responses import (
    JSON,
    TEXT,
    as_it_is,
    first_page,
    nobody,
    said,
    understood,
    unknown,
)
from apfproxy.flowcontrol.explanation import Explanation
from apfproxy.flowcontrol.level_summary import LevelsSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apfproxy.admin.dumps import Row
    from apfproxy.admin.worker_answers import AskAll, Asked, Pages
    from apfproxy.base.health_checks import HealthRegistry

LIVE: Final = "/debug/live"
OF_A_CLUSTER: Final = "/clusters/{cluster}"


class WorkerPages:
    """The pages but those of health, metrics and events.

    Args:
        ask: Asks all workers.
        own: The checks of the process that they belong to.
        has_several: Whether the settings have several clusters.
        index: What this process has beside, for the list of the pages.
        are_all: Whether nobody but the workers has a part of the limit that they share.
    """

    def __init__(
        self,
        ask: AskAll,
        own: HealthRegistry,
        has_several: Callable[[], bool],
        index: Mapping[str, str],
        *,
        are_all: bool = True,
    ) -> None:
        self._ask = ask
        self._own = own
        self._has_several = has_several
        self._index = index
        self._are_all = are_all

    def routes(self) -> list[web.RouteDef]:
        """All, with those of one of several clusters; the last ones of an application."""
        merged = {
            LIMITS: self.limits,
            EXPLAIN: self.explain,
            TOP_FLOWS: self.top_flows,
            ENDPOINTS: self.endpoints,
            LIVE: self.live,
            f"{LIVE}/requests": self.requests,
            f"{DUMPS}/dump_priority_levels": self.dump_priority_levels,
            f"{DUMPS}/dump_queues": self.dump_queues,
            f"{DUMPS}/dump_requests": self.dump_requests,
        }
        routes = [
            web.get(f"{prefix}{path}", understood(page))
            for prefix in (OF_A_CLUSTER, "")
            for path, page in merged.items()
        ]
        return [
            *routes,
            web.get(CLUSTERS, understood(self.live)),
            web.get("/", self.index),
            web.get("/page/{path:.+}", self.file),
            web.get(OF_A_CLUSTER, self.redirect),
            web.get(f"{OF_A_CLUSTER}/", self.cluster_index),
            web.get(f"{OF_A_CLUSTER}/page/{{path:.+}}", self.file),
            web.get("/{path:.*}", self.any),
        ]

    # Pages that are merged

    async def limits(self, request: web.Request) -> web.StreamResponse:
        """Answer with the seats of every level."""
        if (pages := await self._pages(request)) is None or not pages.found:
            return await self._instead(request, pages)
        summaries = [msgspec.convert(page, LevelsSummary) for _, page in pages.found]
        body = msgspec.json.encode(merged_limits(summaries, is_whole=self._are_all))
        return said(await page_response(request, body, JSON), pages.silent)

    async def explain(self, request: web.Request) -> web.StreamResponse:
        """Answer what would happen to a request."""
        if "?" not in request.raw_path:
            return await self.any(request)
        if (pages := await self._pages(request)) is None or not pages.found:
            return await self._instead(request, pages)
        found = {worker.index: msgspec.convert(page, Explanation) for worker, page in pages.found}
        text = explanation_json(merged_explanation(found))
        return said(await page_response(request, text.encode(), JSON), pages.silent)

    async def top_flows(self, request: web.Request) -> web.StreamResponse:
        """Answer with the flows that use most."""
        query = request.rel_url.query
        limit = query.get("limit", str(DEFAULT_LIMIT))
        by, most = query.get("by"), int(limit) if limit.isascii() and limit.isdecimal() else 0
        if not 1 <= most <= MAX_LIMIT:
            return await self.any(request)  # which says what is wrong
        target = request.rel_url.update_query(limit=MAX_LIMIT).raw_path_qs
        if (pages := await self._pages(request, target)) is None or not pages.found:
            return await self._instead(request, pages)
        found = merged_top_flows(
            [page for _, page in pages.found], most, MEASURES if by is None else (by,)
        )
        if wants_json(header(request, "Accept")):
            return said(
                await page_response(request, json.dumps(found).encode(), JSON), pages.silent
            )
        rows = [flow_cells(flow) for flow in found["flows"]]
        body = table_text(FLOW_COLUMNS, rows).encode()
        return said(await page_response(request, body, TEXT), pages.silent)

    async def endpoints(self, request: web.Request) -> web.StreamResponse:
        """Answer with each of the servers behind."""
        if (pages := await self._pages(request)) is None or not pages.found:
            return await self._instead(request, pages)
        merged = merged_endpoint_rows([(worker.index, page) for worker, page in pages.found])
        rows = [tuple(row[column] for column in ENDPOINT_COLUMNS) for row in merged]
        return await self._table(request, ENDPOINT_COLUMNS, lambda: rows, pages.silent)

    async def live(self, request: web.Request) -> web.StreamResponse:
        """Answer with the live state, or with the overview of several clusters."""
        if (pages := await self._pages(request)) is None or not pages.found:
            return await self._instead(request, pages)
        now_s, states = time.time(), [page for _, page in pages.found]
        if "clusters" in states[0]:
            state = merged_overview(states)
            if request.path == CLUSTERS and not wants_json(header(request, "Accept")):
                body = overview_text(state).encode(errors="backslashreplace")
                return said(await page_response(request, body, TEXT), pages.silent)
        else:
            names = names_of([worker for worker, _ in pages.found])
            silent = {str(each.worker.index): each.problem for each in pages.silent}
            named = list(zip(names, states, strict=True))
            merged = merged_state(named, silent, problems(self._own))
            state = {"verdict": verdict(merged, now_s), **merged}
        body = msgspec.json.encode({"time": now_s, **state})
        return said(await page_response(request, body, JSON), pages.silent)

    async def requests(self, request: web.Request) -> web.StreamResponse:
        """Answer with what waits and executes in a level."""
        if (pages := await self._pages(request)) is None or not pages.found:
            return await self._instead(request, pages)
        names = names_of([worker for worker, _ in pages.found])
        found = merged_requests(list(zip(names, (page for _, page in pages.found), strict=True)))
        return said(web.json_response(found, headers={"Cache-Control": "no-store"}), pages.silent)

    async def dump_priority_levels(self, request: web.Request) -> web.StreamResponse:
        """Answer with every priority level."""
        if (pages := await self._pages(request)) is None or not pages.found:
            return await self._instead(request, pages)
        rows = merged_levels(page for _, page in pages.found)
        return await self._table(request, PRIORITY_LEVEL_COLUMNS, lambda: rows, pages.silent)

    async def dump_queues(self, request: web.Request) -> web.StreamResponse:
        """Answer with every queue."""
        return await self._rows(request, QUEUE_COLUMNS)

    async def dump_requests(self, request: web.Request) -> web.StreamResponse:
        """Answer with every request that waits or executes."""
        with_details = bool(request.query.get("includeRequestDetails"))
        return await self._rows(request, request_columns(with_details=with_details))

    async def _rows(self, request: web.Request, columns: Sequence[str]) -> web.StreamResponse:
        if (pages := await self._pages(request)) is None or not pages.found:
            return await self._instead(request, pages)
        dumps = [page for _, page in pages.found]
        return await self._table(
            request, columns, lambda: merged_rows(dumps, columns), pages.silent
        )

    # Pages that are those of one worker, or of this process

    async def index(self, request: web.Request) -> web.StreamResponse:
        """Answer with the list of the pages, or with a page in a browser."""
        cluster, accept = request.query.get("cluster"), header(request, "Accept")
        if cluster is not None:
            raise web.HTTPFound(f"clusters/{quote(cluster, safe='')}/")
        if wants_page(accept):
            name = "clusters.html" if self._has_several() else "index.html"
            return await page_file(request, name)
        asked = await self._ask(request.raw_path, accept)
        answer = first_page(asked)
        if answer is None:
            return nobody(asked)
        if wants_json(accept):
            paths = [*msgspec.json.decode(answer.body)["paths"], *self._index]
            return web.json_response({"paths": paths}, headers=BY_ACCEPT)
        lines = [f"{path}  {what}\n" for path, what in self._index.items()]
        return web.Response(text=answer.text + "".join(lines), headers=BY_ACCEPT)

    async def cluster_index(self, request: web.Request) -> web.StreamResponse:
        """Answer with the page of one of several clusters, in a browser."""
        if wants_page(header(request, "Accept")):
            return await page_file(request, "index.html")
        return await self.any(request)

    async def redirect(self, request: web.Request) -> web.StreamResponse:
        """Say where the pages of a cluster begin."""
        raise web.HTTPFound(f"/clusters/{quote(request.match_info['cluster'], safe='')}/")

    async def file(self, request: web.Request) -> web.StreamResponse:
        """Answer with one of the live page's files."""
        return await page_file(request, request.match_info["path"])

    async def any(self, request: web.Request) -> web.StreamResponse:
        """Answer with what the first worker says that has the page."""
        path = request.path
        of_a_cluster = path.startswith("/clusters/")
        if of_a_cluster and f"/{path.rpartition('/')[2]}" in OF_ALL:
            raise web.HTTPFound(f"/{path.rpartition('/')[2]}?{request.query_string}")
        if ONE in request.query:
            return await self._of_one(request)
        asked = await self._ask(request.raw_path, header(request, "Accept") or "*/*")
        found = first_page(asked) or next((each.answer for each in asked if each.answer), None)
        return nobody(asked) if found is None else await as_it_is(request, found)

    # How they are asked

    async def _pages(self, request: web.Request, target: str | None = None) -> Pages | None:
        """What all workers say; None if one of them is asked for."""
        if ONE in request.query:
            return None
        return json_pages(await self._ask(target or request.raw_path))

    async def _instead(self, request: web.Request, pages: Pages | None) -> web.StreamResponse:
        """The answer where there is nothing to merge."""
        if pages is None:
            return await self._of_one(request)
        return (
            nobody(pages.silent)
            if pages.refusal is None
            else await as_it_is(request, pages.refusal)
        )

    async def _of_one(self, request: web.Request) -> web.StreamResponse:
        name = request.query[ONE]
        target = request.rel_url.without_query_params(ONE).raw_path_qs
        asked = await self._ask(target, header(request, "Accept") or "*/*")
        workers = [each.worker for each in asked]
        chosen = named(workers, name)
        if not chosen:
            return unknown(name, workers)
        (one,) = [each for each in asked if each.worker in chosen]
        return nobody([one]) if one.answer is None else await as_it_is(request, one.answer)

    @staticmethod
    async def _table(
        request: web.Request,
        columns: Sequence[str],
        rows: Callable[[], Sequence[Row]],
        silent: Sequence[Asked],
    ) -> web.StreamResponse:
        """A table, made in a thread: there may be many thousands of rows."""
        if wants_json(header(request, "Accept")):
            text = await asyncio.to_thread(lambda: table_json(columns, rows()))
            return said(await page_response(request, text.encode(), JSON), silent)
        text = await asyncio.to_thread(lambda: table_text(columns, rows()))
        body = text.encode(errors="backslashreplace")
        return said(await page_response(request, body, TEXT), silent)
