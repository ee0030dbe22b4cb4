"""Tests of `apfproxy.apiserver.controllers.queue`."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.controllers.queue import FIRST_PAUSE_S, LONGEST_PAUSE_S, Queue


def test_keys_come_by_time() -> None:
    """What is due for longest comes first, and nothing before its time."""
    queue = Queue()
    queue.add(("late",), 3)
    queue.add(("early",), 1)

    assert ("early",) == queue.take(2)
    assert queue.take(2) is None
    assert queue.next_s == 3
    assert ("late",) == queue.take(3)
    assert queue.next_s is None


@pytest.mark.parametrize("times", [(1, 5), (5, 1)])
def test_keys_are_there_once(times: tuple[float, float]) -> None:
    """The earliest time counts, whichever was named first."""
    queue = Queue()
    for time in times:
        queue.add(("key",), time)

    assert len(queue) == 1
    assert ("key",) == queue.take(2)
    assert queue.take(9) is None


def test_failures_come_again_later_and_later() -> None:
    """The pause doubles, up to a limit, and starts over after a success."""
    queue = Queue()

    pauses = [queue.retry(("key",), 0) for _ in range(40)]

    assert [FIRST_PAUSE_S, FIRST_PAUSE_S * 2, FIRST_PAUSE_S * 4] == pauses[:3]
    assert pauses[-1] == LONGEST_PAUSE_S
    queue.forget_failures(("key",))
    assert queue.retry(("key",), 0) == FIRST_PAUSE_S
