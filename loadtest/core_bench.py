"""Prints what flow control costs by itself, in nanoseconds of one core, and how that grows.

1. Admission to a queue set, and the end of a request there.
2. Classification by 20, 1 000 and 5 000 FlowSchemas of one shape, as it is for the last of them.
3. A request at a level of 8, 64 or 512 queues in which 0, 1 000 or 10 000 others wait.

Each figure is the best of several rounds, since anything else on the machine only adds to it.
Where figures are compared, rounds of one take turns with those of the others.
The clock is the system's monotonic one, read once an event, as in the proxy.

    python -m loadtest.core_bench
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from apfproxy.flowcontrol.classifier import Classifier
from apfproxy.flowcontrol.meters import FlowSchemaCounters, SeatDemand
from apfproxy.flowcontrol.queue_set import QueueSet, QueueSetConfig, QueueSetKind
from apfproxy.flowcontrol.ticket import ONE_SEAT, Flow, Ticket
from apfproxy.objects.types import FlowSchema, NonResourcePolicyRule, ServiceAccountSubject, Subject
from apfproxy.request.attributes import RequestAttributes, User
from loadtest.program import Parser, Table
from tests.support.builders import (
    EVERY_RESOURCE,
    EVERY_URL,
    flow_schema,
    group_subject,
    user_subject,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ROUNDS = 7
REQUESTS = 20_000
FLOWS = 50
SCHEMAS = (20, 1_000, 5_000)
QUEUES = (8, 64, 512)
WAITING = (0, 1_000, 10_000)
AUTHENTICATED = group_subject("system:authenticated")


class MonotonicClock:
    """The system's monotonic clock, without timers: no request here lingers."""

    now_ns = staticmethod(time.monotonic_ns)

    def call_at(self, deadline_ns: int, callback: Callable[[], None]) -> Any:  # noqa: ANN401
        raise NotImplementedError


class Crowd:
    """A level in which so many requests execute or wait, and a batch of others comes and ends.

    Attributes:
        admit_ns, finish_ns: Of one request, in the best round so far.
    """

    def __init__(self, config: QueueSetConfig, limit: int, present: int, batch: int) -> None:
        self._queue_set = QueueSet("bench", MonotonicClock(), config, limit, SeatDemand())
        counters = FlowSchemaCounters("bench", "bench")
        flows = [Flow(i * 0x9E3779B97F4A7C15 % 2**64, str(i), counters) for i in range(FLOWS)]
        self._executing: list[Ticket] = []
        # As many come as leave, so that as many wait all the time.
        self._batch = [flows[i % FLOWS] for i in range(batch)]
        admit = self._queue_set.admit
        tickets: list[Any] = [
            admit(flows[i % FLOWS], ONE_SEAT, self._executing.append) for i in range(present)
        ]
        self._executing += [each for each in tickets if each.is_executing]
        self.admit_ns = self.finish_ns = float("inf")

    def run(self, requests: int) -> None:
        executing, batch = self._executing, self._batch
        admit, finish, begun = self._queue_set.admit, self._queue_set.finish, executing.append
        in_admit = in_finish = 0
        for _ in range(requests // len(batch)):
            start = time.perf_counter_ns()
            tickets: list[Any] = [admit(flow, ONE_SEAT, begun) for flow in batch]
            in_admit += time.perf_counter_ns() - start
            executing += [each for each in tickets if each.is_executing]
            middle = time.perf_counter_ns()
            for ticket in executing[: len(batch)]:
                finish(ticket)
            in_finish += time.perf_counter_ns() - middle
            del executing[: len(batch)]
        self.admit_ns = min(self.admit_ns, in_admit / requests)
        self.finish_ns = min(self.finish_ns, in_finish / requests)


def run_in_turn(crowds: Iterable[Crowd], requests: int) -> None:
    for _ in range(ROUNDS):
        for crowd in crowds:
            crowd.run(requests)


def account(number: int, name: str = "robot") -> Subject:
    found = ServiceAccountSubject(namespace=f"n{number}", name=name)
    return Subject(kind="ServiceAccount", service_account=found)


def for_urls(number: int, url: str) -> FlowSchema:
    url_rule = NonResourcePolicyRule(verbs=("*",), non_resource_urls=(url,))
    nothing_else = replace(EVERY_RESOURCE, verbs=("nothing",))
    return schema(number, AUTHENTICATED, resource_rule=nothing_else, non_resource_rule=url_rule)


def schema(number: int, subject: Subject, **rules: Any) -> FlowSchema:  # noqa: ANN401
    rules = {"resource_rule": EVERY_RESOURCE, "non_resource_rule": EVERY_URL, **rules}
    return flow_schema(f"s{number:05}", "level", subject, precedence=number + 1, **rules)


def for_resources(number: int, subject: Subject = AUTHENTICATED, **fields: Any) -> FlowSchema:  # noqa: ANN401
    return schema(number, subject, resource_rule=replace(EVERY_RESOURCE, **fields))


SHAPES: dict[str, Callable[[int], FlowSchema]] = {
    "one service account": lambda i: schema(i, account(i)),
    "service accounts of a namespace": lambda i: schema(i, account(i, "*")),
    "one user": lambda i: schema(i, user_subject(f"u{i}")),
    "one group": lambda i: schema(i, group_subject(f"g{i}")),
    "authenticated: a resource": lambda i: for_resources(i, resources=(f"r{i}",)),
    "authenticated: a namespace": lambda i: for_resources(i, namespaces=(f"n{i}",)),
    "authenticated: an API group": lambda i: for_resources(i, api_groups=(f"a{i}",)),
    "authenticated: a verb": lambda i: for_resources(i, verbs=(f"v{i}",)),
    "authenticated: a URL": lambda i: for_urls(i, f"/u{i}/x"),
    "authenticated: below a URL": lambda i: for_urls(i, f"/u{i}/*"),
    "all users: a resource": lambda i: for_resources(i, user_subject("*"), resources=(f"r{i}",)),
}


def classified(shape: str, schemas: int) -> Callable[[], FlowSchema | None]:
    made = [SHAPES[shape](number) for number in range(schemas)]
    classifier, i = Classifier(made), schemas - 1
    groups = (f"g{i}", "system:authenticated")
    name = f"system:serviceaccount:n{i}:robot" if "account" in shape else f"u{i}"
    is_url = "URL" in shape
    attributes = RequestAttributes(
        is_resource_request=not is_url,
        path=f"/u{i}/x" if is_url else f"/apis/a{i}/v1/namespaces/n{i}/r{i}/name",
        verb=f"v{i}",
        api_group="" if is_url else f"a{i}",
        namespace="" if is_url else f"n{i}",
        resource="" if is_url else f"r{i}",
    )
    classify = partial(classifier.classify, User(name, groups), attributes)
    assert classify() is made[-1]
    return classify


def best_ns(calls: Sequence[Callable[[], object]], number: int = REQUESTS // 10) -> list[float]:
    """Nanoseconds of each, in turns of so many."""
    best = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for i, call in enumerate(calls):
            start = time.perf_counter_ns()
            for _ in range(number):
                call()
            best[i] = min(best[i], (time.perf_counter_ns() - start) / number)
    return best


def admission() -> None:
    queuing = QueueSetConfig(QueueSetKind.QUEUE, 64, 6, 50)
    rows = {
        "nothing waiting, 10 executing": Crowd(queuing, 600, 10, 100),
        "nothing waiting, 400 executing": Crowd(queuing, 600, 400, 100),
        "exempt": Crowd(QueueSetConfig(QueueSetKind.EXEMPT), 600, 10, 100),
        "no queues": Crowd(QueueSetConfig(QueueSetKind.REJECT), 600, 10, 100),
    }
    run_in_turn(rows.values(), REQUESTS)
    table = Table("ns per <36 | admit >8.0f | finish >8.0f | both >8.0f")
    table.head()
    for name, crowd in rows.items():
        table.row(name, crowd.admit_ns, crowd.finish_ns, crowd.admit_ns + crowd.finish_ns)


def classification() -> None:
    columns = " | ".join(f"{number} >9.0f" for number in SCHEMAS)
    table = Table(f"ns to classify; each is for <36 | {columns} | {SCHEMAS[1]}/{SCHEMAS[0]} >9.2f")
    print()
    table.head()
    for shape in SHAPES:
        found = best_ns([classified(shape, number) for number in SCHEMAS])
        table.row(shape, *found, found[1] / found[0])


def waiting() -> None:
    made = {
        (queues, waiting): Crowd(
            QueueSetConfig(QueueSetKind.QUEUE, queues, 4, 1 << 30),
            limit=20,
            present=20 + waiting if waiting else 10,
            batch=10,
        )
        for queues in QUEUES
        for waiting in WAITING
    }
    run_in_turn(made.values(), REQUESTS // 2)
    columns = " | ".join(f"{number} >9.0f" for number in WAITING)
    table = Table(f"ns to admit and finish; waiting <36 | {columns}")
    print()
    table.head()
    for queues in QUEUES:
        found = [made[queues, waiting] for waiting in WAITING]
        table.row(f"{queues} queues", *(crowd.admit_ns + crowd.finish_ns for crowd in found))


def main() -> None:
    Parser(__doc__, has_results=False).parse_args()
    admission()
    classification()
    waiting()


if __name__ == "__main__":
    main()
