"""The subresource `scale`; `tests/conformance` has what Kubernetes responds to the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.apiserver.site import APPLY, MERGE, YAML

if TYPE_CHECKING:
    from tests.apiserver.site import Site

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SCALE = f"{DEPLOYMENTS}/d/scale"


async def test_over_http(site: Site) -> None:
    """The number is read, replaced and patched; a dry run changes nothing, and apply is no way."""
    selector = {"matchLabels": {"a": "b"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}
    raw = {"metadata": {"name": "d"}, "spec": {"selector": selector, "template": template}}
    await site.send("POST", DEPLOYMENTS, raw)

    scale = (await site.get(SCALE)).body
    assert ("Scale", 1) == (scale["kind"], scale["spec"]["replicas"])
    put = await site.send("PUT", SCALE, {**scale, "spec": {"replicas": 4}})
    assert (200, 4) == (put.status, put.body["spec"]["replicas"])
    again = await site.send("PUT", SCALE, {**scale, "spec": {"replicas": 9}})
    assert (409, "Conflict") == again.summary
    await site.send("PATCH", f"{SCALE}?dryRun=All", {"spec": {"replicas": 9}}, content_type=MERGE)
    assert 4 == (await site.get(SCALE)).body["spec"]["replicas"]
    yaml = await site.get(SCALE, accept=YAML)
    assert b"replicas: 4" in yaml.data
    applied = await site.send("PATCH", SCALE, {"spec": {"replicas": 9}}, content_type=APPLY)
    assert 415 == applied.status
    controller = (await site.get(f"{DEPLOYMENTS}/d")).body
    assert (4, 2) == (controller["spec"]["replicas"], controller["metadata"]["generation"])
