"""What a controller makes of additions to objects."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.flow_limits import count_rejection
from apfproxy.flowcontrol.queue_set import RejectReason
from apfproxy.objects.additions import PREFIX
from apfproxy.objects.types import (
    FlowControlObject,
    FlowSchema,
    PriorityLevelConfiguration,
    QueuingConfiguration,
)
from apfproxy.request.attributes import AUTHENTICATED_GROUP, User, parse_attributes
from loadtest.objects import flow_schema, group_subject, priority_level
from tests.virtual_clock import VirtualClock

GET_POD = parse_attributes("GET", b"/api/v1/namespaces/default/pods/a")
ALICE = User("alice", (AUTHENTICATED_GROUP, "team-a"))
BOB = User("bob", ("team-a", AUTHENTICATED_GROUP))


def annotations_of(additions: dict[str, str]) -> dict[str, str]:
    """Annotations, of whose names the prefix is left out."""
    return {PREFIX + name.replace("_", "-"): value for name, value in additions.items()}


def level(
    name: str = "a", queues: int = 4, shares: int = 10, **additions: str
) -> FlowControlObject:
    """A level with additions; one without queues rejects."""
    queuing = QueuingConfiguration(queues=queues, hand_size=1, queue_length_limit=3)
    obj: PriorityLevelConfiguration = priority_level(
        name, shares=shares, queuing=queuing if queues else None
    )
    return replace(obj, metadata=replace(obj.metadata, annotations=annotations_of(additions)))


def schema(**additions: str) -> FlowControlObject:
    """The FlowSchema `s` of everybody to the level `a`, with additions."""
    obj: FlowSchema = flow_schema("s", "a", group_subject(AUTHENTICATED_GROUP))
    return replace(obj, metadata=replace(obj.metadata, annotations=annotations_of(additions)))


def controller_of(*objects: FlowControlObject) -> Controller:
    """A controller with those objects, of which nothing is reported."""
    controller = Controller(VirtualClock(), 30, 0)
    digest = controller.digest(objects)
    assert () == digest.problems
    controller.commit(digest)
    return controller


def test_wrong_additions_do_not_count() -> None:
    """They are reported with what to do; their objects and other additions are in force."""
    controller = Controller(VirtualClock(), 30, 0)
    digest = controller.digest(
        [
            level(wait_limit="soon"),
            schema(request_rate="0", long_running_limit="3"),
        ]
    )
    controller.commit(digest)

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
    assert 2 == digest.unused_additions == controller.unused_additions
    found = controller.classify(ALICE, GET_POD)
    assert 60_000_000_000 == found.level.longest_wait_ns(1 << 62)
    assert found.limits is not None
    assert (None, 3) == (found.limits.rate, found.limits.long_running_limit)
    controller.commit(controller.digest([level(), schema()]))
    assert 0 == controller.unused_additions


def test_without_additions_there_are_no_limits() -> None:
    """And the usual wait."""
    found = controller_of(level(), schema()).classify(ALICE, GET_POD)

    assert found.limits is None
    assert (60_000_000_000, False) == (
        found.level.longest_wait_ns(1 << 62),
        found.level.additions.is_ban,
    )


def test_wait_limit_and_its_end() -> None:
    """A level takes it from its object, and goes back to the usual one without it."""
    controller = controller_of(level(wait_limit="5s"), schema())
    assert 5_000_000_000 == controller.levels["a"].longest_wait_ns(1 << 62)
    controller.commit(controller.digest([level(), schema()]))

    assert 60_000_000_000 == controller.levels["a"].longest_wait_ns(1 << 62)


def test_ban() -> None:
    controller = controller_of(level(queues=0, shares=0, ban="true"), schema())
    limits = controller.classify(ALICE, GET_POD).limits
    assert limits is not None
    assert limits.is_ban
    assert "" == controller.classify(ALICE, GET_POD).flow.distinguisher
    controller.commit(controller.digest([level(queues=0, shares=0), schema()]))

    assert controller.classify(ALICE, GET_POD).limits is None


def test_flows_with_long_names_are_not_remembered() -> None:
    """A URL can name any namespace, so what is remembered is bounded in bytes, too."""
    controller = controller_of(level(), schema(distinguisher="group"))
    long = User("alice", (AUTHENTICATED_GROUP, "t" * 257))
    short = User("alice", (AUTHENTICATED_GROUP, "t" * 256))
    again = [
        controller.classify(user, GET_POD) is controller.classify(user, GET_POD)
        for user in (long, short)
    ]

    assert [False, True] == again
    assert controller.classify(long, GET_POD).flow.hash == controller.flow_hash("s", "t" * 257)


def test_counters_of_what_was_only_banned_stay() -> None:
    """They never fall back, although none of the requests came to the queue set."""
    controller = controller_of(level(queues=0, shares=0, ban="true"), schema())
    found = controller.classify(ALICE, GET_POD)
    count_rejection(found.level.queue_set, found.flow.counters, RejectReason.BAN)
    controller.commit(controller.digest([]))

    assert [1] == [
        counters.rejected_ban
        for counters in controller.flow_schema_counters()
        if counters.flow_schema == "s"
    ]


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
    """A limit that goes and comes back counts those that are still under way."""
    objects = [level(), schema(long_running_limit="2")]
    controller = controller_of(*objects)
    limits = controller.classify(ALICE, GET_POD).limits
    assert limits is not None
    for _ in range(2):
        assert limits.refusal("alice", 0, is_long_running=True) is None
    controller.commit(controller.digest(between))
    controller.commit(controller.digest(objects))

    assert limits is controller.classify(ALICE, GET_POD).limits
    assert limits.refusal("alice", 0, is_long_running=True) is not None


@pytest.mark.parametrize(
    ("queues", "additions", "expected"),
    [
        pytest.param(4, {}, "alice", id="none"),
        pytest.param(4, {"distinguisher": "group"}, "team-a", id="group"),
        pytest.param(1, {"distinguisher": "group"}, "", id="group-without-flows"),
        pytest.param(4, {"distinguisher": "header:X-Tenant"}, "x-tenant!", id="header"),
        pytest.param(4, {"distinguisher": "user-agent"}, "user-agent!", id="user-agent"),
        pytest.param(1, {"request_rate": "5"}, "alice", id="rate-at-one-queue"),
        pytest.param(1, {"long_running_limit": "5"}, "alice", id="cap-at-one-queue"),
        pytest.param(
            1, {"request_rate": "5", "distinguisher": "group"}, "team-a", id="rate-of-groups"
        ),
    ],
)
def test_flows(queues: int, additions: dict[str, str], expected: str) -> None:
    """Flows are told apart as the addition says, wherever that makes a difference."""
    controller = controller_of(level(queues=queues), schema(**additions))
    found = controller.classify(ALICE, GET_POD, lambda name: f"{name}!")

    assert expected == found.flow.distinguisher
    if expected == "team-a":
        assert found.flow is controller.classify(BOB, GET_POD).flow


def test_limits_outlive_reconfigurations() -> None:
    """Long-running requests go on, and a bucket is not filled by a change of something else."""
    controller = controller_of(level(), schema(long_running_limit="5", request_rate="1"))
    before = controller.classify(ALICE, GET_POD).limits
    controller.commit(
        controller.digest(
            [level(wait_limit="1s"), schema(long_running_limit="6", request_rate="1")]
        )
    )
    after = controller.classify(ALICE, GET_POD).limits

    assert after is not None
    assert before is after
    assert 6 == after.long_running_limit
