"""What several workers say of one request as one explanation."""

from __future__ import annotations

import msgspec
import pytest

from apfproxy.admin.merged_explanation import merged_explanation
from apfproxy.flowcontrol.explanation import Explanation, explain
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.request.attributes import User, parse_attributes
from tests.admin.scene import POD, Scene
from tests.admin.several_workers import OBJECTS, SEATS


def explained(requests: int) -> Explanation:
    """What a worker says that has so many requests."""
    scene = Scene(OBJECTS, SEATS)
    for _ in range(requests):
        scene.ticket("ann")
    attributes = parse_attributes("GET", POD)
    user = User("ann", ("everyone",))
    return explain(scene.controller, LearnedCosts(lambda: 0), user, attributes, lambda _: "")


def test_sums() -> None:
    """Occupancy adds up; workers that would do something else are named."""
    first, second = explained(5), explained(1)
    merged = merged_explanation({1: first, 2: second})

    assert merged.outcome == first.outcome
    assert merged.priority_level.requests_executing == 4
    assert merged.priority_level.requests_waiting == 2
    assert merged.priority_level.current_limit == 2 * first.priority_level.current_limit
    assert sum(queue.requests_waiting for queue in merged.flow.hand) == 2
    assert merged.notes[-1] == "worker 2 would execute it"


def test_alike() -> None:
    """Nothing is said where all would do the same; one worker alone is as it is."""
    first = explained(0)
    merged = merged_explanation({1: first, 2: first})

    assert len(merged.notes) == len(first.notes) + 1
    assert merged_explanation({1: first}) == first


def test_other_objects() -> None:
    """A worker that has other objects yet, or still, is named, and not summed."""
    first = explained(0)
    other = msgspec.structs.replace(explained(2), flow_schema="other")
    merged = merged_explanation({1: first, 2: other})

    assert merged.priority_level == first.priority_level
    assert merged.notes[-1] == "worker 2 has other objects, by which it is of FlowSchema other"


@pytest.mark.parametrize("requests", [0, 3])
def test_limits_are_those_of_all(requests: int) -> None:
    """A limit is the sum of the workers' parts of it."""
    each = explained(requests)
    merged = merged_explanation(dict.fromkeys((1, 2, 3), each))

    assert merged.priority_level.nominal_limit == 3 * each.priority_level.nominal_limit
