"""Counts of a server's stored objects by resource, read from its metrics page.

kube-apiserver has them as `apiserver_resource_objects{group,resource}` (since 1.34) or
`apiserver_storage_objects{resource}`, with resources such as `pods` or `deployments.apps`.  A page
has megabytes of other metrics, so only these lines are parsed.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING

from apfproxy.base.faults import Part
from apfproxy.base.health_checks import READYZ
from apfproxy.base.tasks import Supervised
from apfproxy.settings.change import NO_CHANGE, Change

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    import aiohttp
    import yarl

    from apfproxy.base.health_checks import HealthChecks
    from apfproxy.settings import Settings

RESOURCE_OBJECTS = b"apiserver_resource_objects{"
STORAGE_OBJECTS = b"apiserver_storage_objects{"

MAX_PAGE_BYTES = 1 << 28  # the page of a large kube-apiserver has tens of MiB
MAX_LINE_BYTES = 1 << 16  # Prometheus' own limit on a label's value is far below this
MAX_RESOURCES = 10_000  # servers have a few hundred
TIMEOUT_S = 20.0
OBJECT_COUNTS = "object-counts"  # the health check

LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
SAMPLE = re.compile(
    r"[a-z_]+\{([^}]*)\}\s+([0-9]{1,20}(?:\.[0-9]*)?(?:[eE]\+?[0-9]{1,2})?)(?:\s+-?[0-9]+)?\s*"
)
"""A value that is no count is not matched; -1 is the server's for unknown."""

logger = logging.getLogger(__name__)


class CountsError(Exception):
    """The metrics page cannot be read; the server's fault, or that of the URL."""


class CountsParser:
    """Parses the pieces of a page in Prometheus' text format; raises CountsError."""

    def __init__(self) -> None:
        self._rest = b""
        self._bytes = 0
        self._counts: dict[bytes, dict[str, int]] = {RESOURCE_OBJECTS: {}, STORAGE_OBJECTS: {}}

    def feed(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes > MAX_PAGE_BYTES:
            raise CountsError(f"the page is longer than {MAX_PAGE_BYTES} bytes")
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            raise CountsError(f"the page has a line longer than {MAX_LINE_BYTES} bytes")
        for line in lines:
            self._line(line)

    def finish(self) -> dict[str, int]:
        """The counts by resource, of the newer metric if there are both."""
        self._line(self._rest)
        counts = self._counts[RESOURCE_OBJECTS] or self._counts[STORAGE_OBJECTS]
        if not counts:
            raise CountsError(
                "the page has neither apiserver_resource_objects nor apiserver_storage_objects"
            )
        return counts

    def _line(self, line: bytes) -> None:
        if not line.startswith((RESOURCE_OBJECTS, STORAGE_OBJECTS)):
            return
        sample = SAMPLE.fullmatch(line.decode("utf-8", "replace"))
        if sample is None:
            return
        counts = self._counts[line[: line.index(b"{") + 1]]
        labels = dict(LABEL.findall(sample[1]))
        resource, group = labels.get("resource", ""), labels.get("group", "")
        if resource and len(counts) < MAX_RESOURCES:
            counts[f"{resource}.{group}" if group else resource] = int(float(sample[2]))


class ObjectCounts:
    """Reads the counts periodically, if settings name a page; logs once when that fails or works.

    `on_counts` gets the counts by resource and their time in ns.  `others` has the URLs of all
    servers that have the same objects as the one of a URL, in the order in which to ask them: where
    one does not respond, the same page of the next one is read.
    """

    def __init__(
        self,
        settings: Settings,
        on_counts: Callable[[Mapping[str, int], int], None],
        now_ns: Callable[[], int],
        health: HealthChecks,
        others: Callable[[str], Mapping[str, object]],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._on_counts = on_counts
        self._now_ns = now_ns
        self._health = health
        self._others = others
        self._sleep = sleep
        self._reading = Supervised(
            Part.OBJECT_COUNTS, "reading object counts", lambda _beat: self._run()
        )
        self._task: asyncio.Task[None] | None = None
        self._is_started = False
        self._page = ""
        self._interval_s = 0.0
        self._is_first = True
        self.url = ""  # the page that was read last
        self.problem: str | None = None
        self._put(settings)

    def start(self) -> None:
        self._is_started = True
        if self._page:
            self._task = self._reading.start()

    async def prepare(self, settings: Settings) -> Change:
        flow_control = settings.flow_control
        wanted = flow_control.object_counts_from or "", flow_control.object_counts_interval_s
        is_same = wanted == (self._page, self._interval_s)
        return NO_CHANGE if is_same else Change(lambda: self._put(settings))

    def _put(self, settings: Settings) -> None:
        self.close()
        self._health.discard(OBJECT_COUNTS)
        before, self._page = self._page, settings.flow_control.object_counts_from or ""
        self._interval_s = settings.flow_control.object_counts_interval_s
        if self._page != before:
            self.url, self.problem, self._is_first = self._page, None, True
            if before:
                self._on_counts({}, self._now_ns())
        if self._page:
            self._health.add(
                OBJECT_COUNTS,
                pages=(READYZ,),
                is_blocking=False,
                look=lambda: self.problem or self._reading.problem(),
            )
        if self._is_started:
            self.start()

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        import aiohttp  # noqa: PLC0415 - for those who have a page to read

        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                await self.read_once(session)
                await self._sleep(self._interval_s)

    async def read_once(self, session: aiohttp.ClientSession) -> None:
        """Read the page; failure leaves what is known and shows in `problem`."""
        import aiohttp  # noqa: PLC0415 - lazily
        import yarl  # noqa: PLC0415 - lazily

        is_first, self._is_first = self._is_first, False
        first = yarl.URL(self._page)
        servers = [yarl.URL(each) for each in self._others(self._page)]
        same = [first.with_host(each.host or "").with_port(each.port) for each in servers]
        asked, problem = yarl.URL(self.url), ""
        errors = (CountsError, aiohttp.ClientError, TimeoutError, OSError, ValueError)
        for url in dict.fromkeys((asked, *same, first)):
            try:
                counts = await _fetch(session, url)
            except errors as error:
                problem = problem or " ".join(str(error).split()) or type(error).__name__
                continue
            self.url = str(url)
            if self.problem is not None or is_first:
                logger.info("object counts of %d resources from %s", len(counts), _shown(url))
            self.problem = None
            self._on_counts(counts, self._now_ns())
            return
        if self.problem is None:
            logger.warning(
                "cannot read object counts from %s: %s; costs of lists rest on what is known",
                _shown(asked),
                problem,
            )
        self.problem = problem


async def _fetch(session: aiohttp.ClientSession, url: yarl.URL) -> dict[str, int]:
    parser = CountsParser()
    # The operator names the page; the server may not choose another by a redirect.
    async with session.get(url, allow_redirects=False) as response:
        if response.status != 200:  # noqa: PLR2004 - the status that has the page
            raise CountsError(f"the server answered {response.status}")
        async for piece in response.content.iter_any():
            parser.feed(piece)
    return parser.finish()


def _shown(url: yarl.URL) -> str:
    return str(url.with_user(None).with_query(None))
