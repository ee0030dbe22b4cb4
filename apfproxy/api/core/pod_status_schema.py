"""Structure of pods: how they are doing."""

from __future__ import annotations

from apfproxy.api.core.container_schema import RESOURCE_REQUIREMENTS
from apfproxy.api.core.structs import (
    BOOLEAN,
    INT32,
    INT64,
    RESOURCE_LIST,
    SIGNALS,
    STRING,
    chosen,
    keyed,
    required_if_empty_absent,
    struct,
    time_field,
)
from apfproxy.api.schema.types import Field, List, ListType, Scalar, pointer, required

POD_CONDITION = struct(
    "PodCondition",
    "One aspect of how a pod is doing.",
    required("type", STRING, "Which aspect."),
    Field("observedGeneration", INT64, "Generation of the spec that it is about."),
    required("status", STRING, "True, False or Unknown."),
    time_field("lastProbeTime", "When it was looked at last."),
    time_field("lastTransitionTime", "When the status changed last."),
    Field("reason", STRING, "Why, in one word."),
    Field("message", STRING, "Why, for people."),
)

HOST_IP = struct("HostIP", "An address of a node.", required("ip", STRING, "The address."))

POD_IP = struct("PodIP", "An address of a pod.", required("ip", STRING, "The address."))

CONTAINER_STATE_WAITING = struct(
    "ContainerStateWaiting",
    "A container that does not run yet.",
    Field("reason", STRING, "Why, in one word."),
    Field("message", STRING, "Why, for people."),
)

CONTAINER_STATE_RUNNING = struct(
    "ContainerStateRunning",
    "A container that runs.",
    time_field("startedAt", "Since when."),
)

CONTAINER_STATE_TERMINATED = struct(
    "ContainerStateTerminated",
    "A container that has ended.",
    required("exitCode", INT32, "Exit status of its process."),
    Field("signal", INT32, "Signal that ended it."),
    Field("reason", STRING, "Why, in one word."),
    Field("message", STRING, "Why, for people."),
    time_field("startedAt", "When it started."),
    time_field("finishedAt", "When it ended."),
    Field("containerID", STRING, "Id of the container."),
)

CONTAINER_STATE = struct(
    "ContainerState",
    "What a container is doing; one of the fields.",
    pointer("waiting", CONTAINER_STATE_WAITING, "It does not run yet."),
    pointer("running", CONTAINER_STATE_RUNNING, "It runs."),
    pointer("terminated", CONTAINER_STATE_TERMINATED, "It has ended."),
)

IMAGE_VOLUME_STATUS = struct(
    "ImageVolumeStatus",
    "The image that a volume shows.",
    required_if_empty_absent("imageRef", STRING, "Digest of the image."),
)

VOLUME_STATUS = struct(
    "VolumeStatus",
    "What is known of a mounted volume.",
    pointer("image", IMAGE_VOLUME_STATUS, "The image that it shows."),
)

VOLUME_MOUNT_STATUS = struct(
    "VolumeMountStatus",
    "How a volume is mounted.",
    required("name", STRING, "Name of the volume."),
    required("mountPath", STRING, "Path in the container."),
    Field("readOnly", BOOLEAN, "Whether it is read-only."),
    pointer("recursiveReadOnly", STRING, "Whether mounts below it are read-only too."),
    pointer("volumeStatus", VOLUME_STATUS, "What is known of the volume."),
)

LINUX_CONTAINER_USER = struct(
    "LinuxContainerUser",
    "Whom the first process runs as, on Linux.",
    required("uid", INT64, "User id."),
    required("gid", INT64, "Group id."),
    Field("supplementalGroups", List(INT64), "Further groups."),
)

CONTAINER_USER = struct(
    "ContainerUser",
    "Whom the first process runs as.",
    pointer("linux", LINUX_CONTAINER_USER, "On Linux."),
)

RESOURCE_HEALTH = struct(
    "ResourceHealth",
    "How a device is doing.",
    required("resourceID", STRING, "Id of the device."),
    Field("health", STRING, "Healthy, Unhealthy or Unknown."),
    pointer("message", STRING, "Why, for people."),
)

RESOURCE_STATUS = struct(
    "ResourceStatus",
    "How the devices of one resource are doing.",
    required("name", STRING, "Name of the resource."),
    Field("resources", List(RESOURCE_HEALTH, ListType.MAP, ("resourceID",)), "The devices."),
)

CONTAINER_STATUS = struct(
    "ContainerStatus",
    "How a container is doing.",
    required("name", STRING, "Name of the container."),
    Field("state", CONTAINER_STATE, "What it is doing."),
    Field("lastState", CONTAINER_STATE, "How it ended the last time."),
    required("ready", BOOLEAN, "Whether its readiness probe succeeds."),
    required("restartCount", INT32, "How often it was restarted."),
    required("image", STRING, "Image that it runs."),
    required("imageID", STRING, "Digest of the image."),
    Field("containerID", STRING, "Id of the container."),
    pointer("started", BOOLEAN, "Whether it has started up."),
    Field("allocatedResources", RESOURCE_LIST, "What the node has set aside for it."),
    pointer("resources", RESOURCE_REQUIREMENTS, "Requests and limits in force."),
    Field("volumeMounts", keyed(VOLUME_MOUNT_STATUS, "mountPath"), "How volumes are mounted."),
    pointer("user", CONTAINER_USER, "Whom it runs as."),
    Field("allocatedResourcesStatus", keyed(RESOURCE_STATUS, "name"), "How its devices are doing."),
    chosen("stopSignal", SIGNALS, "Signal that tells it to end.", is_pointer=True),
)

POD_RESOURCE_CLAIM_STATUS = struct(
    "PodResourceClaimStatus",
    "The claim that was made from a template.",
    required("name", STRING, "What the pod calls it."),
    pointer("resourceClaimName", STRING, "Name of the ResourceClaim."),
)

CONTAINER_EXTENDED_RESOURCE_REQUEST = struct(
    "ContainerExtendedResourceRequest",
    "A container's extended resource, and the request that stands for it.",
    required("containerName", STRING, "The container."),
    required("resourceName", STRING, "The resource."),
    required("requestName", STRING, "The request of the claim."),
)

POD_EXTENDED_RESOURCE_CLAIM_STATUS = struct(
    "PodExtendedResourceClaimStatus",
    "The claim made for extended resources.",
    required("requestMappings", List(CONTAINER_EXTENDED_RESOURCE_REQUEST), "Which is which."),
    required("resourceClaimName", STRING, "Name of the ResourceClaim."),
)

NODE_ALLOCATABLE_RESOURCE_CLAIM_STATUS = struct(
    "NodeAllocatableResourceClaimStatus",
    "Resources of the node that a claim has got.",
    required("resourceClaimName", STRING, "Name of the ResourceClaim."),
    Field("containers", List(STRING, ListType.SET), "Containers that use the claim."),
    required("resources", RESOURCE_LIST, "How much, by resource."),
)

PHASES = ("Failed", "Pending", "Running", "Succeeded", "Unknown")
QOS_CLASSES = ("BestEffort", "Burstable", "Guaranteed")

POD_STATUS = struct(
    "PodStatus",
    "How a pod is doing, as its node reports it.",
    Field("observedGeneration", INT64, "Generation of the spec that this is about."),
    Field("phase", STRING, "Where the pod is in its life.", enum=PHASES),
    Field("conditions", keyed(POD_CONDITION, "type"), "Aspects of how it is doing."),
    Field("message", STRING, "Why it is in this phase, for people."),
    Field("reason", STRING, "Why it is in this phase, in one word."),
    Field("nominatedNodeName", STRING, "Node where room is being made for it."),
    Field("hostIP", STRING, "Address of its node."),
    Field(
        "hostIPs",
        List(HOST_IP, merge_key="ip", is_merged=True),
        "All addresses of its node.",
    ),
    Field("podIP", STRING, "Its address."),
    Field("podIPs", keyed(POD_IP, "ip"), "All its addresses."),
    pointer("startTime", Scalar.TIME, "When its node took notice of it."),
    Field("initContainerStatuses", List(CONTAINER_STATUS), "How init containers are doing."),
    Field("containerStatuses", List(CONTAINER_STATUS), "How containers are doing."),
    Field(
        "qosClass",
        STRING,
        "How late it is ended when its node runs out of a resource.",
        enum=QOS_CLASSES,
    ),
    Field(
        "ephemeralContainerStatuses", List(CONTAINER_STATUS), "How ephemeral containers are doing."
    ),
    Field("resize", STRING, "How far a change of resources has come."),
    Field(
        "resourceClaimStatuses",
        keyed(POD_RESOURCE_CLAIM_STATUS, "name", retains_keys=True),
        "Claims made from templates.",
    ),
    pointer(
        "extendedResourceClaimStatus",
        POD_EXTENDED_RESOURCE_CLAIM_STATUS,
        "The claim made for extended resources.",
    ),
    Field("allocatedResources", RESOURCE_LIST, "What the node has set aside for the pod."),
    pointer("resources", RESOURCE_REQUIREMENTS, "The pod's requests and limits in force."),
    Field(
        "nodeAllocatableResourceClaimStatuses",
        List(NODE_ALLOCATABLE_RESOURCE_CLAIM_STATUS),
        "Resources of the node that claims have got.",
    ),
)
