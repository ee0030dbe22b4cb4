"""The bounds of the shipped settings go with the limits of memory of their pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from apfproxy.settings.file import parse_settings
from apfproxy.settings.values import parse_size
from tests.config.expressions import CONFIG

if TYPE_CHECKING:
    from pathlib import Path

PODS = {
    "gateway": ("kubernetes/gateway/deployment.yaml", "kubernetes/gateway/settings/apfproxy.yaml"),
    "sidecar-http": ("kubernetes/sidecar/proxy.yaml", "kubernetes/sidecar-http/apfproxy.yaml"),
    "sidecar-llm": ("kubernetes/sidecar/proxy.yaml", "kubernetes/sidecar-llm/apfproxy.yaml"),
    "sidecar-kubernetes": (
        "kubernetes/sidecar/proxy.yaml",
        "kubernetes/sidecar-kubernetes/apfproxy.yaml",
    ),
    "static-pod": (
        "starters/kube-apiserver/static-pod.yaml",
        "starters/kube-apiserver/apfproxy.yaml",
    ),
}
AT_REST = 64 << 20
"""Bytes of the process itself; docs/performance.md has this and the next."""
OF_A_CONNECTION = 56 << 10
"""Bytes of one that is idle, of HTTP/2 over TLS."""
OF_A_HELD_BYTE = 1.25
"""Bytes of memory, with what the allocator leaves free between them."""


def limit_of(path: Path) -> int:
    """The memory that the proxy's container may use, in bytes."""
    manifest: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    spec = manifest["spec"]
    spec = spec["template"]["spec"] if "template" in spec else spec
    containers = (*spec.get("initContainers", ()), *spec.get("containers", ()))
    (found,) = [each for each in containers if each["name"] == "apfproxy"]
    return parse_size(f"{found['resources']['limits']['memory']}B")


@pytest.mark.parametrize("name", PODS)
def test_bounds(name: str) -> None:
    """All that is counted fits in, and the proxy sheds load before the kernel kills it."""
    manifest, path = (CONFIG / each for each in PODS[name])
    limit = limit_of(manifest)
    settings = parse_settings(path.read_bytes(), path.name, path.parent)
    limits, overload = settings.downstream.limits, settings.downstream.overload

    assert limits.max_connections is not None
    assert limits.max_held_bytes is not None
    assert overload.memory_bytes is not None
    connections = limits.max_connections * OF_A_CONNECTION
    assert AT_REST + connections + limits.max_held_bytes * OF_A_HELD_BYTE <= limit
    assert limit // 2 < overload.memory_bytes < limit * 7 // 8
