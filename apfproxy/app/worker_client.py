"""Asks workers for their admin pages, over their Unix sockets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import aiohttp
from yarl import URL

from apfproxy.admin.worker_answers import Answer, Asked, WorkerAdmin, in_service

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

WITHIN_S: Final = 3.0
"""For a whole answer, which takes a worker some milliseconds; who asks us waits for 5 s or more."""
LARGEST_ANSWER_BYTES: Final = 64 << 20
LARGEST_EVENT_BYTES: Final = 16 << 20
"""A history of 15 minutes of 64 levels takes 4 MB."""
CONNECTIONS: Final = 16
"""To one worker, which keeps places for others."""


class WorkerClient:
    """Asks all workers that there are; connections are kept from one question to the next.

    Args:
        workers: Those that there are now.
    """

    def __init__(self, workers: Callable[[], Sequence[WorkerAdmin]]) -> None:
        self.workers = workers
        self._sessions: dict[str, aiohttp.ClientSession] = {}

    def __repr__(self) -> str:
        return f"<WorkerClient of {len(self._sessions)} workers>"

    async def ask_all(
        self,
        target: str | Callable[[WorkerAdmin], str],
        accept: str = "application/json",
        *,
        within_s: float = WITHIN_S,
    ) -> list[Asked]:
        """What each answers for a path with its query, in the order of the workers."""
        workers = in_service(self.workers())
        await self._forget_others({worker.path for worker in workers})
        questions = (
            self._ask(
                worker, target if isinstance(target, str) else target(worker), accept, within_s
            )
            for worker in workers
        )
        return list(await asyncio.gather(*questions))

    async def events(
        self, worker: WorkerAdmin, target: str
    ) -> AsyncGenerator[tuple[str, bytes], None]:
        """The server-sent events of a page: their names and data, until it ends.

        OSError if there are none, or no more.
        """
        try:
            async for each in self._events(worker, target):
                yield each
        except aiohttp.ClientError as error:
            raise OSError(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """Close all connections."""
        await self._forget_others(set())

    async def _events(
        self, worker: WorkerAdmin, target: str
    ) -> AsyncGenerator[tuple[str, bytes], None]:
        timeout = aiohttp.ClientTimeout(total=None, connect=WITHIN_S)
        async with self._session(worker.path).get(
            url_of(target), timeout=timeout, raise_for_status=True
        ) as response:
            buffer = bytearray()
            async for part in response.content.iter_any():
                buffer += part
                while (end := buffer.find(b"\n\n")) >= 0:
                    name, data = event_of(bytes(buffer[:end]))
                    del buffer[: end + 2]
                    if data:
                        yield name, data
                if len(buffer) > LARGEST_EVENT_BYTES:
                    raise OSError("an event of it does not end")

    async def _ask(self, worker: WorkerAdmin, target: str, accept: str, within_s: float) -> Asked:
        if worker.why_not:
            return Asked(worker, problem=worker.why_not)
        try:
            async with (
                asyncio.timeout(within_s),
                self._session(worker.path).get(
                    url_of(target), headers={"Accept": accept}, allow_redirects=False
                ) as response,
            ):
                body = bytearray()
                async for part in response.content.iter_any():
                    body += part
                    if len(body) > LARGEST_ANSWER_BYTES:
                        return Asked(
                            worker, problem=f"its answer exceeds {LARGEST_ANSWER_BYTES} bytes"
                        )
                content_type = response.headers.get("Content-Type", "")
                return Asked(worker, Answer(response.status, content_type, bytes(body)))
        except TimeoutError:
            return Asked(worker, problem=f"no answer within {within_s:g} s")
        except (OSError, aiohttp.ClientError) as error:
            text = " ".join(str(error).split()) or type(error).__name__
            return Asked(worker, problem=text)

    def _session(self, path: str) -> aiohttp.ClientSession:
        session = self._sessions.get(path)
        if session is None:
            session = self._sessions[path] = aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(path, limit=CONNECTIONS),
                headers={"Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return session

    async def _forget_others(self, paths: set[str]) -> None:
        """Close the connections to workers that are gone."""
        for path in [path for path in self._sessions if path not in paths]:
            await self._sessions.pop(path).close()


def url_of(target: str) -> URL:
    """The URL of a path with its query, which are escaped already."""
    return URL(f"http://localhost{target}", encoded=True)


def event_of(text: bytes) -> tuple[str, bytes]:
    """The name and the data of a server-sent event; empty where it has none."""
    name, data = "", b""
    for line in text.split(b"\n"):
        field, _, value = line.partition(b": ")
        if field == b"event":
            name = value.decode()
        elif field == b"data":
            data = value
    return name, data
