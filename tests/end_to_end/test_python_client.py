"""The Kubernetes client for Python: typed objects of several kinds, behind the proxy."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.kinds import KINDS as SERVED
from tests.end_to_end.api_servers import PROXIED
from tests.end_to_end.manifests import (
    Object,
    budget,
    flow_schema,
    level,
    namespace,
    pod,
    resource_slice,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Model = Any
"""An object of the client, or a part of one.  Releases differ in what types they declare."""

client: Any = importlib.import_module("kubernetes.client")
dynamic: Any = importlib.import_module("kubernetes.dynamic")
watch: Any = importlib.import_module("kubernetes.watch")

NAMESPACE = "default"
WATCH_S = 100
ATTEMPTS = 10
"""For a replacement that a controller may come before."""
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"

KINDS: dict[str, tuple[str, Callable[[str], Object], str]] = {
    "namespace": ("CoreV1Api", namespace, "Namespace"),
    "namespaced_pod": ("CoreV1Api", lambda name: pod(name, NAMESPACE), "Pod"),
    "namespaced_pod_disruption_budget": (
        "PolicyV1Api",
        lambda name: budget(name, NAMESPACE, of=name),
        "Status",
    ),
    "resource_slice": ("ResourceV1Api", resource_slice, "ResourceSlice"),
    "priority_level_configuration": ("FlowcontrolApiserverV1Api", level, "Status"),
    "flow_schema": (
        "FlowcontrolApiserverV1Api",
        lambda name: flow_schema(name, "exempt"),
        "Status",
    ),
}
"""The class of the API, how an object is made, and the kind of the response to its deletion."""


@pytest.fixture
def api_client(servers: dict[str, str]) -> Iterator[Model]:
    configuration = client.Configuration()
    configuration.host = servers[PROXIED]
    with client.ApiClient(configuration) as api_client:
        yield api_client


def refusal(call: Callable[..., object], *arguments: object) -> str:
    """The reason of the Status of a call that is refused."""
    with pytest.raises(client.ApiException) as caught:
        call(*arguments)
    status = json.loads(caught.value.body)
    assert ("Status", caught.value.status) == (status["kind"], status["code"])
    return str(status["reason"])


@pytest.mark.parametrize("noun", KINDS)
def test_typed_objects(api_client: Model, noun: str) -> None:
    """Objects are created, read, listed, replaced, patched, applied, watched and deleted."""
    group, make, deletion = KINDS[noun]
    api = getattr(client, group)(api_client)
    scope = (NAMESPACE,) if noun.startswith("namespaced_") else ()
    name = f"typed-{noun.replace('_', '-')}"
    selector = {"label_selector": f"of={name}"}
    made = make(name)
    made["metadata"]["labels"] = {"of": name}

    def call(verb: str, *arguments: object, **options: object) -> Model:
        return getattr(api, f"{verb}_{noun}")(*arguments, *scope, **options)

    def create(obj: Model) -> Model:
        return getattr(api, f"create_{noun}")(*scope, obj)

    def replace(obj: Model) -> Model:
        return getattr(api, f"replace_{noun}")(name, *scope, obj)

    def patch(change: object, **options: object) -> Model:
        return getattr(api, f"patch_{noun}")(name, *scope, change, **options)

    start = call("list", **selector).metadata.resource_version
    created = create(made)
    read = call("read", name)
    assert made["kind"] == type(created).__name__.removeprefix("V1")
    assert (created.metadata.uid, created.spec) == (read.metadata.uid, read.spec)
    assert [created.metadata.uid] == [each.metadata.uid for each in call("list", **selector).items]
    assert "AlreadyExists" == refusal(create, made)

    for _ in range(ATTEMPTS):
        changed = call("read", name)
        changed.metadata.labels["step"] = "replaced"
        try:
            replaced = replace(changed)
        except client.ApiException as error:
            if error.status != 409:
                raise
        else:
            break
    assert "Conflict" == refusal(replace, read)
    assert read.spec == replaced.spec

    patch({"metadata": {"labels": {"strategic": "yes"}}})
    patch({"metadata": {"labels": {"merge": "yes"}}}, _content_type=MERGE)
    patch([{"op": "add", "path": "/metadata/labels/json", "value": "yes"}])
    labels = {"metadata": {"labels": {"apply": "yes"}}}
    applied = {"apiVersion": created.api_version, "kind": created.kind, **labels}
    patched = patch(applied, _content_type=APPLY, field_manager="tests")
    assert {"strategic", "merge", "json", "apply", "of", "step"} <= patched.metadata.labels.keys()
    assert "tests" in [each.manager for each in patched.metadata.managed_fields]

    deleted = api_client.sanitize_for_serialization(call("delete", name))
    assert deletion == deleted["kind"]
    assert "NotFound" == refusal(call, "read", name)
    events = []
    for event in watch.Watch().stream(
        getattr(api, f"list_{noun}"),
        *scope,
        **selector,
        resource_version=start,
        timeout_seconds=WATCH_S,
    ):
        events.append(event)
        if event["type"] == "DELETED":
            break
    assert {type(created)} == {type(event["object"]) for event in events}
    assert ("ADDED", {"MODIFIED"}) == (events[0]["type"], {each["type"] for each in events[1:-1]})
    versions = [int(event["object"].metadata.resource_version) for event in events]
    assert sorted(set(versions)) == versions


def test_what_is_served(api_client: Model, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The client finds groups, versions and resources, also where it finds all by itself."""
    assert ["v1"] == client.CoreApi(api_client).get_api_versions().versions
    groups = client.ApisApi(api_client).get_api_versions().groups
    assert {kind.group for kind in SERVED if kind.group} == {group.name for group in groups}
    assert "36" == client.VersionApi(api_client).get_code().minor
    cache = tmp_path_factory.mktemp("discovery") / "cache.json"
    found = dynamic.DynamicClient(api_client, cache_file=str(cache))
    namespaces = found.resources.get(api_version="v1", kind="Namespace")
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dynamic"}}
    namespaces.create(body=body)
    applied = namespaces.server_side_apply(
        body={**body, "metadata": {"name": "dynamic", "labels": {"a": "b"}}},
        field_manager="tests",
        force_conflicts=True,
    )
    assert "b" == applied.metadata.labels.to_dict()["a"]
    assert "dynamic" in [item.metadata.name for item in namespaces.get().items]
    namespaces.delete(name="dynamic")
