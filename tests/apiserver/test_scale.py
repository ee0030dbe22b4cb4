"""Tests of `apfproxy.apiserver.scale`; `tests/conformance` has what Kubernetes answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.apps import DEPLOYMENT
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.scale import scale_of, scaled
from tests.apiserver.site import APPLY, MERGE, YAML

if TYPE_CHECKING:
    from apfproxy.objects.types import Object
    from tests.apiserver.site import Site

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SCALE = f"{DEPLOYMENTS}/d/scale"


def deployment() -> Object:
    """A controller of two pods, of which one is there."""
    return {
        "metadata": {
            "name": "d",
            "namespace": "n",
            "uid": "u-1",
            "resourceVersion": "7",
            "labels": {"a": "b"},
        },
        "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}},
        "status": {"replicas": 1},
    }


def test_scale_of() -> None:
    """A Scale has what all controllers have."""
    scale = scale_of(DEPLOYMENT, deployment())

    assert {"replicas": 2} == scale["spec"]
    assert {"replicas": 1, "selector": "a=b"} == scale["status"]
    assert {"name": "d", "namespace": "n", "uid": "u-1", "resourceVersion": "7"} == scale[
        "metadata"
    ]


def change(**parts: Any) -> Object:  # noqa: ANN401  JSON
    """The deployment after a change of its Scale."""
    made = scaled(DEPLOYMENT, "d", lambda scale: {**scale, **parts})
    return made(deployment())


def test_scaled() -> None:
    """The number changes, and the version that the client has seen is that of the object."""
    assert 5 == change(spec={"replicas": 5})["spec"]["replicas"]
    assert 0 == change(spec={})["spec"]["replicas"]
    assert (
        "3" == change(metadata={"name": "d", "resourceVersion": "3"})["metadata"]["resourceVersion"]
    )


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ({"spec": {"replicas": -1}}, 422),
        ({"metadata": {"name": "other"}}, 400),
        ({"metadata": {"name": "d", "uid": "u-0"}}, 409),
    ],
)
def test_refused(parts: dict[str, Any], code: int) -> None:
    """Less than no pods, another name, and a controller of before of this name, are refused."""
    with pytest.raises(StatusError) as error:
        change(**parts)
    assert code == error.value.code


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
