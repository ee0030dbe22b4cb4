"""Tests of presets: what is built in, and how requests are read."""

from __future__ import annotations

import pytest

from apfproxy.api.flowcontrol.bootstrap import bootstrap_objects
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.flowcontrol.preset import HTTP, KUBERNETES, PRESETS
from apfproxy.flowcontrol.ticket import ONE_SEAT, Ticket
from apfproxy.flowcontrol.work_estimate import WorkEstimator
from apfproxy.lint.linter import lint
from apfproxy.request.user import AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP, User
from apfproxy.settings import HTTP_API, KUBERNETES_API
from tests.virtual_clock import VirtualClock

SEATS = 20


def controller_of(seats: int = SEATS) -> Controller:
    """A controller with the objects of the preset `http`."""
    controller = Controller(VirtualClock(), seats, 0, is_prompt=True)
    digest = controller.digest(HTTP.objects())
    assert () == digest.problems
    controller.commit(digest)
    return controller


def take(controller: Controller, count: int, *groups: str) -> list[Ticket]:
    """Requests of a user that execute."""
    found = controller.classify(
        User("u", (AUTHENTICATED_GROUP, *groups)), HTTP.attributes_of("GET", b"/")
    )
    tickets = [
        found.level.queue_set.admit(found.flow, ONE_SEAT, lambda _: None) for _ in range(count)
    ]
    return [each for each in tickets if isinstance(each, Ticket) and each.is_executing]


def wait(controller: Controller, seconds: float) -> None:
    """Let time pass."""
    clock = controller._clock  # noqa: SLF001  that of `controller_of`
    assert isinstance(clock, VirtualClock)
    clock.run_until(clock.now_ns() + round(seconds * 1e9))


def test_names() -> None:
    """They are those of the setting; the built-in objects of Kubernetes are as they were."""
    assert [KUBERNETES_API, HTTP_API] == list(PRESETS)
    assert bootstrap_objects() == KUBERNETES.objects()


def test_one_level_has_all_seats() -> None:
    """From the first burst on; levels that are not used keep none."""
    controller = controller_of()
    take(controller, 150)

    assert SEATS == controller.levels["default"].current_limit
    assert SEATS == controller.levels["default"].queue_set.requests_executing
    assert {"catch-all": 1} == {
        name: level.lower_limit for name, level in controller.levels.items() if level.lower_limit
    }


@pytest.mark.parametrize("level", ["interactive", "batch", "background"])
def test_a_level_gets_its_part_back(level: str) -> None:
    """The first request executes at once, the others as soon as it is looked."""
    controller = controller_of()
    greedy = take(controller, 150)
    assert 1 == len(take(controller, 30, level))
    wait(controller, 0.1)

    limits = {name: each.current_limit for name, each in controller.levels.items()}
    assert limits[level] >= controller.levels[level].nominal_limit
    assert limits["default"] >= controller.levels["default"].nominal_limit
    assert len(greedy) == SEATS


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
    """Whatever it is called."""
    costs = LearnedCosts(lambda: 0)
    attributes = HTTP.attributes_of(method, b"/api/v1/pods")
    estimator = WorkEstimator(costs.object_stats, costs.watch_count)

    assert ONE_SEAT is estimator.fixed(attributes)
    assert ONE_SEAT is estimator.estimate(attributes, 1)


@pytest.mark.parametrize("seats", [20, 40, 100, 600])
def test_nothing_is_found_in_them(seats: int) -> None:
    """The objects are what `check` would have."""
    assert [] == [str(each) for each in lint(HTTP.objects(), seats, HTTP)]


@pytest.mark.parametrize("seats", [20, 40, 100])
def test_no_more_seats_than_there_are(seats: int) -> None:
    """Without rounding, but for the seat of `catch-all`."""
    assert seats + 1 == controller_of(seats).executing_limit


@pytest.mark.parametrize("seats", [1, 2, 4, 7, 10, 33])
def test_few_seats_are_not_more_by_rounding(seats: int) -> None:
    """However the nominal limits are rounded up, who is alone has what the server has."""
    controller = controller_of(seats)
    assert controller.executing_limit > seats

    assert seats == len(take(controller, 150))
    assert seats == controller.levels["default"].current_limit
    wait(controller, 10)
    controller.adjust_limits()
    assert seats == controller.levels["default"].current_limit
