"""Tests of requests whose bodies are Kubernetes' protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.policy.kinds import EVICTIONS
from apfproxy.apiserver.responses import PROTOBUF
from apfproxy.apiserver.schema.protobuf import MAGIC
from apfproxy.apiserver.schema.shared_structs import DELETE_OPTIONS
from tests.apiserver.schema.protobuf_writer import block, document
from tests.apiserver.site import BUDGETS, NAMESPACES, PODS, budget, namespace, pod

if TYPE_CHECKING:
    from apfproxy.objects.types import Object
    from tests.apiserver.site import Answer, Site

ACCEPT = f"{PROTOBUF},application/json"
"""As Go's clients ask."""
STORAGE = {kind.name: kind for kind in KINDS}


def written(kind: str, obj: Object) -> bytes:
    """An object in the version that is stored."""
    known = STORAGE[kind]
    body = {name: value for name, value in obj.items() if name not in {"apiVersion", "kind"}}
    return document(known.storage.schema, known.api_version(known.storage.name), kind, body)


async def send(site: Site, method: str, path: str, body: bytes) -> Answer:
    """Send protobuf."""
    return await site.send(method, path, body, accept=ACCEPT, content_type=PROTOBUF)


@pytest.mark.parametrize(
    ("collection", "kind", "raw"),
    [
        pytest.param(NAMESPACES, "Namespace", namespace("x"), id="namespace"),
        pytest.param(BUDGETS, "PodDisruptionBudget", budget("x"), id="budget"),
        pytest.param(PODS, "Pod", pod("x"), id="pod"),
    ],
)
async def test_writes(site: Site, collection: str, kind: str, raw: Object) -> None:
    """An object is the same whether it comes as protobuf or as JSON."""
    created = await send(site, "POST", f"{collection}?dryRun=All", written(kind, raw))
    expected = await site.send("POST", collection, raw)
    labelled = {**expected.body, "metadata": {**expected.body["metadata"], "labels": {"a": "b"}}}
    replaced = await send(site, "PUT", f"{collection}/x", written(kind, labelled))

    assert (201, 201, 200) == (created.status, expected.status, replaced.status), replaced.data
    assert "application/json" == created.headers["Content-Type"]
    for name in ("kind", "apiVersion", "spec", "status"):
        assert expected.body.get(name) == created.body.get(name)
    assert "b" == replaced.body["metadata"]["labels"]["a"]


async def test_other_kinds(site: Site) -> None:
    """An object of another kind, and bytes that are none, are refused."""
    other = await send(site, "POST", NAMESPACES, written("Pod", pod()))
    broken = await send(site, "POST", NAMESPACES, b"{}")

    assert [(400, "BadRequest")] * 2 == [other.summary, broken.summary]
    assert "unknown conversion" in other.body["message"]


async def test_pods_with_fields_that_are_kept(site: Site) -> None:
    """What can only be kept as JSON has to come as JSON."""
    spec = block(2, block(1, b"c") + block(2, b"i")) + block(16, b"host")
    body = MAGIC + block(1, block(1, b"v1") + block(2, b"Pod")) + block(2, block(2, spec))
    refused = await send(site, "POST", PODS, body)

    assert (415, "UnsupportedMediaType") == refused.summary
    assert "field 16 of PodSpec cannot be kept" in refused.body["message"]


async def test_evictions(site: Site) -> None:
    """An eviction says how to delete, and a bad one is refused."""
    await site.send("POST", PODS, pod())
    path = f"{PODS}/p/eviction"
    schema = EVICTIONS["policy/v1"]
    uid = {"metadata": {"name": "p"}, "deleteOptions": {"preconditions": {"uid": "x"}}}
    plain = {"metadata": {"name": "p", "namespace": "default"}, "deleteOptions": {}}
    conflict = await send(site, "POST", path, document(schema, "policy/v1", "Eviction", uid))
    other = await send(site, "POST", path, written("Pod", pod()))
    evicted = await send(site, "POST", path, document(schema, "policy/v1", "Eviction", plain))

    assert (409, "Conflict") == conflict.summary
    assert (400, "BadRequest") == other.summary
    assert (201, "Success") == (evicted.status, evicted.body["status"])


async def test_deletions(site: Site) -> None:
    """Options of a deletion are read; they may be of any version, but of no other kind."""
    await site.send("POST", PODS, pod())
    options = {"preconditions": {"uid": "x"}, "gracePeriodSeconds": 0}
    path = f"{PODS}/p"
    other = await send(site, "DELETE", path, written("Pod", pod()))
    conflict = await send(
        site, "DELETE", path, document(DELETE_OPTIONS, "policy/v1", "DeleteOptions", options)
    )
    gone = await send(site, "DELETE", path, document(DELETE_OPTIONS, "v1", "DeleteOptions", {}))

    assert (400, "BadRequest") == other.summary
    assert (409, "Conflict") == conflict.summary
    assert 200 == gone.status


async def test_no_protobuf_answers(site: Site) -> None:
    """Who accepts nothing else gets 406; patches in protobuf are none."""
    only = await site.get(NAMESPACES, accept=PROTOBUF)
    patch = await send(site, "PATCH", f"{NAMESPACES}/default", b"k8s\x00")

    assert (406, "NotAcceptable") == only.summary
    assert 415 == patch.status
