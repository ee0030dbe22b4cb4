"""Who holds seats, and how long the oldest request has waited."""

from __future__ import annotations

import pytest

from apfproxy.admin.level_pressure import Holder, greatest_holder, oldest_wait_ns
from apfproxy.flowcontrol.queue_set import WorkEstimate
from apfproxy.objects.types import QueuingConfiguration
from loadtest.objects import flow_schema, group_subject, priority_level
from tests.admin.scene import Scene

S = 1_000_000_000


@pytest.fixture
def scene() -> Scene:
    """Four seats and many queues."""
    queuing = QueuingConfiguration(queues=8, hand_size=2, queue_length_limit=10)
    level = priority_level("tiny", shares=1000, queuing=queuing)
    return Scene((level, flow_schema("all", "tiny", group_subject("everyone"))), 4)


def test_idle(scene: Scene) -> None:
    """Where nothing executes or waits nobody holds anything."""
    queue_set = scene.controller.levels["tiny"].queue_set

    assert greatest_holder(queue_set) is None
    assert 0 == oldest_wait_ns(queue_set, S)


def test_holder(scene: Scene) -> None:
    """Seats count, not requests."""
    for user, seats in (("ann", 1), ("bob", 2), ("ann", 1), ("bob", 1), ("bob", 1)):
        scene.ask(user, estimate=WorkEstimate(seats))
    queue_set = scene.controller.levels["tiny"].queue_set

    assert Holder("all", "bob", 2, 2) == greatest_holder(queue_set)


def test_fair_shares(scene: Scene) -> None:
    """Of flows with as many seats the one that waits for most is the greedy one."""
    for user in ("modest", "modest", *["greedy"] * 5):
        scene.ask(user)
    queue_set = scene.controller.levels["tiny"].queue_set

    assert Holder("all", "greedy", 2, 3) == greatest_holder(queue_set)


def test_oldest(scene: Scene) -> None:
    """Of all queues the oldest request counts."""
    for _ in range(4):
        scene.ask("ann")
    scene.clock.run_until(S)
    scene.ask("ann")
    scene.clock.run_until(3 * S)
    for number in range(20):
        scene.ask(f"user-{number}")
    queue_set = scene.controller.levels["tiny"].queue_set

    assert 9 * S == oldest_wait_ns(queue_set, 10 * S)
