"""What a controller makes of additions to objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.flowcontrol.scene import GET_POD, S, Scene, level_object, schema_object, user

if TYPE_CHECKING:
    from apfproxy.objects.types import FlowControlObject, FlowSchema, PriorityLevelConfiguration

ALICE, BOB = user("alice", "team-a"), user("bob", "team-a")


def level(**additions: str) -> PriorityLevelConfiguration:
    return level_object("a", **additions)  # type: ignore[arg-type]  # which are no numbers


def schema(**additions: str) -> FlowSchema:
    return schema_object("s", "a", **additions)


BANNED = level_object("a", 0, 0, ban="true"), schema()


def test_wrong_additions_do_not_count() -> None:
    scene = Scene()
    digest = scene.commit(
        level(wait_limit="soon"), schema(request_rate="0", long_running_limit="3")
    )

    assert (
        (
            "PriorityLevelConfiguration 'a': metadata.annotations[apfproxy.io/wait-limit]: Invalid"
            ' value: "soon": write a duration such as 500ms, 5s or 1m, longer than 0s and at most'
            " 1m; the addition does not count"
        ),
        (
            "FlowSchema 's': metadata.annotations[apfproxy.io/request-rate]: Invalid value:"
            ' "0": write requests per second, such as 20 or 0.5, from 0.001 to 1000000;'
            " the addition does not count"
        ),
    ) == digest.problems
    assert 2 == digest.unused_additions == scene.controller.unused_additions
    found = scene.classify()
    assert 60 * S == found.level.longest_wait_ns(1 << 62)
    assert found.limits is not None
    assert (None, 3) == (found.limits.rate, found.limits.long_running_limit)
    scene.commit(level(), schema())
    assert 0 == scene.controller.unused_additions


def test_additions_count_as_long_as_objects_have_them() -> None:
    scene = Scene(level(wait_limit="5s"), schema())
    assert 5 * S == scene.level("a").longest_wait_ns(1 << 62)
    scene.commit(*BANNED)
    found = scene.classify()
    assert found.limits is not None
    assert found.limits.is_ban
    assert "" == found.flow.distinguisher
    scene.commit(level(), schema())

    found = scene.classify()
    assert (None, 60 * S) == (found.limits, found.level.longest_wait_ns(1 << 62))


def test_flows_with_long_names_are_not_remembered() -> None:
    """A URL can name any namespace, so what is remembered is bounded in bytes, too."""
    classify = Scene(level(), schema(distinguisher="group")).controller.classify
    long, short = user("alice", "t" * 257), user("alice", "t" * 256)

    assert [False, True] == [classify(u, GET_POD) is classify(u, GET_POD) for u in (long, short)]
    assert classify(long, GET_POD).flow.hash == classify(long, GET_POD).flow.hash


@pytest.mark.parametrize(
    "between",
    [
        pytest.param([level(), schema()], id="without-a-limit"),
        pytest.param([schema(long_running_limit="2")], id="dangling"),
    ],
)
def test_long_running_requests_count_whatever_comes_between(
    between: list[FlowControlObject],
) -> None:
    objects: list[FlowControlObject] = [level(), schema(long_running_limit="2")]
    scene = Scene(*objects)
    limits = scene.classify("alice").limits
    assert limits is not None
    for _ in range(2):
        assert limits.refusal("alice", 0, is_long_running=True) is None
    scene.commit(*between)
    scene.commit(*objects)

    assert limits is scene.classify("alice").limits
    assert limits.refusal("alice", 0, is_long_running=True) is not None


@pytest.mark.parametrize(
    ("queues", "additions", "expected"),
    [
        pytest.param(0, {}, "", id="no-queues"),
        pytest.param(1, {}, "", id="one-queue"),
        pytest.param(2, {}, "alice", id="none"),
        pytest.param(4, {"distinguisher": "group"}, "team-a", id="group"),
        pytest.param(1, {"distinguisher": "group"}, "", id="group-without-flows"),
        pytest.param(4, {"distinguisher": "header:X-Tenant"}, "x-tenant!", id="header"),
        pytest.param(4, {"distinguisher": "user-agent"}, "user-agent!", id="user-agent"),
        pytest.param(1, {"request_rate": "5"}, "alice", id="rate-at-one-queue"),
        pytest.param(1, {"long_running_limit": "5"}, "alice", id="cap-at-one-queue"),
        (1, {"request_rate": "5", "distinguisher": "group"}, "team-a"),
    ],
)
def test_flows_are_told_apart_where_that_makes_a_difference(
    queues: int, additions: dict[str, str], expected: str
) -> None:
    controller = Scene(level_object("a", queues=queues), schema(**additions)).controller
    found = controller.classify(ALICE, GET_POD, lambda name: f"{name}!")

    assert expected == found.flow.distinguisher
    if expected == "team-a":
        assert found.flow is controller.classify(BOB, GET_POD).flow
