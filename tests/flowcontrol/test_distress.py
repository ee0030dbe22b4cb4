"""Tests of `apfproxy.flowcontrol.distress`."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.distress import RESTED_S, Distress

LOOK_S = 0.1


def see(distress: Distress, seconds: float, told: float, responses: float) -> None:
    """So many a second."""
    for _ in range(round(seconds / LOOK_S)):
        distress.see(LOOK_S, told * LOOK_S, responses * LOOK_S)


@pytest.mark.parametrize(
    ("told", "responses", "is_high"),
    [
        pytest.param(0, 0, False, id="nothing"),
        pytest.param(0, 1000, False, id="well"),
        pytest.param(1, 9, False, id="single-ones"),
        pytest.param(30, 1000, False, id="a-small-part"),
        pytest.param(100, 1000, True, id="a-part"),
        pytest.param(20, 0, True, id="all"),
    ],
)
def test_is_high(told: float, responses: float, is_high: bool) -> None:
    distress = Distress()
    see(distress, 5, told, responses)

    assert is_high == distress.is_high
    assert (told > responses) == distress.is_mass


def test_it_ends_with_its_reason() -> None:
    distress = Distress()
    see(distress, 5, 500, 500)
    see(distress, 6, 0, 1000)

    assert not distress.is_high
    assert distress.part < 0.02


def usual_part() -> Distress:
    """A fifth of all responses, down to the least limit."""
    distress, limit, now_s = Distress(), 100, 0.0
    while True:
        see(distress, 1, 200, 800)
        assert distress.is_high
        now_s += 1
        if not distress.note_cut(now_s, limit, 2):
            break
        limit = limit * 7 // 10
    assert limit <= 2
    return distress


def test_part_that_no_cut_mends() -> None:
    distress = usual_part()
    assert distress.usual == pytest.approx(0.2, abs=0.01)

    see(distress, 20, 200, 800)
    assert not distress.is_high  # it is as before
    see(distress, 2, 600, 400)
    assert distress.is_high


def test_part_that_becomes_less() -> None:
    distress = usual_part()
    see(distress, 60, 0, 1000)

    assert 0.0 == distress.usual
    see(distress, 2, 200, 800)
    assert distress.is_high


def test_cuts_that_follow_one_another() -> None:
    """The limit before the first of them says how low is low."""
    distress = Distress()
    assert distress.note_cut(0.0, 1000, 2)
    assert distress.note_cut(5.0, 100, 2)
    assert not distress.note_cut(10.0, 20, 2)
    assert distress.note_cut(11.0 + RESTED_S, 20, 2)
    assert not distress.note_cut(12.0 + RESTED_S, 2, 2)
