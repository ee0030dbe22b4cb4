"""The manifests give the proxy the rights that it uses, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from apfproxy.base.tasks import spawn
from tests.sources.test_kubernetes import Source
from tests.sources.test_service_endpoints import Service
from tests.support.clocks import until
from tests.support.kubernetes_api import LEVELS, SCHEMAS, SLICES
from tests.support.objects import schema

FOLDER = Path(__file__).parents[2] / "config" / "kubernetes" / "rbac"


def manifests(name: str) -> dict[str, dict[str, Any]]:
    documents = yaml.safe_load_all((FOLDER / name).read_text())
    return {document["kind"]: document for document in documents}


def rights(
    name: str, kind: str = "ClusterRole", group: str = "flowcontrol.apiserver.k8s.io"
) -> set[tuple[str, str]]:
    rules = manifests(name)[kind]["rules"]
    assert [[group]] == [rule["apiGroups"] for rule in rules]
    return {
        (verb, resource)
        for rule in rules
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }


async def test_rights() -> None:
    """What the source asks is what the roles allow."""
    source = Source(writes_status=True)
    source.api.put(SCHEMAS, schema("mine", "none"))
    source.objects.load_first()
    watching = spawn(source.objects.watch(lambda: None), name="watching")
    await until(lambda: bool(source.api.applied))
    watching.cancel()
    asked = set(source.api.asked)

    assert asked == rights("reader.yaml") | rights("status.yaml")
    assert {("list", LEVELS), ("watch", LEVELS), ("list", SCHEMAS), ("watch", SCHEMAS)} == rights(
        "reader.yaml"
    )


async def test_rights_of_endpoints() -> None:
    """What following a Service asks is what its role allows."""
    service = Service()
    async with service.followed():
        await service.until(lambda: ("watch", SLICES) in service.api.asked)

    assert set(service.api.asked) == rights("endpoints.yaml", "Role", "discovery.k8s.io")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("reader.yaml", "ClusterRole"), ("status.yaml", "ClusterRole"), ("endpoints.yaml", "Role")],
)
def test_bindings(name: str, kind: str) -> None:
    """A role is bound to the service account, and to nobody else."""
    found = manifests(name)
    account = manifests("reader.yaml")["ServiceAccount"]["metadata"]
    binding = found[f"{kind}Binding"]
    role = found[kind]["metadata"]

    assert (kind, role["name"]) == (binding["roleRef"]["kind"], binding["roleRef"]["name"])
    assert role.get("namespace") == binding["metadata"].get("namespace")
    assert [{"kind": "ServiceAccount", **account}] == binding["subjects"]
