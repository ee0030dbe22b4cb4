"""Objects for clients to create, as small as they may be."""

from __future__ import annotations

import json
from typing import Any

Object = dict[str, Any]

FLOW_CONTROL = "flowcontrol.apiserver.k8s.io/v1"


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def pod(name: str, space: str, **labels: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": space, "labels": labels},
        "spec": {
            "containers": [{"name": "main", "image": "app:1", "ports": [{"containerPort": 80}]}]
        },
    }


def budget(name: str, space: str, min_available: int | str = 1, **labels: str) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": space, "labels": labels},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": labels}},
    }


def level(name: str, shares: int = 5) -> Object:
    return {
        "apiVersion": FLOW_CONTROL,
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": name},
        "spec": {
            "type": "Limited",
            "limited": {"nominalConcurrencyShares": shares, "limitResponse": {"type": "Reject"}},
        },
    }


def flow_schema(name: str, level_name: str, precedence: int = 5000, **labels: str) -> Object:
    return {
        "apiVersion": FLOW_CONTROL,
        "kind": "FlowSchema",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "priorityLevelConfiguration": {"name": level_name},
            "matchingPrecedence": precedence,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [
                {
                    "subjects": [{"kind": "Group", "group": {"name": f"{name}-users"}}],
                    "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
                }
            ],
        },
    }


def resource_slice(name: str, node: str = "node-a", **labels: str) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": "gpu-0",
                    "attributes": {"model": {"string": "a100"}, "index": {"int": 0}},
                    "capacity": {"memory": {"value": "80Gi"}},
                }
            ],
        },
    }


def listed(*objects: Object) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
