"""A controller on a virtual clock, with levels and FlowSchemas, and users who ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from apfproxy.flowcontrol.controller import Controller, nothing
from apfproxy.flowcontrol.ticket import Ticket, WorkEstimate
from apfproxy.objects.additions import PREFIX
from apfproxy.objects.types import (
    FlowControlObject,
    FlowSchema,
    PriorityLevelConfiguration,
    QueuingConfiguration,
)
from apfproxy.request.attributes import AUTHENTICATED_GROUP, User, parse_attributes
from tests.support.builders import flow_schema, priority_level, user_subject
from tests.support.clocks import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.flowcontrol.controller import Classification, Digest
    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.request.attributes import RequestAttributes

    AnyObject = TypeVar("AnyObject", FlowSchema, PriorityLevelConfiguration)

S = 1_000_000_000
GET_POD = parse_attributes("GET", b"/api/v1/namespaces/default/pods/a")


def annotated(given: AnyObject, **additions: str) -> AnyObject:
    """The object with additions; `_` in their names stands for `-`."""
    named = {PREFIX + name.replace("_", "-"): value for name, value in additions.items()}
    return replace(given, metadata=replace(given.metadata, annotations=named))


def level_object(
    name: str,
    shares: int = 10,
    queues: int = 4,
    lendable: int = 0,
    borrowing: int | None = None,
    length: int = 3,
    **additions: str,
) -> PriorityLevelConfiguration:
    queuing = QueuingConfiguration(queues=queues, hand_size=1, queue_length_limit=length)
    made = priority_level(
        name,
        shares=shares,
        queuing=queuing if queues else None,
        lendable_percent=lendable,
        borrowing_limit_percent=borrowing,
    )
    return annotated(made, **additions)


def schema_object(
    name: str,
    level: str,
    user_name: str = "*",
    method: str | None = "ByUser",
    uid: str = "",
    **additions: str,
) -> FlowSchema:
    made = flow_schema(
        name, level, user_subject(user_name), uid=uid, precedence=500, distinguish_by=method
    )
    return annotated(made, **additions)


def user(name: str, *groups: str) -> User:
    return User(name, (AUTHENTICATED_GROUP, *groups))


class Scene:
    def __init__(
        self,
        *objects: FlowControlObject,
        seats: int = 30,
        is_prompt: bool = False,
        on_short: Callable[[str, int], None] = nothing,
    ) -> None:
        self.clock = VirtualClock()
        self.controller = Controller(self.clock, seats, 0, is_prompt=is_prompt, on_short=on_short)
        self.told: list[Ticket] = []
        self.commit(*objects)

    def commit(self, *objects: FlowControlObject) -> Digest:
        digest = self.controller.digest(objects)
        self.controller.commit(digest)
        return digest

    def level(self, name: str) -> PriorityLevel:
        return self.controller.levels[name]

    def classify(self, name: str = "u", attributes: RequestAttributes = GET_POD) -> Classification:
        return self.controller.classify(user(name), attributes)

    def take(
        self,
        name: str = "u",
        count: int = 1,
        seats: int = 1,
        on_dispatch: Callable[[Ticket], None] | None = None,
    ) -> list[Ticket]:
        found = self.classify(name)
        admit, told = found.level.queue_set.admit, on_dispatch or self.told.append
        tickets = [admit(found.flow, WorkEstimate(seats), told) for _ in range(count)]
        return [ticket for ticket in tickets if isinstance(ticket, Ticket)]

    def arrive(self, name: str = "u", count: int = 1, seats: int = 1) -> list[Ticket]:
        tickets = self.take(name, count, seats)
        assert count == len(tickets)
        return tickets

    def finish(self, name: str, tickets: list[Ticket]) -> None:
        for ticket in tickets:
            self.level(name).queue_set.withdraw(ticket, None)

    def executing(self, tickets: list[Ticket]) -> int:
        return sum(ticket.is_executing for ticket in tickets)

    def limit(self, name: str) -> int:
        return self.level(name).current_limit

    def in_use(self, *names: str) -> tuple[int, ...]:
        return tuple(self.level(name).queue_set.seats_in_use for name in names)

    def wait(self, duration_ns: int) -> None:
        self.clock.run_until(self.clock.now_ns() + duration_ns)
