"""The limits of several workers as those of one server."""

from __future__ import annotations

import msgspec
import pytest

from apfproxy.admin.merged_limits import merged_limits, total
from apfproxy.flowcontrol.level_summary import LevelsSummary, summarize_levels
from tests.admin.scene import Scene
from tests.admin.several_workers import OBJECTS, SEATS


@pytest.fixture
def summary() -> LevelsSummary:
    """Of one worker."""
    scene = Scene(OBJECTS, SEATS)
    scene.ticket("ann")
    return summarize_levels(scene.controller)


def test_sums(summary: LevelsSummary) -> None:
    """Seats add up, shares do not; what is not limited stays so."""
    merged = merged_limits([summary, summary], is_whole=True)

    for one, both in zip(summary.levels, merged.levels, strict=True):
        assert (one.name, one.shares) == (both.name, both.shares)
        assert (2 * one.nominal, 2 * one.current) == (both.nominal, both.current)
        assert (one.maximum is None) == (both.maximum is None)
    assert merged.sums.seats_in_use == 2
    assert merged.server_concurrency_limit == 2 * SEATS


def test_shared_limit(summary: LevelsSummary) -> None:
    """Where they share a limit, it is that, and levels have the bounds of one server with it."""
    whole = summarize_levels(Scene(OBJECTS, 2 * SEATS).controller)
    part = msgspec.structs.replace(summary, shared_limit=2 * SEATS, members=2)
    merged = merged_limits([part, part], is_whole=True)

    assert (merged.server_concurrency_limit, merged.shared_limit) == (2 * SEATS, None)
    for one, both in zip(whole.levels, merged.levels, strict=True):
        for name in ("nominal", "lendable", "borrowing", "minimum", "maximum"):
            assert getattr(one, name) == getattr(both, name), (one.name, name)
    assert merged.sums.seats_in_use == 2


def test_part_of_a_shared_limit(summary: LevelsSummary) -> None:
    """Where others share it too, what the workers have of it adds up, and it is said."""
    part = msgspec.structs.replace(summary, shared_limit=6 * SEATS, members=6)
    merged = merged_limits([part, part], is_whole=False)

    assert merged.server_concurrency_limit == 2 * SEATS
    assert (merged.shared_limit, merged.members) == (6 * SEATS, 6)
    assert merged.sums.nominal == 2 * summary.sums.nominal


def test_level_that_only_one_has(summary: LevelsSummary) -> None:
    """A level that one worker does not have yet, or any more, is there all the same."""
    less = msgspec.structs.replace(summary, levels=summary.levels[1:])

    assert len(merged_limits([less, summary], is_whole=True).levels) == len(summary.levels)


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        pytest.param([1, 2], 3, id="sum"),
        pytest.param([1, None], None, id="without-a-limit"),
        pytest.param([], 0, id="nothing"),
    ],
)
def test_total(amounts: list[int | None], expected: int | None) -> None:
    """One without a limit has none with the others."""
    assert total(amounts) == expected
