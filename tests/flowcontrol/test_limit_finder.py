"""Tests of `apfproxy.flowcontrol.limit_finder` with a server that slows down under load."""

from __future__ import annotations

import itertools
import random
import statistics
from typing import TYPE_CHECKING

import pytest

from apfproxy.flowcontrol.limit_finder import (
    ADOPTED,
    DISTRESSED,
    KEPT_DECISIONS,
    OBSERVED,
    RESIZED,
    FinderSettings,
    FinderState,
    LimitFinder,
    Load,
)
from tests.flowcontrol.slow_server import GETS, LISTS, Scene, falling, flat

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.flowcontrol.slow_server import Capacity

KNEE = 20


@pytest.mark.parametrize(
    ("capacity", "within_s"),
    [pytest.param(flat(KNEE), 10, id="flat"), pytest.param(falling(KNEE), 25, id="falling")],
)
@pytest.mark.parametrize("initial", [KNEE // 10, KNEE * 10])
@pytest.mark.parametrize("seed", [1, 2])
def test_from_far_away(capacity: Capacity, within_s: float, initial: int, seed: int) -> None:
    """Soon the server does about what it can do, and at no more than it needs for that."""
    scene = Scene(capacity, clients=250, initial=initial, seed=seed)
    scene.run(50)

    assert scene.goodput(within_s, 50) > 0.85 * KNEE
    assert 0.6 * KNEE < scene.finder.limit <= 1.5 * KNEE
    assert scene.finder.found is not None


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_as_many_clients_as_seats(seed: int) -> None:
    """Where nothing waits, but the server has too much, fewer seats are tried."""
    scene = Scene(falling(8), clients=42, initial=45, seed=seed)
    scene.run(60)

    assert scene.goodput(40, 60) > 0.75 * 8
    assert scene.finder.limit < 24


def test_rest() -> None:
    """Once it is found, the limit stays but for looks at its neighbours."""
    scene = Scene(flat(KNEE), initial=KNEE)
    scene.run(120)

    held = sorted(scene.limits[300:])
    assert max(held) <= 2 * KNEE
    assert held[len(held) // 10] >= 0.7 * KNEE
    assert held[-len(held) // 10] <= 1.35 * KNEE


@pytest.mark.parametrize("shape", [flat, falling])
@pytest.mark.parametrize(("before", "after"), [(40, 20), (20, 40)])
def test_another_capacity(shape: Callable[[float], Capacity], before: int, after: int) -> None:
    scene = Scene(shape(before), initial=before)
    scene.run(30)
    assert scene.goodput(15, 30) > 0.85 * before

    scene.server.capacity = shape(after)
    scene.run(70)
    assert scene.goodput(30, 45) > 0.5 * after
    assert scene.goodput(45, 70) > 0.8 * after


def test_slow_server_from_a_tenth_of_its_knee() -> None:
    """Before a server of few responses a second the way up does not end at the noise."""
    goodputs = []
    for seed in range(1, 7):
        scene = Scene(flat(46), clients=278, initial=4, seed=seed)
        scene.classes = {GETS: 1.0}
        scene.run(60)
        goodputs.append(scene.goodput(30, 60) / 46)

    assert statistics.median(goodputs) > 0.85
    assert min(goodputs) > 0.7


def test_slow_server_that_does_more() -> None:
    """Twice as much shows at a look beside the noise, also of few responses."""
    goodputs = []
    for seed in range(1, 11):
        scene = Scene(flat(12), clients=80, initial=12, seed=seed)
        scene.classes = {GETS: 0.25}
        scene.run(40)
        scene.server.capacity = flat(24)
        scene.run(65)
        goodputs.append(scene.goodput(50, 65) / 24)

    assert statistics.median(goodputs) > 0.85
    assert min(goodputs) > 0.8


def slowed(speed: float) -> Capacity:
    return lambda count: speed * flat(KNEE)(count)


@pytest.mark.parametrize("initial", [KNEE // 10, KNEE * 10])
@pytest.mark.parametrize("seed", [1, 2])
def test_server_with_neighbours(initial: int, seed: int) -> None:
    """A server that is slow for seconds, as others share its machine, has the same knee."""
    draw = random.Random(seed)  # noqa: S311  to be repeated
    scene = Scene(flat(KNEE), clients=160, initial=initial, seed=seed)
    offered = at_s = 0.0
    while at_s < 90:
        speed, lasts_s = draw.choice((0.4, 0.7, 1.0, 1.0)), draw.expovariate(0.7)
        scene.server.capacity = slowed(speed)
        if at_s > 30:
            offered += speed * KNEE * lasts_s
        at_s += lasts_s
        scene.run(at_s)

    assert scene.goodput(30, at_s) * (at_s - 30) > 0.87 * offered


def test_another_mix() -> None:
    """Dear requests are no overload, nor are cheap ones that come back."""
    scene = Scene(flat(KNEE))
    scene.run(30)
    scene.classes = {GETS: 0.1, LISTS: 1.0}
    scene.run(60)
    scene.classes = {GETS: 0.1}
    scene.run(90)

    for begin_s in range(32, 86, 4):
        assert scene.goodput(begin_s, begin_s + 4) > 0.5 * KNEE
    assert scene.goodput(40, 60) > 0.8 * KNEE
    assert scene.goodput(70, 90) > 0.85 * KNEE


def test_server_that_stands_still() -> None:
    scene = Scene(flat(KNEE))
    scene.run(30)
    before = scene.finder.limit
    scene.server.stand_still(30)
    scene.run(35)
    assert before == scene.finder.limit

    scene.server.go_on(35)
    scene.run(60)
    assert scene.goodput(36, 45) > 0.85 * KNEE
    assert scene.goodput(45, 60) > 0.85 * KNEE


@pytest.mark.parametrize("initial", [20, 600])
def test_never_the_bottleneck(initial: int) -> None:
    """The clients ask for less than the server can do: none of them waits for long."""
    scene = Scene(flat(1000), initial=initial)
    scene.run(40)

    assert scene.goodput(20, 40) > 95
    assert min(scene.limits[200:]) >= 95


def test_nothing_waits() -> None:
    """The limit stays where too little is asked for to know."""
    scene = Scene(flat(KNEE), initial=50, clients=8)
    scene.think_s = 0.2
    scene.run(30)

    assert {50} == set(scene.limits[-150:])
    assert scene.finder.found is None


def test_nothing_waits_any_more_at_a_server_that_has_too_much() -> None:
    """The same is asked for all the time: fewer seats are tried for a moment now and then."""
    scene = Scene(flat(1000), clients=40, initial=600, seed=1)
    scene.run(240)
    assert 600 == scene.finder.limit
    assert min(scene.limits[1000:]) < 40  # long after the search
    assert scene.goodput(60, 240) > 0.97 * 40

    scene.server.capacity = falling(8)
    scene.run(400)
    assert scene.finder.limit < 24


def test_idle() -> None:
    finder = LimitFinder(FinderSettings(2, 1000, 50, 0.97))
    for look in range(100):
        finder.look(look / 10, Load(0.1, 0.0, is_waiting=False, responses={}))

    assert 50 == finder.limit
    assert not finder.decisions
    assert FinderState.SEARCHING is finder.state


def test_no_time() -> None:
    """A look at the same moment as the last one tells nothing."""
    finder = LimitFinder(FinderSettings(2, 1000, 50, 0.97))
    for _ in range(20):
        finder.look(1.0, Load(0.0, 9.0, is_waiting=True, responses={GETS: (50.0, 1.0)}))

    assert 50 == finder.limit


def test_responses_that_take_no_time() -> None:
    finder = LimitFinder(FinderSettings(2, 1000, 50, 0.97))
    for look in range(200):
        finder.look(look / 10, Load(0.1, 9.0, is_waiting=True, responses={GETS: (5.0, 0.0)}))

    assert 2 <= finder.limit <= 1000


def test_overload() -> None:
    """A server that rejects what is too much is relieved at once, and then used well."""
    scene = Scene(falling(KNEE), initial=200, clients=300)
    scene.server.refuses_above = 30
    scene.run(2)
    assert any(each.kind == DISTRESSED.kind for each in scene.finder.decisions)
    scene.run(60)

    assert scene.goodput(3, 20) > 0.7 * KNEE
    assert scene.goodput(20, 60) > 0.85 * KNEE
    assert scene.finder.limit < 2 * KNEE


def test_failures_that_no_limit_mends() -> None:
    """A broken part of an API does not keep the others from the server for long."""
    scene = Scene(flat(KNEE))
    scene.server.refused_part = 0.2
    scene.run(60)

    assert scene.goodput(30, 60) > 0.85 * KNEE
    assert scene.finder.limit > 0.6 * KNEE


def test_single_failures() -> None:
    scene = Scene(flat(KNEE))
    scene.server.refused_part = 0.01
    scene.run(60)

    assert scene.goodput(10, 60) > 0.85 * KNEE
    assert min(scene.limits[100:]) > 0.5 * KNEE


def test_server_that_is_down() -> None:
    """It responds with 503 to all: then the limit is as good as before once it is well."""
    scene = Scene(flat(KNEE))
    scene.run(20)
    scene.server.refused_part = 1.0
    scene.run(40)
    scene.server.refused_part = 0.0
    scene.run(80)

    assert scene.goodput(60, 80) > 0.85 * KNEE


@pytest.mark.parametrize("reachable", [0.3, 3.0, 8.0])
def test_part_of_the_limit_that_is_in_use(reachable: float) -> None:
    """Levels may idle and keep their seats, or have a seat each of a limit that is less."""
    scene = Scene(flat(KNEE), clients=200)
    scene.reachable = reachable
    scene.run(50)

    assert scene.goodput(20, 50) > 0.75 * KNEE  # a step of the limit may be many seats
    assert scene.finder.limit * reachable < 2 * KNEE


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_another_number_of_endpoints(factor: float) -> None:
    scene = Scene(flat(KNEE))
    scene.finder.resize(factor)
    assert KNEE == scene.finder.limit  # nothing was seen yet

    scene.run(30)
    before = scene.finder.limit
    scene.server.capacity = flat(KNEE * factor)
    scene.finder.resize(factor)
    assert scene.finder.limit == pytest.approx(before * factor, abs=2)
    assert RESIZED.kind == scene.finder.decisions[-1].kind

    scene.run(60)
    assert scene.goodput(31, 60) > 0.85 * KNEE * factor


def test_observing() -> None:
    """It tries nothing; where the load itself shows the knee, that is what it would choose."""
    scene = Scene(flat(KNEE), initial=600, clients=60, is_observing=True)
    scene.fixed = 600
    for second in range(1, 120):
        scene.fixed = 4 + (second * 7) % 60  # as many clients ask, now more and now fewer
        scene.run(second)

    assert 0.5 * KNEE < scene.finder.limit < 2.5 * KNEE
    assert all(each.kind == OBSERVED.kind for each in scene.finder.decisions)
    scene.finder.resize(2.0)
    assert FinderState.SEARCHING is scene.finder.state


def test_limit_of_another_member() -> None:
    scene = Scene(flat(KNEE))
    scene.run(20)
    finder = scene.finder
    finder.adopt(20.0, finder.limit)
    assert ADOPTED.kind != finder.decisions[-1].kind

    finder.adopt(20.0, 5000)  # its bounds may be others
    assert 5000 == finder.limit
    assert ADOPTED.kind == finder.decisions[-1].kind
    assert finder.found is None

    finder.adopt(20.0, KNEE)
    scene.run(40)
    assert scene.goodput(25, 40) > 0.85 * KNEE


def test_limit_of_another_member_before_the_first_look() -> None:
    finder = LimitFinder(FinderSettings(2, 1000, 50, 0.97))
    finder.adopt(7.0, 20)
    assert 7.0 == finder.decisions[-1].at_s


def test_a_proxy_that_stood_still() -> None:
    """After a pause of its own one look has the responses of some seconds: it tells nothing."""
    scene = Scene(flat(KNEE))
    scene.run(40)
    before = scene.finder.limit
    scene.finder.look(48.0, Load(8.0, 20.0, True, {GETS: (20.0, 20.0 * 8.0)}))

    assert before == scene.finder.limit
    assert FinderState.SEARCHING is not scene.finder.state


@pytest.mark.parametrize("initial", [2, 200])
def test_low_target(initial: int) -> None:
    """Half of what the server does is not half of what it did at the least limits."""
    scene = Scene(flat(40), clients=250, initial=initial, target=0.5)
    scene.run(60)

    assert 12 <= scene.finder.limit <= 36


def test_bounds() -> None:
    low = Scene(flat(KNEE), most=10, initial=10)
    high = Scene(flat(KNEE), least=40, initial=40)
    fixed = Scene(flat(KNEE), least=30, most=30, initial=30)
    for scene in (low, high, fixed):
        scene.run(30)

    assert max(low.limits) == 10
    assert low.limits[-1] >= 8
    assert min(high.limits) == 40
    assert {30} == set(fixed.limits)


def test_seats_per_fleet() -> None:
    """One member of a fleet that has a changing part of it sees the same curve."""
    finder = LimitFinder(FinderSettings(2, 1000, 40, 0.97))
    found = []
    for look, part in enumerate(itertools.islice(itertools.cycle([0.5] * 50 + [0.25] * 50), 600)):
        limit = finder.limit
        rate = min(limit, KNEE) * 10 * part
        responses = {GETS: (rate * 0.1, 0.1 * limit * part)}
        finder.look(look / 10, Load(0.1, float(limit), True, responses, part=part))
        found.append(finder.limit)

    assert all(0.6 * KNEE <= each <= 2 * KNEE for each in found[200:])


def test_decisions_are_bounded() -> None:
    finder = LimitFinder(FinderSettings(2, 1000, 50, 0.97))
    for limit in range(2, 40):
        finder.adopt(0.0, limit)

    assert [*range(40 - KEPT_DECISIONS, 40)] == [each.limit for each in finder.decisions]


@pytest.mark.parametrize("initial", [2, 40])
def test_requests_that_take_seconds(initial: int) -> None:
    scene = Scene(flat(6), initial=initial, clients=60)
    scene.classes = {GETS: 3.0}
    scene.run(150)

    assert scene.goodput(60, 150) > 0.8 * 6
    assert scene.finder.limit <= 20


def test_short_pauses_of_the_server() -> None:
    """They are a part of what it does: a server that collects garbage each second does less."""
    scene = Scene(flat(KNEE))
    for second in range(1, 40):
        scene.run(second - 0.3)
        scene.server.stand_still(scene.now_s)
        scene.run(second)
        scene.server.go_on(scene.now_s)

    assert scene.goodput(15, 39) > 0.85 * 0.7 * KNEE
