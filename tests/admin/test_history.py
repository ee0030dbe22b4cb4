"""Fifteen minutes of seconds."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from apfproxy.admin import history as history_module
from apfproxy.admin.history import FIELDS, History, quantile_s, wait_bound_s
from apfproxy.flowcontrol.limit_view import LimitView
from apfproxy.flowcontrol.meters import Histogram
from apfproxy.objects.types import QueuingConfiguration
from apfproxy.proxy.counters import Flood
from apfproxy.upstream.counters import LATENCY_BOUNDS_NS
from tests.admin.scene import Scene
from tests.support.builders import flow_schema, group_subject, priority_level

S = 1_000_000_000
MS = 1_000_000


class Recorded(History):
    def __init__(self, scene: Scene, now_ns: int = 0) -> None:
        super().__init__()
        self._scene = scene
        self.more: dict[str, Any] = {}
        self.sample(now_ns, 0.0)

    def sample(self, now_ns: int, unix_s: float) -> None:
        state = self._scene.state(**self.more)
        self.take(state.listener, state.clusters[0], now_ns, unix_s)
        self.rate()


def as_json(columns: dict[str, Any]) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(columns))
    return decoded


@pytest.fixture
def scene() -> Scene:
    """One seat, one queue of one place."""
    queuing = QueuingConfiguration(queues=1, hand_size=1, queue_length_limit=1)
    return Scene(
        (
            priority_level("tiny", shares=100, queuing=queuing),
            flow_schema("all", "tiny", group_subject("everyone")),
        ),
        server_concurrency_limit=1,
    )


def test_failed_and_refused(scene: Scene) -> None:
    history = Recorded(scene)
    level = scene.controller.levels["tiny"]
    level.queue_set.dispatched_total = 10
    level.failed_total = 4
    scene.counters.count_own(401)
    scene.counters.count_own(429)
    scene.counters.count_own(403)
    scene.counters.bans = 1
    scene.counters.listener.http2.floods[Flood.RESETS] = 4
    history.sample(2 * S, 100.0)
    columns = history.columns()["levels"]["tiny"]

    assert ([3.0], [2.0]) == (columns["served"], columns["failed"])
    assert {"401": 0.5, "flood-of-resets": 2.0} == history.refused


def test_samples(scene: Scene) -> None:
    history = Recorded(scene)
    queue_set = scene.controller.levels["tiny"].queue_set
    first = scene.ticket("ann")
    second = scene.ticket("ann")
    scene.ask("ann")
    scene.clock.run_until(2 * S)
    history.sample(2 * S, 100.0)
    queue_set.finish(first)
    scene.clock.run_until(3 * S)
    history.sample(3 * S, 101.0)
    queue_set.finish(second)
    scene.clock.run_until(4 * S)
    history.sample(4 * S, 102.0)
    columns = as_json(history.columns())

    assert [100.0, 101.0, 102.0] == columns["times"]
    assert {
        "served": [0.5, 1.0, 0.0],
        "failed": [0.0, 0.0, 0.0],
        "rejected": [0.5, 0.0, 0.0],
        "waitSeconds": [0.0, 2.0, None],
        "waitP99Seconds": [0.0, 2.0, None],
        "waiting": [1.0, 0.0, 0.0],
        "seatsInUse": [1.0, 1.0, 0.0],
        "tokens": [None, None, None],
    } == columns["levels"]["tiny"]
    assert 3 == history.taken


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({0: 7}, 0.0),
        ({0: 99, 7: 1}, 0.0),
        ({0: 98, 7: 2}, 1.0),
        ({1: 1}, 0.005),
        ({0: 1, 13: 1}, math.inf),
    ],
)
def test_all_but_one_in_a_hundred_waited_no_longer(counts: dict[int, int], expected: float) -> None:
    assert expected == wait_bound_s([counts.get(bucket, 0) for bucket in range(14)])


def test_a_clock_that_is_put_back(scene: Scene) -> None:
    history = Recorded(scene)
    for number, unix_s in enumerate((5000.0, 5001.0, 5002.0, 100.0, 101.0)):
        history.sample((number + 1) * S, unix_s)

    assert [97.0, 98.0, 99.0, 100.0, 101.0] == history.columns()["times"]


def test_since(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is new can be asked for, also when older samples are gone."""
    monkeypatch.setattr(history_module, "SAMPLES", 20)
    history = Recorded(scene)
    history.sample(0, 1.0)  # no time has passed
    for number in range(1, 31):
        history.sample(number * S, float(number))

    assert (30, 20) == (history.taken, len(history.columns()["times"]))
    assert [29.0, 30.0] == history.columns(28)["times"]
    assert {"times": [], "levels": {}, "limits": []} == history.columns(history.taken)


def test_limits_that_are_found(scene: Scene) -> None:
    history = Recorded(scene)
    history.sample(S, 1.0)
    history.more = {"found_limit": LimitView(limit=84)}
    history.sample(2 * S, 2.0)

    assert [None, 84.0] == as_json(history.columns())["limits"]


def test_levels_come_and_go(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    history = Recorded(scene)
    controller = scene.controller
    controller.levels["tiny"].queue_set.dispatched_total = 10
    history.sample(S, 1.0)
    controller.levels["tiny"].queue_set.dispatched_total = 0
    history.sample(2 * S, 2.0)
    controller.commit(controller.digest((priority_level("new"),)))
    history.sample(3 * S, 3.0)
    levels = as_json(history.columns())["levels"]
    monkeypatch.setattr(history_module, "MAX_LEVELS", 2)
    history.sample(4 * S, 4.0)

    assert [10.0, 0.0, None] == levels["tiny"]["served"]
    assert [None, None, 0.0] == levels["new"]["served"]
    assert {3} == {len(column) for level in levels.values() for column in level.values()}
    assert list(FIELDS) == list(levels["new"])
    assert ["catch-all", "new"] == sorted(history.columns(3)["levels"])


def test_rates(scene: Scene) -> None:
    """They are those of the last five seconds, of FlowSchemas, of levels and of servers."""
    history = Recorded(scene)
    for second in range(1, 8):
        scene.counters.pool.unattributed.answers[200] = 10 * second
        scene.counters.pool.unattributed.head_ns.observe(S)
        history.sample(second * S, float(second))
    scene.ask("ann")
    scene.ask("ann")
    scene.ask("ann")
    scene.controller.levels["tiny"].failed_total = 5
    history.sample(8 * S, 8.0)
    rates = history.flow_schemas["tiny", "all"]

    assert pytest.approx(0.6) == rates.matched
    assert (0.2, {"queue-full": 0.2}) == (rates.dispatched, rates.rejected)
    assert (0.2, 1.0) == (history.levels["tiny"].dispatched, history.levels["tiny"].failed)
    assert (8.0, 0.0) == (history.upstream.answers["2xx"], history.upstream.failures)
    assert history.upstream.p50 == pytest.approx(1.0, rel=0.3)


@pytest.mark.parametrize(
    ("values_ns", "quantile", "expected"),
    [
        ([], 0.5, None),
        ([0], 0.5, 0.0),
        ([100 * S], 0.5, 80.0),
        ([1 * S] * 10, 1.0, 1.0),
        ([1 * S] * 10, 0.5, 0.9),
        ([1 * MS] * 99 + [30 * S], 0.99, 0.001),
        ([1 * MS] * 98 + [30 * S] * 2, 0.99, 27.5),
    ],
    ids=["none", "no-time", "above-all", "all-in-one", "middle", "without-the-last", "with-it"],
)
def test_quantile_is_interpolated_within_its_bucket(
    values_ns: list[int], quantile: float, expected: float | None
) -> None:
    heads = Histogram(LATENCY_BOUNDS_NS)
    for value_ns in values_ns:
        heads.observe(value_ns)

    assert expected == quantile_s(LATENCY_BOUNDS_NS, heads.counts, quantile)
