"""How objects of the group `policy` are structured.

Sources: Kubernetes API reference, `policy/v1` and `policy/v1beta1`; `generated.proto` of 1.36.
"""

from __future__ import annotations

from apfproxy.apiserver.schema.shared_structs import (
    CONDITIONS,
    DELETE_OPTIONS,
    LABEL_SELECTOR,
    OBJECT_META,
    TYPE_META,
    object_struct,
)
from apfproxy.apiserver.schema.types import Field, Map, Scalar, Struct, changed, pointer, written

POLICY_V1 = "io.k8s.api.policy.v1"
POLICY_V1BETA1 = "io.k8s.api.policy.v1beta1"

ALWAYS_ALLOW = "AlwaysAllow"
IF_HEALTHY_BUDGET = "IfHealthyBudget"
UNHEALTHY_POD_EVICTION_POLICIES = (ALWAYS_ALLOW, IF_HEALTHY_BUDGET)

STATUS_NUMBERS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
"""The fields of the status that count pods."""

INT_OR_STRING = Scalar.INT_OR_STRING
INT32 = Scalar.INT32

BUDGET_SPEC = Struct(
    "PodDisruptionBudgetSpec",
    (
        pointer("minAvailable", INT_OR_STRING, "How many pods stay: 3 or 50%.", number=1),
        Field(
            "selector",
            LABEL_SELECTOR,
            "The pods whose evictions the budget limits: all of the namespace for an empty"
            " selector, none for an absent one.",
            is_pointer=True,
            is_replaced=True,
            number=2,
        ),
        pointer("maxUnavailable", INT_OR_STRING, "How many pods may be away at once.", number=3),
        Field(
            "unhealthyPodEvictionPolicy",
            Scalar.STRING,
            "When running pods that are not ready may be evicted: IfHealthyBudget, the default, if"
            " enough others are healthy; AlwaysAllow at any time.",
            is_pointer=True,
            enum=UNHEALTHY_POD_EVICTION_POLICIES,
            number=4,
        ),
    ),
    POLICY_V1,
    "What a disruption budget asks for; one of minAvailable and maxUnavailable at most.",
)

BUDGET_STATUS = Struct(
    "PodDisruptionBudgetStatus",
    (
        Field("observedGeneration", Scalar.INT64, "The one that this is about.", number=1),
        Field(
            "disruptedPods",
            Map(Scalar.TIME),
            "Pods whose eviction is allowed and not yet seen, by name, with the time of it.",
            number=2,
        ),
        written("disruptionsAllowed", INT32, "How many pods may be disrupted now.", number=3),
        written("currentHealthy", INT32, "How many pods are healthy.", number=4),
        written("desiredHealthy", INT32, "How many pods have to be healthy at least.", number=5),
        written("expectedPods", INT32, "How many pods the budget counts on.", number=6),
        Field("conditions", CONDITIONS, "DisruptionAllowed: whether, and why not.", number=7),
    ),
    POLICY_V1,
    "What a disruption budget allows at the moment.",
)

BUDGET_TEXT = "Limits how many pods of a set may be disrupted at once."
BUDGET = object_struct("PodDisruptionBudget", POLICY_V1, BUDGET_SPEC, BUDGET_STATUS, BUDGET_TEXT)

EVICTION = Struct(
    "Eviction",
    (
        *TYPE_META,
        Field("metadata", OBJECT_META, "Name and namespace of the pod to evict.", number=1),
        pointer("deleteOptions", DELETE_OPTIONS, "How to delete the pod.", number=2),
    ),
    POLICY_V1,
    "Asks to delete a pod as far as disruption budgets allow it.",
)
EVICTION_V1BETA1 = changed(EVICTION, package=POLICY_V1BETA1)

EVICTIONS = {"policy/v1": EVICTION, "policy/v1beta1": EVICTION_V1BETA1}
"""The forms in which evictions may be sent, by `apiVersion`."""
