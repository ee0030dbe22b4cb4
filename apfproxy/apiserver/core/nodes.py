"""Nodes, as far as the server reads them; what else a node has is kept as it comes.

Source: Kubernetes 1.36, `api/core/v1/generated.proto`, `pkg/printers/internalversion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.core.container_schema import RESOURCE_LIST
from apfproxy.apiserver.core.structs import (
    BOOLEAN,
    INT32,
    PACKAGE,
    STRING,
    keyed,
    open_struct,
    struct,
    time_field,
)
from apfproxy.apiserver.kind import Column, Kind, Rules, Version
from apfproxy.apiserver.metadata import find_condition, keep_spec
from apfproxy.apiserver.plain import AGE, NAME, NONE, checks, named_cells
from apfproxy.apiserver.schema.shared_structs import object_struct
from apfproxy.apiserver.schema.types import Field, List, ListType, Scalar, pointer, required

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.objects.types import Object

UNKNOWN = "<unknown>"
ROLE_PREFIX = "node-role.kubernetes.io/"
ROLE_LABEL = "kubernetes.io/role"
"""Labels that say what a node is for: in the key behind the prefix, or in the value."""

TAINT = struct(
    "Taint",
    "What keeps pods away that do not tolerate it.",
    required("key", STRING, "Its key.", number=1),
    Field("value", STRING, "Its value.", number=2),
    required("effect", STRING, "NoSchedule, PreferNoSchedule or NoExecute.", number=3),
    pointer("timeAdded", Scalar.TIME, "When it was added.", number=4),
)

NODE_SPEC = open_struct(
    "NodeSpec",
    "What a node is for.",
    Field("podCIDR", STRING, "Addresses of its pods.", number=1),
    Field(
        "podCIDRs",
        List(STRING, ListType.SET, is_merged=True),
        "The same, one for each family of addresses.",
        number=7,
    ),
    Field("providerID", STRING, "What its provider calls it.", number=3),
    Field("unschedulable", BOOLEAN, "Whether it gets no new pods.", number=4),
    Field("taints", List(TAINT), "What keeps pods away.", number=5),
)

NODE_CONDITION = struct(
    "NodeCondition",
    "One aspect of how a node is doing.",
    required("type", STRING, "Which aspect.", number=1),
    required("status", STRING, "True, False or Unknown.", number=2),
    time_field("lastHeartbeatTime", "When it was looked at last.", number=3),
    time_field("lastTransitionTime", "When the status changed last.", number=4),
    Field("reason", STRING, "Why, in one word.", number=5),
    Field("message", STRING, "Why, for people.", number=6),
)

NODE_ADDRESS = struct(
    "NodeAddress",
    "An address of a node.",
    required("type", STRING, "Hostname, InternalIP, ExternalIP, ...", number=1),
    required("address", STRING, "The address.", number=2),
)

NODE_SYSTEM = (
    ("machineID", 1),
    ("systemUUID", 2),
    ("bootID", 3),
    ("kernelVersion", 4),
    ("osImage", 5),
    ("containerRuntimeVersion", 6),
    ("kubeletVersion", 7),
    ("kubeProxyVersion", 8),
    ("operatingSystem", 9),
    ("architecture", 10),
)

NODE_STATUS = open_struct(
    "NodeStatus",
    "How a node is doing, as its kubelet reports it.",
    Field("capacity", RESOURCE_LIST, "What it has, by resource.", number=1),
    Field("allocatable", RESOURCE_LIST, "What pods may have of it.", number=2),
    Field("phase", STRING, "No longer set.", number=3),
    Field("conditions", keyed(NODE_CONDITION, "type"), "Aspects of how it is doing.", number=4),
    Field("addresses", keyed(NODE_ADDRESS, "type"), "Where it can be reached.", number=5),
    Field(
        "daemonEndpoints",
        struct(
            "NodeDaemonEndpoints",
            "Ports of what runs on a node.",
            Field(
                "kubeletEndpoint",
                struct(
                    "DaemonEndpoint",
                    "A port.",
                    required("Port", INT32, "The port.", number=1),
                ),
                "That of its kubelet.",
                number=1,
            ),
        ),
        "Ports of what runs on it.",
        number=6,
    ),
    Field(
        "nodeInfo",
        open_struct(
            "NodeSystemInfo",
            "The machine of a node, and its programs.",
            *(required(name, STRING, "As it reports.", number=at) for name, at in NODE_SYSTEM),
        ),
        "The machine and its programs.",
        number=7,
    ),
)


def set_defaults(obj: Object) -> None:
    """Let a node offer all that it has, and name its addresses in both ways."""
    spec, status = obj["spec"], obj["status"]
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))
    if "podCIDR" in spec:
        spec.setdefault("podCIDRs", [spec["podCIDR"]])


def prepare_update(new: Object, old: Object) -> None:
    """Keep the status."""
    new["status"] = old["status"]


def node_cells(obj: Object) -> Sequence[object]:
    """The cells of a node's row between its name and its age."""
    ready = find_condition(obj["status"], "Ready")
    state = "Unknown"
    if ready is not None:
        state = "Ready" if ready["status"] == "True" else "NotReady"
    if obj["spec"].get("unschedulable"):
        state += ",SchedulingDisabled"
    return state, ",".join(roles(obj["metadata"].get("labels", {}))) or NONE


def roles(labels: dict[str, str]) -> list[str]:
    """What a node is for, by its labels."""
    found = {
        label.removeprefix(ROLE_PREFIX) for label in labels if label.startswith(ROLE_PREFIX)
    } | {labels.get(ROLE_LABEL, "")}
    return sorted(found - {""})


def wide_cells(obj: Object) -> Sequence[object]:
    """The cells of a node's row behind its age."""
    status = obj["status"]
    info = status["nodeInfo"]
    addresses = {each["type"]: each["address"] for each in reversed(status.get("addresses", ()))}
    kernel = info["kernelVersion"] or UNKNOWN
    if info["architecture"]:
        kernel = f"{kernel} ({info['architecture']})"
    return (
        info["kubeletVersion"],
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info["osImage"] or UNKNOWN,
        kernel,
        info["containerRuntimeVersion"] or UNKNOWN,
    )


VALIDATE, VALIDATE_UPDATE = checks(is_namespaced=False)
FIRST_CELLS = named_cells(node_cells)

NODE = Kind(
    group="",
    name="Node",
    plural="nodes",
    singular="node",
    is_namespaced=False,
    versions=(
        Version(
            "v1",
            object_struct("Node", PACKAGE, NODE_SPEC, NODE_STATUS, "A machine that runs pods."),
            set_defaults,
        ),
    ),
    rules=Rules(
        validate=VALIDATE,
        validate_update=VALIDATE_UPDATE,
        prepare_update=prepare_update,
        prepare_status=keep_spec,
        validate_status=VALIDATE_UPDATE,
    ),
    columns=(
        NAME,
        Column("Status", "string", "Whether it is ready, and takes pods."),
        Column("Roles", "string", "What it is for."),
        AGE,
        Column("Version", "string", "Of its kubelet."),
        Column("Internal-IP", "string", "Its address within the cluster.", priority=1),
        Column("External-IP", "string", "Its address outside.", priority=1),
        Column("OS-Image", "string", "Its operating system.", priority=1),
        Column("Kernel-Version", "string", "Its kernel.", priority=1),
        Column("Container-Runtime", "string", "What runs its containers.", priority=1),
    ),
    cells=lambda obj, now_s: (*FIRST_CELLS(obj, now_s), *wide_cells(obj)),
    selectable=lambda obj: {
        "spec.unschedulable": "true" if obj["spec"].get("unschedulable") else "false"
    },
    selectable_fields=("spec.unschedulable",),
    short_names=("no",),
    storage_hash="XwShjMxG9Fs=",
)
