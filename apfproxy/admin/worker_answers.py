"""What workers answer for their pages, and how the pages of all get these answers."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ONE: Final = "worker"
"""The parameter that names one worker."""
STARTING, SILENT, DRAINING, ENDED = "starting", "silent", "draining", "ended"
WHY_NOT = {
    STARTING: "it is starting",
    SILENT: "it shows no life",
    ENDED: "it has no process",
}
"""Why a worker in such a state is not asked."""


@dataclass(frozen=True, slots=True)
class WorkerAdmin:
    """A worker and where its pages are.

    Attributes:
        index: Its place; a process that takes over another one's has the same for a while.
        path: Of the Unix socket of its admin listener.
        state: `starting`, `serving`, `silent`, `draining` or `ended`.
        pid: Of its process; 0 if there is none.
        trouble: Why it starts, or has no process; "" where that is the first start.
        shows_life: Whether there was a sign of life lately; one that drains may hang, too.
    """

    index: int
    path: str
    state: str
    pid: int
    trouble: str = ""
    shows_life: bool = True

    @property
    def why_not(self) -> str:
        """Why it is not asked; "" if it is."""
        reason = WHY_NOT.get(self.state if self.shows_life else SILENT, "")
        return f"{reason}: {self.trouble}" if reason and self.trouble else reason


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of a worker; a header that it lacks is empty."""

    status: int
    content_type: str
    body: bytes

    @property
    def is_ok(self) -> bool:
        """Whether it is the page."""
        return self.status == HTTPStatus.OK

    @property
    def text(self) -> str:
        """Its body as text."""
        return self.body.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Asked:
    """A worker that was asked.

    Attributes:
        worker: Which one.
        answer: None if none came.
        problem: Why none came; "" if one did.
    """

    worker: WorkerAdmin
    answer: Answer | None = None
    problem: str = ""

    @property
    def page(self) -> Answer | None:
        """The answer if it is the page that was asked for."""
        return self.answer if self.answer is not None and self.answer.is_ok else None


class AskAll(Protocol):
    """Asks all workers at once."""

    async def __call__(
        self,
        target: str | Callable[[WorkerAdmin], str],
        accept: str = "application/json",
        *,
        within_s: float = ...,
    ) -> list[Asked]:
        """What each answers for a path with its query, in the order of the workers.

        Args:
            target: The same for all, or made for each.
            accept: The header.
            within_s: Who has not answered by then is left out.
        """


@dataclass(frozen=True, slots=True)
class Pages:
    """The answers to one question, taken apart.

    Attributes:
        found: What those say that have the page, as JSON, by worker.
        silent: Those that did not answer, and why.
        refusal: The first answer that is not the page; None if there is none.
    """

    found: list[tuple[WorkerAdmin, Any]]
    silent: list[Asked]
    refusal: Answer | None


def json_pages(asked: Iterable[Asked]) -> Pages:
    """The answers as JSON; one that is none counts as no answer."""
    found: list[tuple[WorkerAdmin, Any]] = []
    silent: list[Asked] = []
    refusal: Answer | None = None
    for each in asked:
        if each.answer is None:
            silent.append(each)
        elif not each.answer.is_ok:
            refusal = refusal or each.answer
        else:
            try:
                found.append((each.worker, msgspec.json.decode(each.answer.body)))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                silent.append(Asked(each.worker, problem=f"its answer is no JSON: {error}"))
    return Pages(found, silent, refusal)


def in_service(workers: Iterable[WorkerAdmin]) -> list[WorkerAdmin]:
    """Those that may answer, or should: not one that is about to take the place of another."""
    there = list(workers)
    taken = {worker.index for worker in there if worker.state != STARTING}
    return [worker for worker in there if worker.state != STARTING or worker.index not in taken]


def names_of(workers: Sequence[WorkerAdmin]) -> list[str]:
    """A name for each: its index, with its process where there are two of one index."""
    indices = [worker.index for worker in workers]
    return [
        f"{worker.index}-{worker.pid}"
        if worker.state == DRAINING and indices.count(worker.index) > 1
        else str(worker.index)
        for worker in workers
    ]


def named(workers: Sequence[WorkerAdmin], name: str) -> list[WorkerAdmin]:
    """The worker of that name; empty if there is none."""
    return [each for each, known in zip(workers, names_of(workers), strict=True) if known == name]
