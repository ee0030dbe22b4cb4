"""What an object gets where it says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.api.flowcontrol.defaults import with_defaults
from apfproxy.api.flowcontrol.wire import read, to_wire
from tests.api.flowcontrol.objects import flow_schema, limited, priority_level, queuing

QUEUE = {"type": "Queue", "queuing": {"queues": 64, "handSize": 8, "queueLengthLimit": 50}}


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        pytest.param(
            priority_level(limited={"limitResponse": {"type": "Queue", "queuing": {}}}),
            {
                "type": "Limited",
                "limited": {
                    "nominalConcurrencyShares": 30,
                    "lendablePercent": 0,
                    "limitResponse": QUEUE,
                },
            },
            id="limited",
        ),
        pytest.param(
            priority_level(type="Exempt", limited=None, exempt={}),
            {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
            id="exempt",
        ),
        pytest.param(priority_level(limited=None), {"type": "Limited"}, id="nothing-to-default"),
        pytest.param(limited(), limited()["spec"], id="all-said"),
        pytest.param(queuing(queues=0), queuing(queues=64)["spec"], id="zero-queues"),
        pytest.param(
            limited(nominalConcurrencyShares=0),
            limited(nominalConcurrencyShares=0)["spec"],
            id="zero-shares-stay",
        ),
        pytest.param(
            flow_schema(matchingPrecedence=0),
            flow_schema(matchingPrecedence=1000)["spec"],
            id="schema",
        ),
        pytest.param(flow_schema(), flow_schema()["spec"], id="schema-all-said"),
    ],
)
def test_defaults(wire: dict[str, Any], expected: dict[str, Any]) -> None:
    """Absent values get Kubernetes' defaults, and zero does where it means absent."""
    obj, errors, unknown = read(wire)
    assert obj is not None
    assert (errors, unknown) == ([], [])

    assert expected == to_wire(with_defaults(obj))["spec"]
