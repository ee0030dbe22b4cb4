"""Settings of limits."""

from __future__ import annotations

import pytest

from apfproxy.settings import MAX_SEATS, FlowControlSettings


@pytest.mark.parametrize(
    ("flow_control", "healthy", "seats"),
    [
        (FlowControlSettings(), 3, 600),
        (FlowControlSettings(server_concurrency_limit=7), 0, 7),
        (FlowControlSettings(per_endpoint=200), 3, 600),
        (FlowControlSettings(per_endpoint=200), 1, 200),
        (FlowControlSettings(per_endpoint=200), 0, 200),
        (FlowControlSettings(per_endpoint=MAX_SEATS), 2, MAX_SEATS),
    ],
)
def test_seats(flow_control: FlowControlSettings, healthy: int, seats: int) -> None:
    """They are of the whole, or follow the endpoints that are healthy, at least one."""
    assert seats == flow_control.seats(healthy)
