"""Rates of the last seconds."""

from __future__ import annotations

import pytest

from apfproxy.admin.recent_rates import LOOKS, Rates, RecentRates, by_level
from apfproxy.flowcontrol.queue_set import RejectReason
from apfproxy.objects.types import QueuingConfiguration
from loadtest.objects import flow_schema, group_subject, priority_level
from tests.admin.scene import Scene

S = 1_000_000_000
KEY = "tiny", "all"


@pytest.fixture
def scene() -> Scene:
    """One seat, one queue of one place."""
    queuing = QueuingConfiguration(queues=1, hand_size=1, queue_length_limit=1)
    level = priority_level("tiny", shares=100, queuing=queuing)
    return Scene((level, flow_schema("all", "tiny", group_subject("everyone"))), 1)


def test_before_the_second_look(scene: Scene) -> None:
    """One look tells nothing of rates."""
    assert {} == RecentRates(scene.controller, 0).flow_schemas()


def test_rates(scene: Scene) -> None:
    """What came, what got seats and what was rejected since the first look, a second."""
    rates = RecentRates(scene.controller, 0)
    for _ in range(4):
        scene.ask("ann")
    rates.look(2 * S)

    assert {KEY: Rates(2.0, 0.5, {RejectReason.QUEUE_FULL: 1.0})} == rates.flow_schemas()


def test_what_waited_before(scene: Scene) -> None:
    """A request that waited at the first look came before."""
    first, waiting = scene.ticket("ann"), scene.ticket("ann")
    rates = RecentRates(scene.controller, 0)
    queue_set = scene.controller.levels["tiny"].queue_set
    queue_set.finish(first)
    rates.look(S)
    dispatched = rates.flow_schemas()[KEY]
    queue_set.finish(waiting)

    assert Rates(0.0, 1.0) == dispatched


def test_who_left(scene: Scene) -> None:
    """Who leaves while it waits came, and got nothing."""
    rates = RecentRates(scene.controller, 0)
    scene.ticket("ann")
    waiting = scene.ticket("ann")
    scene.controller.levels["tiny"].queue_set.withdraw(waiting, None)
    rates.look(S)

    assert {"tiny": Rates(2.0, 1.0, left=1.0)} == rates.levels()


def test_what_is_long_ago(scene: Scene) -> None:
    """Only the last looks count."""
    rates = RecentRates(scene.controller, 0)
    scene.ask("ann")
    for second in range(1, LOOKS):
        rates.look(second * S)
    last = rates.flow_schemas()[KEY].dispatched
    rates.look(LOOKS * S)

    assert 1 / (LOOKS - 1) == last
    assert Rates() == rates.flow_schemas()[KEY]


def test_by_level() -> None:
    """A level has the sums of its FlowSchemas."""
    full, rate = RejectReason.QUEUE_FULL, RejectReason.RATE
    found = by_level({
        ("a", "one"): Rates(5.0, 2.0, {full: 3.0}),
        ("a", "two"): Rates(4.0, 1.0, {full: 1.0, rate: 2.0}),
        ("b", "one"): Rates(1.0, 1.0),
    })  # fmt: skip

    assert {"a": Rates(9.0, 3.0, {full: 4.0, rate: 2.0}), "b": Rates(1.0, 1.0)} == found


def test_failed(scene: Scene) -> None:
    """What the server failed is that of the level; one that came back counts anew."""
    level = scene.controller.levels["tiny"]
    level.failed_total = 3
    rates = RecentRates(scene.controller, 0)
    scene.ask("ann")
    level.failed_total = 7
    rates.look(2 * S)
    failed = rates.levels()["tiny"].failed
    level.failed_total = 0
    rates.look(4 * S)

    assert (2.0, 0.0) == (failed, rates.levels()["tiny"].failed)
