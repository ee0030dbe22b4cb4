"""The rows of the debug pages, for a controller with requests in every state."""

from __future__ import annotations

import pytest

from apfproxy.admin.dumps import (
    PRIORITY_LEVEL_COLUMNS,
    QUEUE_COLUMNS,
    REQUEST_COLUMNS,
    REQUEST_DETAIL_COLUMNS,
    priority_level_rows,
    queue_rows,
    request_columns,
    request_rows,
    request_views,
)
from apfproxy.flowcontrol.queue_set import RejectReason, WorkEstimate
from apfproxy.objects.types import QueuingConfiguration
from loadtest.objects import flow_schema, group_subject, priority_level
from tests.admin.scene import MS, WALL_OFFSET_NS, Scene

QUEUED = priority_level(
    "queued",
    shares=30,
    queuing=QueuingConfiguration(queues=1, hand_size=1, queue_length_limit=2),
)
SCHEMA = flow_schema("everyone", "queued", group_subject("everyone"))


@pytest.fixture
def scene() -> Scene:
    """Two seats at a level with one queue: one wide request executes, one waits, one left.

    A level that rejects has one request, and so has the exempt level.
    """
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


def test_priority_levels(scene: Scene) -> None:
    """Every level has a row, in the order of their names."""
    levels = {row[0]: row[1:] for row in priority_level_rows(scene.controller)}

    assert sorted(levels) == list(levels)
    assert levels["queued"] == (1, False, False, 1, 1, 1, 2, 1, 1)
    assert levels["rejecting"] == (0, False, False, 0, 1, 1, 1, 0, 0)
    assert levels["exempt"] == (0, False, False, 0, 1, 1, 0, 0, 0)
    assert levels["catch-all"] == (0, True, False, 0, 0, 0, 0, 0, 0)


def test_quiescing_level(scene: Scene) -> None:
    """A level that is gone from the configuration is shown while it drains."""
    scene.controller.commit(scene.controller.digest(()))
    levels = {row[0]: row[3] for row in priority_level_rows(scene.controller)}

    assert levels == {"catch-all": False, "exempt": False, "queued": True, "rejecting": True}


def test_queues(scene: Scene) -> None:
    """Every queue has a row with its sums; a level without queues has none."""
    ready = scene.controller.levels["queued"].queue_set.queues[0]
    expected = [
        ("queued", 0, 1, 1, 2, f"0.{ready.next_dispatch_r:08d}ss", 1, 1, "0.00300000ss"),
    ]

    assert expected == list(queue_rows(scene.controller))


def test_requests(scene: Scene) -> None:
    """What waits comes before what executes; a request outside a queue has index -1 there.

    Where a level has no more than one queue, flows are not told apart.
    """
    arrived = "2026-10-20T07:27:16.001Z"
    later = "2026-10-20T07:27:16.003Z"
    never = "0001-01-01T00:00:00Z"
    expected = [
        ("exempt", "chosen", -1, -1, "", later, 1, 0, "0s", later),
        ("queued", "everyone", 0, 0, "", later, 1, 0, "0s", never),
        ("queued", "everyone", 0, -1, "", arrived, 2, 1, "5ms", arrived),
        ("rejecting", "strict", -1, -1, "", later, 1, 0, "0s", later),
    ]

    assert expected == request_rows(
        request_views(scene.controller), WALL_OFFSET_NS, with_details=False
    )


def test_request_details(scene: Scene) -> None:
    """The details are the user and the attributes; a core resource has a version only."""
    rows = request_rows(request_views(scene.controller), WALL_OFFSET_NS, with_details=True)
    expected = [
        ("eve", "get", "/healthz", "", "", "", "", ""),
        (
            "bob",
            "get",
            "/apis/apps/v1/namespaces/x/deployments/d/scale",
            "x",
            "d",
            "apps/v1",
            "deployments",
            "scale",
        ),
        ("ann", "get", "/api/v1/namespaces/default/pods/p", "default", "p", "v1", "pods", ""),
        ("fay", "list", "/api/v1/nodes", "", "", "v1", "nodes", ""),
    ]

    assert expected == [row[len(REQUEST_COLUMNS) :] for row in rows]


def test_lingering_request_is_not_shown(scene: Scene) -> None:
    """A request that has ended holds seats for a while, but is no longer executing."""
    queue_set = scene.controller.levels["queued"].queue_set
    ann = next(iter(queue_set.executing))
    queue_set.finish(ann)
    rows = request_rows(request_views(scene.controller), WALL_OFFSET_NS, with_details=True)

    expected = ["eve", "bob", "fay"]

    assert expected == [row[len(REQUEST_COLUMNS)] for row in rows]


def test_rows_fit_their_columns(scene: Scene) -> None:
    """Each row has a cell for each column."""
    columns_and_rows = (
        (PRIORITY_LEVEL_COLUMNS, priority_level_rows(scene.controller)),
        (QUEUE_COLUMNS, queue_rows(scene.controller)),
        *(
            (
                request_columns(with_details=with_details),
                request_rows(request_views(scene.controller), 0, with_details=with_details),
            )
            for with_details in (False, True)
        ),
    )

    for columns, rows in columns_and_rows:
        assert {len(columns)} == {len(row) for row in rows}
    assert len(REQUEST_COLUMNS) + len(REQUEST_DETAIL_COLUMNS) == len(
        request_columns(with_details=True)
    )
