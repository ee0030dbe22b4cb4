"""Pods for tests, made as a server makes them of what clients send."""

from __future__ import annotations

from typing import Any

from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.schema.reading import read
from apfproxy.objects.field_errors import FieldError, Reason

REASONS = {
    Reason.REQUIRED: "required",
    Reason.INVALID: "invalid",
    Reason.NOT_SUPPORTED: "unsupported",
    Reason.FORBIDDEN: "forbidden",
    Reason.DUPLICATE: "duplicate",
    Reason.TOO_MANY: "too many",
}

Spec = dict[str, Any]


def container(**fields: object) -> Spec:
    """A container that nothing is wrong with."""
    return {"name": "c", "image": "nginx", **fields}


def pod(*, metadata: Spec | None = None, status: Spec | None = None, **spec: object) -> Spec:
    """A pod with defaults, of one container unless said otherwise."""
    raw = {
        "metadata": {"name": "web", "namespace": "default", **(metadata or {})},
        "spec": {"containers": [container()], **spec},
        "status": status or {},
    }
    obj = read(POD.storage.schema, raw).obj
    POD.storage.set_defaults(obj)
    return obj


def stored(*, metadata: Spec | None = None, status: Spec | None = None, **spec: object) -> Spec:
    """A pod as the store has it."""
    return pod(
        metadata={"uid": "1", "resourceVersion": "1", "generation": 1, **(metadata or {})},
        status=status,
        **spec,
    )


def pod_of(fields: Spec) -> Spec:
    """A pod whose one container has some more fields."""
    return pod(containers=[container(**fields)])


def causes(errors: list[FieldError]) -> list[tuple[str, str]]:
    """Fields and reasons of errors; those of one container or volume without its path."""
    return [
        (
            error.field.removeprefix("spec.")
            .removeprefix("containers[0].")
            .removeprefix("volumes[0]."),
            REASONS[error.reason],
        )
        for error in errors
    ]
