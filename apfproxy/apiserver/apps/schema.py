"""How controllers of pods are structured; what else they have is kept as it comes.

Source: Kubernetes 1.36, `api/{apps,core,autoscaling}/v1/generated.proto`.
"""

from __future__ import annotations

from apfproxy.apiserver.core.pod_schema import POD_TEMPLATE
from apfproxy.apiserver.core.structs import PACKAGE as CORE
from apfproxy.apiserver.schema.shared_structs import LABEL_SELECTOR, object_struct
from apfproxy.apiserver.schema.types import (
    Field,
    List,
    ListType,
    Map,
    Scalar,
    Struct,
    pointer,
    required,
)

APPS = "io.k8s.api.apps.v1"
AUTOSCALING = "io.k8s.api.autoscaling.v1"
AUTOSCALING_GROUP = "autoscaling"
STRING, INT32, INT64 = Scalar.STRING, Scalar.INT32, Scalar.INT64

WANTED = "How many pods are wanted; 1 unless given."
THERE = "How many pods there are."
REPLICAS = pointer("replicas", INT32, WANTED, number=1)
LABELS = Field(
    "selector", LABEL_SELECTOR, "Its pods.", is_pointer=True, is_required=True,
    is_always_written=True, number=2,
)  # fmt: skip
TEMPLATE = Field("template", POD_TEMPLATE, "What its pods are made from.", number=3)


def open_struct(name: str, description: str, *fields: Field, package: str = APPS) -> Struct:
    """A struct that has more fields than are listed; they are kept as they come."""
    return Struct(name, fields, package, description, keeps_unknown=True)


def count(name: str, description: str, number: int) -> Field:
    """A number of pods in a status."""
    return Field(name, INT32, description, number=number)


def conditions(name: str, number: int) -> Field:
    """The conditions of a status."""
    condition = open_struct(
        name,
        "One aspect of how a controller is doing.",
        required("type", STRING, "Which aspect.", number=1),
        required("status", STRING, "True, False or Unknown.", number=2),
    )
    listed = List(condition, ListType.MAP, ("type",), "type", is_merged=True)
    return Field("conditions", listed, "Aspects of how it is doing.", number=number)


GENERATION = "The generation that this is about."


def replica_status(kind: str, package: str) -> Struct:
    """The status of a ReplicaSet, or of its older form."""
    return open_struct(
        f"{kind}Status",
        "How many pods there are.",
        required("replicas", INT32, THERE, number=1),
        count("fullyLabeledReplicas", "How many have all labels of the template.", 2),
        Field("observedGeneration", INT64, GENERATION, number=3),
        count("readyReplicas", "How many are ready.", 4),
        count("availableReplicas", "How many have been ready for long enough.", 5),
        conditions(f"{kind}Condition", 6),
        package=package,
    )


REPLICA_SET = object_struct(
    "ReplicaSet",
    APPS,
    open_struct("ReplicaSetSpec", "How many pods of which kind.", REPLICAS, LABELS, TEMPLATE),
    replica_status("ReplicaSet", APPS),
    "Keeps a number of pods.",
)

REPLICATION_CONTROLLER = object_struct(
    "ReplicationController",
    CORE,
    open_struct(
        "ReplicationControllerSpec",
        "How many pods of which kind.",
        REPLICAS,
        Field("selector", Map(STRING, is_atomic=True), "Labels of its pods.", number=2),
        pointer("template", POD_TEMPLATE, "What its pods are made from.", number=3),
        package=CORE,
    ),
    replica_status("ReplicationController", CORE),
    "Keeps a number of pods; the older form of ReplicaSet.",
)

ROLLING_UPDATE = open_struct(
    "RollingUpdateDeployment",
    "How many pods are replaced at once.",
    pointer("maxUnavailable", Scalar.INT_OR_STRING, "How many may be away.", number=1),
    pointer("maxSurge", Scalar.INT_OR_STRING, "How many there may be beyond.", number=2),
)

DEPLOYMENT = object_struct(
    "Deployment",
    APPS,
    open_struct(
        "DeploymentSpec",
        "How many pods of which kind, and how they are replaced.",
        REPLICAS,
        LABELS,
        TEMPLATE,
        Field(
            "strategy",
            open_struct(
                "DeploymentStrategy",
                "How pods are replaced.",
                Field("type", STRING, "RollingUpdate or Recreate.", number=1),
                pointer("rollingUpdate", ROLLING_UPDATE, "For RollingUpdate.", number=2),
            ),
            "How pods are replaced.",
            number=4,
        ),
        Field("minReadySeconds", INT32, "How long pods are ready to count.", number=5),
        pointer("revisionHistoryLimit", INT32, "Old revisions that are kept.", number=6),
        Field("paused", Scalar.BOOLEAN, "Whether nothing is replaced.", number=7),
        pointer("progressDeadlineSeconds", INT32, "When no progress is failure.", number=9),
    ),
    open_struct(
        "DeploymentStatus",
        "How many pods there are.",
        Field("observedGeneration", INT64, GENERATION, number=1),
        count("replicas", THERE, 2),
        count("updatedReplicas", "How many have the newest template.", 3),
        count("readyReplicas", "How many are ready.", 7),
        count("availableReplicas", "How many have been ready for long enough.", 4),
        count("unavailableReplicas", "How many are not available.", 5),
        conditions("DeploymentCondition", 6),
    ),
    "Keeps a number of pods, and replaces them when their template changes.",
)

STATEFUL_SET = object_struct(
    "StatefulSet",
    APPS,
    open_struct(
        "StatefulSetSpec",
        "How many pods of which kind, each with a name of its own.",
        REPLICAS,
        LABELS,
        TEMPLATE,
        Field("serviceName", STRING, "The service that names its pods.", number=5),
        Field("podManagementPolicy", STRING, "OrderedReady or Parallel.", number=6),
        Field(
            "updateStrategy",
            open_struct(
                "StatefulSetUpdateStrategy",
                "How pods are replaced.",
                Field("type", STRING, "RollingUpdate or OnDelete.", number=1),
                pointer(
                    "rollingUpdate",
                    open_struct(
                        "RollingUpdateStatefulSetStrategy",
                        "Which pods are replaced.",
                        pointer("partition", INT32, "The first that is.", number=1),
                    ),
                    "For RollingUpdate.",
                    number=2,
                ),
            ),
            "How pods are replaced.",
            number=7,
        ),
        pointer("revisionHistoryLimit", INT32, "Old revisions that are kept.", number=8),
        Field("minReadySeconds", INT32, "How long pods are ready to count.", number=9),
        pointer(
            "persistentVolumeClaimRetentionPolicy",
            open_struct(
                "StatefulSetPersistentVolumeClaimRetentionPolicy",
                "What becomes of volumes.",
                Field("whenDeleted", STRING, "Retain or Delete.", number=1),
                Field("whenScaled", STRING, "Retain or Delete.", number=2),
            ),
            "What becomes of volumes.",
            number=10,
        ),
    ),
    open_struct(
        "StatefulSetStatus",
        "How many pods there are.",
        Field("observedGeneration", INT64, GENERATION, number=1),
        required("replicas", INT32, THERE, number=2),
        count("readyReplicas", "How many are ready.", 3),
        count("currentReplicas", "How many have the current revision.", 4),
        count("updatedReplicas", "How many have the newest revision.", 5),
        Field("currentRevision", STRING, "The current revision.", number=6),
        Field("updateRevision", STRING, "The newest revision.", number=7),
        conditions("StatefulSetCondition", 10),
        required("availableReplicas", INT32, "How many are available.", number=11),
    ),
    "Keeps a number of pods with names of their own.",
)

SCALE = object_struct(
    "Scale",
    AUTOSCALING,
    Struct(
        "ScaleSpec",
        (Field("replicas", INT32, "How many pods are wanted.", number=1),),
        AUTOSCALING,
        "How many pods are wanted.",
    ),
    Struct(
        "ScaleStatus",
        (
            required("replicas", INT32, THERE, number=1),
            Field("selector", STRING, "The selector of the pods, as text.", number=2),
        ),
        AUTOSCALING,
        "How many pods there are.",
    ),
    "How many pods a controller keeps.",
)
