"""Structure of containers and of their statuses, as far as the server reads it.

Source of the numbers: Kubernetes 1.36, `api/core/v1/generated.proto`.
"""

from __future__ import annotations

from apfproxy.apiserver.core.structs import (
    BOOLEAN,
    INT32,
    STRING,
    STRINGS,
    keyed,
    open_struct,
    struct,
    time_field,
)
from apfproxy.apiserver.schema.types import Field, Map, Scalar, pointer, required

PROTOCOLS = ("SCTP", "TCP", "UDP")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
MESSAGE_POLICIES = ("FallbackToLogsOnError", "File")

RESOURCE_LIST = Map(Scalar.QUANTITY)
"""Resource name to quantity."""

RESOURCE_REQUIREMENTS = open_struct(
    "ResourceRequirements",
    "What a container needs, and what it may use at most.",
    Field("limits", RESOURCE_LIST, "The most it may use, by resource.", number=1),
    Field("requests", RESOURCE_LIST, "What it needs; the limits unless given.", number=2),
)

ENV_VAR = open_struct(
    "EnvVar",
    "An environment variable.",
    required("name", STRING, "Name of the variable.", number=1),
    Field("value", STRING, "Its value.", number=2),
)

CONTAINER_PORT = struct(
    "ContainerPort",
    "A port that a container serves.",
    Field("name", STRING, "A name for it, unique in the pod.", number=1),
    Field("hostPort", INT32, "Port of the node to map it to.", number=2),
    required("containerPort", INT32, "Number of the port, from 1 to 65535.", number=3),
    Field("protocol", STRING, "TCP unless given.", default="TCP", enum=PROTOCOLS, number=4),
    Field("hostIP", STRING, "Address of the node to map it to.", number=5),
)

VOLUME_MOUNT = open_struct(
    "VolumeMount",
    "Where a container sees a volume.",
    required("name", STRING, "Name of a volume of the pod.", number=1),
    Field("readOnly", BOOLEAN, "Whether the container may only read it.", number=2),
    required("mountPath", STRING, "Path in the container.", number=3),
)

CONTAINER = open_struct(
    "Container",
    "One program of a pod, run from an image.",
    required("name", STRING, "Name of the container, a DNS label, unique in the pod.", number=1),
    Field("image", STRING, "Container image to run.", number=2),
    Field("args", STRINGS, "Arguments of the program; the image's unless given.", number=4),
    Field("ports", keyed(CONTAINER_PORT, "containerPort", "protocol"), "It serves.", number=6),
    Field("env", keyed(ENV_VAR, "name"), "Environment variables.", number=7),
    Field("resources", RESOURCE_REQUIREMENTS, "What it needs, and may use at most.", number=8),
    pointer("restartPolicy", STRING, "Whether it is restarted; Always makes a sidecar.", number=24),
    Field("volumeMounts", keyed(VOLUME_MOUNT, "mountPath"), "In its file system.", number=9),
    Field("terminationMessagePath", STRING, "File that says why it ended.", number=13),
    Field("terminationMessagePolicy", STRING, "Why it ended.", enum=MESSAGE_POLICIES, number=20),
    Field("imagePullPolicy", STRING, "When the image is pulled.", enum=PULL_POLICIES, number=14),
)

CONTAINER_STATE_WAITING = struct(
    "ContainerStateWaiting",
    "A container that does not run yet.",
    Field("reason", STRING, "Why, in one word.", number=1),
    Field("message", STRING, "Why, for people.", number=2),
)

CONTAINER_STATE_RUNNING = struct(
    "ContainerStateRunning",
    "A container that runs.",
    time_field("startedAt", "Since when.", number=1),
)

CONTAINER_STATE_TERMINATED = struct(
    "ContainerStateTerminated",
    "A container that has ended.",
    required("exitCode", INT32, "Exit status of its process.", number=1),
    Field("signal", INT32, "Signal that ended it.", number=2),
    Field("reason", STRING, "Why, in one word.", number=3),
    Field("message", STRING, "Why, for people.", number=4),
    time_field("startedAt", "When it started.", number=5),
    time_field("finishedAt", "When it ended.", number=6),
    Field("containerID", STRING, "Id of the container.", number=7),
)

CONTAINER_STATE = struct(
    "ContainerState",
    "What a container is doing; one of the fields.",
    pointer("waiting", CONTAINER_STATE_WAITING, "It does not run yet.", number=1),
    pointer("running", CONTAINER_STATE_RUNNING, "It runs.", number=2),
    pointer("terminated", CONTAINER_STATE_TERMINATED, "It has ended.", number=3),
)

CONTAINER_STATUS = open_struct(
    "ContainerStatus",
    "How a container is doing.",
    required("name", STRING, "Name of the container.", number=1),
    Field("state", CONTAINER_STATE, "What it is doing.", number=2),
    Field("lastState", CONTAINER_STATE, "How it ended the last time.", number=3),
    required("ready", BOOLEAN, "Whether its readiness probe succeeds.", number=4),
    required("restartCount", INT32, "How often it was restarted.", number=5),
    required("image", STRING, "Image that it runs.", number=6),
    required("imageID", STRING, "Digest of the image.", number=7),
    Field("containerID", STRING, "Id of the container.", number=8),
    pointer("started", BOOLEAN, "Whether it has started up.", number=9),
)
