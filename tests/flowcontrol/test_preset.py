"""Presets: what is built in, and how requests are read."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.flowcontrol.passage import WorkEstimator
from apfproxy.flowcontrol.preset import HTTP, KUBERNETES, LLM, PRESETS
from apfproxy.flowcontrol.ticket import ONE_SEAT, Ticket
from apfproxy.lint.linter import lint
from apfproxy.request.attributes import AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP, User
from tests.flowcontrol.scene import S, Scene, user
from tests.support.objects import bootstrap_objects

LEVELS = ("interactive", "default", "batch", "background")


def ask(scene: Scene, count: int, *groups: str) -> list[Ticket]:
    found = scene.controller.classify(user("u", *groups), HTTP.attributes_of("GET", b"/"))
    admit = found.level.queue_set.admit
    tickets = [admit(found.flow, ONE_SEAT, lambda _: None) for _ in range(count)]
    return [each for each in tickets if isinstance(each, Ticket)]


@pytest.mark.parametrize("seats", [1, 2, 4, 7, 10, 20, 33])
def test_all_seats_for_one_level_alone(seats: int) -> None:
    for level in LEVELS:
        scene = Scene(*HTTP.objects(), seats=seats, is_prompt=True)
        assert seats == scene.executing(ask(scene, 150, level))
        assert seats == scene.limit(level)
        scene.wait(10 * S)
        scene.controller.adjust_limits()
        assert seats == scene.limit(level)
        assert scene.controller.executing_limit > seats


def test_rules_replace_those_of_a_preset() -> None:
    own = HTTP.with_rules(None, None, None).rules
    assert [*HTTP.rules.verbs] == [*own.verbs]
    found = HTTP.with_rules(("GET",), ("log",), ("/x",)).rules
    assert ["GET", "log"] == [*found.verbs, *found.subresources]
    assert HTTP.rules.path_prefixes != found.path_prefixes


@pytest.mark.parametrize("seats", [8, 20])
def test_levels_go_in_the_order_of_their_names(seats: int) -> None:
    """The next seats are the greater level's, but for those of which the others are sure."""
    scene = Scene(*HTTP.objects(), seats=seats, is_prompt=True)
    asked = {name: ask(scene, 250, name) for name in reversed(LEVELS)}
    scene.wait(S)
    served = dict.fromkeys(LEVELS, 0)
    for turn in range(8):
        begun = {name: [each for each in asked[name] if each.is_executing] for name in LEVELS}
        assert seats == sum(map(len, begun.values()))
        for name, tickets in begun.items():
            served[name] += len(tickets) * (turn > 0)  # what executed at first was there alone
            scene.finish(name, tickets)
    counts = list(served.values())
    assert counts == sorted(counts, reverse=True)
    assert 0 < counts[-1] < counts[0]


@pytest.mark.parametrize(
    ("method", "target", "groups", "priority", "expected"),
    [
        ("GET", b"/", (), "", "default"),
        ("POST", b"/api/v1/pods?watch=1", (), "", "default"),
        ("GET", b"/healthz", (), "", "health-checks"),
        ("HEAD", b"/health/ready", (), "", "health-checks"),
        ("POST", b"/healthz", (), "", "default"),
        ("GET", b"/healthz/../orders", (), "", "default"),
        ("GET", b"/metrics", (), "", "default"),
        *(("GET", b"/", (name,), "", name) for name in ("interactive", "batch", "background")),
        ("PUT", b"/", (), "batch", "batch-by-header"),
        ("PUT", b"/", ("interactive",), "background", "background-by-header"),
        ("PUT", b"/", (), "interactive", "default"),
    ],
)
def test_where_requests_go(
    method: str, target: bytes, groups: tuple[str, ...], priority: str, expected: str
) -> None:
    """Clients put themselves back by a header; ahead puts them only a group."""
    for base in (AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP):
        found = Scene(*HTTP.objects()).controller.classify(
            User("u", (*groups, base)),
            HTTP.attributes_of(method, target),
            lambda name: priority if name == "x-priority" else "",
        )
        assert (expected, "u") == (found.flow_schema.metadata.name, found.flow.distinguisher)


@pytest.mark.parametrize(
    ("request_", "groups", "priority", "expected"),
    [
        ("POST /v1/chat/completions", (), "", ("default", "default")),
        ("POST /v1/chat/completions", ("interactive",), "", ("interactive", "interactive")),
        ("POST /v1/chat/completions", ("interactive",), "batch", ("batch-by-header", "batch")),
        ("POST /api/generate", ("batch",), "", ("batch", "batch")),
        ("GET /v1/models/a", (), "", ("no-slots", "health")),
        ("HEAD /health", (), "", ("no-slots", "health")),
        ("GET /metrics", (), "", ("no-slots", "health")),
        ("POST /v1/models", (), "", ("default", "default")),
        ("GET /v1/responses/7?stream=true", (), "", ("default", "default")),
    ],
)
def test_where_requests_for_models_go(
    request_: str, groups: tuple[str, ...], priority: str, expected: tuple[str, str]
) -> None:
    method, _, target = request_.partition(" ")
    found = Scene(*LLM.objects()).controller.classify(
        User("u", (*groups, AUTHENTICATED_GROUP)),
        LLM.attributes_of(method, target.encode()),
        lambda name: priority if name == "x-priority" else "",
    )
    assert expected == (found.flow_schema.metadata.name, found.level.configuration.metadata.name)


@pytest.mark.parametrize("method", ["GET", "LIST", "WATCH", "PATCH", "DELETE", "UPDATE"])
def test_every_request_takes_one_seat(method: str) -> None:
    costs = LearnedCosts(lambda: 0)
    attributes = HTTP.attributes_of(method, b"/api/v1/pods")
    estimator = WorkEstimator(costs.object_stats, costs.watch_count)
    assert ONE_SEAT is estimator.fixed(attributes)
    assert ONE_SEAT is estimator.estimate(attributes, 1)


def test_built_in_objects() -> None:
    assert {"kubernetes": KUBERNETES, "http": HTTP, "llm": LLM} == PRESETS
    assert 3 == len({*PRESETS.values()})  # constants, which a set takes
    assert bootstrap_objects() == KUBERNETES.objects()
    assert [[]] * 4 == [lint(HTTP.objects(), seats, HTTP) for seats in (20, 40, 100, 600)]
    assert [[]] * 2 == [lint(LLM.objects(), seats, LLM) for seats in (20, 600)]
