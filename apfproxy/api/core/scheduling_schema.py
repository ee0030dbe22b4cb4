"""Structure of what decides where pods run: affinity, tolerations, spreading."""

from __future__ import annotations

from apfproxy.api.core.structs import INT32, INT64, STRING, STRINGS, struct
from apfproxy.api.schema.meta import LABEL_SELECTOR
from apfproxy.api.schema.types import Field, List, pointer, required

NODE_OPERATORS = ("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn")
TAINT_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")
INCLUSION_POLICIES = ("Honor", "Ignore")

NODE_SELECTOR_REQUIREMENT = struct(
    "NodeSelectorRequirement",
    "What a label or field of a node has to be.",
    required("key", STRING, "Key of the label, or name of the field."),
    Field(
        "operator",
        STRING,
        "How the node's value is compared.",
        is_required=True,
        is_always_written=True,
        enum=NODE_OPERATORS,
    ),
    Field("values", STRINGS, "What it is compared with."),
)

NODE_SELECTOR_TERM = struct(
    "NodeSelectorTerm",
    "Requirements that a node has to meet all.",
    Field("matchExpressions", List(NODE_SELECTOR_REQUIREMENT), "By the node's labels."),
    Field("matchFields", List(NODE_SELECTOR_REQUIREMENT), "By the node's fields."),
    is_atomic=True,
)

NODE_SELECTOR = struct(
    "NodeSelector",
    "Terms of which a node has to meet one.",
    required("nodeSelectorTerms", List(NODE_SELECTOR_TERM), "The terms."),
    is_atomic=True,
)

PREFERRED_SCHEDULING_TERM = struct(
    "PreferredSchedulingTerm",
    "A wish about nodes.",
    required("weight", INT32, "How much it counts, from 1 to 100."),
    required("preference", NODE_SELECTOR_TERM, "Which nodes are preferred."),
)

NODE_AFFINITY = struct(
    "NodeAffinity",
    "Which nodes a pod needs or prefers.",
    pointer(
        "requiredDuringSchedulingIgnoredDuringExecution", NODE_SELECTOR, "Nodes that it needs."
    ),
    Field(
        "preferredDuringSchedulingIgnoredDuringExecution",
        List(PREFERRED_SCHEDULING_TERM),
        "Nodes that it prefers.",
    ),
)

POD_AFFINITY_TERM = struct(
    "PodAffinityTerm",
    "Pods to be near to, or away from.",
    pointer("labelSelector", LABEL_SELECTOR, "Which pods."),
    Field("namespaces", STRINGS, "In which namespaces."),
    required("topologyKey", STRING, "Label of nodes that says what near is."),
    pointer("namespaceSelector", LABEL_SELECTOR, "In which namespaces, by their labels."),
    Field("matchLabelKeys", STRINGS, "Labels that have to be as this pod's."),
    Field("mismatchLabelKeys", STRINGS, "Labels that have to differ from this pod's."),
)

WEIGHTED_POD_AFFINITY_TERM = struct(
    "WeightedPodAffinityTerm",
    "A wish about other pods.",
    required("weight", INT32, "How much it counts, from 1 to 100."),
    required("podAffinityTerm", POD_AFFINITY_TERM, "The pods."),
)

POD_AFFINITY_FIELDS = (
    Field(
        "requiredDuringSchedulingIgnoredDuringExecution",
        List(POD_AFFINITY_TERM),
        "What has to be so.",
    ),
    Field(
        "preferredDuringSchedulingIgnoredDuringExecution",
        List(WEIGHTED_POD_AFFINITY_TERM),
        "What is preferred.",
    ),
)

POD_AFFINITY = struct("PodAffinity", "Pods to be near to.", *POD_AFFINITY_FIELDS)

POD_ANTI_AFFINITY = struct("PodAntiAffinity", "Pods to be away from.", *POD_AFFINITY_FIELDS)

AFFINITY = struct(
    "Affinity",
    "Where a pod has to run, and where it should.",
    pointer("nodeAffinity", NODE_AFFINITY, "By nodes."),
    pointer("podAffinity", POD_AFFINITY, "Near to other pods."),
    pointer("podAntiAffinity", POD_ANTI_AFFINITY, "Away from other pods."),
)

TOLERATION = struct(
    "Toleration",
    "A taint of nodes that the pod does not mind.",
    Field("key", STRING, "Key of the taint; empty for all, with operator Exists."),
    Field("operator", STRING, "Equal unless given.", enum=("Equal", "Exists", "Gt", "Lt")),
    Field("value", STRING, "Value of the taint."),
    Field("effect", STRING, "Effect of the taint; empty for all.", enum=TAINT_EFFECTS),
    pointer("tolerationSeconds", INT64, "How long NoExecute is tolerated; for ever unless given."),
)

TOPOLOGY_SPREAD_CONSTRAINT = struct(
    "TopologySpreadConstraint",
    "How evenly pods are spread.",
    required("maxSkew", INT32, "The most that domains may differ by."),
    required("topologyKey", STRING, "Label of nodes that makes the domains."),
    Field(
        "whenUnsatisfiable",
        STRING,
        "What to do when it cannot be met.",
        is_required=True,
        is_always_written=True,
        enum=("DoNotSchedule", "ScheduleAnyway"),
    ),
    pointer("labelSelector", LABEL_SELECTOR, "Which pods are counted."),
    pointer("minDomains", INT32, "How many domains there should be at least."),
    Field(
        "nodeAffinityPolicy",
        STRING,
        "Whether affinity decides which nodes count.",
        is_pointer=True,
        enum=INCLUSION_POLICIES,
    ),
    Field(
        "nodeTaintsPolicy",
        STRING,
        "Whether taints decide which nodes count.",
        is_pointer=True,
        enum=INCLUSION_POLICIES,
    ),
    Field("matchLabelKeys", STRINGS, "Labels that have to be as this pod's."),
)
