"""Requests that evict pods, guarded by a budget and not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.conformance.steps import Step

if TYPE_CHECKING:
    from collections.abc import Iterator

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
JSON = "application/json"
LABELS = {"app": "evicted"}
TARGET = f"{PODS}/evicted/eviction"

BODIES: tuple[dict[str, Any], ...] = (
    {},
    {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "evicted"}},
    {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "evicted"}},
    {"apiVersion": "policy/v2", "kind": "Eviction", "metadata": {"name": "evicted"}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "evicted"}},
    {"kind": "Eviction", "metadata": {"name": "other"}},
    {"metadata": {"name": "evicted", "namespace": "other"}},
    {"metadata": {"name": "evicted"}, "unknown": 1},
    {"metadata": {"name": "evicted"}, "deleteOptions": {"dryRun": ["All"]}},
    {"metadata": {"name": "evicted"}, "deleteOptions": {"dryRun": ["Some"]}},
    {"metadata": {"name": "evicted"}, "deleteOptions": {"preconditions": {"uid": "x"}}},
    {"metadata": {"name": "evicted"}, "deleteOptions": {"preconditions": {"resourceVersion": "1"}}},
    {"metadata": {"name": "evicted"}, "deleteOptions": {"gracePeriodSeconds": "x"}},
    {"metadata": {"name": "evicted"}, "deleteOptions": {"propagationPolicy": "Sideways"}},
    {"metadata": {"name": "evicted"}, "deleteOptions": 5},
)
QUERIES = (
    "dryRun=All",
    "dryRun=All&fieldValidation=Strict",
    "dryRun=All&fieldValidation=Ignore",
    "dryRun=Some",
)
ACCEPTS = (
    "application/yaml",
    "text/html",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
)


def evictions() -> Iterator[Step]:
    """An unguarded pod, then one whose budget is not known yet, then one that may be evicted."""
    metadata = {"name": "evicted", "labels": LABELS}
    content = {"containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": content}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS}},
    }
    status = {"observedGeneration": 1, "disruptionsAllowed": 1, "expectedPods": 2}
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    merge = "application/merge-patch+json"
    yield Step("evict-none", "POST", TARGET, body=BODIES[1], content_type=JSON)
    yield Step("evict-pod", "POST", PODS, body=pod, content_type=JSON)
    yield from attempts("free")
    yield Step("evict-budget", "POST", BUDGETS, body=budget, content_type=JSON)
    yield from attempts("pending")
    yield Step(
        "evict-running", "PATCH", f"{PODS}/evicted/status",
        body={"status": running}, content_type=merge,
    )  # fmt: skip
    yield from attempts("guarded")
    yield Step(
        "evict-allow", "PATCH", f"{BUDGETS}/guard/status",
        body={"status": status}, content_type=merge,
    )  # fmt: skip
    yield from attempts("allowed")
    other = {**budget, "metadata": {"name": "second"}}
    yield Step("evict-second", "POST", BUDGETS, body=other, content_type=JSON)
    yield from attempts("twice")
    for path in (f"{BUDGETS}/guard", f"{BUDGETS}/second", f"{PODS}/evicted?gracePeriodSeconds=0"):
        yield Step(f"evict-end-{path}", "DELETE", path)


def attempts(when: str) -> Iterator[Step]:
    """Evictions of which none takes place."""
    for at, body in enumerate(BODIES):
        for query in QUERIES:
            name = f"evict-{when}-{at}-{query}"
            yield Step(name, "POST", f"{TARGET}?{query}", body=body, content_type=JSON)
    for accept in ACCEPTS:
        path = f"{TARGET}?dryRun=All"
        yield Step(
            f"evict-{when}-{accept}", "POST", path,
            body=BODIES[1], content_type=JSON, accept=accept,
        )  # fmt: skip
