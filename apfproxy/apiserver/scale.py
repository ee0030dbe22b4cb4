"""The subresource `scale` of controllers: how many pods they want, in one form for all of them.

Source: Kubernetes 1.36, `pkg/registry/apps/{deployment,replicaset,statefulset}/storage`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.apps import SCALE
from apfproxy.apiserver.errors import invalid
from apfproxy.apiserver.kind import Kind, Version
from apfproxy.apiserver.outcomes import check_identity, check_uid
from apfproxy.apiserver.schema.reading import canonical
from apfproxy.objects.field_errors import NOT_NEGATIVE
from apfproxy.objects.field_errors import invalid as invalid_field

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.objects.types import Object

KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
"""What a Scale has of its controller's metadata."""

SCALE_KIND = Kind("autoscaling", "Scale", (Version("v1", SCALE),))
"""What the subresource reads and answers; no objects of it are stored."""


def scale_of(kind: Kind, obj: Object) -> Object:
    """The Scale of a controller."""
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
    """What makes another controller of one, by a change of its Scale."""

    def changed(obj: Object) -> Object:
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "")
        scale = change(scale_of(kind, obj))
        check_identity(scale, namespace, name)
        check_uid(kind, namespace, name, metadata["uid"], scale["metadata"].get("uid", ""))
        replicas = scale["spec"].get("replicas", 0)
        if replicas < 0:
            wrong = invalid_field("spec.replicas", replicas, NOT_NEGATIVE)
            raise invalid(SCALE_KIND.group, SCALE_KIND.name, name, [wrong])
        # The version that the client has seen, if it says so.
        metadata["resourceVersion"] = scale["metadata"].get("resourceVersion", "")
        obj["spec"]["replicas"] = replicas
        return obj

    return changed
