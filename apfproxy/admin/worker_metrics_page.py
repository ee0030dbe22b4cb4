"""`/metrics` of several workers: sums, or with `?workers=each` the series of every worker."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from aiohttp import web

from apfproxy.admin.gathering import ProcessParts, gathered
from apfproxy.admin.merged_metrics import Page, labelled_slices, merged_slices, page_of
from apfproxy.admin.metric_table import TABLE
from apfproxy.admin.metrics import ScrapedPage
from apfproxy.admin.responses import sliced_response
from apfproxy.admin.state import ProcessState, WorkerState
from apfproxy.admin.worker_answers import names_of
from apfproxy.admin.worker_totals import WorkerTotals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.admin.worker_answers import AskAll, Asked, WorkerAdmin

PATH = "/metrics"
EACH = "each"
WITHIN_S = 8.0
"""For a page, of maybe a million series; Prometheus gives 10 s by default."""

log = logging.getLogger(__name__)


class WorkerMetricsPage:
    """The page.

    Args:
        ask: Asks all workers.
        workers: Those that there are now.
        restarts: How many were started again since they had ended by themselves.
        parts: What this process has itself.
    """

    def __init__(
        self,
        ask: AskAll,
        workers: Callable[[], Sequence[WorkerAdmin]],
        restarts: Callable[[], int],
        parts: Callable[[], ProcessParts] = lambda: ProcessParts(started_s=0.0, health=()),
    ) -> None:
        self._ask = ask
        self._workers = workers
        self._restarts = restarts
        self._answered: dict[str, bool] = {}
        self._parts = parts
        self._own = ScrapedPage(TABLE, lambda: [{"": self._state()}])
        self._totals = WorkerTotals()
        self._asking = asyncio.Lock()

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Answer with the page."""
        each = request.query.get("workers")
        if each not in {None, EACH}:
            return web.Response(text=f"workers must be {EACH}, or not be there\n", status=400)
        # One at a time, so that what is remembered of a worker never is from before.
        async with self._asking:
            pages = self._read(await self._ask(PATH, "text/plain", within_s=WITHIN_S))
            taken = self._totals.take(pages)
        own = page_of(b"".join(self._own.slices()))
        if each is None:
            slices = merged_slices([*taken, own])
        else:
            named = dict(zip(self._answered, pages.values(), strict=True))
            there = {name: page for name, page in named.items() if page is not None}
            slices = labelled_slices({**there, "": own})
        return await sliced_response(request, slices, self._own.content_type)

    def bury(self, key: tuple[int, int], counts: bytes) -> None:
        """Keep what a worker has counted that has ended.

        Args:
            key: Its index and process id.
            counts: Its last page; b"" if it left none.
        """
        if not counts:
            return
        try:
            page = page_of(counts)
        except ValueError as error:
            log.warning("what worker %d (process %d) left of its counts is lost: %s", *key, error)
            return
        self._totals.bury(key, page)

    def _read(self, asked: Sequence[Asked]) -> dict[tuple[int, int], Page | None]:
        """The pages by worker and process; None of those that have not answered with one."""
        pages: dict[tuple[int, int], Page | None] = {}
        for each in asked:
            try:
                page = None if each.page is None else page_of(each.page.body)
            except ValueError:
                page = None  # it is another program
            pages[each.worker.index, each.worker.pid] = page
        names = names_of([each.worker for each in asked])
        answered = (page is not None for page in pages.values())
        self._answered = dict(zip(names, answered, strict=True))
        return pages

    def _state(self) -> ProcessState:
        (state,) = gathered(self._parts())
        workers = dict(zip(names_of(self._workers()), self._workers(), strict=True))
        for name, worker in workers.items():
            problem = "" if self._answered.get(name) else "it has not answered"
            state.workers.append(WorkerState(name=name, state=worker.state, problem=problem))
        state.restarts = self._restarts()
        return state
