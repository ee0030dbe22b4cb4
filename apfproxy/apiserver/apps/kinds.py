"""Controllers of pods: stored like other objects; nothing here makes pods for them.

Source: Kubernetes 1.36, `api/apps/v1/generated.proto`, `pkg/apis/{apps,core}/v1/defaults.go`,
`pkg/printers/internalversion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from apfproxy.apiserver.apps import schema
from apfproxy.apiserver.core.pod_defaults import set_pod_spec_defaults
from apfproxy.apiserver.core.resources import containers_of
from apfproxy.apiserver.kind import Column, Kind, Rules, Version
from apfproxy.apiserver.metadata import keep_spec, keep_status
from apfproxy.apiserver.plain import AGE, NAME, NONE, checks, named_cells
from apfproxy.apiserver.selectors import selector_text
from apfproxy.objects.field_errors import NOT_NEGATIVE, invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.apiserver.schema.types import Struct
    from apfproxy.objects.field_errors import FieldError
    from apfproxy.objects.types import Object

GROUP = "apps"
HISTORY = 10
"""Old revisions that are kept, unless said otherwise."""
PROGRESS_S = 600
CONTAINERS = Column("Containers", "string", "Names of the containers.", priority=1)
IMAGES = Column("Images", "string", "Images of the containers.", priority=1)
SELECTOR = Column("Selector", "string", "Labels of its pods.", priority=1)


def check_replicas(obj: Object) -> list[FieldError]:
    """What is wrong with the number of pods that are wanted."""
    replicas = obj["spec"].get("replicas", 1)
    return [invalid("spec.replicas", replicas, NOT_NEGATIVE)] if replicas < 0 else []


VALIDATE, VALIDATE_UPDATE = checks(check=check_replicas)


def start(obj: Object, **status: int) -> None:
    """Start at generation 1, with this status."""
    obj["metadata"]["generation"] = 1
    obj["status"] = dict(status)


def rules(**status: int) -> Rules:
    """The rules of a controller, and the status that it begins with."""
    return Rules(
        prepare_create=lambda obj: start(obj, **status),
        prepare_update=keep_status,
        validate=VALIDATE,
        validate_update=VALIDATE_UPDATE,
        prepare_status=keep_spec,
        validate_status=VALIDATE_UPDATE,
    )


def keep_deployment_status(new: Object, old: Object) -> None:
    """As of any controller; but other annotations are another generation, too."""
    keep_status(new, old)
    before, after = (each["metadata"].get("annotations") or {} for each in (old, new))
    if before != after:
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def keep_deployment(new: Object, old: Object) -> None:
    """Let specification and labels be the old ones, where only the status may be written."""
    keep_spec(new, old)
    if labels := old["metadata"].get("labels"):
        new["metadata"]["labels"] = labels
    else:
        new["metadata"].pop("labels", None)


def set_defaults(obj: Object) -> None:
    """Complete what all controllers have: one pod unless more are wanted, and its template."""
    spec: dict[str, Any] = obj["spec"]
    spec.setdefault("replicas", 1)
    if spec.get("template"):
        set_pod_spec_defaults(spec["template"]["spec"])


def set_deployment_defaults(obj: Object) -> None:
    """Complete a Deployment."""
    set_defaults(obj)
    spec = obj["spec"]
    strategy = spec["strategy"]
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {
            "maxUnavailable": "25%",
            "maxSurge": "25%",
            **(strategy.get("rollingUpdate") or {}),
        }
    spec.setdefault("revisionHistoryLimit", HISTORY)
    spec.setdefault("progressDeadlineSeconds", PROGRESS_S)


def set_stateful_defaults(obj: Object) -> None:
    """Complete a StatefulSet."""
    set_defaults(obj)
    spec = obj["spec"]
    spec["podManagementPolicy"] = spec.get("podManagementPolicy") or "OrderedReady"
    strategy = spec["updateStrategy"]
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {"partition": 0, **(strategy.get("rollingUpdate") or {})}
    spec.setdefault("revisionHistoryLimit", HISTORY)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    for when in ("whenDeleted", "whenScaled"):
        retention[when] = retention.get(when) or "Retain"


def set_replication_defaults(obj: Object) -> None:
    """Complete a ReplicationController: its pods' labels are its selector, and its own labels."""
    set_defaults(obj)
    spec = obj["spec"]
    labels = (spec.get("template") or {}).get("metadata", {}).get("labels")
    if labels:
        spec["selector"] = spec.get("selector") or dict(labels)
        metadata = obj["metadata"]
        metadata["labels"] = metadata.get("labels") or dict(labels)


def label_selector(obj: Object) -> str:
    """The selector of a controller's pods, as text; "" for one that means nothing."""
    return selector_text(obj["spec"].get("selector"))


def map_selector(obj: Object) -> str:
    """The selector of a ReplicationController's pods, as text."""
    selector = obj["spec"].get("selector") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))


def template_cells(obj: Object) -> tuple[str, str]:
    """The names and images of the containers of a controller's pods."""
    containers = containers_of((obj["spec"].get("template") or {}).get("spec", {}))
    names = (container["name"] for container in containers)
    return ",".join(names), ",".join(each.get("image", "") for each in containers)


def replica_cells(obj: Object) -> Sequence[object]:
    """The cells of a ReplicaSet, or of a ReplicationController, between name and age."""
    status = obj["status"]
    return obj["spec"].get("replicas", 0), status["replicas"], status.get("readyReplicas", 0)


def ready_cell(obj: Object) -> str:
    """How many pods are ready, and how many are wanted."""
    return f"{obj['status'].get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}"


def deployment_cells(obj: Object) -> Sequence[object]:
    """The cells of a Deployment between name and age."""
    status = obj["status"]
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    return ready_cell(obj), updated, available


def wide(
    narrow: Callable[[Object], Sequence[object]], selector: Callable[[Object], str] | None
) -> Callable[[Object, float], Sequence[object]]:
    """The cells of a row, with those that only wide output shows."""
    first = named_cells(narrow)

    def cells(obj: Object, now_s: float) -> Sequence[object]:
        behind = template_cells(obj)
        shown = (*first(obj, now_s), *behind)
        return shown if selector is None else (*shown, selector(obj) or NONE)

    return cells


def version(struct: Struct, complete: Callable[[Object], None]) -> tuple[Version]:
    """The only version of a controller."""
    return (Version("v1", struct, complete),)


REPLICA_COLUMNS = (
    NAME,
    Column("Desired", "integer", "How many pods are wanted."),
    Column("Current", "integer", "How many pods there are."),
    Column("Ready", "integer", "How many pods are ready."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)
READY = Column("Ready", "string", "How many pods are ready, and how many are wanted.")

REPLICATION_CONTROLLER = Kind(
    group="",
    name="ReplicationController",
    plural="replicationcontrollers",
    singular="replicationcontroller",
    is_namespaced=True,
    versions=version(schema.REPLICATION_CONTROLLER, set_replication_defaults),
    rules=msgspec.structs.replace(rules(replicas=0), default_propagation="Orphan"),
    columns=REPLICA_COLUMNS,
    cells=wide(replica_cells, map_selector),
    selectable=lambda obj: {"status.replicas": str(obj["status"]["replicas"])},
    selectable_fields=("status.replicas",),
    short_names=("rc",),
    categories=("all",),
    storage_hash="Jond2If31h0=",
    scale_selector=map_selector,
)

REPLICA_SET = Kind(
    group=GROUP,
    name="ReplicaSet",
    plural="replicasets",
    singular="replicaset",
    is_namespaced=True,
    versions=version(schema.REPLICA_SET, set_defaults),
    rules=rules(replicas=0),
    columns=REPLICA_COLUMNS,
    cells=wide(replica_cells, label_selector),
    short_names=("rs",),
    categories=("all",),
    storage_hash="P1RzHs8/mWQ=",
    scale_selector=label_selector,
)

DEPLOYMENT = Kind(
    group=GROUP,
    name="Deployment",
    plural="deployments",
    singular="deployment",
    is_namespaced=True,
    versions=version(schema.DEPLOYMENT, set_deployment_defaults),
    rules=msgspec.structs.replace(
        rules(),
        prepare_update=keep_deployment_status,
        prepare_status=keep_deployment,
        reset_status_fields=(("spec",), ("metadata", "labels")),
    ),
    columns=(
        NAME,
        READY,
        Column("Up-to-date", "string", "How many pods have the newest template."),
        Column("Available", "string", "How many pods have been ready for long enough."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ),
    cells=wide(deployment_cells, label_selector),
    short_names=("deploy",),
    categories=("all",),
    storage_hash="8aSe+NMegvE=",
    scale_selector=label_selector,
)

STATEFUL_SET = Kind(
    group=GROUP,
    name="StatefulSet",
    plural="statefulsets",
    singular="statefulset",
    is_namespaced=True,
    versions=version(schema.STATEFUL_SET, set_stateful_defaults),
    rules=rules(replicas=0, availableReplicas=0),
    columns=(NAME, READY, AGE, CONTAINERS, IMAGES),
    cells=wide(lambda obj: (ready_cell(obj),), None),
    short_names=("sts",),
    categories=("all",),
    storage_hash="H+vl74LkKdo=",
    scale_selector=label_selector,
)

CONTROLLERS = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, REPLICATION_CONTROLLER)
