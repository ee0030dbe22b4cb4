"""Tests of `apfproxy.apiserver.core.nodes`; `tests/conformance` has what Kubernetes answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.core.nodes import NODE
from apfproxy.apiserver.schema.reading import canonical

if TYPE_CHECKING:
    from apfproxy.objects.types import Object


def node(**parts: object) -> Object:
    """A node, completed."""
    obj = canonical(NODE.storage.schema, {"metadata": {"name": "n"}, **parts})
    NODE.storage.set_defaults(obj)
    return obj


@pytest.mark.parametrize(
    ("parts", "cells"),
    [
        ({}, ("Unknown", "<none>")),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, ("Ready", "<none>")),
        (
            {
                "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
                "spec": {"unschedulable": True},
                "metadata": {
                    "name": "n",
                    "labels": {"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a"},
                },
            },
            ("NotReady,SchedulingDisabled", "a,b"),
        ),
    ],
)
def test_rows(parts: Object, cells: tuple[str, str]) -> None:
    """A row has the node's state and what it is for."""
    assert cells == tuple(NODE.cells(node(**parts), 0)[1:3])


def test_wide_rows() -> None:
    """Wide output has the first address of each type, and the machine."""
    info = {"kernelVersion": "6.1", "architecture": "amd64", "kubeletVersion": "v1"}
    addresses = [{"type": "InternalIP", "address": each} for each in ("10.0.0.1", "10.0.0.2")]
    status = {"nodeInfo": info, "addresses": addresses}

    assert ("v1", "10.0.0.1", "<none>", "<unknown>", "6.1 (amd64)", "<unknown>") == (
        NODE.cells(node(status=status), 0)[4:]
    )


def test_defaults() -> None:
    """A node offers what it has, and its addresses are told in both ways."""
    made = node(spec={"podCIDR": "10.0.0.0/24"}, status={"capacity": {"cpu": "4"}})

    assert ["10.0.0.0/24"] == made["spec"]["podCIDRs"]
    assert {"cpu": "4"} == made["status"]["allocatable"]
    assert ("true", "false") == tuple(
        NODE.selectable(node(spec={"unschedulable": each}))["spec.unschedulable"]
        for each in (True, False)
    )


def test_updates_keep_the_status() -> None:
    """The status has its own subresource."""
    new, old = node(), node(status={"capacity": {"cpu": "4"}})
    NODE.rules.prepare_update(new, old)

    assert old["status"] == new["status"]
