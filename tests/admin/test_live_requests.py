"""The requests of a level."""

from __future__ import annotations

import pytest

from apfproxy.admin import live_requests
from apfproxy.admin.live_requests import MAX_CHARACTERS, level_requests
from apfproxy.objects.types import QueuingConfiguration
from loadtest.objects import flow_schema, group_subject, priority_level
from tests.admin.scene import POD, Scene

S = 1_000_000_000


@pytest.fixture
def scene() -> Scene:
    """Two seats and some queues."""
    queuing = QueuingConfiguration(queues=8, hand_size=1, queue_length_limit=10)
    level = priority_level("tiny", shares=1000, queuing=queuing)
    objects = level, priority_level("hard"), flow_schema("all", "tiny", group_subject("everyone"))
    return Scene(objects, 2)


def test_idle(scene: Scene) -> None:
    """Where there are none there are none."""
    assert {
        "waiting": [],
        "executing": [],
        "waitingCount": 0,
        "executingCount": 0,
    } == level_requests(scene.controller.levels["hard"].queue_set, 0)


def test_requests(scene: Scene) -> None:
    """What waits comes oldest first, whatever its queue; each says who asks for what."""
    for second, user in enumerate(("ann", "bob", "carol", "dave", "carol", "eve\udcff")):
        scene.clock.run_until(second * S)
        scene.ask(user)
    queue_set = scene.controller.levels["tiny"].queue_set
    found = level_requests(queue_set, 10 * S)
    first = found["waiting"][0]
    queue = first.pop("queue")

    assert {
        "user": "carol",
        "verb": "get",
        "path": POD.decode(),
        "flowSchema": "all",
        "flow": "carol",
        "seats": 1,
        "seconds": 8.0,
    } == first
    assert queue in range(8)
    assert [8.0, 7.0, 6.0, 5.0] == [each["seconds"] for each in found["waiting"]]
    assert "eve\\udcff" == found["waiting"][-1]["user"]
    assert [("ann", 10.0), ("bob", 9.0)] == [
        (each["user"], each["seconds"]) for each in found["executing"]
    ]
    assert (4, 2) == (found["waitingCount"], found["executingCount"])


def test_bounds(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many the oldest are told, and names are cut."""
    monkeypatch.setattr(live_requests, "MAX_REQUESTS", 1)
    for _ in range(6):
        scene.ask("a" * 1000)
    found = level_requests(scene.controller.levels["tiny"].queue_set, 0)

    assert (1, 1, 4, 2) == tuple(
        len(each) if isinstance(each, list) else each for each in found.values()
    )
    assert "a" * (MAX_CHARACTERS - 1) + "…" == found["executing"][0]["user"]


def test_no_queue(scene: Scene) -> None:
    """At a level without queues a request has none."""
    schema = flow_schema("all", "hard", group_subject("everyone"))
    scene.controller.commit(scene.controller.digest((priority_level("hard", shares=9), schema)))
    scene.ask("ann")
    found = level_requests(scene.controller.levels["hard"].queue_set, 0)

    assert [None] == [each["queue"] for each in found["executing"]]
