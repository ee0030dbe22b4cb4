"""The specifications that the mandatory objects have, and that nobody may change.

Every request finds its way to one of these levels if to no other, whatever else is configured.
They stand here and not only in the bootstrap files so that an edited file cannot redefine what it
is checked against.

Source: Kubernetes documentation, "API Priority and Fairness", mandatory configuration objects.
"""

from __future__ import annotations

import msgspec

from apfproxy.objects.names import CATCH_ALL, EXEMPT
from apfproxy.objects.types import FlowSchemaSpec, PriorityLevelConfigurationSpec

EVERY = ["*"]
EVERYTHING = {
    "resourceRules": [
        {
            "verbs": EVERY,
            "apiGroups": EVERY,
            "resources": EVERY,
            "clusterScope": True,
            "namespaces": EVERY,
        }
    ],
    "nonResourceRules": [{"verbs": EVERY, "nonResourceURLs": EVERY}],
}


def everything_by(level: str, precedence: int, *groups: str, **fields: object) -> FlowSchemaSpec:
    """Sends every request by a member of one of the groups to a level."""
    subjects = [{"kind": "Group", "group": {"name": group}} for group in groups]
    spec = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [{"subjects": subjects, **EVERYTHING}],
        **fields,
    }
    return msgspec.convert(spec, FlowSchemaSpec)


FLOW_SCHEMAS = {
    EXEMPT: everything_by(EXEMPT, 1, "system:masters"),
    CATCH_ALL: everything_by(
        CATCH_ALL,
        10000,
        "system:unauthenticated",
        "system:authenticated",
        distinguisherMethod={"type": "ByUser"},
    ),
}

PRIORITY_LEVELS = msgspec.convert(
    {
        EXEMPT: {
            "type": "Exempt",
            "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
        },
        CATCH_ALL: {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 5,
                "limitResponse": {"type": "Reject"},
                "lendablePercent": 0,
            },
        },
    },
    dict[str, PriorityLevelConfigurationSpec],
)
