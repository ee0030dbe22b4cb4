"""Counts of configuration reloads."""

from __future__ import annotations

from apfproxy.admin.config_status import ConfigStatus


def test_loads_are_counted_by_result() -> None:
    """A load with problems has failed and leaves the time of the last success."""
    status = ConfigStatus()
    status.loaded(0, 100.0)
    status.loaded(2, 200.0)

    expected = (1, 1, 2, 100.0)

    assert expected == (
        status.succeeded,
        status.failed,
        status.problems,
        status.last_success_unix_s,
    )


def test_success_clears_the_problems() -> None:
    """A load without problems leaves none."""
    status = ConfigStatus()
    status.loaded(2, 100.0)
    status.loaded(0, 200.0)

    expected = (0, 200.0)

    assert expected == (status.problems, status.last_success_unix_s)
