"""The kinds of core/v1 that the server knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.core import namespaces, pod_strategy
from apfproxy.apiserver.core.pod_defaults import set_pod_defaults
from apfproxy.apiserver.core.pod_schema import POD_OBJECT
from apfproxy.apiserver.core.pod_table import POD_COLUMNS, ROW_CONDITIONS, pod_cells
from apfproxy.apiserver.core.pod_validation import (
    validate_pod,
    validate_pod_status,
    validate_pod_update,
)
from apfproxy.apiserver.kind import Kind, Rules, Version
from apfproxy.apiserver.metadata import keep_spec

if TYPE_CHECKING:
    from apfproxy.objects.types import Object


def pod_fields(obj: Object) -> dict[str, str]:
    """The values of the fields of a pod that field selectors may name.

    `spec.host` is the old name of `spec.nodeName`; `status.podIPs` may be named, but has no value.
    """
    spec, status = obj["spec"], obj["status"]
    return {
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.host": spec.get("nodeName", ""),
        "spec.restartPolicy": spec.get("restartPolicy", ""),
        "spec.schedulerName": spec.get("schedulerName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
        "status.phase": status.get("phase", ""),
        "status.podIP": status.get("podIP", ""),
        "status.podIPs": "",
        "status.nominatedNodeName": status.get("nominatedNodeName", ""),
    }


POD = Kind(
    group="",
    name="Pod",
    plural="pods",
    singular="pod",
    is_namespaced=True,
    versions=(Version("v1", POD_OBJECT, set_pod_defaults),),
    rules=Rules(
        admit_create=pod_strategy.admit_create,
        prepare_create=pod_strategy.prepare_create,
        prepare_update=pod_strategy.prepare_update,
        validate=validate_pod,
        validate_update=validate_pod_update,
        prepare_status=pod_strategy.prepare_status,
        validate_status=validate_pod_status,
        grace_s=pod_strategy.grace_s,
        warnings=pod_strategy.warnings,
        reset_status_fields=(
            ("spec",),
            ("metadata", "deletionTimestamp"),
            ("metadata", "ownerReferences"),
        ),
    ),
    columns=POD_COLUMNS,
    cells=pod_cells,
    row_conditions=lambda obj: ROW_CONDITIONS.get(obj["status"].get("phase", ""), ()),
    selectable=pod_fields,
    selectable_fields=tuple(pod_fields({"spec": {}, "status": {}})),
    short_names=("po",),
    categories=("all",),
    answers_deleted=True,
    storage_hash="xPOwRZ+Yhw8=",
)

NAMESPACE = Kind(
    group="",
    name="Namespace",
    plural="namespaces",
    singular="namespace",
    is_namespaced=False,
    versions=(Version("v1", namespaces.NAMESPACE_OBJECT, namespaces.set_defaults),),
    rules=Rules(
        prepare_create=namespaces.prepare_create,
        prepare_update=namespaces.prepare_update,
        validate=namespaces.validate,
        validate_update=namespaces.validate_update,
        prepare_status=keep_spec,
        validate_status=namespaces.validate_status,
        prepare_finalize=namespaces.prepare_finalize,
        is_held=namespaces.is_held,
        mark_deleted=namespaces.mark_deleted,
        objection=namespaces.objection,
    ),
    columns=namespaces.NAMESPACE_COLUMNS,
    cells=namespaces.cells,
    selectable=lambda obj: {"status.phase": obj["status"].get("phase", "")},
    selectable_fields=("status.phase",),
    short_names=("ns",),
    storage_hash="Q3oi5N2YM8M=",
)
