"""The health pages of several workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from aiohttp import web

from apfproxy.admin.merged_health import (
    OF_A_WORKER,
    excluded_for,
    merged_check,
    merged_report,
)
from apfproxy.admin.worker_answers import DRAINING, ONE
from apfproxy.base.health_checks import PAGES

if TYPE_CHECKING:
    from apfproxy.admin.worker_answers import AskAll, Asked, WorkerAdmin
    from apfproxy.admin.worker_responses import Handler
    from apfproxy.base.health_checks import HealthRegistry, HealthReport

WITHIN_S: Final = 0.5
"""Of the second that kubelet gives a probe by default."""
TEXT: Final = "text/plain"


def worker_health_routes(own: HealthRegistry, ask: AskAll, of_one: Handler) -> list[web.RouteDef]:
    """The pages.

    Args:
        own: The checks of the process that the workers belong to.
        ask: Asks all workers.
        of_one: Answers with the page of one worker, where one is named.
    """

    async def show_page(request: web.Request) -> web.StreamResponse:
        if ONE in request.query:
            return await of_one(request)
        page = request.path.removeprefix("/")
        excluded = request.query.getall("exclude", [])

        def target(worker: WorkerAdmin) -> str:
            query = [
                ("verbose", ""),
                *(("exclude", each) for each in excluded_for(worker.index, excluded)),
            ]
            return f"/{page}?{urlencode(query)}"

        asked = await ask(target, TEXT, within_s=WITHIN_S)
        verbose = "verbose" in request.query
        return answer(
            merged_report(page, own, in_charge(asked), verbose=verbose, excluded=excluded)
        )

    async def show_check(request: web.Request) -> web.StreamResponse:
        if ONE in request.query:
            return await of_one(request)
        page, check = request.path.split("/")[1], request.match_info["check"]
        report = own.check_page(page, check)
        if report is None:
            index, _, name = check.removeprefix(OF_A_WORKER).partition("/")
            has_index = check.startswith(OF_A_WORKER)
            asked_for = name if has_index else check
            path = f"/{page}/{quote(asked_for)}" if asked_for else f"/{page}"
            asked = await ask(path, TEXT, within_s=WITHIN_S)
            if has_index:
                asked = [each for each in asked if str(each.worker.index) == index]
            report = merged_check(asked)
        if report is None:
            raise web.HTTPNotFound
        return answer(report)

    routes = []
    for page in PAGES:
        routes.append(web.route("*", f"/{page}", show_page))
        routes.append(web.route("*", f"/{page}/{{check:.+}}", show_check))
    return routes


def in_charge(asked: list[Asked]) -> list[Asked]:
    """Without workers that make room for another one, which is asked already."""
    serving = {each.worker.index for each in asked if each.worker.state != DRAINING}
    return [
        each for each in asked if each.worker.state != DRAINING or each.worker.index not in serving
    ]


def answer(report: HealthReport) -> web.Response:
    """The report for the client."""
    status = 200 if report.is_healthy else 500
    headers = {"X-Content-Type-Options": "nosniff"}
    return web.Response(text=report.text, status=status, headers=headers)
