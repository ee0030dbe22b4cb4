"""The annotation that client-side `kubectl apply` leaves, and server-side apply has to mind.

Source: apimachinery, package managedfields, `lastapplied*`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from apfproxy.apiserver.ownership.applied import AppliedTypeError, check_types
from apfproxy.apiserver.ownership.field_set import FieldSet, as_json, difference
from apfproxy.apiserver.ownership.structure import structure
from apfproxy.apiserver.ownership.typed import STRIPPED, compare_objects, fields_of

if TYPE_CHECKING:
    from apfproxy.apiserver.schema.types import Struct
    from apfproxy.objects.types import Object

KUBECTL: Final = "kubectl"
"""The field manager for whom the annotation counts."""

ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"

MOST_ANNOTATIONS: Final = 256 * 1024
"""Bytes that all keys and values of annotations may have together, as in Kubernetes."""


def still_as_applied(live: Object, schema: Struct, api_version: str) -> FieldSet:
    """What client-side apply has set in this version and nobody has changed since.

    Empty if that cannot be told.
    """
    text = (live["metadata"].get("annotations") or {}).get(ANNOTATION)
    if not text:
        return {}
    try:
        last = msgspec.json.decode(text)
        if not isinstance(last, dict) or last.get("apiVersion") != api_version:
            return {}
        check_types({"kind": schema.name, **last}, schema)
    except (msgspec.DecodeError, RecursionError, AppliedTypeError):
        return {}
    tables = structure(schema)
    fields = fields_of(tables, last)
    changed, removed = compare_objects(tables, last, live, STRIPPED)
    return difference(difference(fields, changed), removed)


def renew(obj: Object, applied: Object) -> None:
    """Let the annotation say what has been applied now, if the result has it; in place."""
    annotations: dict[str, str] = obj["metadata"].get("annotations") or {}
    if not annotations.get(ANNOTATION):
        return
    configuration = dict(applied)
    metadata: dict[str, Any] = dict(configuration.get("metadata") or {})
    if metadata.get("annotations") is not None:
        metadata["annotations"] = {
            name: value for name, value in metadata["annotations"].items() if name != ANNOTATION
        }
    configuration["metadata"] = metadata
    annotations[ANNOTATION] = as_json(configuration) + "\n"
    size = sum(len(name.encode()) + len(text.encode()) for name, text in annotations.items())
    if size > MOST_ANNOTATIONS:
        del annotations[ANNOTATION]
