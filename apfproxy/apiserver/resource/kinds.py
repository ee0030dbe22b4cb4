"""The kind of `resource.k8s.io` that the server knows.

Source: Kubernetes, `pkg/registry/resource/resourceslice` and `pkg/printers/internalversion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.ages import age
from apfproxy.apiserver.kind import Column, Kind, Rules, Version
from apfproxy.apiserver.metadata import count_generation
from apfproxy.apiserver.resource.schema import BETA_RESOURCE_SLICE_OBJECT, RESOURCE_SLICE_OBJECT
from apfproxy.apiserver.resource.validation import validate_slice, validate_slice_update
from apfproxy.apiserver.resource.versions import drop_disabled_fields, from_v1, stamp_taints, to_v1

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.objects.types import Object

GROUP = "resource.k8s.io"
BETA_DEPRECATION = (
    "resource.k8s.io/v1beta1 ResourceSlice is deprecated in v1.35+, unavailable in v1.38+"
)


def prepare_create(obj: Object) -> None:
    """Start at generation 1, without fields that are not enabled."""
    obj["metadata"]["generation"] = 1
    drop_disabled_fields(obj)


def prepare_update(new: Object, old: Object) -> None:
    """Count the generation up if the specification differs, if only by fields not enabled."""
    count_generation(new, old)
    drop_disabled_fields(new)


def warnings(new: Object, _old: Object | None) -> list[str]:
    """Warn of capital letters in the driver's name."""
    driver = new["spec"].get("driver", "")
    if driver == driver.lower():
        return []
    return [
        f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters'
    ]


def cells(obj: Object, now_s: float) -> Sequence[object]:
    """The cells of a slice's row."""
    metadata, spec = obj["metadata"], obj["spec"]
    return (
        metadata["name"],
        spec.get("nodeName", ""),
        spec.get("driver", ""),
        spec.get("pool", {}).get("name", ""),
        age(metadata.get("creationTimestamp"), now_s),
    )


RESOURCE_SLICE = Kind(
    group=GROUP,
    name="ResourceSlice",
    plural="resourceslices",
    singular="resourceslice",
    is_namespaced=False,
    versions=(
        Version("v1", RESOURCE_SLICE_OBJECT),
        Version(
            "v1beta1",
            BETA_RESOURCE_SLICE_OBJECT,
            to_storage=to_v1,
            from_storage=from_v1,
            deprecation=BETA_DEPRECATION,
        ),
    ),
    rules=Rules(
        prepare_create=prepare_create,
        prepare_update=prepare_update,
        validate=validate_slice,
        validate_update=validate_slice_update,
        warnings=warnings,
        stamp=stamp_taints,
        reset_fields=(),
        reset_status_fields=(),
    ),
    columns=(
        Column("Name", "string", "Unique within the cluster.", format="name"),
        Column("Node", "string", "The node that has the devices."),
        Column("Driver", "string", "The driver that offers the devices."),
        Column("Pool", "string", "The pool that the slice is a part of."),
        Column("Age", "string", "Time since the server created the object."),
    ),
    cells=cells,
    selectable=lambda obj: {
        f"spec.{name}": obj["spec"].get(name, "") for name in ("nodeName", "driver")
    },
    selectable_fields=("spec.nodeName", "spec.driver"),
    has_status=False,
    answers_deleted=True,
    storage_hash="KsC072WgaEY=",
)
