"""Where pages have the state from, this process or its workers, and replies to their questions.

Questions are about what is no state: single requests, queues, and what would happen.  A process
replies in lines of JSON, each of which is made within some milliseconds, so that a hundred thousand
requests hold up no one.  A parent asks its workers over their links, see `app.parent_admin`.
"""

from __future__ import annotations

import asyncio
import heapq
import json
from abc import ABC, abstractmethod
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from apfproxy.admin.amounts import cut
from apfproxy.admin.gathering import MAX_QUEUES, displayable
from apfproxy.admin.state import NS_PER_S
from apfproxy.admin.tables import ZERO_TIME, duration_text, time_text
from apfproxy.flowcontrol.explanation import hand_of
from apfproxy.flowcontrol.level_summary import named_objects, with_uid
from apfproxy.flowcontrol.ticket import format_seat_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from apfproxy.admin.state import ProcessState
    from apfproxy.admin.tables import Row
    from apfproxy.admin.top_flows import TopFlows
    from apfproxy.base.health_checks import HealthRegistry
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.queue_set import QueueSet
    from apfproxy.flowcontrol.ticket import Ticket

ASK: Final = "admin.ask"
"""The question over a link; its arguments are a `Question`."""
ITEMS_AT_ONCE: Final = 200
"""Rows of a line, which takes 2 ms."""
MAX_REQUESTS: Final = 50
"""For each kind on the live page: more than anybody reads."""
MAX_CHARACTERS: Final = 256


class RefusedError(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: str
    cluster: str = ""
    words: dict[str, str] = {}


class Asked(NamedTuple):
    controller: Controller
    wall_offset_ns: int
    top_flows: TopFlows | None
    explain: Callable[[str], Any]


def replies(question: Question, asked: Asked) -> Iterator[bytes]:
    """The reply in lines of JSON, the first of which says what is wrong with the question."""
    try:
        for each in REPLIES[question.kind](asked, **question.words):
            yield json.dumps(each).encode() + b"\n"
    except RefusedError as error:
        yield json.dumps({"refused": [error.status, error.text]}).encode() + b"\n"


def read(reply: bytes) -> list[Any]:
    """Return what the lines of a reply say; RefusedError."""
    found = list(map(json.loads, reply.splitlines()))
    if found and isinstance(found[0], dict) and "refused" in found[0]:
        raise RefusedError(*found[0]["refused"])
    return found


def _requests(asked: Asked, details: str = "") -> Iterator[list[Row]]:
    return _in_lines(
        request_rows(asked.controller, asked.wall_offset_ns, with_details=bool(details))
    )


def _in_lines(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while some := list(islice(rows, ITEMS_AT_ONCE)):
        yield some


def queue_rows(controller: Controller) -> Iterator[Row]:
    for name, level in sorted(controller.levels.items()):
        for queue in tuple(level.queue_set.queues):
            yield (
                name,
                *(queue.index, queue.requests_waiting, queue.requests_executing),
                *(queue.seats_in_use, format_seat_seconds(queue.next_dispatch_r)),
                *(queue.initial_seats_waiting, queue.seats_waiting),
                format_seat_seconds(queue.work_waiting),
            )


def request_rows(
    controller: Controller, wall_offset_ns: int, *, with_details: bool
) -> Iterator[Row]:
    """The rows of `dump_requests`; the requests of a level are of one moment.

    Of each queue first what waits, oldest first, then what executes.  A request outside a queue has
    the queue index -1, an executing one the request index -1, a waiting one Go's zero as its start.
    """
    for name, level in sorted(controller.levels.items()):
        queue_set = level.queue_set
        if not queue_set.requests_waiting and not queue_set.executing:
            continue
        executing: dict[int, list[Ticket]] = {}
        for ticket in queue_set.executing:
            index = -1 if ticket.queue is None else ticket.queue.index
            executing.setdefault(index, []).append(ticket)
        found: list[tuple[int, int, Ticket]] = []
        for queue in queue_set.queues:
            found += [(queue.index, place, each) for place, each in enumerate(queue.tickets())]
            found += [(queue.index, -1, each) for each in executing.get(queue.index, ())]
        found += [(-1, -1, each) for each in executing.get(-1, ())]
        # A request that ends while rows are read has no details any more.
        moments = [(ticket.dispatched_ns, ticket.details) for _, _, ticket in found]
        for (index, place, ticket), (dispatched_ns, details) in zip(found, moments, strict=True):
            estimate = ticket.estimate
            row: Row = (
                *(name, ticket.flow.counters.flow_schema, index, place, ticket.flow.distinguisher),
                time_text(ticket.arrived_ns + wall_offset_ns),
                *(estimate.initial_seats, estimate.final_seats),
                duration_text(estimate.additional_latency_ns),
                ZERO_TIME if place >= 0 else time_text(dispatched_ns + wall_offset_ns),
            )
            yield row + _detail_cells(details) if with_details else row


def _detail_cells(details: Any) -> Row:  # noqa: ANN401 - whatever made the request
    attributes = details.attributes
    group, version = attributes.api_group, attributes.api_version
    return (
        *(details.user_name, attributes.verb, attributes.path, attributes.namespace),
        *(attributes.name, f"{group}/{version}" if group else version),
        *(attributes.resource, attributes.subresource),
    )


def _level(asked: Asked, name: str) -> QueueSet:
    level = asked.controller.levels.get(name)
    if level is None:
        text = f"priorityLevel: there is no priority level {name!r}; /debug/live lists them\n"
        raise RefusedError(404, text)
    return level.queue_set


def _live(asked: Asked, level: str = "") -> Iterator[dict[str, Any]]:
    """The requests of one level that wait or execute, the oldest, with how many there are."""
    queue_set, now_ns = _level(asked, level), asked.controller.now_ns()
    queues = islice(queue_set.queues, MAX_QUEUES)
    waiting = heapq.merge(
        *(queue.tickets() for queue in queues if queue.requests_waiting),
        key=lambda ticket: ticket.arrived_ns,
    )
    yield {
        "waiting": [
            _request(ticket, now_ns - ticket.arrived_ns) for ticket in islice(waiting, MAX_REQUESTS)
        ],
        "executing": [
            _request(ticket, now_ns - ticket.dispatched_ns)
            for ticket in islice(queue_set.executing, MAX_REQUESTS)
        ],
        "waitingCount": queue_set.requests_waiting,
        "executingCount": queue_set.requests_executing,
    }


def _request(ticket: Ticket, age_ns: int) -> dict[str, Any]:
    details: Any = ticket.details
    attributes = details.attributes
    return {
        "user": _text(details.user_name),
        "verb": attributes.verb,
        "path": _text(attributes.path),
        "flowSchema": ticket.flow.counters.flow_schema,
        "flow": _text(ticket.flow.distinguisher),
        "queue": None if ticket.queue is None else ticket.queue.index,
        "seats": ticket.estimate.max_seats,
        "weight": ticket.estimate.weight,
        "seconds": round(age_ns / NS_PER_S, 3),
    }


def _text(text: str) -> str:
    return displayable(cut(text, MAX_CHARACTERS))


def merged_live(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The oldest requests of a level of several workers, each with the name of its worker."""
    merged: dict[str, Any] = {}
    for kind in ("waiting", "executing"):
        lists = [[{**each, "worker": name} for each in page[kind]] for name, page in found.items()]
        oldest = heapq.merge(*lists, key=lambda each: -each["seconds"])
        merged[kind] = list(islice(oldest, MAX_REQUESTS))
    for kind in ("waitingCount", "executingCount"):
        merged[kind] = sum(page[kind] for page in found.values())
    return merged


def _hand(
    asked: Asked, level: str = "", schema: str = "", flow: str = ""
) -> Iterator[dict[str, Any]]:
    queue_set = _level(asked, level)
    hash_ = asked.controller.flow_hash(schema, flow if queue_set.config.queues > 1 else "")
    yield {"priorityLevel": level, "hand": list(hand_of(queue_set, hash_))}


def _objects(asked: Asked, uid: str | None = None) -> Iterator[list[dict[str, Any]]]:
    found = list(named_objects(asked.controller))
    yield msgspec.to_builtins(found if uid is None else with_uid(found, uid))


def _explain(asked: Asked, query: str = "") -> Iterator[Any]:
    try:
        explanation = asked.explain(query)
    except ValueError as error:
        raise RefusedError(400, f"{error}\n") from None
    yield msgspec.to_builtins(explanation)


def _flows(asked: Asked, most: str = "20") -> Iterator[Any]:
    if asked.top_flows is None:
        raise RefusedError(404, "top flows are off (topFlows.enabled)\n")
    yield msgspec.to_builtins(asked.top_flows.state(int(most)))


REPLIES: Final[dict[str, Callable[..., Iterator[Any]]]] = {
    "queues": lambda asked: _in_lines(queue_rows(asked.controller)),
    "requests": _requests,
    "live": _live,
    "hand": _hand,
    "objects": _objects,
    "explain": _explain,
    "flows": _flows,
}


def joined(replies: Iterable[bytes]) -> Iterator[list[Any]]:
    """The rows of several processes, level by level, as those of one; read as they are taken."""
    rows = (chain.from_iterable(map(json.loads, each.splitlines())) for each in replies)
    return heapq.merge(*rows, key=itemgetter(0))


class States(ABC):
    @abstractmethod
    async def state(self, worker: str | None = None) -> ProcessState:
        """All of it as of now, of several workers the sum; or that of one, RefusedError."""

    @abstractmethod
    async def each(self) -> dict[str, ProcessState]:
        """Return the state of this process, "", and of each worker that tells one, by name."""

    @abstractmethod
    async def ask(self, question: Question, worker: str | None = None) -> dict[str, bytes]:
        """The replies of all workers, by name, or of one alone, in lines; RefusedError."""

    @abstractmethod
    def health(
        self, page: str, excluded: Collection[str], name: str = "", *, worker: str | None = None
    ) -> HealthRegistry:
        """The checks of a health page, or with a name of the page of one check; RefusedError.

        That of several workers fails only where none is well, or a check of their parent fails.
        """


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

    async def state(self, worker: str | None = None) -> ProcessState:
        if worker is not None:
            raise no_worker(worker)
        for found in self._gathered():  # noqa: B007 - the last one is whole
            await asyncio.sleep(0)
        return found

    async def each(self) -> dict[str, ProcessState]:
        return {"": await self.state()}

    async def ask(self, question: Question, worker: str | None = None) -> dict[str, bytes]:
        if worker is not None:
            raise no_worker(worker)
        asked, lines = self._asked(question.cluster), []
        for line in () if asked is None else replies(question, asked):
            lines.append(line)
            await asyncio.sleep(0)
        return {"": b"".join(lines)}

    def health(self, *_: object, worker: str | None = None) -> HealthRegistry:
        if worker is not None:
            raise no_worker(worker)
        return self._health

    async def encoded(self) -> bytes:
        return msgspec.msgpack.encode(await self.state())

    async def reply(self, arguments: bytes) -> bytes:
        return (await self.ask(msgspec.msgpack.decode(arguments, type=Question)))[""]


def no_worker(name: str, there: Collection[str] = ()) -> RefusedError:
    known = f"there are {', '.join(there)}" if there else "this process has no workers"
    return RefusedError(404, f"worker: there is none named {name!r}; {known}\n")
