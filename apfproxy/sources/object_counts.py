"""Counts of a server's stored objects by resource, read from its metrics page.

kube-apiserver has them as `apiserver_resource_objects{group,resource}` (since 1.34) or
`apiserver_storage_objects{resource}`, with resources such as `pods` or `deployments.apps`.  A page
has megabytes of other metrics, so it is read line by line, and only these lines are parsed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from typing import TYPE_CHECKING

import aiohttp
import yarl

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

RESOURCE_OBJECTS = b"apiserver_resource_objects{"
STORAGE_OBJECTS = b"apiserver_storage_objects{"

MAX_PAGE_BYTES = 1 << 28
"""The page of a large kube-apiserver has tens of MiB."""
MAX_LINE_BYTES = 1 << 16
"""Prometheus' own limit on a label's value is far below this."""
MAX_RESOURCES = 10_000
"""Servers have a few hundred."""
TIMEOUT_S = 20.0

LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
SAMPLE = re.compile(r"[a-z_]+\{([^}]*)\}\s+(\S+)(?:\s+-?[0-9]+)?\s*")

logger = logging.getLogger(__name__)


class CountsError(Exception):
    """The metrics page cannot be read; the server's fault, or that of the URL."""


class CountsParser:
    """Parses the counts from the pieces of a page in Prometheus' text format."""

    def __init__(self) -> None:
        self._rest = b""
        self._bytes = 0
        self._resource_objects: dict[str, int] = {}
        self._storage_objects: dict[str, int] = {}

    def feed(self, data: bytes) -> None:
        """Take the next piece; CountsError if the page or a line is too long."""
        self._bytes += len(data)
        if self._bytes > MAX_PAGE_BYTES:
            raise CountsError(f"the page is longer than {MAX_PAGE_BYTES} bytes")
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            raise CountsError(f"the page has a line longer than {MAX_LINE_BYTES} bytes")
        for line in lines:
            self._line(line)

    def finish(self) -> dict[str, int]:
        """The counts by resource, of the newer metric if there are both, or CountsError."""
        self._line(self._rest)
        counts = self._resource_objects or self._storage_objects
        if not counts:
            raise CountsError(
                "the page has neither apiserver_resource_objects nor apiserver_storage_objects"
            )
        return counts

    def _line(self, line: bytes) -> None:
        if line.startswith(RESOURCE_OBJECTS):
            counts = self._resource_objects
        elif line.startswith(STORAGE_OBJECTS):
            counts = self._storage_objects
        else:
            return
        sample = SAMPLE.fullmatch(line.decode("utf-8", "replace"))
        if sample is None:
            return
        labels = dict(LABEL.findall(sample[1]))
        resource, group = labels.get("resource", ""), labels.get("group", "")
        count = whole_number(sample[2])
        if resource and count is not None and len(counts) < MAX_RESOURCES:
            counts[f"{resource}.{group}" if group else resource] = count


def whole_number(text: str) -> int | None:
    """A sample's value; None if it is no count (-1 is the server's for unknown)."""
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if math.isfinite(value) and value >= 0 else None


class ObjectCounts:
    """Reads the counts periodically, and logs once when that fails or works again.

    `on_counts` gets the counts by resource and their time in ns, every `interval_s` after the last.
    `others` are URLs of all servers that have the same objects, in the order in which to ask them:
    where one does not answer, the same page of the next one is read.
    """

    def __init__(
        self,
        url: str,
        on_counts: Callable[[Mapping[str, int], int], None],
        now_ns: Callable[[], int],
        interval_s: float,
        *,
        others: Callable[[], Iterable[str]] = tuple,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.url = self._first = yarl.URL(url)
        self._others = others
        self._on_counts = on_counts
        self._now_ns = now_ns
        self._interval_s = interval_s
        self._sleep = sleep
        self.problem: str | None = None
        self.reads_total = 0

    @property
    def shown_url(self) -> str:
        """The URL without what may be secret."""
        return str(self.url.with_user(None).with_query(None))

    async def run(self) -> None:
        """Read for ever."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                await self.read_once(session)
                await self._sleep(self._interval_s)

    async def read_once(self, session: aiohttp.ClientSession) -> None:
        """Read the page; failure leaves what is known and shows in `problem`."""
        self.reads_total += 1
        shown_url, problem = self.shown_url, ""
        for url in dict.fromkeys((self.url, *self._same_page_elsewhere(), self._first)):
            try:
                counts = await self._fetch(session, url)
            except (CountsError, aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                problem = problem or " ".join(str(error).split()) or type(error).__name__
            else:
                self.url = url
                break
        else:
            if self.problem is None:
                logger.warning(
                    "cannot read object counts from %s: %s; costs of lists rest on what is known",
                    shown_url,
                    problem,
                )
            self.problem = problem
            return
        if self.problem is not None or self.reads_total == 1:
            logger.info("object counts of %d resources from %s", len(counts), self.shown_url)
        self.problem = None
        self._on_counts(counts, self._now_ns())

    def _same_page_elsewhere(self) -> Iterator[yarl.URL]:
        for each in self._others():
            other = yarl.URL(each)
            yield self._first.with_host(other.host or "").with_port(other.port)

    async def _fetch(self, session: aiohttp.ClientSession, url: yarl.URL) -> dict[str, int]:
        parser = CountsParser()
        # The operator names the page; the server may not choose another by a redirect.
        async with session.get(url, allow_redirects=False) as response:
            if response.status != 200:  # noqa: PLR2004 - the status that has the page
                raise CountsError(f"the server answered {response.status}")
            async for piece in response.content.iter_any():
                parser.feed(piece)
        return parser.finish()
