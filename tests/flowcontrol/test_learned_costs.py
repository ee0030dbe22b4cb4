"""Tests of `apfproxy.flowcontrol.learned_costs`."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.learned_costs import (
    LONGEST_KEY,
    MAX_PAGE_OBJECTS,
    OBJECT_COUNTS_FRESH_NS,
    LearnedCosts,
    ObjectStats,
)
from apfproxy.flowcontrol.passage import WorkEstimator
from apfproxy.flowcontrol.ticket import (
    ONE_SEAT,
    WorkEstimate,
    format_seat_seconds,
    ns_per_seat,
    seat_ticks,
)
from apfproxy.request.attributes import RequestAttributes, parse_attributes
from apfproxy.request.rules import RequestRules
from tests.support.clocks import VirtualClock

PODS = "/api/v1/pods"
PODS_OF_N = "/api/v1/namespaces/n/pods"

BELOW_CLUSTERS = RequestRules(api_prefixes=["/clusters/{workspace}"])


def get(target: str) -> RequestAttributes:
    return parse_attributes("GET", target.encode())


@pytest.fixture(name="clock")
def make_clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(name="costs")
def make_costs(clock: VirtualClock) -> LearnedCosts:
    return LearnedCosts(clock.now_ns)


def seats(costs: LearnedCosts, target: str) -> int:
    return WorkEstimator(costs.object_stats, costs.watch_count).estimate(get(target), 0).max_seats


def test_whole_lists(costs: LearnedCosts) -> None:
    costs.list_finished(get(PODS), 1_000_000)
    assert seats(costs, PODS) == 10

    costs.list_finished(get(PODS), 2_000_000)
    assert seats(costs, PODS) == 12

    for _ in range(40):
        costs.list_finished(get(PODS), 2_000_000)
    assert seats(costs, PODS) == 20


def test_scopes_are_apart(costs: LearnedCosts) -> None:
    costs.list_finished(get(PODS), 5_000_000)
    costs.list_finished(get(PODS_OF_N), 300_000)
    assert seats(costs, PODS) == 50
    assert seats(costs, PODS_OF_N) == 3
    assert seats(costs, "/api/v1/namespaces/m/pods") == 3
    assert seats(costs, "/apis/apps/v1/pods") == 1


def test_parts_do_not_drag_down_whole_lists(costs: LearnedCosts) -> None:
    costs.list_finished(get(PODS), 5_000_000)
    for part in (
        "?limit=10",
        "?limit=10&continue=x",
        "?continue=x",
        "?labelSelector=a",
        "?fieldSelector=metadata.name%3Da",
        "?limit=x",
        "?watch=1",
        "/a",
    ):
        costs.list_finished(get(PODS + part), 10)

    assert seats(costs, PODS) == 50


def test_pages(costs: LearnedCosts) -> None:
    costs.list_finished(get(PODS + "?limit=500"), 2_500_000)
    assert costs.object_stats(get(PODS)) == ObjectStats(500, 5000)
    assert seats(costs, PODS + "?limit=100") == 5
    assert seats(costs, PODS + "?limit=500") == 25
    costs.list_finished(get(PODS), 10_000_000)
    assert costs.object_stats(get(PODS)) == ObjectStats(2000, 5000)


def test_fullest_page_counts(costs: LearnedCosts) -> None:
    """A page that is not full hardly makes objects smaller, and none makes them tiny."""
    costs.list_finished(get(PODS + "?limit=100"), 500_000)
    costs.list_finished(get(PODS + "?limit=100"), 5000)
    assert costs.object_stats(get(PODS)) == ObjectStats(100, 4020)

    costs.list_finished(get(PODS + "?limit=100"), 500_000)
    assert costs.object_stats(get(PODS)) == ObjectStats(100, 5000)

    costs.list_finished(get(PODS_OF_N + "?limit=1000"), 1)
    assert costs.object_stats(get(PODS_OF_N)) == ObjectStats(1000, 100)


def test_huge_limit_is_none(costs: LearnedCosts) -> None:
    costs.list_finished(get(f"{PODS}?limit={MAX_PAGE_OBJECTS + 1}"), 1_000_000)
    assert seats(costs, PODS) == 10


def test_selections_are_a_lower_bound(costs: LearnedCosts) -> None:
    costs.list_finished(get(PODS + "?labelSelector=a"), 700_000)
    assert seats(costs, PODS) == 7


def test_least_recently_used_is_forgotten(clock: VirtualClock) -> None:
    costs = LearnedCosts(clock.now_ns, max_keys=2)
    for resource in ("a", "b"):
        costs.list_finished(get(f"/api/v1/{resource}"), 500_000)
    assert seats(costs, "/api/v1/a") == 5

    costs.list_finished(get("/api/v1/c"), 500_000)

    assert seats(costs, "/api/v1/a") == 5
    assert costs.object_stats(get("/api/v1/b")) is None
    assert seats(costs, "/api/v1/c") == 5


def test_long_names_are_not_remembered(costs: LearnedCosts) -> None:
    for letters in (LONGEST_KEY, LONGEST_KEY + 1):
        costs.list_finished(get(f"/api/v1/{letters * 'a'}"), 1_000_000)
    assert [LONGEST_KEY] == [len(resource) for resource, _ in costs._lists]  # noqa: SLF001


def test_object_counts(costs: LearnedCosts) -> None:
    costs.set_object_counts({"pods": 3000, "deployments.apps": 0, "broken": -1}, now_ns=0)
    assert costs.object_stats(get(PODS)) == ObjectStats(3000, 1000)
    assert costs.object_stats(get(PODS_OF_N)) == ObjectStats(3000, 1000)
    assert costs.object_stats(get("/apis/apps/v1/deployments")) == ObjectStats(0, 1000)
    assert costs.object_stats(get("/api/v1/broken")) is None

    costs.list_finished(get(PODS + "?limit=100"), 200_000)
    assert costs.object_stats(get(PODS)) == ObjectStats(3000, 2000)

    costs.list_finished(get(PODS), 12_000_000)
    assert costs.object_stats(get(PODS)) == ObjectStats(3000, 4000)

    costs.list_finished(get(PODS_OF_N), 40_000)
    assert costs.object_stats(get(PODS_OF_N)) == ObjectStats(10, 4000)


def test_prefixes_are_apart(costs: LearnedCosts) -> None:
    def below(name: str, method: str = "GET", query: bytes = b"") -> RequestAttributes:
        path = b"/clusters/%b/api/v1/pods%b" % (name.encode(), query)
        return parse_attributes(method, path, BELOW_CLUSTERS)

    costs.set_object_counts({"pods": 3000}, now_ns=0)
    costs.list_finished(below("a"), 1_000_000)
    costs.watch_started(below("a", query=b"?watch=1"))

    assert costs.object_stats(below("a")) == ObjectStats(1000, 1000)
    assert costs.object_stats(below("b")) is None
    assert [1, 0] == [costs.watch_count(below(name, "POST")) for name in "ab"]
    assert 0 == costs.watch_count(parse_attributes("POST", PODS.encode()))


def test_outdated_object_counts_are_left_out(costs: LearnedCosts, clock: VirtualClock) -> None:
    costs.list_finished(get(PODS), 100_000)
    costs.set_object_counts({"pods": 50, "nodes": 5}, now_ns=0)

    clock.run_until(OBJECT_COUNTS_FRESH_NS)
    assert costs.object_stats(get(PODS)) == ObjectStats(50, 2000)

    clock.run_until(OBJECT_COUNTS_FRESH_NS + 1)
    assert costs.object_stats(get(PODS)) == ObjectStats(100, 1000)
    assert costs.object_stats(get("/api/v1/nodes")) is None


def test_watches(costs: LearnedCosts) -> None:
    watches = [
        get(target)
        for target in (
            "/api/v1/configmaps?watch=1",
            "/api/v1/namespaces/n/configmaps?watch=1",
            "/api/v1/namespaces/n/configmaps?watch=1",
            "/api/v1/watch/namespaces/n/configmaps/c",
            "/api/v1/namespaces/m/configmaps?watch=1",
            "/apis/apps/v1/configmaps?watch=1",
        )
    ]
    for watch in watches:
        costs.watch_started(watch)

    def interested(method: str, target: str) -> int:
        return costs.watch_count(parse_attributes(method, target.encode()))

    assert interested("PUT", "/api/v1/namespaces/n/configmaps/c") == 4
    assert interested("POST", "/api/v1/namespaces/n/configmaps") == 3
    assert interested("POST", "/api/v1/configmaps") == 1
    assert interested("GET", "/api/v1/namespaces/n/configmaps/c") == 0

    for watch in watches:
        costs.watch_ended(watch)

    assert interested("PUT", "/api/v1/namespaces/n/configmaps/c") == 0


@pytest.mark.parametrize(
    ("query", "count"),
    [
        pytest.param("", 1, id="all-pods"),
        pytest.param("&fieldSelector=spec.nodeName%3Da", 0, id="pods-of-a-node"),
        pytest.param("&fieldSelector=spec.nodeName%3D", 1, id="pods-without-node"),
        pytest.param("&fieldSelector=spec.nodeName%3Da&limit=x", 1, id="not-decodable"),
    ],
)
def test_watches_by_index(costs: LearnedCosts, query: str, count: int) -> None:
    watch = get(f"{PODS}?watch=1{query}")
    create = parse_attributes("POST", PODS_OF_N.encode())
    costs.watch_started(watch)
    assert count == costs.watch_count(create)
    costs.watch_ended(watch)
    assert costs.watch_count(create) == 0


def test_only_watches_are_watches(costs: LearnedCosts) -> None:
    create = parse_attributes("POST", PODS_OF_N.encode())
    costs.watch_started(get(PODS))
    assert 0 == costs.watch_count(create)
    costs.watch_started(get(f"{PODS}?watch=1"))
    costs.watch_ended(get(PODS))
    assert 1 == costs.watch_count(create)


MEGABYTES = ObjectStats(count=1000, average_bytes=4000)  # 40 seats' worth
MANY = ObjectStats(1_000_000_000, 1_500_000)


def estimator(stats: ObjectStats | None = MEGABYTES, watch_count: int = 0) -> WorkEstimator:
    return WorkEstimator(lambda _: stats, lambda _: watch_count)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", b"/api/v1/pods/p"),
        ("GET", b"/healthz"),
        ("POST", b"/metrics"),
        ("DELETE", b"/api/v1/namespaces/n/pods"),
        ("POST", b"/api/v1/namespaces/n/serviceaccounts/s/token"),
        ("GET", b"/api/v1/pods?watch=1&resourceVersion=5"),
    ],
)
def test_fixed(method: str, target: bytes) -> None:
    attributes = parse_attributes(method, target)
    assert estimator().fixed(attributes) is ONE_SEAT
    assert estimator(MANY, watch_count=1000).estimate(attributes, 0) is ONE_SEAT


def test_writes_that_watches_are_told_of() -> None:
    """They take final seats; where a level allows fewer, for longer."""
    create = parse_attributes("POST", b"/api/v1/namespaces/n/pods")
    assert ONE_SEAT is estimator(watch_count=9).estimate(create, 0)
    assert "WorkEstimate(1, 2, 5000000)" == repr(estimator(watch_count=20).estimate(create, 0))
    assert "WorkEstimate(1, 3, 6666666)" == repr(estimator(watch_count=40).estimate(create, 3))


@pytest.mark.parametrize(
    ("target", "stats", "max_seats", "seats"),
    [
        pytest.param(b"", MEGABYTES, 0, 40, id="whole"),
        pytest.param(b"", MEGABYTES, 15, 15, id="level-allows-less"),
        pytest.param(b"", ObjectStats(10_000, 10_000), 500, 100, id="most-for-a-list"),
        pytest.param(b"", ObjectStats(1, 100_001), 0, 2, id="rounded-up"),
        pytest.param(b"", ObjectStats(0, 0), 0, 1, id="empty"),
        pytest.param(b"", ObjectStats(3, 0), 0, 45, id="size-unknown"),
        pytest.param(b"", None, 0, 1, id="nothing-known"),
        pytest.param(b"", MANY, 0, 100, id="outdated"),
        pytest.param(b"?limit=100", MEGABYTES, 0, 4, id="limit"),
        pytest.param(b"?limit=100&labelSelector=a", MEGABYTES, 0, 20, id="limit-and-selector"),
        pytest.param(b"?resourceVersion=0", MEGABYTES, 0, 10, id="from-the-cache"),
        pytest.param(b"?resourceVersion=0&labelSelector=a", MEGABYTES, 0, 10, id="cached-selector"),
        pytest.param(b"?fieldSelector=metadata.name=a", MEGABYTES, 0, 1, id="one-name"),
        pytest.param(b"?limit=x", None, 7, 7, id="not-decodable"),
        pytest.param(b"?watch=1", MEGABYTES, 0, 10, id="watch"),
    ],
)
def test_list(target: bytes, stats: ObjectStats | None, max_seats: int, seats: int) -> None:
    attributes = parse_attributes("GET", b"/api/v1/pods" + target)

    estimate = estimator(stats).estimate(attributes, max_seats)

    assert (seats, 0, 0) == (
        estimate.initial_seats,
        estimate.final_seats,
        estimate.additional_latency_ns,
    )


@pytest.mark.parametrize(
    ("most", "max_seats", "target", "seats"),
    [
        (7, 0, "", 7),
        (7, 5, "", 5),
        (7, 0, "?watch=1", 7),
        (500, 0, "", 500),
        (500, 400, "", 400),
        (500, 0, "?limit=x", 500),
        (500, 0, "?limit=300", 300),
        (500, 0, "?watch=1", 10),
    ],
)
def test_a_maximum_for_lists(most: int, max_seats: int, target: str, seats: int) -> None:
    """It is that of watches, too, but not that of writes; and can change at any time."""
    bounded = estimator(ObjectStats(10_000, 100_000), watch_count=1000)
    for each in (7, 500, most):
        bounded.bound_lists(each)

    assert seats == bounded.estimate(get(f"{PODS}{target}"), max_seats).max_seats
    create = parse_attributes("POST", PODS_OF_N.encode())
    assert 10 == bounded.estimate(create, 0).max_seats


@pytest.mark.parametrize(
    ("estimate", "max_seats", "work"),
    [
        pytest.param(ONE_SEAT, 1, 300_000, id="one-seat"),
        pytest.param(WorkEstimate(3), 3, 900_000, id="wide"),
        pytest.param(WorkEstimate(1, 4, 5_000_000), 4, 2_300_000, id="final-seats-are-more"),
        pytest.param(WorkEstimate(4, 1, 5_000_000), 4, 1_700_000, id="initial-seats-are-more"),
    ],
)
def test_work_estimate(estimate: WorkEstimate, max_seats: int, work: int) -> None:
    assert max_seats == estimate.max_seats
    assert work == estimate.work


def test_a_cut_estimate_keeps_its_final_work() -> None:
    cut = WorkEstimate(3, 8, 5_000_000).cut(2)
    assert repr(cut) == "WorkEstimate(3, 2, 20000000)"
    assert cut.work == WorkEstimate(3, 8, 5_000_000).work


@pytest.mark.parametrize(
    ("seats", "duration_ns", "ticks"),
    [
        pytest.param(1, 3_000_000, 300_000, id="the-guess"),
        pytest.param(1, 4, 0, id="down"),
        pytest.param(1, 5, 1, id="half-away-from-zero"),
        pytest.param(1, -5, -1, id="negative-half-away-from-zero"),
        pytest.param(1, -4, 0, id="negative-up"),
        pytest.param(1 / 3, 100, 3, id="a-share"),
        pytest.param(0.49999999999999994, 10, 0, id="just-below-a-half"),
        pytest.param(1, 45_035_996_273_704_970, 4_503_599_627_370_497, id="beyond-2**52"),
    ],
)
def test_seat_ticks(seats: float, duration_ns: int, ticks: int) -> None:
    assert ticks == seat_ticks(seats, duration_ns)


@pytest.mark.parametrize(
    ("work", "seats", "duration_ns"),
    [(300_000, 1, 3_000_000), (100, 3, 333), (0, 5, 0)],
)
def test_ns_per_seat(work: int, seats: int, duration_ns: int) -> None:
    assert duration_ns == ns_per_seat(work, seats)


@pytest.mark.parametrize(
    ("work", "text"),
    [(0, "0.00000000ss"), (300_000, "0.00300000ss"), (-150_000_000, "-1.50000000ss")],
)
def test_format_seat_seconds(work: int, text: str) -> None:
    assert text == format_seat_seconds(work)
