"""Tests of what a priority level takes from its configuration."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.demand import SeatDemand
from apfproxy.flowcontrol.priority_level import PriorityLevel, level_shares, queue_set_config
from apfproxy.flowcontrol.queue_set import QueueSet, QueueSetConfig, QueueSetKind
from apfproxy.objects.types import (
    ExemptPriorityLevelConfiguration,
    LimitedPriorityLevelConfiguration,
    LimitResponse,
    ObjectMeta,
    PriorityLevelConfiguration,
    PriorityLevelConfigurationSpec,
    QueuingConfiguration,
)
from tests.virtual_clock import VirtualClock

QUEUING = PriorityLevelConfigurationSpec(
    type="Limited",
    limited=LimitedPriorityLevelConfiguration(
        nominal_concurrency_shares=7,
        lendable_percent=20,
        borrowing_limit_percent=30,
        limit_response=LimitResponse(
            type="Queue",
            queuing=QueuingConfiguration(queues=16, hand_size=4, queue_length_limit=50),
        ),
    ),
)
REJECTING = PriorityLevelConfigurationSpec(
    type="Limited",
    limited=LimitedPriorityLevelConfiguration(
        nominal_concurrency_shares=5,
        lendable_percent=0,
        limit_response=LimitResponse(type="Reject"),
    ),
)
EXEMPT = PriorityLevelConfigurationSpec(
    type="Exempt",
    exempt=ExemptPriorityLevelConfiguration(nominal_concurrency_shares=9, lendable_percent=50),
)
PLAINLY_EXEMPT = PriorityLevelConfigurationSpec(type="Exempt")


def configuration(spec: PriorityLevelConfigurationSpec) -> PriorityLevelConfiguration:
    """An object with that specification."""
    return PriorityLevelConfiguration(metadata=ObjectMeta(name="level", uid="some-uid"), spec=spec)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(QUEUING, QueueSetConfig(QueueSetKind.QUEUE, 16, 4, 50), id="queue"),
        pytest.param(REJECTING, QueueSetConfig(QueueSetKind.REJECT), id="reject"),
        pytest.param(EXEMPT, QueueSetConfig(QueueSetKind.EXEMPT), id="exempt"),
    ],
)
def test_queue_set_config(spec: PriorityLevelConfigurationSpec, expected: QueueSetConfig) -> None:
    """The union of the specification becomes the kind of queue set."""
    assert expected == queue_set_config(configuration(spec))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(QUEUING, (7, 20, 30), id="with-a-borrowing-limit"),
        pytest.param(REJECTING, (5, 0, None), id="without"),
        pytest.param(EXEMPT, (9, 50, None), id="exempt"),
        pytest.param(PLAINLY_EXEMPT, (0, 0, None), id="exempt-and-no-more"),
    ],
)
def test_level_shares(
    spec: PriorityLevelConfigurationSpec, expected: tuple[int, int, int | None]
) -> None:
    """Either part of the union says what a level gets, and lends."""
    assert expected == level_shares(configuration(spec))


def test_configure_ends_quiescing() -> None:
    """A level whose object came back is an ordinary one again, with what the object says now."""
    demand = SeatDemand(0)
    queue_set = QueueSet(
        "level", VirtualClock(), queue_set_config(configuration(QUEUING)), 1, demand
    )
    level = PriorityLevel(configuration(QUEUING), queue_set, demand)
    level.is_quiescing = True
    description = repr(level)

    level.configure(configuration(REJECTING))

    assert "<PriorityLevel level quiescing: 0 seats of nominal 0 in 0..0>" == description
    assert "<PriorityLevel level: 0 seats of nominal 0 in 0..0>" == repr(level)
    assert configuration(REJECTING) == level.configuration
    assert ("level", False) == (level.name, level.is_exempt)
