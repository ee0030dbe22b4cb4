"""Where the pages have the state from: this process, or the workers whose parent it is.

`app.parent_admin` has the latter.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import msgspec

from apfproxy.admin.questions import Question, RefusedError, replies

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from apfproxy.admin.questions import Asked
    from apfproxy.admin.state import ProcessState
    from apfproxy.base.health_checks import HealthRegistry


class States(ABC):
    @abstractmethod
    async def state(self) -> ProcessState:
        """All of it as of now: of several workers the sum."""

    @abstractmethod
    async def each(self) -> dict[str, ProcessState]:
        """Return the state of this process, "", and of each worker that tells one, by name."""

    @abstractmethod
    async def ask(self, question: Question, worker: str | None = None) -> dict[str, bytes]:
        """What each worker replies, by its name, or one alone, in lines; RefusedError."""

    @abstractmethod
    def health(
        self, page: str, excluded: Collection[str], name: str = "", *, worker: str | None = None
    ) -> HealthRegistry:
        """The checks of a health page, or with a name of the page of one check; RefusedError.

        That of several workers fails only where none is well, or a check of their parent fails.
        """

    @abstractmethod
    async def one(self, worker: str) -> ProcessState:
        """Return the state of one worker; RefusedError."""


class OwnStates(States):
    """This process alone; `asked` has what replies to questions about a cluster, by its name."""

    def __init__(
        self,
        own: Callable[[], Iterator[ProcessState]],
        health: HealthRegistry,
        asked: Callable[[str], Asked | None],
    ) -> None:
        self._gathered = own
        self._health = health
        self._asked = asked

    async def state(self) -> ProcessState:
        for found in self._gathered():  # noqa: B007 - the last one is whole
            await asyncio.sleep(0)
        return found

    async def each(self) -> dict[str, ProcessState]:
        return {"": await self.state()}

    async def one(self, worker: str) -> ProcessState:
        raise no_worker(worker)

    async def ask(self, question: Question, worker: str | None = None) -> dict[str, bytes]:
        if worker is not None:
            raise no_worker(worker)
        lines = []
        for line in self.replies(question):
            lines.append(line)
            await asyncio.sleep(0)
        return {"": b"".join(lines)}

    def health(self, *_: object, worker: str | None = None) -> HealthRegistry:
        if worker is not None:
            raise no_worker(worker)
        return self._health

    async def encoded(self) -> bytes:
        return msgspec.msgpack.encode(await self.state())

    def reply(self, arguments: bytes) -> Iterator[bytes]:
        return self.replies(msgspec.msgpack.decode(arguments, type=Question))

    def replies(self, question: Question) -> Iterator[bytes]:
        asked = self._asked(question.cluster)
        return iter(()) if asked is None else replies(question, asked)


def no_worker(name: str, there: Collection[str] = ()) -> RefusedError:
    known = f"there are {', '.join(there)}" if there else "this process has no workers"
    return RefusedError(404, f"worker: there is none named {name!r}; {known}\n")
