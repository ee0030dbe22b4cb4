"""Tests of presets: what is built in, and how requests are read."""

from __future__ import annotations

from collections import deque

import pytest

from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.flowcontrol.passage import WorkEstimator
from apfproxy.flowcontrol.preset import HTTP
from apfproxy.flowcontrol.queue_set import ONE_SEAT, Ticket
from apfproxy.lint.linter import lint
from apfproxy.request.attributes import AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP, User
from tests.support.clocks import VirtualClock

SEATS = 20


def controller_of(seats: int = SEATS) -> Controller:
    """A controller with the objects of the preset `http`."""
    controller = Controller(VirtualClock(), seats, 0, is_prompt=True)
    digest = controller.digest(HTTP.objects())
    assert () == digest.problems
    controller.commit(digest)
    return controller


def take(controller: Controller, count: int, *groups: str) -> list[Ticket]:
    found = controller.classify(
        User("u", (AUTHENTICATED_GROUP, *groups)), HTTP.attributes_of("GET", b"/")
    )
    tickets = [
        found.level.queue_set.admit(found.flow, ONE_SEAT, lambda _: None) for _ in range(count)
    ]
    return [each for each in tickets if isinstance(each, Ticket) and each.is_executing]


def wait(controller: Controller, seconds: float) -> None:
    clock = controller._clock  # noqa: SLF001  that of `controller_of`
    assert isinstance(clock, VirtualClock)
    clock.run_until(clock.now_ns() + round(seconds * 1e9))


def test_one_level_has_all_seats() -> None:
    controller = controller_of()
    take(controller, 150)

    assert SEATS == controller.levels["default"].current_limit
    assert SEATS == controller.levels["default"].queue_set.requests_executing
    assert {"catch-all": 1} == {
        name: level.lower_limit for name, level in controller.levels.items() if level.lower_limit
    }


@pytest.mark.parametrize("seats", [4, 8, 20, 37])
def test_levels_go_in_the_order_of_their_names(seats: int) -> None:
    levels = ("interactive", "default", "batch", "background")
    served = served_of(seats, dict.fromkeys(levels, 250), requests=10_000)
    assert sorted(levels, key=lambda name: -served[name]) == list(levels)
    assert min(served.values()) >= 0.05 * sum(served.values())
    assert len(set(served.values())) == len(levels)


def seats_in_use(controller: Controller) -> int:
    return sum(level.queue_set.seats_in_use for level in controller.levels.values())


def served_of(seats: int, in_flight: dict[str, int], requests: int) -> dict[str, int]:
    """Requests served of levels that keep so many in flight; what began first ends first."""
    controller = controller_of(seats)
    executing: deque[tuple[str, Ticket]] = deque()

    def ask(name: str) -> None:
        found = controller.classify(
            User("u", (AUTHENTICATED_GROUP, name)), HTTP.attributes_of("GET", b"/")
        )
        ticket = found.level.queue_set.admit(
            found.flow, ONE_SEAT, lambda ticket: executing.append((name, ticket))
        )
        assert isinstance(ticket, Ticket)
        if ticket.is_executing:
            executing.append((name, ticket))

    for name, count in in_flight.items():
        for _ in range(count):
            ask(name)
    wait(controller, 1)
    served = dict.fromkeys(in_flight, 0)
    for number in range(requests):
        assert seats == len(executing) == seats_in_use(controller)
        name, ticket = executing.popleft()
        controller.levels[name].queue_set.finish(ticket)
        served[name] += number >= seats  # what executed at first was there alone
        ask(name)
    return served


@pytest.mark.parametrize(
    ("method", "target", "groups", "headers", "expected"),
    [
        ("GET", b"/", (), {}, "default"),
        ("POST", b"/api/v1/pods?watch=1", (), {}, "default"),
        ("GET", b"/healthz", (), {}, "health-checks"),
        ("HEAD", b"/health/ready", (), {}, "health-checks"),
        ("POST", b"/healthz", (), {}, "default"),
        ("GET", b"/healthz/../orders", (), {}, "default"),
        ("GET", b"/metrics", (), {}, "default"),
        ("GET", b"/", ("interactive",), {}, "interactive"),
        ("GET", b"/", ("batch",), {}, "batch"),
        ("GET", b"/", ("background",), {}, "background"),
        ("PUT", b"/", (), {"x-priority": "batch"}, "batch-by-header"),
        ("PUT", b"/", ("interactive",), {"x-priority": "background"}, "background-by-header"),
        ("PUT", b"/", (), {"x-priority": "interactive"}, "default"),
    ],
)
@pytest.mark.parametrize("base", [AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP])
def test_where_requests_go(
    method: str,
    target: bytes,
    groups: tuple[str, ...],
    headers: dict[str, str],
    expected: str,
    base: str,
) -> None:
    """Clients put themselves back by a header; ahead puts them only a group."""
    found = controller_of().classify(
        User("u", (*groups, base)),
        HTTP.attributes_of(method, target),
        lambda name: headers.get(name, ""),
    )

    assert expected == found.flow_schema.metadata.name
    assert ("u" if expected != "" else "") == found.flow.distinguisher


@pytest.mark.parametrize("method", ["GET", "LIST", "WATCH", "PATCH", "DELETE", "UPDATE"])
def test_every_request_takes_one_seat(method: str) -> None:
    costs = LearnedCosts(lambda: 0)
    attributes = HTTP.attributes_of(method, b"/api/v1/pods")
    estimator = WorkEstimator(costs.object_stats, costs.watch_count)
    assert ONE_SEAT is estimator.fixed(attributes)
    assert ONE_SEAT is estimator.estimate(attributes, 1)


@pytest.mark.parametrize("seats", [20, 40, 100, 600])
def test_nothing_is_found_in_them(seats: int) -> None:
    assert [] == [str(each) for each in lint(HTTP.objects(), seats, HTTP)]


@pytest.mark.parametrize("seats", [1, 2, 4, 7, 10, 33])
def test_few_seats_are_not_more_by_rounding(seats: int) -> None:
    controller = controller_of(seats)
    assert controller.executing_limit > seats

    assert seats == len(take(controller, 150))
    assert seats == controller.levels["default"].current_limit
    wait(controller, 10)
    controller.adjust_limits()
    assert seats == controller.levels["default"].current_limit
