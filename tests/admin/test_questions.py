"""The rows of the debug pages, and replies to questions, with requests in every state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apfproxy.admin import questions
from apfproxy.admin.questions import (
    MAX_CHARACTERS,
    Asked,
    Question,
    RefusedError,
    joined,
    merged_live,
    queue_rows,
    read,
    replies,
    request_rows,
)
from apfproxy.admin.tables import PRIORITY_LEVELS, REQUEST_COLUMNS, request_columns, rows
from apfproxy.flowcontrol.ticket import RejectReason, WorkEstimate
from apfproxy.objects.types import QueuingConfiguration
from tests.admin.scene import MS, POD, WALL_OFFSET_NS, Scene
from tests.support.builders import flow_schema, group_subject, priority_level

QUEUED = priority_level(
    "queued", shares=30, queuing=QueuingConfiguration(queues=1, hand_size=1, queue_length_limit=2)
)
SCHEMA = flow_schema("everyone", "queued", group_subject("everyone"))


@pytest.fixture
def scene() -> Scene:
    """At a level with one queue a wide request executes, one waits, one left; others have one."""
    scene = Scene(
        (
            QUEUED,
            SCHEMA,
            priority_level("rejecting", shares=10),
            flow_schema("strict", "rejecting", group_subject("strict")),
            flow_schema("chosen", "exempt", group_subject("chosen")),
        ),
        server_concurrency_limit=2,
    )
    scene.clock.run_until(1 * MS)
    scene.ticket("ann", estimate=WorkEstimate(2, 1, 5 * MS))
    scene.clock.run_until(3 * MS)
    scene.ticket("bob", b"/apis/apps/v1/namespaces/x/deployments/d/scale?a=b")
    late = scene.ticket("cem")
    scene.controller.levels["queued"].queue_set.withdraw(late, RejectReason.TIME_OUT)
    gone = scene.ticket("dan")
    scene.controller.levels["queued"].queue_set.withdraw(gone, None)
    scene.ticket("eve", b"/healthz", group="chosen")
    scene.ticket("fay", b"/api/v1/nodes", group="strict")
    assert scene.ask("gus", group="strict") is RejectReason.CONCURRENCY_LIMIT
    return scene


def level_rows(scene: Scene) -> list[tuple[str | int | bool, ...]]:
    return rows(PRIORITY_LEVELS, scene.state().clusters[0].levels)


def ask(scene: Scene, kind: str, **words: str) -> Any:  # noqa: ANN401 - any JSON
    asked = Asked(
        controller=scene.controller,
        wall_offset_ns=WALL_OFFSET_NS,
        top_flows=scene.top_flows,
        explain=lambda query: {"query": query} if query else int("no number"),
    )
    found = read(b"".join(replies(Question(kind, words=words), asked)))
    return found[0] if len(found) == 1 else found


def test_priority_levels(scene: Scene) -> None:
    """Every level has a row, in the order of their names; one that is gone while it drains."""
    rows = level_rows(scene)
    levels = {row[0]: row[1:] for row in rows}
    scene.controller.commit(scene.controller.digest(()))

    assert sorted(levels) == list(levels)
    assert levels["queued"] == (1, False, False, 1, 1, 1, 2, 1, 1)
    assert levels["rejecting"] == (0, False, False, 0, 1, 1, 1, 0, 0)
    assert levels["exempt"] == (0, False, False, 0, 1, 1, 0, 0, 0)
    assert levels["catch-all"] == (0, True, False, 0, 0, 0, 0, 0, 0)
    assert ["queued", "rejecting"] == [row[0] for row in level_rows(scene) if row[3]]


def test_queues(scene: Scene) -> None:
    ready = scene.controller.levels["queued"].queue_set.queues[0]
    expected = [("queued", 0, 1, 1, 2, f"0.{ready.next_dispatch_r:08d}ss", 1, 1, "0.00300000ss")]

    assert expected == list(queue_rows(scene.controller))


def test_requests(scene: Scene) -> None:
    """Waiting requests come before executing ones; outside a queue the index is -1."""
    arrived = "2026-10-20T07:27:16.001Z"
    later = "2026-10-20T07:27:16.003Z"
    never = "0001-01-01T00:00:00Z"
    expected = [
        ("exempt", "chosen", -1, -1, "", later, 1, 0, "0s", later),
        ("queued", "everyone", 0, 0, "", later, 1, 0, "0s", never),
        ("queued", "everyone", 0, -1, "", arrived, 2, 1, "5ms", arrived),
        ("rejecting", "strict", -1, -1, "", later, 1, 0, "0s", later),
    ]

    assert expected == list(request_rows(scene.controller, WALL_OFFSET_NS, with_details=False))


def test_request_details(scene: Scene) -> None:
    """Rows are of the moment at which the first one of their level was read."""
    scale = "/apis/apps/v1/namespaces/x/deployments/d/scale"
    found = request_rows(scene.controller, WALL_OFFSET_NS, with_details=True)
    rows = [next(found), next(found)]
    queue_set = scene.controller.levels["queued"].queue_set
    for ticket in queue_set.executing:
        ticket.details = None
    rows += found
    queue_set.finish(next(iter(queue_set.executing)))
    later = request_rows(scene.controller, WALL_OFFSET_NS, with_details=True)

    assert [
        ("eve", "get", "/healthz", "", "", "", "", ""),
        ("bob", "get", scale, "x", "d", "apps/v1", "deployments", "scale"),
        ("ann", "get", POD.decode(), "default", "p", "v1", "pods", ""),
        ("fay", "list", "/api/v1/nodes", "", "", "v1", "nodes", ""),
    ] == [row[len(REQUEST_COLUMNS) :] for row in rows]
    assert {len(request_columns(with_details=True))} == set(map(len, rows))
    assert ["eve", "bob", "fay"] == [row[len(REQUEST_COLUMNS)] for row in later]


S = 1_000_000_000


@pytest.fixture
def crowd() -> Scene:
    queuing = QueuingConfiguration(queues=8, hand_size=1, queue_length_limit=10)
    level = priority_level("tiny", shares=1000, queuing=queuing)
    objects = level, priority_level("hard"), flow_schema("all", "tiny", group_subject("everyone"))
    return Scene(objects, 2)


def test_live_requests(crowd: Scene) -> None:
    for second, user in enumerate(("ann", "bob", "carol", "dave", "carol", "eve\udcff")):
        crowd.clock.run_until(second * S)
        crowd.ask(user)
    crowd.clock.run_until(10 * S)
    found = ask(crowd, "live", level="tiny")
    first = found["waiting"][0]
    queue = first.pop("queue")

    assert {
        "user": "carol", "verb": "get", "path": POD.decode(), "flowSchema": "all", "flow": "carol",
        "seats": 1, "weight": 1, "seconds": 8.0,
    } == first  # fmt: skip
    assert queue in range(8)
    assert [8.0, 7.0, 6.0, 5.0] == [each["seconds"] for each in found["waiting"]]
    assert "eve\\udcff" == found["waiting"][-1]["user"]
    assert [("ann", 10.0), ("bob", 9.0)] == [
        (each["user"], each["seconds"]) for each in found["executing"]
    ]
    assert (4, 2) == (found["waitingCount"], found["executingCount"])


def test_bounds(crowd: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "MAX_REQUESTS", 1)
    for _ in range(6):
        crowd.ask("a" * 1000)
    found = ask(crowd, "live", level="tiny")

    assert (1, 1, 4, 2) == tuple(
        len(each) if isinstance(each, list) else each for each in found.values()
    )
    assert "a" * (MAX_CHARACTERS - 1) + "…" == found["executing"][0]["user"]


def test_no_queue(crowd: Scene) -> None:
    schema = flow_schema("all", "hard", group_subject("everyone"))
    crowd.controller.commit(crowd.controller.digest((priority_level("hard", shares=9), schema)))
    crowd.ask("ann")

    assert [None] == [each["queue"] for each in ask(crowd, "live", level="hard")["executing"]]


def test_hand(scene: Scene) -> None:
    assert {"priorityLevel": "queued", "hand": [0]} == ask(
        scene, "hand", level="queued", schema="everyone", flow="ann"
    )
    assert [] == ask(scene, "hand", level="rejecting")["hand"]


@pytest.mark.parametrize(
    ("kind", "words", "status"),
    [("hand", {"level": "x"}, 404), ("live", {}, 404), ("explain", {}, 400), ("flows", {}, 404)],
)
def test_questions_that_make_no_sense(
    scene: Scene, kind: str, words: dict[str, str], status: int
) -> None:
    with pytest.raises(RefusedError) as raised:
        ask(scene, kind, **words)

    assert status == raised.value.status
    assert raised.value.text.endswith("\n")


def test_lines(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long replies come in lines; those of several workers are one dump, level by level."""
    monkeypatch.setattr(questions, "ITEMS_AT_ONCE", 1)
    found = ask(scene, "requests")
    reply = b"".join(json.dumps(each).encode() + b"\n" for each in found)
    both = [row[0] for row in joined([reply, reply])]

    assert 4 == len(found)
    assert sorted(both) == both
    assert 8 == len(both)
    assert found[0] == [next(joined([reply + b"not read before it is taken"]))]


def test_live_requests_of_workers() -> None:
    page = {"waiting": [], "waitingCount": 0, "executingCount": 1}
    found = merged_live(
        {
            "1": {**page, "executing": [{"seconds": 1.0}]},
            "2": {**page, "executing": [{"seconds": 2.0}]},
        }
    )

    assert ["2", "1"] == [each["worker"] for each in found["executing"]]
    assert (2, 0) == (found["executingCount"], found["waitingCount"])
