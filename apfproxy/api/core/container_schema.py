"""Structure of containers."""

from __future__ import annotations

from apfproxy.api.core.probe_schema import LIFECYCLE, PROBE
from apfproxy.api.core.security_schema import SECURITY_CONTEXT
from apfproxy.api.core.structs import (
    BOOLEAN,
    INT32,
    QUANTITY,
    REFERENT_NAME,
    RESOURCE_LIST,
    STRING,
    STRINGS,
    keyed,
    required_if_empty_absent,
    struct,
)
from apfproxy.api.schema.types import Field, List, ListType, Struct, pointer, required

PROTOCOLS = ("SCTP", "TCP", "UDP")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
MESSAGE_POLICIES = ("FallbackToLogsOnError", "File")

RESOURCE_CLAIM = struct(
    "ResourceClaim",
    "A claim of the pod that a container uses.",
    required("name", STRING, "Name of an entry of the pod's `resourceClaims`."),
    Field("request", STRING, "One request of the claim; all of them unless given."),
)

RESOURCE_REQUIREMENTS = struct(
    "ResourceRequirements",
    "What a container needs, and what it may use at most.",
    Field("limits", RESOURCE_LIST, "The most it may use, by resource."),
    Field("requests", RESOURCE_LIST, "What it needs, by resource; the limits unless given."),
    Field("claims", List(RESOURCE_CLAIM, ListType.MAP, ("name",)), "Claims that it uses."),
)

OBJECT_FIELD_SELECTOR = struct(
    "ObjectFieldSelector",
    "Names a field of the pod.",
    Field("apiVersion", STRING, "Version that the path belongs to; v1 unless given."),
    required("fieldPath", STRING, "Path of the field."),
    is_atomic=True,
)

RESOURCE_FIELD_SELECTOR = struct(
    "ResourceFieldSelector",
    "Names a container's request or limit.",
    Field("containerName", STRING, "The container; needed in volumes."),
    required("resource", STRING, "Such as `limits.cpu`."),
    Field("divisor", QUANTITY, "Unit of the result; 1 unless given.", is_always_written=True),
    is_atomic=True,
)

CONFIG_MAP_KEY_SELECTOR = struct(
    "ConfigMapKeySelector",
    "Names a key of a ConfigMap.",
    REFERENT_NAME,
    required("key", STRING, "The key."),
    pointer("optional", BOOLEAN, "Whether it may be missing."),
    is_atomic=True,
)

SECRET_KEY_SELECTOR = struct(
    "SecretKeySelector",
    "Names a key of a Secret.",
    REFERENT_NAME,
    required("key", STRING, "The key."),
    pointer("optional", BOOLEAN, "Whether it may be missing."),
    is_atomic=True,
)

FILE_KEY_SELECTOR = struct(
    "FileKeySelector",
    "Names a key of a file of variables.",
    required("volumeName", STRING, "Volume that holds the file."),
    required("path", STRING, "The file's path in the volume."),
    required("key", STRING, "The key."),
    Field("optional", BOOLEAN, "Whether it may be missing.", is_pointer=True, default=False),
    is_atomic=True,
)

ENV_VAR_SOURCE = struct(
    "EnvVarSource",
    "Where a variable's value comes from; exactly one of the fields.",
    pointer("fieldRef", OBJECT_FIELD_SELECTOR, "A field of the pod."),
    pointer("resourceFieldRef", RESOURCE_FIELD_SELECTOR, "A request or limit of the container."),
    pointer("configMapKeyRef", CONFIG_MAP_KEY_SELECTOR, "A key of a ConfigMap."),
    pointer("secretKeyRef", SECRET_KEY_SELECTOR, "A key of a Secret."),
    pointer("fileKeyRef", FILE_KEY_SELECTOR, "A key of a file in a volume."),
)

ENV_VAR = struct(
    "EnvVar",
    "An environment variable.",
    required("name", STRING, "Name of the variable."),
    Field("value", STRING, "Its value; `$(NAME)` refers to variables before it."),
    pointer("valueFrom", ENV_VAR_SOURCE, "Where the value comes from, if not given."),
)

CONFIG_MAP_ENV_SOURCE = struct(
    "ConfigMapEnvSource",
    "A ConfigMap whose keys become variables.",
    REFERENT_NAME,
    pointer("optional", BOOLEAN, "Whether it may be missing."),
)

SECRET_ENV_SOURCE = struct(
    "SecretEnvSource",
    "A Secret whose keys become variables.",
    REFERENT_NAME,
    pointer("optional", BOOLEAN, "Whether it may be missing."),
)

ENV_FROM_SOURCE = struct(
    "EnvFromSource",
    "An object whose keys become variables.",
    Field("prefix", STRING, "Put before each key."),
    pointer("configMapRef", CONFIG_MAP_ENV_SOURCE, "A ConfigMap."),
    pointer("secretRef", SECRET_ENV_SOURCE, "A Secret."),
)

CONTAINER_PORT = struct(
    "ContainerPort",
    "A port that a container serves.",
    Field("name", STRING, "A name for it, unique in the pod."),
    Field("hostPort", INT32, "Port of the node to map it to."),
    required("containerPort", INT32, "Number of the port, from 1 to 65535."),
    Field("protocol", STRING, "TCP unless given.", default="TCP", enum=PROTOCOLS),
    Field("hostIP", STRING, "Address of the node to map it to."),
)

VOLUME_MOUNT = struct(
    "VolumeMount",
    "Where a container sees a volume.",
    required("name", STRING, "Name of a volume of the pod."),
    Field("readOnly", BOOLEAN, "Whether the container may only read it."),
    pointer("recursiveReadOnly", STRING, "Whether mounts below it are read-only too."),
    required("mountPath", STRING, "Path in the container."),
    Field("subPath", STRING, "Path in the volume; its root unless given."),
    Field(
        "mountPropagation",
        STRING,
        "Which way mounts below it are seen.",
        is_pointer=True,
        enum=("Bidirectional", "HostToContainer", "None"),
    ),
    Field("subPathExpr", STRING, "As `subPath`, with variables."),
)

VOLUME_DEVICE = struct(
    "VolumeDevice",
    "A block device that a container gets.",
    required("name", STRING, "Name of a volume of the pod."),
    required("devicePath", STRING, "Path in the container."),
)

CONTAINER_RESIZE_POLICY = struct(
    "ContainerResizePolicy",
    "What a change of one resource means for the running container.",
    required("resourceName", STRING, "Such as cpu."),
    required("restartPolicy", STRING, "NotRequired or RestartContainer."),
)

RESTART_RULE_ON_EXIT_CODES = struct(
    "ContainerRestartRuleOnExitCodes",
    "Which exit codes a rule is for.",
    required_if_empty_absent("operator", STRING, "In or NotIn."),
    Field("values", List(INT32, ListType.SET), "Exit codes."),
)

CONTAINER_RESTART_RULE = struct(
    "ContainerRestartRule",
    "What happens when a container exits in some way.",
    required_if_empty_absent("action", STRING, "Such as Restart."),
    pointer("exitCodes", RESTART_RULE_ON_EXIT_CODES, "Which exit codes it is for."),
)

CONTAINER_FIELDS = (
    required("name", STRING, "Name of the container, a DNS label, unique in the pod."),
    Field("image", STRING, "Container image to run."),
    Field("command", STRINGS, "Program to run; the image's entry point unless given."),
    Field("args", STRINGS, "Arguments of the program; the image's unless given."),
    Field("workingDir", STRING, "Directory that the program starts in."),
    Field("ports", keyed(CONTAINER_PORT, "containerPort", "protocol"), "Ports that it serves."),
    Field("envFrom", List(ENV_FROM_SOURCE), "Objects whose keys become variables."),
    Field("env", keyed(ENV_VAR, "name"), "Environment variables."),
    Field("resources", RESOURCE_REQUIREMENTS, "What it needs, and may use at most."),
    Field("resizePolicy", List(CONTAINER_RESIZE_POLICY), "What a change of resources means."),
    pointer("restartPolicy", STRING, "Whether it is restarted; Always makes a sidecar."),
    Field("restartPolicyRules", List(CONTAINER_RESTART_RULE), "Exceptions by exit code."),
    Field("volumeMounts", keyed(VOLUME_MOUNT, "mountPath"), "Volumes in its file system."),
    Field("volumeDevices", keyed(VOLUME_DEVICE, "devicePath"), "Block devices that it gets."),
    pointer("livenessProbe", PROBE, "Restarts the container when it fails."),
    pointer("readinessProbe", PROBE, "Takes the pod out of services while it fails."),
    pointer("startupProbe", PROBE, "Holds the other probes back until it succeeds."),
    pointer("lifecycle", LIFECYCLE, "What to do when it starts and ends."),
    Field("terminationMessagePath", STRING, "File that says why it ended."),
    Field(
        "terminationMessagePolicy",
        STRING,
        "Where the reason of its end is taken from.",
        enum=MESSAGE_POLICIES,
    ),
    Field("imagePullPolicy", STRING, "When the image is pulled.", enum=PULL_POLICIES),
    pointer("securityContext", SECURITY_CONTEXT, "Its rights."),
    Field("stdin", BOOLEAN, "Whether it has a standard input."),
    Field("stdinOnce", BOOLEAN, "Whether the input closes after the first session."),
    Field("tty", BOOLEAN, "Whether it has a terminal."),
)

CONTAINER: Struct = struct(
    "Container", "One program of a pod, run from an image.", *CONTAINER_FIELDS
)

EPHEMERAL_CONTAINER: Struct = struct(
    "EphemeralContainer",
    "A container added to a running pod, to look into it.",
    *CONTAINER_FIELDS,
    Field("targetContainerName", STRING, "The container whose processes it sees."),
)
