"""Budgets and pods for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

NOW = "1970-01-01T00:16:40Z"


def budget(*, generation: int = 1, status: Object | None = None, **spec: Any) -> Object:  # noqa: ANN401  JSON
    """A budget that a controller has seen, with zeros where nothing else is said."""
    zeros = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    named = {"name": "b", "namespace": "default", "resourceVersion": "1"}
    return {
        "metadata": {**named, "generation": generation},
        "spec": spec,
        "status": {"observedGeneration": 1, **zeros, **(status or {})},
    }


def pod(*, ready: str = "True", phase: str = "Running", **metadata: Any) -> Object:  # noqa: ANN401  JSON
    """A running pod that is ready."""
    conditions = [{"type": "Ready", "status": ready}]
    return {
        "metadata": {"name": "p", "namespace": "default", **metadata},
        "spec": {},
        "status": {"phase": phase, "conditions": conditions},
    }
