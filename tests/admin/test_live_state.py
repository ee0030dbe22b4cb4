"""The state that the live page shows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.admin.gathering import gathered
from apfproxy.admin.history import History
from apfproxy.admin.live_state import OF_WORKERS, live_state, of_whole_server, problems
from apfproxy.admin.state import (
    CheckState,
    EventState,
    Flow,
    FlowsState,
    ProcessState,
    Share,
    WorkerState,
    of_worker,
    summed,
)
from apfproxy.admin.tables import PRIORITY_LEVELS, rows
from apfproxy.base import build
from apfproxy.base.events import ConfigurationEvents
from apfproxy.base.health_checks import HealthRegistry
from apfproxy.objects.types import QueuingConfiguration
from apfproxy.proxy.counters import Refusal
from tests.admin.scene import Scene, StillUpstream
from tests.fleet.views import fleet, member
from tests.support.builders import flow_schema, group_subject, priority_level

if TYPE_CHECKING:
    from apfproxy.admin.live_state import State

S = 1_000_000_000


@pytest.fixture
def scene() -> Scene:
    """Two seats, one queue of one place: two execute, one waits, one is rejected."""
    queuing = QueuingConfiguration(queues=2, hand_size=1, queue_length_limit=1)
    level = priority_level("tiny", shares=20, queuing=queuing, lendable_percent=50)
    scene = Scene(
        (level, flow_schema("all", "tiny", group_subject("everyone"))), server_concurrency_limit=2
    )
    for _ in range(4):
        scene.ask("ann")
    return scene


def shown(scene: Scene, history: History | None = None, **parts: Any) -> State:  # noqa: ANN401
    state = scene.state(is_full=False, **parts)
    return live_state(state, state.clusters[0], history or History())


def level(state: State, name: str = "tiny") -> State:
    found: State = {each["name"]: each for each in state["levels"]}[name]
    return found


def test_level(scene: Scene) -> None:
    found = level(shown(scene))
    waiting, seats = found.pop("queues"), found.pop("queueSeats")

    assert {
        "name": "tiny", "uid": scene.controller.levels["tiny"].uid, "type": "Limited",
        "isQuiescing": False, "shares": 20, "lendablePercent": 50, "borrowingLimitPercent": 0,
        "nominal": 2, "min": 1, "max": 2, "current": 2, "lent": 0, "borrowed": 0,
        "seatsInUse": 2, "executing": 2, "waiting": 1, "dispatched": 2, "rejected": 1,
        "timedOut": 0, "cancelled": 0, "failed": 0, "queueCount": 2, "condition": "waits",
        "dispatchedPerSecond": 0.0, "servedPerSecond": 0.0, "failedPerSecond": 0.0,
        "leftPerSecond": 0.0, "rejectedPerSecond": {}, "oldestWaitSeconds": 0.0, "tokens": None,
        "holder": {
            "flowSchema": "all", "flow": "ann", "kind": "user", "seats": 2, "waitsFor": 1,
        },
    } == found  # fmt: skip
    assert ([0, 1], [0, 2]) == (sorted(waiting), sorted(seats))


def test_other_levels(scene: Scene) -> None:
    """Current less nominal limit is lent or borrowed; the queues of unused levels are empty."""
    for current, expected in ((1, (1, 0)), (2, (0, 0)), (5, (0, 3))):
        scene.controller.levels["tiny"].current_limit = current
        found = level(shown(scene))
        assert expected == (found["lent"], found["borrowed"])
    queuing = QueuingConfiguration(queues=3, hand_size=1, queue_length_limit=1)
    objects = priority_level("idle", queuing=queuing), priority_level("tiny")
    scene.controller.commit(scene.controller.digest(objects))
    state = shown(scene)

    assert ("Exempt", None, []) == tuple(
        level(state, "exempt")[key] for key in ("type", "max", "queues")
    )
    assert ([0] * 3, [0] * 3, "idle") == tuple(
        level(state, "idle")[key] for key in ("queues", "queueSeats", "condition")
    )
    assert ["catch-all", "exempt", "idle", "tiny"] == [each["name"] for each in state["levels"]]


def test_left(scene: Scene) -> None:
    """A client that left while it waited is not rejected, other than on kube-apiserver's page."""
    queue_set = scene.controller.levels["tiny"].queue_set
    [waiting] = [ticket for queue in queue_set.queues for ticket in queue.tickets()]
    history = History()
    for second in range(2):
        process = scene.state()
        cluster = process.clusters[0]
        history.take(process.listener, cluster, second * S, float(second))
        queue_set.withdraw(waiting, None)
    history.rate()
    found = level(shown(scene, history))
    [row] = [row for row in rows(PRIORITY_LEVELS, cluster.levels) if row[0] == "tiny"]
    names = "RejectedRequests", "CancelledRequests"

    assert (1, 1, 1.0) == (found["rejected"], found["cancelled"], found["leftPerSecond"])
    assert [0.0] == history.columns()["levels"]["tiny"]["rejected"]
    assert [2, 1] == [row[list(PRIORITY_LEVELS).index(name)] for name in names]


def test_rates(scene: Scene) -> None:
    history = History()
    for second in range(2):
        process = scene.state()
        history.take(process.listener, process.clusters[0], second * S, float(second))
        scene.ask("ann")
        scene.controller.levels["tiny"].failed_total += 1
        scene.counters.pool.unattributed.answers[503] = 3
    history.rate()
    state = shown(scene, history)
    found = level(state)
    matched = {each["name"]: each["matchedPerSecond"] for each in state["flowSchemas"]}

    assert ("rejects", {"queue-full": 1.0}) == (found["condition"], found["rejectedPerSecond"])
    assert (1.0, 3.0) == (found["failedPerSecond"], state["upstream"]["answersPerSecond"]["5xx"])
    assert {"all": 1.0, "catch-all": 0.0, "exempt": 0.0} == matched
    (schema,) = (each for each in state["flowSchemas"] if each["name"] == "all")
    assert ({"queue-full": 1.0}, "", None) == tuple(
        map(schema.get, ("rejectedBy", "user", "untilS"))
    )


def test_tokens(scene: Scene) -> None:
    """Rates are of 5 s, times of a minute; a level without completions has none."""
    history = History()
    (counters,) = scene.controller.flow_schema_counters()
    meter = counters.token_meter()
    for second in range(60):
        process = scene.state()
        history.take(process.listener, process.clusters[0], second * S, float(second))
        if second == 1:
            meter.first_token_ns.observe(4 * S)
            meter.first_token_executing_ns.observe(2 * S)
        meter.count(30)
        meter.prompt_tokens += 2
        meter.between_tokens_ns.observe_each(30, S)
    meter.open_streams, meter.completions = 3, 2
    history.rate()
    state = shown(scene, history)

    assert {
        "openStreams": 3, "completions": 2, "completionTokens": 1800, "promptTokens": 120,
        "tokensPerSecond": 30.0, "promptTokensPerSecond": 2.0, "firstTokenP50": 3.75,
        "firstTokenP99": 4.97, "firstTokenExecutingP50": 1.75, "betweenTokensP50": 0.0375,
        "betweenTokensP99": 0.0498,
    } == level(state)["tokens"]  # fmt: skip
    assert level(state, "catch-all")["tokens"] is None
    columns = history.columns()["levels"]
    assert [30.0] * 59 == columns["tiny"]["tokens"]
    assert all(map(math.isnan, columns["catch-all"]["tokens"]))


def test_the_whole(scene: Scene) -> None:
    events = ConfigurationEvents()
    events.record(3.0, "bad \udcff", is_error=True)
    health = HealthRegistry()
    health.add("limits", is_blocking=False, problem="late\udcff")
    scene.counters.listener.loop_delay_ns = 256_000_000
    scene.counters.listener.overloads[Refusal.LOOP_DELAY] = True
    cluster = scene.cluster(
        enforcement="observe",
        source="files",
        client_problems=["all are one"],
        ban_command=("a ", " b"),
    )
    *_, process = gathered(
        started_s=2.0,
        health=health,
        events=events,
        listener=scene.counters.listener,
        clusters=[cluster],
    )
    flow = Flow(flow_schema="all", priority_level="tiny", flow="ann", seat_seconds=7.0)
    process.clusters[0].top_flows = FlowsState(flows=[flow])
    state = live_state(process, process.clusters[0], History())
    del state["levels"], state["seatFairFrac"], state["upstream"], state["flowSchemas"]

    assert {
        "serverConcurrencyLimit": 2, "enforcement": "observe", "cluster": "", "fleet": None,
            "foundLimit": None,
        "proxy": {
            "version": build.short_version(), "startTime": 2.0, "loopDelaySeconds": 0.26,
            "sheds": ["loop-delay"], "refusedPerSecond": {},
        },
        "problems": [{"check": "limits", "problem": "late\\udcff", "isBlocking": False}],
        "clientProblems": ["all are one"], "flowSchemaCount": 3, "banCommand": ["a ", " b"],
        "topFlows": [{
            "flowSchema": "all", "priorityLevel": "tiny", "flow": "ann", "seatSeconds": 7.0,
            "waitSeconds": 0.0, "rejected": 0.0, "tokens": 0.0, "kind": "user", "isWhole": True,
        }],
        "configuration": {
            "generation": 2, "source": "files",
            "events": [{"time": 3.0, "message": "bad \\udcff", "isError": True}],
        },
    } == state  # fmt: skip


def test_servers_and_members_that_are_not_well_come_first(scene: Scene) -> None:
    scene.upstream = StillUpstream(*["up"] * 70, "failing")
    others = [member(f"m{n}", age_s=9.5 if n == 99 else 0.4) for n in range(100)]
    state = shown(scene, fleet=fleet(member("a", is_self=True), *others))
    upstream, found = state["upstream"], state["fleet"]

    assert (64, 71, 70) == (
        len(upstream["endpoints"]),
        upstream["endpointCount"],
        upstream["healthyCount"],
    )
    assert ["failing"] == [each["state"] for each in upstream["endpoints"] if each["state"] != "up"]
    assert (64, 101, 1) == (len(found["members"]), found["memberCount"], found["silentCount"])
    assert ["a", "m99", "m0"] == [each["name"] for each in found["members"][:3]]
    assert (0, 9) == (found["age"], found["members"][1]["age"])


# Workers.


def parent(*names: str, silent: str = "") -> ProcessState:
    workers = [WorkerState(name=name, state="serving") for name in names]
    problem = WorkerState(name=silent, state="silent", problem="it shows no life")
    return ProcessState(workers=[*workers, *([problem] if silent else [])])


def messages(process: ProcessState, cluster: str = "") -> list[str]:
    [shown_one] = Scene(()).state().clusters
    shown_one.name = cluster
    events = live_state(process, shown_one, History())["configuration"]["events"]
    return [each["message"] for each in events]


def test_who_has_a_problem() -> None:
    process = parent("1", "2")
    both = ["1", "2"]
    process.health = [CheckState(name="limits", problems={"late": both, "slow": ["1"]})]
    process.events = [
        EventState(message="late", workers=both),
        EventState(message="slow", workers=["1"]),
        EventState(message="this member holds 4 of 8 seats", workers=both, is_own=True),
    ]
    found = messages(process)

    assert ["late", "worker 1: slow"] == [each["problem"] for each in problems(process)]
    assert ["late", "worker 1: slow", "worker 1, 2: this member holds 4 of 8 seats"] == found


def test_problems_and_events_of_a_cluster() -> None:
    health, events = HealthRegistry(), ConfigurationEvents()
    for name in ("a", "b", "ab"):
        checks = health.of_cluster(name)
        checks.publish()
        checks.add("upstream", problem=name)
        events.of_cluster(name).loaded(1.0, 2, [], [], is_whole=True)
    health.add("cluster/a", problem="refused")
    events.record(2.0, "Settings changed")
    *_, process = gathered(started_s=1.0, health=health, events=events)

    assert [("upstream", "a"), ("cluster/a", "refused")] == [
        (each["check"], each["problem"]) for each in problems(process, "a")
    ]
    assert ["b: Generation 2 is in force", "Settings changed"] == messages(process, "b")


def test_workers_that_end_or_are_silent() -> None:
    process = parent("1", "2", silent="3")
    process.health = [CheckState(name="shutdown", problems={"it ends": ["1"]})]

    assert [("worker", "worker 3 does not answer: it shows no life")] == [
        (each["check"], each["problem"]) for each in problems(process)
    ]


def test_shares_of_workers(scene: Scene) -> None:
    view = fleet(member("worker-1", is_self=True), store=OF_WORKERS, limit=9)
    states = [of_worker(scene.state(fleet=view), name) for name in ("1", "2")]
    process = summed([*states, parent("1", "2")])
    of_whole_server(process.clusters[0])
    history = History()
    state = live_state(process, process.clusters[0], history)

    assert [("1", 2, 1), ("2", 2, 1)] == [
        (each["name"], each["seatsInUse"], each["waiting"]) for each in state["workers"]
    ]
    assert 9 == state["serverConcurrencyLimit"]
    assert (4, 2, 8) == tuple(level(state)[key] for key in ("seatsInUse", "waiting", "nominal"))
    assert {"ann": 4} == {level(state)["holder"]["flow"]: level(state)["holder"]["seats"]}
    assert process.clusters[0].workers[0] == Share(
        name="1", seats_in_use=2, executing=2, waiting=1, dispatched=2
    )
