"""Tests of `apfproxy.flowcontrol.load_curve`."""

from __future__ import annotations

import math

import pytest

from apfproxy.flowcontrol.load_curve import (
    FORGOTTEN_S,
    HALVED_S,
    LoadCurve,
    Point,
    Sample,
    knee_index,
    smoothed,
)
from tests.flowcontrol.slow_server import GETS, LISTS


def sample(concurrency: float, gets: float, lists: float = 0.0) -> Sample:
    """A second at a concurrency, with responses."""
    counts = {kind: count for kind, count in ((GETS, gets), (LISTS, lists)) if count}
    return Sample(1.0, concurrency, 1.0, gets + lists, counts, [(1.0, counts)])


def curve(**counts: float) -> LoadCurve:
    """Lists take ten times as long as gets."""
    made = LoadCurve()
    made.weigh(0.0, {GETS: (100.0, 10.0), LISTS: (10.0, 10.0)})
    for name, gets in counts.items():
        made.add(0.0, sample(float(name[1:]), gets))
    return made


def test_mix_is_no_change() -> None:
    made = curve(_8=100.0)
    deviation, error = made.deviation(1.0, sample(8, 0.0, 10.0))

    assert deviation == pytest.approx(0.0)
    assert 0 < error < math.inf


def test_slower_server_is_no_other_mix() -> None:
    made = curve()
    before = made.goodput({LISTS: 10.0}, 1.0)
    for _ in range(50):
        made.weigh(1.0, {GETS: (100.0, 30.0), LISTS: (10.0, 30.0)})

    assert before == pytest.approx(made.goodput({LISTS: 10.0}, 1.0))


@pytest.mark.parametrize(
    ("gets", "deviation"),
    [(200.0, math.log(2)), (50.0, -math.log(2)), (0.0, 0.0)],
    ids=["more", "less", "nothing"],
)
def test_deviation(gets: float, deviation: float) -> None:
    assert deviation == pytest.approx(curve(_8=100.0).deviation(1.0, sample(8, gets))[0])


@pytest.mark.parametrize(("concurrency", "after_s"), [(20, 1.0), (8, FORGOTTEN_S + 1)])
def test_deviation_from_nothing(concurrency: float, after_s: float) -> None:
    assert (0.0, math.inf) == curve(_8=100.0).deviation(after_s, sample(concurrency, 9.0))


def test_speed_that_varies_is_no_change() -> None:
    """The more often a server was half as fast for a moment, the less that tells of a change."""
    made = curve(_8=100.0)
    _, before = made.deviation(0.0, sample(8, 50.0))
    for second in range(1, 40):
        each = sample(8, 50.0 if second // 3 % 2 else 100.0)
        made.look_at_speed(float(second), each)
        made.add(float(second), each)
    _, after = made.deviation(40.0, sample(8, 50.0))
    assert after > 2 * before

    for second in range(40, 120):
        made.look_at_speed(float(second), sample(8, 80.0))
        made.add(float(second), sample(8, 80.0))
    assert made.deviation(120.0, sample(8, 80.0))[1] < 1.1 * before


def test_other_concurrency_while_the_server_is_slow() -> None:
    """A concurrency that is seen while the server is slow is set against how slow it is."""
    made = curve(_8=100.0)
    for second in range(1, 60):
        each = sample(8, 50.0 if second // 3 % 2 else 100.0)
        made.look_at_speed(float(second), each)
        made.add(float(second), each)
    made.add(60.0, sample(8, 50.0))
    made.add(61.0, sample(16, 100.0))
    eight, sixteen = made.points(61.0)

    assert sixteen.goodput / eight.goodput > 1.5
    assert sixteen.error > eight.error


def test_old_samples_count_less() -> None:
    made = curve(_8=100.0)
    made.add(HALVED_S, sample(8, 40.0))
    (point,) = made.points(HALVED_S)

    assert 60.0 == pytest.approx(point.goodput / made.goodput({GETS: 1.0}, 1.0))
    assert 0.0 == point.age_s


def test_forgetting() -> None:
    made = curve(_2=20.0, _8=80.0, _50=90.0)
    assert [2, 8, 50] == [each.concurrency for each in made.points(1.0)]

    made.forget(above=50)
    assert [2, 8] == [each.concurrency for each in made.points(1.0)]
    assert not made.points(FORGOTTEN_S + 1)
    assert 0.0 == made.goodput({GETS: 1.0}, 1.0)  # classes that are not met any more go, too

    made.add(1.0, sample(8, 9.0))
    made.forget()
    assert not made.points(1.0)


def test_classes_that_are_gone_leave_no_counts() -> None:
    made = curve(_8=1.0)
    for step in range(20):
        made.add(step * HALVED_S, sample(8, 0.0, 5.0))

    (seen,) = made._seen.values()  # noqa: SLF001  it shows in no other way
    assert {LISTS} == seen.counts.keys()


def test_scale() -> None:
    made = curve(_2=20.0, _10=50.0)
    before = [each.goodput for each in made.points(1.0)]
    made.scale(3.0)

    assert [6, 30] == [each.concurrency for each in made.points(1.0)]
    assert [3 * each for each in before] == [each.goodput for each in made.points(1.0)]


def test_odd_numbers_do_no_harm() -> None:
    """Responses that took no time, or are none; a sample of nothing."""
    made = LoadCurve()
    made.weigh(0.0, {GETS: (0.0, 0.0), LISTS: (5.0, 0.0)})
    made.weigh(1.0, {GETS: (5.0, 0.0), LISTS: (5.0, 0.0)})
    made.look_at_noise(sample(0.2, 0.0))
    made.add(1.0, sample(0.2, 0.0))
    points = smoothed(made.points(1.0))

    assert 0 == knee_index(points, 0.97)
    assert 0.0 < made.goodput({GETS: 1.0}, 1.0) < math.inf


def test_noise() -> None:
    """It is never taken for none, and not for endless by one look."""
    made = curve()
    steady = Sample(3.0, 24.0, 3.0, 30.0, {GETS: 30.0}, [(1.0, {GETS: 10.0})] * 3)
    for _ in range(5000):
        made.look_at_noise(steady)
    assert 0.0 < made.noise < 0.1

    uneven = [(1.0, {GETS: 1.0}), (1.0, {GETS: 1.0}), (1.0, {GETS: 5000.0})]
    before = made.noise
    made.look_at_noise(Sample(3.0, 24.0, 3.0, 5002.0, {GETS: 5002.0}, uneven))
    assert before < made.noise < 2 * before


def points(*goodputs: float, error: float = 0.01) -> list[Point]:
    return [Point(float(at), goodput, error) for at, goodput in enumerate(goodputs, 1)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param([1, 2, 3], [1, 2, 3], id="rises"),
        pytest.param([1, 3, 2, 4], [1, 2.5, 2.5, 4], id="dip"),
        pytest.param([3, 2, 1, 4], [2, 2, 2, 4], id="long-dip"),
        pytest.param([1, 4, 3, 2], [1, 4, 3, 2], id="falls-beyond-the-top"),
    ],
)
def test_smoothed(given: list[float], expected: list[float]) -> None:
    found = smoothed(points(*given))

    assert expected == pytest.approx([each.goodput for each in found])
    assert [*range(1, len(given) + 1)] == [each.concurrency for each in found]


@pytest.mark.parametrize(
    ("goodputs", "error", "index"),
    [
        pytest.param([1, 2, 3, 3], 0.0, 2, id="flat"),
        pytest.param([1, 2, 3, 1], 0.0, 2, id="falls"),
        pytest.param([1, 2.95, 3], 0.0, 1, id="about-all"),
        pytest.param([1, 2.8, 3], 0.0, 2, id="not-all"),
        pytest.param([1, 2.8, 3], 0.04, 1, id="may-be-all"),
        pytest.param([0, 0], 1.0, 0, id="nothing"),
    ],
)
def test_knee(goodputs: list[float], error: float, index: int) -> None:
    assert index == knee_index(points(*goodputs, error=error), 0.97)
