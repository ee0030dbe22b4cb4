"""Memory that goes back to the system."""

from __future__ import annotations

import pytest

from apfproxy.base.memory import MIN_CROWD, MemoryTrimmer, return_memory


@pytest.mark.parametrize(
    ("counts", "calls"),
    [
        pytest.param([0, MIN_CROWD - 1, 0, 0], 0, id="no-crowd"),
        pytest.param([MIN_CROWD, MIN_CROWD // 4 + 1], 0, id="too-many-left"),
        pytest.param([MIN_CROWD, MIN_CROWD // 4, 0, 0], 1, id="once-per-crowd"),
        pytest.param([MIN_CROWD, 0, MIN_CROWD, 0], 2, id="two-crowds"),
        pytest.param([4 * MIN_CROWD, MIN_CROWD, MIN_CROWD // 4], 2, id="in-two-steps"),
    ],
)
def test_is_returned_when_a_crowd_has_gone(counts: list[int], calls: int) -> None:
    """Only then, and once."""
    made: list[None] = []
    memory = MemoryTrimmer(lambda: made.append(None))
    for count in counts:
        memory.on_sweep(count)

    assert calls == len(made)


def test_returning() -> None:
    """It can be done at any time."""
    assert None is return_memory()  # type: ignore[func-returns-value]
