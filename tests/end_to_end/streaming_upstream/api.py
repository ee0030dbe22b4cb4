"""What kubectl asks an API server before it streams: what there is, and the pod."""

from __future__ import annotations

from typing import Any

CONTAINER = "main"
PORT = 80

POD_PARTS = ("", "/attach", "/exec", "/log", "/portforward")

VERSIONS = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
GROUPS: dict[str, Any] = {"kind": "APIGroupList", "apiVersion": "v1", "groups": []}
RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": "v1",
    "resources": [
        {
            "name": f"pods{part}",
            "singularName": "pod",
            "namespaced": True,
            "kind": "Pod",
            "shortNames": ["po"],
            "verbs": ["create", "get", "list", "watch"],
        }
        for part in POD_PARTS
    ],
}
VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.0", "platform": "linux/amd64"}

DISCOVERY = {"/api": VERSIONS, "/apis": GROUPS, "/api/v1": RESOURCES, "/version": VERSION}
"""Path to what is there."""


def running_pod(namespace: str, name: str) -> dict[str, Any]:
    """A pod that has run for some time."""
    container = {
        "name": CONTAINER,
        "image": "example.test/main:1",
        "stdin": True,
        "stdinOnce": True,
        "ports": [{"containerPort": PORT}],
    }
    status = {"name": CONTAINER, "ready": True, "restartCount": 0, "image": container["image"]}
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": "00000000-0000-0000-0000-00000000cccc",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"containers": [container], "nodeName": "node-0", "restartPolicy": "Always"},
        "status": {
            "phase": "Running",
            "podIP": "127.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [status | {"state": state, "imageID": "", "containerID": ""}],
        },
    }
