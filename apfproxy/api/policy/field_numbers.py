"""The numbers that the fields of disruption budgets and evictions have in Kubernetes' protobuf.

Source: Kubernetes 1.36, `api/policy/{v1,v1beta1}/generated.proto`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.api.schema.types import Numbers

POLICY_V1: dict[str, Numbers] = {
    "Eviction": {"metadata": 1, "deleteOptions": 2},
    "PodDisruptionBudget": {"metadata": 1, "spec": 2, "status": 3},
    "PodDisruptionBudgetSpec": {
        "minAvailable": 1,
        "selector": 2,
        "maxUnavailable": 3,
        "unhealthyPodEvictionPolicy": 4,
    },
    "PodDisruptionBudgetStatus": {
        "observedGeneration": 1,
        "disruptedPods": 2,
        "disruptionsAllowed": 3,
        "currentHealthy": 4,
        "desiredHealthy": 5,
        "expectedPods": 6,
        "conditions": 7,
    },
}

POLICY_V1BETA1: dict[str, Numbers] = {
    "Eviction": {"metadata": 1, "deleteOptions": 2},
}
