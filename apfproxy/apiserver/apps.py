"""Controllers of pods: stored like other objects; nothing here makes pods for them.

Their subresource `scale` says how many pods they want, in one form for all of them.

Source: Kubernetes 1.36, `api/{apps,autoscaling}/v1/generated.proto`,
`pkg/apis/{apps,core}/v1/defaults.go`, `pkg/printers/internalversion`,
`pkg/registry/apps/{deployment,replicaset,statefulset}/storage`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from apfproxy.apiserver import kind as kinds
from apfproxy.apiserver.core.pods import containers_of, set_pod_spec_defaults
from apfproxy.apiserver.core.structs import CONDITION, CORE, REPLICAS
from apfproxy.apiserver.errors import invalid
from apfproxy.apiserver.kind import Kind, Rules, Version, complete, not_negative, starts
from apfproxy.apiserver.metadata import IMMUTABLE_DETAIL, copy_field, keep_spec, keep_status
from apfproxy.apiserver.outcomes import check_identity, check_uid
from apfproxy.apiserver.schema.reading import canonical
from apfproxy.apiserver.schema.shared_structs import SHARED
from apfproxy.apiserver.schema.types import structs
from apfproxy.apiserver.selectors import selector_text
from apfproxy.apiserver.tables import AGE, NAME, NONE, Column, wide
from apfproxy.objects.field_errors import forbidden
from apfproxy.objects.field_errors import invalid as invalid_field

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.objects.field_errors import FieldError
    from apfproxy.objects.types import Object

GROUP = "apps"
ROLLING_UPDATE = "RollingUpdate"
KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
"""The metadata that a Scale has of its controller."""
MUTABLE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)
"""Fields of a StatefulSet's specification, in the order of the message that forbids others."""

STRUCTS = structs(
    "io.k8s.api.apps.v1",
    """
Deployment +object: Keeps a number of pods, and replaces them when their template changes.
DeploymentSpec: How many pods of which kind, and how they are replaced.
  1 replicas                 *int32                    How many pods are wanted; 1 unless given.
  2 selector                 *LabelSelector +required  Its pods.
  3 template                 PodTemplateSpec           What its pods are made from.
  4 strategy                 DeploymentStrategy        How pods are replaced.
  5 minReadySeconds          int32                     How long pods are ready to count.
  6 revisionHistoryLimit     *int32                    Old revisions that are kept.
  7 paused                   bool                      Whether nothing is replaced.
  9 progressDeadlineSeconds  *int32                    When no progress is failure.
DeploymentStrategy: How pods are replaced.
  1 type           string                    RollingUpdate or Recreate.
  2 rollingUpdate  *RollingUpdateDeployment  For RollingUpdate.
RollingUpdateDeployment: How many pods are replaced at once.
  1 maxUnavailable  *intOrString  How many may be away.
  2 maxSurge        *intOrString  How many there may be beyond.
DeploymentStatus: How many pods there are.
  1 observedGeneration   int64                             The generation that this is about.
  2 replicas             int32                             How many pods there are.
  3 updatedReplicas      int32                             How many have the newest template.
  7 readyReplicas        int32                             How many are ready.
  4 availableReplicas    int32                             How many have been ready for long enough.
  5 unavailableReplicas  int32                             How many are not available.
  9 terminatingReplicas  *int32                            How many are ending.
  6 conditions           []DeploymentCondition +keys=type  Aspects of how it is doing.
  8 collisionCount       *int32                            How many names were taken.
ReplicaSet +object: Keeps a number of pods.
ReplicaSetSpec: How many pods of which kind.
  1 replicas         *int32                    How many pods are wanted; 1 unless given.
  4 minReadySeconds  int32                     How long pods are ready to count.
  2 selector         *LabelSelector +required  Its pods.
  3 template         PodTemplateSpec           What its pods are made from.
StatefulSet +object: Keeps a number of pods with names of their own.
StatefulSetSpec: How many pods of which kind, each with a name of its own.
   1 replicas                              *int32  How many pods are wanted; 1 unless given.
   2 selector                              *LabelSelector +required  Its pods.
   3 template                              PodTemplateSpec  What its pods are made from.
   5 serviceName                           string  The service that names its pods.
   6 podManagementPolicy                   string  OrderedReady or Parallel.
   7 updateStrategy                        StatefulSetUpdateStrategy  How pods are replaced.
   8 revisionHistoryLimit                  *int32  Old revisions that are kept.
   9 minReadySeconds                       int32   How long pods are ready to count.
  10 persistentVolumeClaimRetentionPolicy  *StatefulSetPersistentVolumeClaimRetentionPolicy  What
        becomes of volumes.
  +open volumeClaimTemplates ordinals
StatefulSetUpdateStrategy: How pods are replaced.
  1 type           string                             RollingUpdate or OnDelete.
  2 rollingUpdate  *RollingUpdateStatefulSetStrategy  For RollingUpdate.
RollingUpdateStatefulSetStrategy: Which pods are replaced.
  1 partition       *int32        The first that is.
  2 maxUnavailable  *intOrString  How many may be away.
StatefulSetPersistentVolumeClaimRetentionPolicy: What becomes of volumes.
  1 whenDeleted  string  Retain or Delete.
  2 whenScaled   string  Retain or Delete.
StatefulSetStatus: How many pods there are.
   1 observedGeneration  int64                              The generation that this is about.
   2 replicas            int32 +required                    How many pods there are.
   3 readyReplicas       int32                              How many are ready.
   4 currentReplicas     int32                              How many have the current revision.
   5 updatedReplicas     int32                              How many have the newest revision.
   6 currentRevision     string                             The current revision.
   7 updateRevision      string                             The newest revision.
   9 collisionCount      *int32                             How many names were taken.
  10 conditions          []StatefulSetCondition +keys=type  Aspects of how it is doing.
  11 availableReplicas   int32 +required                    How many are available.
"""
    + CONDITION.format("Deployment").replace("3 last", "7 last")
    + "  6 lastUpdateTime  time  When this was updated last.\n"
    + CONDITION.format("StatefulSet")
    + REPLICAS.format("ReplicaSet")
    + "  7 terminatingReplicas  *int32  How many are ending.\n",
    CORE,
)
SCALE = structs(
    "io.k8s.api.autoscaling.v1",
    """
Scale +object: How many pods a controller keeps.
ScaleSpec: How many pods are wanted.
  1 replicas  int32  How many pods are wanted.
ScaleStatus: How many pods there are.
  1 replicas  int32 +required  How many pods there are.
  2 selector  string           The selector of the pods, as text.
""",
    SHARED,
)["Scale"]


def _keep_deployment_status(new: Object, old: Object) -> None:
    """Count other annotations as another generation, too."""
    keep_status(new, old)
    before, after = (each["metadata"].get("annotations") or {} for each in (old, new))
    if before != after:
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _keep_deployment(new: Object, old: Object) -> None:
    keep_spec(new, old)
    copy_field("labels", new["metadata"], old["metadata"])


def _defaults(strategy: str = "", rolling: Object | None = None, **others: object) -> kinds.Change:
    others = {"replicas": 1, **others}

    def set_defaults(obj: Object) -> None:
        spec: dict[str, Any] = obj["spec"]
        complete(spec, others)
        if spec.get("template"):
            set_pod_spec_defaults(spec["template"]["spec"])
        if strategy:
            complete(spec[strategy], {"type": ROLLING_UPDATE})
            if spec[strategy]["type"] == ROLLING_UPDATE:
                complete(spec[strategy], {"rollingUpdate": rolling})

    return set_defaults


SHARE = {"maxUnavailable": "25%", "maxSurge": "25%"}
DEPLOYMENT_DEFAULTS = _defaults(
    "strategy", SHARE, revisionHistoryLimit=10, progressDeadlineSeconds=600
)
STATEFUL_DEFAULTS = _defaults(
    "updateStrategy",
    {"partition": 0},
    podManagementPolicy="OrderedReady",
    revisionHistoryLimit=10,
    persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"},
)


def _set_replication_defaults(obj: Object) -> None:
    """Let the labels of its pods be its selector, and its own labels."""
    _defaults()(obj)
    if labels := (obj["spec"].get("template") or {}).get("metadata", {}).get("labels"):
        for part, name in (("spec", "selector"), ("metadata", "labels")):
            obj[part][name] = obj[part].get(name) or dict(labels)


def _changes_of_selector(new: Object, old: Object) -> list[FieldError]:
    selector = new["spec"].get("selector")
    is_same = selector == old["spec"].get("selector")
    return [] if is_same else [invalid_field("spec.selector", selector, IMMUTABLE_DETAIL)]


def _changes_of_stateful(new: Object, old: Object) -> list[FieldError]:
    fixed, was = ({**each["spec"], **dict.fromkeys(MUTABLE)} for each in (new, old))
    if fixed == was:
        return []
    *names, last = map(repr, MUTABLE)
    listed = f"{', '.join(names)} and {last}"
    detail = f"updates to statefulset spec for fields other than {listed} are forbidden"
    return [forbidden("spec", detail)]


def _label_selector(obj: Object) -> str:
    return selector_text(obj["spec"].get("selector"))


def _map_selector(obj: Object) -> str:
    return selector_text({"matchLabels": obj["spec"].get("selector")})


def _texts(field: str, obj: Object, _now_s: float) -> str:
    containers = containers_of((obj["spec"].get("template") or {}).get("spec", {}))
    return ",".join(each.get(field, "") for each in containers)


def _ready(obj: Object, _now_s: float) -> str:
    return f"{obj['status'].get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}"


count = partial(Column, absent=0)
READY = Column("Ready", _ready, "How many pods are ready, and how many are wanted.")
TEMPLATE = (
    wide("Containers", partial(_texts, "name"), "Names of the containers."),
    wide("Images", partial(_texts, "image"), "Images of the containers."),
)
REPLICA_COLUMNS = (
    NAME,
    count("Desired", "spec.replicas", "How many pods are wanted.", "integer"),
    count("Current", "status.replicas", "How many pods there are.", "integer"),
    count("Ready", "status.readyReplicas", "How many pods are ready.", "integer"),
    AGE,
    *TEMPLATE,
)
SELECTOR = wide("Selector", lambda obj, _now_s: _label_selector(obj) or NONE, "Labels of its pods.")
MAP_SELECTOR = replace(SELECTOR, cell=lambda obj, _now_s: _map_selector(obj) or NONE)
AVAILABLE = "How many pods have been ready for long enough."
RULES = Rules(
    prepare_create=starts(replicas=0), prepare_update=keep_status, prepare_status=keep_spec
)
judged = partial(kinds.with_checks, check=kinds.by_path({"spec.replicas": not_negative}))

REPLICATION_CONTROLLER = Kind(
    "",
    "ReplicationController",
    (Version("v1", CORE["ReplicationController"], _set_replication_defaults),),
    judged(replace(RULES, default_propagation="Orphan")),
    columns=(*REPLICA_COLUMNS, MAP_SELECTOR),
    selectable_fields=("status.replicas",),
    short_names=("rc",),
    categories=("all",),
    storage_hash="Jond2If31h0=",
    scale_selector=_map_selector,
)

controller = partial(Kind, GROUP, categories=("all",), scale_selector=_label_selector)
REPLICA_SET = controller(
    "ReplicaSet",
    (Version("v1", STRUCTS["ReplicaSet"], _defaults()),),
    judged(RULES, check_change=_changes_of_selector),
    columns=(*REPLICA_COLUMNS, SELECTOR),
    short_names=("rs",),
    storage_hash="P1RzHs8/mWQ=",
)

DEPLOYMENT = controller(
    "Deployment",
    (Version("v1", STRUCTS["Deployment"], DEPLOYMENT_DEFAULTS),),
    judged(
        Rules(
            prepare_create=starts(),
            prepare_update=_keep_deployment_status,
            prepare_status=_keep_deployment,
            reset_status_fields=(("spec",), ("metadata", "labels")),
        ),
        check_change=_changes_of_selector,
    ),
    columns=(
        NAME,
        READY,
        count("Up-to-date", "status.updatedReplicas", "How many pods have the newest template."),
        count("Available", "status.availableReplicas", AVAILABLE),
        AGE,
        *TEMPLATE,
        SELECTOR,
    ),
    short_names=("deploy",),
    storage_hash="8aSe+NMegvE=",
)

STATEFUL_SET = controller(
    "StatefulSet",
    (Version("v1", STRUCTS["StatefulSet"], STATEFUL_DEFAULTS),),
    judged(
        replace(RULES, prepare_create=starts(replicas=0, availableReplicas=0)),
        check_change=_changes_of_stateful,
    ),
    columns=(NAME, READY, AGE, *TEMPLATE),
    short_names=("sts",),
    storage_hash="H+vl74LkKdo=",
)

CONTROLLERS = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, REPLICATION_CONTROLLER)

SCALE_KIND = Kind("autoscaling", "Scale", (Version("v1", SCALE),))
"""No objects of it are stored."""


def scale_of(kind: Kind, obj: Object) -> Object:
    assert kind.scale_selector is not None, "only kinds with a scale get here"
    metadata, selector = obj["metadata"], kind.scale_selector(obj)
    scale: Object = {
        "kind": SCALE_KIND.name,
        "apiVersion": SCALE_KIND.api_version("v1"),
        "metadata": {name: metadata[name] for name in KEPT if name in metadata},
        "spec": {"replicas": obj["spec"].get("replicas", 0)},
        "status": {"replicas": obj["status"].get("replicas", 0), "selector": selector},
    }
    return canonical(SCALE, scale)


def scaled(kind: Kind, name: str, change: Callable[[Object], Object]) -> Callable[[Object], Object]:

    def changed(obj: Object) -> Object:
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "")
        scale = change(scale_of(kind, obj))
        check_identity(scale, namespace, name)
        check_uid(kind, namespace, name, metadata["uid"], scale["metadata"].get("uid", ""))
        replicas = scale["spec"].get("replicas", 0)
        if wrong := not_negative("spec.replicas", replicas):
            raise invalid(SCALE_KIND.group, SCALE_KIND.name, name, wrong)
        # The version that the client has seen, if it says so.
        metadata["resourceVersion"] = scale["metadata"].get("resourceVersion", "")
        obj["spec"]["replicas"] = replicas
        return obj

    return changed
