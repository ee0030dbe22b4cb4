"""Latencies, capacity and faults."""

from __future__ import annotations

import random

import pytest

from apfproxy.apiserver.load import (
    DEFAULT_SERVICE_S,
    EVERY_VERB,
    LONGEST_S,
    Fault,
    Latency,
    Load,
    LoadSettings,
    Shape,
    overload,
)

SEED = 7


def load(settings: LoadSettings) -> Load:
    """A load with chances of its own."""
    return Load(settings, random.Random(SEED), random.Random(SEED))  # noqa: S311  draws of tests


def draws(latency: Latency, number: int = 2000) -> list[float]:
    """Many durations, in order of length."""
    chance = random.Random(SEED)  # noqa: S311  draws of tests
    return sorted(latency.draw(chance) for _ in range(number))


def test_fixed() -> None:
    """A fixed latency is always the same."""
    assert [0.005, 0.005] == draws(Latency(Shape.FIXED, 0.005), 2)


def test_uniform() -> None:
    """A uniform one is between its ends, and comes close to both."""
    drawn = draws(Latency(Shape.UNIFORM, 0.02, 0.05))

    assert 0.02 <= drawn[0] < 0.021
    assert 0.049 < drawn[-1] <= 0.05


@pytest.mark.parametrize(
    ("latency", "median"),
    [
        (Latency(Shape.EXPONENTIAL, 0.01), 0.00693),
        (Latency(Shape.NORMAL, 0.01, 0.002), 0.01),
        (Latency(Shape.LOGNORMAL, 0.01, 0.5), 0.01),
        (Latency(Shape.EXPONENTIAL, 0.0), 0.0),
    ],
)
def test_distributions(latency: Latency, median: float) -> None:
    """Each distribution has the median that it should have."""
    assert median == pytest.approx(draws(latency)[1000], rel=0.1)


@pytest.mark.parametrize(
    "latency", [Latency(Shape.NORMAL, 0.001, 1.0), Latency(Shape.LOGNORMAL, 600.0, 10.0)]
)
def test_draws_have_bounds(latency: Latency) -> None:
    """No draw is negative, none is longer than the limit."""
    drawn = draws(latency)

    assert 0 <= drawn[0]
    assert LONGEST_S >= drawn[-1]


@pytest.mark.parametrize(
    ("concurrency", "capacity", "factor"),
    [(1, 20, 1), (20, 20, 1), (80, 20, 8), (1000, None, 1)],
)
def test_overload(concurrency: int, capacity: int | None, factor: float) -> None:
    """Requests take as long as ever up to the capacity, and longer the more there are beyond."""
    assert factor == pytest.approx(overload(concurrency, capacity))


@pytest.mark.parametrize(
    ("verb", "concurrency", "delay_s"),
    [
        ("get", 1, 0.005),
        ("list", 1, 0.02),
        ("get", 80, 0.04),
    ],
)
def test_delay(verb: str, concurrency: int, delay_s: float) -> None:
    """A verb has its own latency or that of all others, times the overload."""
    fixed = {
        "list": Latency(Shape.FIXED, 0.02),
        EVERY_VERB: Latency(Shape.FIXED, 0.005),
    }
    found = load(LoadSettings(latency=fixed, capacity=20))

    assert delay_s == pytest.approx(found.delay_s(verb, concurrency))


@pytest.mark.parametrize(("concurrency", "delay_s"), [(20, 0), (80, 7 * DEFAULT_SERVICE_S)])
def test_capacity_alone(concurrency: int, delay_s: float) -> None:
    """Without a latency only the overload takes time."""
    found = load(LoadSettings(capacity=20))

    assert delay_s == pytest.approx(found.delay_s("get", concurrency))


def test_faults() -> None:
    """Faults have their shares, and are the same for the same seed."""
    settings = LoadSettings(faults={Fault.ERROR: 0.1, Fault.RESET: 0.2})
    first, second = load(settings), load(settings)
    drawn = [first.fault() for _ in range(5000)]

    assert drawn == [second.fault() for _ in range(5000)]
    assert 500 == pytest.approx(drawn.count(Fault.ERROR), rel=0.1)
    assert 1000 == pytest.approx(drawn.count(Fault.RESET), rel=0.1)
    assert 0 == drawn.count(Fault.STALL)


def test_faults_do_not_change_latencies() -> None:
    """Latencies are drawn alike with faults and without."""
    latency = {EVERY_VERB: Latency(Shape.UNIFORM, 0.0, 1.0)}
    plain = load(LoadSettings(latency=latency))
    faulty = load(LoadSettings(latency=latency, faults={Fault.STALL: 0.5}))
    drawn = []
    for _ in range(10):
        faulty.fault()
        drawn.append(faulty.delay_s("get", 1))

    assert [plain.delay_s("get", 1) for _ in range(10)] == drawn
    assert plain.fault() is None
