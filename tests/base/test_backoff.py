"""How long to wait before the next attempt."""

from __future__ import annotations

import pytest

from apfproxy.base.tasks import Backoff


@pytest.mark.parametrize(
    ("chance", "expected"),
    [
        pytest.param(0.0, [0.5, 1.0, 2.0, 3.0, 3.0], id="shortest"),
        pytest.param(0.5, [0.75, 1.5, 3.0, 4.5, 4.5], id="middle"),
    ],
)
def test_grows(chance: float, expected: list[float]) -> None:
    """Pauses double up to the longest, and are between half of their bound and all of it."""
    backoff = Backoff(1.0, 6.0, lambda: chance)

    assert expected == [backoff.next_s() for _ in expected]


def test_reset() -> None:
    """When all is well again, pauses start anew."""
    backoff = Backoff(1.0, 6.0, lambda: 0.0)
    pauses = [backoff.next_s(), backoff.next_s()]
    backoff.reset()

    assert [0.5, 1.0, 0.5] == [*pauses, backoff.next_s()]


@pytest.mark.parametrize(("asked_s", "expected_s"), [(0.1, 0.5), (2.0, 2.0), (9.0, 6.0)])
def test_server_asks(asked_s: float, expected_s: float) -> None:
    """A server that asks for more time gets it, up to the longest pause."""
    assert expected_s == Backoff(1.0, 6.0, lambda: 0.0).next_s(asked_s)
