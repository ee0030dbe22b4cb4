"""Structure of pods, as far as the server reads it; what else a pod has is kept as it comes.

Source of the numbers: Kubernetes 1.36, `api/core/v1/generated.proto`.
"""

from __future__ import annotations

from apfproxy.apiserver.core.container_schema import CONTAINER, CONTAINER_STATUS
from apfproxy.apiserver.core.structs import (
    BOOLEAN,
    INT32,
    INT64,
    PACKAGE,
    STRING,
    keyed,
    open_struct,
    struct,
    time_field,
)
from apfproxy.apiserver.schema.shared_structs import OBJECT_META, object_struct
from apfproxy.apiserver.schema.types import Field, List, Map, Scalar, pointer, required

RESTART_POLICIES = ("Always", "Never", "OnFailure")
DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
PHASES = ("Failed", "Pending", "Running", "Succeeded", "Unknown")
QOS_CLASSES = ("BestEffort", "Burstable", "Guaranteed")

VOLUME = open_struct(
    "Volume",
    "A directory that containers may mount.",
    required("name", STRING, "Name of the volume, unique in the pod.", number=1),
)

TOLERATION = struct(
    "Toleration",
    "A taint of nodes that the pod does not mind.",
    Field("key", STRING, "Key of the taint; all of them unless given.", number=1),
    Field("operator", STRING, "Exists or Equal.", number=2),
    Field("value", STRING, "Value of the taint, for Equal.", number=3),
    Field("effect", STRING, "Effect of the taint; all of them unless given.", number=4),
    pointer("tolerationSeconds", INT64, "How long NoExecute is tolerated.", number=5),
)

POD_READINESS_GATE = struct(
    "PodReadinessGate",
    "A condition that readiness depends on.",
    required("conditionType", STRING, "Type of the condition.", number=1),
)

POD_SCHEDULING_GATE = struct(
    "PodSchedulingGate",
    "Something that keeps the pod from being scheduled.",
    required("name", STRING, "Its name.", number=1),
)

POD_SPEC = open_struct(
    "PodSpec",
    "What a pod runs, and how.",
    Field(
        "volumes", keyed(VOLUME, "name", retains_keys=True), "What containers may mount.", number=1
    ),
    Field("initContainers", keyed(CONTAINER, "name"), "They run before the others.", number=20),
    Field(
        "containers",
        keyed(CONTAINER, "name"),
        "Containers of the pod; at least one.",
        is_required=True,
        is_always_written=True,
        number=2,
    ),
    Field("restartPolicy", STRING, "Always unless given.", enum=RESTART_POLICIES, number=3),
    pointer("terminationGracePeriodSeconds", INT64, "To end in; 30 unless given.", number=4),
    pointer("activeDeadlineSeconds", INT64, "Seconds that the pod may run at most.", number=5),
    Field("dnsPolicy", STRING, "ClusterFirst unless given.", enum=DNS_POLICIES, number=6),
    Field("nodeSelector", Map(STRING, is_atomic=True), "Labels that its node has.", number=7),
    Field("serviceAccountName", STRING, "Name of the account that it runs as.", number=8),
    Field("serviceAccount", STRING, "The older name of `serviceAccountName`.", number=9),
    Field("nodeName", STRING, "Node that it is assigned to; set by the scheduler.", number=10),
    Field("hostNetwork", BOOLEAN, "Whether it uses the node's network.", number=11),
    pointer(
        "securityContext",
        open_struct("PodSecurityContext", "Rights of all containers of a pod."),
        "Rights of all its containers.",
        number=14,
    ),
    Field("schedulerName", STRING, "Scheduler that assigns it to a node.", number=19),
    Field("tolerations", List(TOLERATION), "Taints of nodes that it does not mind.", number=22),
    Field("priorityClassName", STRING, "Name of the class that sets its priority.", number=24),
    pointer("priority", INT32, "Its priority; higher goes first.", number=25),
    Field("readinessGates", List(POD_READINESS_GATE), "What else makes it ready.", number=28),
    pointer("enableServiceLinks", BOOLEAN, "Whether services are shown as variables.", number=30),
    pointer("preemptionPolicy", STRING, "Whether it may displace other pods.", number=31),
    Field("schedulingGates", keyed(POD_SCHEDULING_GATE, "name"), "They hold it back.", number=38),
)

POD_CONDITION = struct(
    "PodCondition",
    "One aspect of how a pod is doing.",
    required("type", STRING, "Which aspect.", number=1),
    Field("observedGeneration", INT64, "Generation of the spec that it is about.", number=7),
    required("status", STRING, "True, False or Unknown.", number=2),
    time_field("lastProbeTime", "When it was looked at last.", number=3),
    time_field("lastTransitionTime", "When the status changed last.", number=4),
    Field("reason", STRING, "Why, in one word.", number=5),
    Field("message", STRING, "Why, for people.", number=6),
)

POD_IP = struct("PodIP", "An address of a pod.", required("ip", STRING, "The address.", number=1))

POD_STATUS = open_struct(
    "PodStatus",
    "How a pod is doing, as its node reports it.",
    Field("observedGeneration", INT64, "Generation of the spec that this is about.", number=17),
    Field("phase", STRING, "Where the pod is in its life.", enum=PHASES, number=1),
    Field("conditions", keyed(POD_CONDITION, "type"), "Aspects of how it is doing.", number=2),
    Field("message", STRING, "Why it is in this phase, for people.", number=3),
    Field("reason", STRING, "Why it is in this phase, in one word.", number=4),
    Field("nominatedNodeName", STRING, "Node where room is being made for it.", number=11),
    Field("hostIP", STRING, "Address of its node.", number=5),
    Field("podIP", STRING, "Its address.", number=6),
    Field("podIPs", keyed(POD_IP, "ip"), "All its addresses.", number=12),
    pointer("startTime", Scalar.TIME, "When its node took notice of it.", number=7),
    Field("initContainerStatuses", List(CONTAINER_STATUS), "Of its init containers.", number=10),
    Field("containerStatuses", List(CONTAINER_STATUS), "Of its containers.", number=8),
    Field("qosClass", STRING, "How late it is evicted.", enum=QOS_CLASSES, number=9),
)

POD_TEMPLATE = struct(
    "PodTemplateSpec",
    "What pods are made from.",
    Field("metadata", OBJECT_META, "Labels and the like of the pods.", number=1),
    Field("spec", POD_SPEC, "What the pods run.", number=2),
)

POD_OBJECT = object_struct("Pod", PACKAGE, POD_SPEC, POD_STATUS, "Containers on one node.")
