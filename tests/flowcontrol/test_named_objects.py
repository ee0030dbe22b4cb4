"""Objects by their UIDs."""

from __future__ import annotations

from apfproxy.flowcontrol.level_summary import FLOW_SCHEMA, PRIORITY_LEVEL, named_objects, with_uid
from apfproxy.objects.types import (
    FlowSchema,
    ObjectMeta,
    QueuingConfiguration,
    stable_uid,
)
from loadtest.objects import flow_schema, group_subject, priority_level
from tests.observe.scene import Scene

QUEUING = QueuingConfiguration(queues=8, hand_size=2, queue_length_limit=50)
SCHEMA = flow_schema("users", "queued", group_subject("users"))


def scene_of(*schemas: FlowSchema) -> Scene:
    """Two levels, `queued` and `strict`, and the mandatory ones."""
    levels = (
        priority_level("queued", shares=95, queuing=QUEUING),
        priority_level("strict", shares=5),
    )
    return Scene((*levels, *schemas), 40)


def test_what_objects_are() -> None:
    """Each object has its kind, its name and what it does, levels first."""
    scene = scene_of(SCHEMA)
    precedence = SCHEMA.spec.matching_precedence

    assert [
        (PRIORITY_LEVEL, "catch-all", "nominally 2 seats, rejects what does not fit"),
        (PRIORITY_LEVEL, "exempt", "exempt: its requests are never limited"),
        (PRIORITY_LEVEL, "queued", "nominally 37 seats, 8 queues"),
        (PRIORITY_LEVEL, "strict", "nominally 2 seats, rejects what does not fit"),
        (FLOW_SCHEMA, "catch-all", "matching precedence 10000, leads to priority level catch-all"),
        (FLOW_SCHEMA, "exempt", "matching precedence 1, leads to priority level exempt"),
        (FLOW_SCHEMA, "users", f"matching precedence {precedence}, leads to priority level queued"),
    ] == [(each.kind, each.name, each.what) for each in named_objects(scene.controller)]


def test_one_seat() -> None:
    """One is not many."""
    scene = Scene((), 1)

    assert "nominally 1 seat, rejects what does not fit" in {
        each.what for each in named_objects(scene.controller)
    }


def test_levels_of_schemas() -> None:
    """A FlowSchema names its level, and a level itself."""
    named = {(each.kind, each.name): each for each in named_objects(scene_of(SCHEMA).controller)}

    assert "queued" == named[FLOW_SCHEMA, "users"].priority_level
    assert "queued" == named[PRIORITY_LEVEL, "queued"].priority_level


def test_busy_level() -> None:
    """A level that has something to do says how much."""
    scene = scene_of(SCHEMA)
    for _ in range(2):
        scene.ticket("ann", group="users")
    limit = scene.controller.levels["queued"].current_limit
    found = {(each.kind, each.name): each.what for each in named_objects(scene.controller)}

    assert (
        f"nominally 37 seats, 8 queues; now 2 of {limit} seats are in use, requests that wait: 0"
        == found[PRIORITY_LEVEL, "queued"]
    )


def test_dangling() -> None:
    """A FlowSchema that is not used is known, too."""
    scene = scene_of(flow_schema("lost", "nowhere", group_subject("users")))
    found = {each.name: each.what for each in named_objects(scene.controller)}

    assert "not used: its priority level nowhere does not exist" == found["lost"]


def test_quiescing() -> None:
    """A level whose object is gone has its UID until its last request has ended."""
    scene = scene_of(SCHEMA)
    uid = scene.controller.levels["queued"].uid
    scene.ticket("ann", group="users")
    scene.controller.commit(scene.controller.digest(()))

    assert [("queued", "its object is gone; it ends its last requests")] == [
        (each.name, each.what) for each in with_uid(named_objects(scene.controller), uid)
    ]


def test_uids_are_those_of_answers() -> None:
    """An object that a server gave a UID has that; any other has one of its kind and name."""
    given = FlowSchema(metadata=ObjectMeta(name="given", uid="u-1"), spec=SCHEMA.spec)
    scene = scene_of(SCHEMA, given)
    found = list(named_objects(scene.controller))
    answered = scene.ticket("ann", group="users")

    assert ["given"] == [each.name for each in with_uid(found, "u-1")]
    assert ["users"] == [each.name for each in with_uid(found, stable_uid(SCHEMA))]
    assert answered.flow.counters.flow_schema in {"users", "given"}
    assert [] == with_uid(found, "nobody's")


def test_uid_follows_the_object() -> None:
    """An object that is created anew has another UID, and its level is the same one."""
    scene = scene_of(SCHEMA)
    level = scene.controller.levels["queued"]
    again = priority_level("queued", shares=95, queuing=QUEUING)
    again = type(again)(metadata=ObjectMeta(name="queued", uid="u-2"), spec=again.spec)
    scene.controller.commit(scene.controller.digest((again, SCHEMA)))

    assert level is scene.controller.levels["queued"]
    assert "u-2" == level.uid
