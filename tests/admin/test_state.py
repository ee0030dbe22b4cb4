"""How states add up: a rule for each field, and one sum that follows them."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.admin import state as state_module
from apfproxy.admin.state import (
    MAX_EVENTS,
    AccessLogState,
    CheckState,
    ClusterState,
    EndpointState,
    EventState,
    FlowSchemaState,
    Health,
    Holder,
    LevelState,
    ListenerState,
    ProcessState,
    ServedState,
    Times,
    UpstreamState,
    of_worker,
    plan,
    summed,
)
from apfproxy.flowcontrol.limit_view import LimitView
from tests.fleet.views import fleet, member

if TYPE_CHECKING:
    import random

PARTS = [
    each
    for each in vars(state_module).values()
    if isinstance(each, type)
    and issubclass(each, msgspec.Struct)
    and each.__module__ == state_module.__name__
]


@pytest.mark.parametrize("part", PARTS, ids=[each.__name__ for each in PARTS])
def test_every_field_has_a_rule_and_a_default(part: type[msgspec.Struct]) -> None:
    found = part()

    assert part.__struct_fields__ == tuple(name for name, *_ in plan(part))
    assert found == msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=part)
    if part not in {Health, EventState, state_module.Share, state_module.WorkerState}:
        assert found == summed([found]), "each is its own sum"


LEVELS = st.builds(
    LevelState,
    name=st.sampled_from("ab"),
    seats_in_use=st.integers(0, 9),
    dispatched_total=st.integers(0, 9),
    queues=st.lists(st.integers(0, 3), max_size=3),
    r=st.just([1.0] * 7),
    holders=st.lists(
        st.builds(Holder, flow=st.sampled_from("xy"), seats=st.integers(1, 9)), max_size=1
    ),
)
PROCESSES = st.builds(
    ProcessState,
    faults=st.dictionaries(st.sampled_from(string.ascii_lowercase[:3]), st.integers(0, 9)),
    listener=st.builds(
        ListenerState, bytes_to_clients=st.integers(0, 9), connections_open=st.integers(0, 9)
    ),
    clusters=st.lists(
        st.builds(
            ClusterState,
            levels=st.lists(LEVELS, max_size=2, unique_by=lambda each: each.name),
            in_flight=st.dictionaries(st.sampled_from(["mutating"]), st.integers(0, 9)),
        ),
        min_size=1,
        max_size=1,
    ),
)


def seen(state: ProcessState) -> dict[str, Any]:
    """Some numbers of a sum, in any order."""
    listener = state.listener
    return {
        "faults": {key: each for key, each in state.faults.items() if each},
        "levels": {
            each.name: (each.seats_in_use, each.dispatched_total, sum(each.queues), each.r)
            for each in state.clusters[0].levels
        },
        "listener": (listener.bytes_to_clients, listener.connections_open),
    }


@given(st.lists(PROCESSES, min_size=2, max_size=4), st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_order_does_not_matter(states: list[ProcessState], chance: random.Random) -> None:
    first, *others = states
    shuffled = states[:]
    chance.shuffle(shuffled)

    assert seen(summed(states)) == seen(summed(shuffled))
    assert seen(summed(states)) == seen(summed([first, summed(others)]))


@given(PROCESSES, PROCESSES)
@settings(max_examples=25)
def test_what_outlives_a_process(living: ProcessState, ended: ProcessState) -> None:
    found, both = summed([living], [ended]), summed([living, ended])

    assert found.faults == both.faults
    assert found.listener.bytes_to_clients == both.listener.bytes_to_clients
    assert found.listener.connections_open == living.listener.connections_open
    levels = {each.name: each for each in found.clusters[0].levels}
    names, former = ({each.name for each in of.clusters[0].levels} for of in (living, ended))
    assert set(levels) == (names or former)
    for level in living.clusters[0].levels:
        assert level.seats_in_use == levels[level.name].seats_in_use
        assert level.dispatched_total <= levels[level.name].dispatched_total


def test_records_of_ended_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    times = Times(counts=[1, 2], sum=3.0)
    state = FlowSchemaState(
        name="a", dispatched=3, executing_requests=2, has_counted=True, wait_executed_ns=times
    )
    (found,) = summed([ClusterState()], [ClusterState(flow_schemas=[state])]).flow_schemas
    monkeypatch.setattr(state_module, "MAX_RECORDS", 3)
    ended = [ClusterState(flow_schemas=[FlowSchemaState(name=str(n))]) for n in range(9)]

    assert ("a", 3, 0, True) == (
        found.name,
        found.dispatched,
        found.executing_requests,
        found.has_counted,
    )
    assert [1, 2] == found.wait_executed_ns.counts
    assert 3 == len(summed([ClusterState()], ended).flow_schemas)


def test_servers() -> None:
    """One is as who sees it worst sees it; together they fail only where they fail for all."""

    def upstream(*states: str, whole: str) -> UpstreamState:
        endpoints = [
            EndpointState(
                url=str(place),
                health=Health(state=state, problem=state),
                share=0.5,
                served=ServedState(answers={"200": 1}),
            )
            for place, state in enumerate(states)
        ]
        return UpstreamState(
            health=Health(state=whole), endpoints=endpoints, endpoint_count=2, healthy_count=1
        )

    found = summed(
        [upstream("up", "failing", whole="up"), upstream("ejected", "up", whole="failing")]
    )

    assert ["ejected", "failing"] == [each.health.problem for each in found.endpoints]
    assert ("up", 2, 1) == (found.health.state, found.endpoint_count, found.healthy_count)
    assert [({"200": 2}, 0.5)] * 2 == [
        (each.served.answers, each.share) for each in found.endpoints
    ]
    back = UpstreamState(
        endpoints=[EndpointState(url="a", health=Health(state=each)) for each in ("up", "draining")]
    )
    assert ["up", "draining"] == [each.health.state for each in summed([back, back]).endpoints]


def test_events() -> None:
    """Workers that have one event tell it once; others stay apart, the last ones by time."""
    one, two = (
        of_worker(ProcessState(events=[EventState(unix_s=at_s, message="read")]), name)
        for name, at_s in (("1", 1.0), ("2", 5.0))
    )
    late = ProcessState(events=[EventState(unix_s=0.5 + n, message=str(n)) for n in range(60)])
    found = summed([two, one, late]).events

    assert (MAX_EVENTS, 59.5) == (len(found), found[-1].unix_s)
    assert [["2", "1"]] == [each.workers for each in summed([two, one]).events]


def test_checks_and_optional_parts() -> None:
    check = CheckState(name="limits", problems={"late": [""]})
    one = of_worker(ProcessState(health=[check], access_log=AccessLogState(written=3)), "1")
    two = of_worker(ProcessState(health=[CheckState(name="limits")]), "2")
    found = summed([one, two])

    assert [{"late": ["1"]}] == [each.problems for each in found.health]
    assert (3, None) == (found.access_log and found.access_log.written, found.traces)


def test_counters_of_fleets_never_fall() -> None:
    view = fleet(member("a", is_self=True), refreshes=90, lost=3)
    young = fleet(member("b", is_self=True), refreshes=1, conflicts=0, lost=0)
    ended = summed([ClusterState(fleet=view), ClusterState(fleet=view)])
    found = summed([ClusterState(fleet=young)], [ended]).fleet
    assert found is not None

    assert (181, 8, 3, 200) == (found.refreshes, found.conflicts, found.lost, found.claim)
    former = summed([ClusterState()], [ended]).fleet
    assert former is not None
    assert (180, 3, 0) == (former.refreshes, former.lost, former.claim)


def test_the_limit_is_as_the_worker_says_that_finds_it() -> None:
    follows = LimitView(limit=84, is_leading=False, decided={"more": 1})
    leads = LimitView(limit=84, found=80, decided={"more": 2, "probe": 1})
    former = summed([ClusterState(found_limit=leads), ClusterState()])
    living = [ClusterState(found_limit=each) for each in (follows, leads)]

    found = msgspec.structs.replace(leads, decided={"more": 5, "probe": 2})
    assert found == summed(living, [former]).found_limit
    found = msgspec.structs.replace(follows, decided={"more": 3, "probe": 1})
    assert found == summed(living[:1], [former]).found_limit
    assert summed([ClusterState()], [former]).found_limit is None


def test_seats_given_per_seat_wanted() -> None:
    busy, other, idle = (ClusterState(fair=each) for each in ([0.5, 30.0], [2.0, 10.0], []))

    assert 0.875 == summed([busy, idle, other]).seat_fair_frac
    assert 0.0 == summed([idle, idle]).seat_fair_frac


def test_fleets() -> None:
    """It is as a member says that holds its claim; each of this machine is as it says."""
    views = [
        fleet(member("a", is_self=True), member("b"), state="expired", problem="away"),
        fleet(member("a"), member("b", claim=300, is_self=True)),
    ]
    found = summed([ClusterState(fleet=view) for view in views] + [ClusterState()]).fleet
    assert found is not None

    assert ("held", "away", 500, 180) == (found.state, found.problem, found.claim, found.refreshes)
    assert [(True, "expired"), (True, "held")] == [
        (each.is_self, each.state) for each in found.members
    ]
