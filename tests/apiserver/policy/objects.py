"""Budgets and pods for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apfproxy.objects.types import Object


def budget(*, generation: int = 1, status: Object | None = None, **spec: Any) -> Object:  # noqa: ANN401  JSON
    """A budget that a controller has seen, with zeros where nothing else is said."""
    zeros = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": "b",
            "namespace": "default",
            "generation": generation,
            "resourceVersion": "1",
        },
        "spec": spec,
        "status": {"observedGeneration": 1, **zeros, **(status or {})},
    }


def pod(
    name: str = "p",
    *,
    ready: str = "True",
    phase: str = "Running",
    labels: dict[str, str] | None = None,
    **metadata: Any,  # noqa: ANN401  JSON
) -> Object:
    """A running pod that is ready."""
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            **({"labels": labels} if labels else {}),
            **metadata,
        },
        "spec": {},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
    }
