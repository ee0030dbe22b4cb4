"""The Kubernetes client for Python: typed objects of all kinds, behind the proxy."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.kinds import KINDS as SERVED
from tests.end_to_end.api_servers import PROXIED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Model = Any
"""An object of the client, or a part of one.  Releases differ in what types they declare."""

client: Any = importlib.import_module("kubernetes.client")
dynamic: Any = importlib.import_module("kubernetes.dynamic")
watch: Any = importlib.import_module("kubernetes.watch")

ATTEMPTS = 10
"""Of a replacement that a controller may come before."""
WATCH_S = 100
NAMESPACE = "default"

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


def metadata(name: str) -> Model:
    return client.V1ObjectMeta(name=name, labels={"of": name.partition(".")[0]})


def namespace(name: str) -> Model:
    return client.V1Namespace(metadata=metadata(name))


def pod(name: str) -> Model:
    container = client.V1Container(name="main", image="app:1")
    return client.V1Pod(metadata=metadata(name), spec=client.V1PodSpec(containers=[container]))


def budget(name: str) -> Model:
    selector = client.V1LabelSelector(match_labels={"of": name.partition(".")[0]})
    return client.V1PodDisruptionBudget(
        metadata=metadata(name),
        spec=client.V1PodDisruptionBudgetSpec(min_available=1, selector=selector),
    )


def resource_slice(name: str) -> Model:
    device = client.V1Device(
        name="gpu-0",
        attributes={"model": client.V1DeviceAttribute(string="a100")},
        capacity={"memory": client.V1DeviceCapacity(value="80Gi")},
    )
    return client.V1ResourceSlice(
        metadata=metadata(name),
        spec=client.V1ResourceSliceSpec(
            driver="gpu.example.com",
            node_name="node-a",
            pool=client.V1ResourcePool(name="node-a", generation=1, resource_slice_count=1),
            devices=[device],
        ),
    )


def level(name: str) -> Model:
    return client.V1PriorityLevelConfiguration(
        metadata=metadata(name),
        spec=client.V1PriorityLevelConfigurationSpec(
            type="Limited",
            limited=client.V1LimitedPriorityLevelConfiguration(
                nominal_concurrency_shares=5, limit_response=client.V1LimitResponse(type="Reject")
            ),
        ),
    )


def flow_schema(name: str) -> Model:
    subject = client.FlowcontrolV1Subject(kind="Group", group=client.V1GroupSubject(name="team"))
    rule = client.V1ResourcePolicyRule(
        verbs=["get"], api_groups=["*"], resources=["pods"], namespaces=["*"]
    )
    return client.V1FlowSchema(
        metadata=metadata(name),
        spec=client.V1FlowSchemaSpec(
            priority_level_configuration=client.V1PriorityLevelConfigurationReference(
                name="exempt"
            ),
            matching_precedence=5000,
            rules=[client.V1PolicyRulesWithSubjects(subjects=[subject], resource_rules=[rule])],
        ),
    )


def relabel(obj: Model) -> None:
    obj.metadata.labels = {**obj.metadata.labels, "step": "replaced"}


def narrow(obj: Model) -> None:
    relabel(obj)
    obj.spec.active_deadline_seconds = 600


def grow(obj: Model) -> None:
    relabel(obj)
    obj.spec.devices[0].capacity["memory"].value = "40Gi"


def raise_minimum(obj: Model) -> None:
    relabel(obj)
    obj.spec.min_available = "50%"


def raise_shares(obj: Model) -> None:
    relabel(obj)
    obj.spec.limited.nominal_concurrency_shares = 7


def raise_precedence(obj: Model) -> None:
    relabel(obj)
    obj.spec.matching_precedence = 4000


@dataclass(frozen=True)
class Kind:
    """A kind, as the client has it."""

    group: str
    noun: str
    make: Callable[[str], Model]
    change: Callable[[Model], None]
    generation: int | None
    is_namespaced: bool
    deleted: str


KINDS = [
    Kind("CoreV1Api", "namespace", namespace, relabel, None, False, "Namespace"),
    Kind("CoreV1Api", "namespaced_pod", pod, narrow, 2, True, "Pod"),
    Kind(
        "PolicyV1Api", "namespaced_pod_disruption_budget", budget, raise_minimum, 2, True, "Status"
    ),
    Kind("ResourceV1Api", "resource_slice", resource_slice, grow, 2, False, "ResourceSlice"),
    Kind(
        "FlowcontrolApiserverV1Api",
        "priority_level_configuration",
        level,
        raise_shares,
        2,
        False,
        "Status",
    ),
    Kind(
        "FlowcontrolApiserverV1Api",
        "flow_schema",
        flow_schema,
        raise_precedence,
        2,
        False,
        "Status",
    ),
]


class Resource:
    """The objects of a kind at a server."""

    def __init__(self, kind: Kind, api_client: Model) -> None:
        self._api = getattr(client, kind.group)(api_client)
        self._kind = kind
        self._scope = (NAMESPACE,) if kind.is_namespaced else ()

    def create(self, obj: Model, **options: object) -> Model:
        return self._call("create", *self._scope, obj, **options)

    def read(self, name: str) -> Model:
        return self._call("read", name, *self._scope)

    def replace(self, obj: Model, **options: object) -> Model:
        return self._call("replace", obj.metadata.name, *self._scope, obj, **options)

    def patch(self, name: str, patch: object, **options: object) -> Model:
        return self._call("patch", name, *self._scope, patch, **options)

    def delete(self, name: str, **options: object) -> Model:
        return self._call("delete", name, *self._scope, **options)

    def delete_collection(self, selector: str) -> Model:
        return self._call("delete_collection", *self._scope, label_selector=selector)

    def list(self, selector: str, **options: object) -> Model:
        return self._call("list", *self._scope, label_selector=selector, **options)

    def events(self, selector: str, version: str) -> Iterator[Model]:
        method = getattr(self._api, f"list_{self._kind.noun}")
        yield from watch.Watch().stream(
            method,
            *self._scope,
            label_selector=selector,
            resource_version=version,
            timeout_seconds=WATCH_S,
        )

    def change(self, name: str) -> Model:
        for _ in range(ATTEMPTS):
            obj = self.read(name)
            self._kind.change(obj)
            try:
                return self.replace(obj)
            except client.ApiException as error:
                if error.status != 409:
                    raise
        pytest.fail("it changes all the time")

    def _call(self, verb: str, *arguments: object, **options: object) -> Model:
        return getattr(self._api, f"{verb}_{self._kind.noun}")(*arguments, **options)


def refusal(call: Callable[..., object], *arguments: object, **options: object) -> Model:
    with pytest.raises(client.ApiException) as caught:
        call(*arguments, **options)
    status = json.loads(caught.value.body)
    assert ("Status", caught.value.status) == (status["kind"], status["code"])
    return status


@pytest.fixture
def api_client(servers: dict[str, str]) -> Iterator[Model]:
    configuration = client.Configuration()
    configuration.host = servers[PROXIED]
    with client.ApiClient(configuration) as api_client:
        yield api_client


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.noun)
def test_typed_objects(api_client: Model, kind: Kind) -> None:
    """Objects are created, read, listed, replaced, patched, applied and deleted."""
    name = f"typed-{kind.noun.replace('_', '-')}"
    selector = f"of={name}"
    resource = Resource(kind, api_client)
    made = kind.make(name)
    start = resource.list(selector)

    created = resource.create(made)

    assert type(made) is type(created)
    assert (name, made.metadata.labels["of"]) == (
        created.metadata.name,
        created.metadata.labels["of"],
    )
    read = resource.read(name)
    assert (created.metadata.uid, created.spec) == (read.metadata.uid, read.spec)
    listed = resource.list(selector)
    assert ([created.metadata.uid], type(start)) == (
        [item.metadata.uid for item in listed.items],
        type(listed),
    )
    assert "AlreadyExists" == refusal(resource.create, made)["reason"]

    replaced = resource.change(name)

    expected = resource.read(name)
    kind.change(expected)
    assert (expected.spec, kind.generation) == (replaced.spec, replaced.metadata.generation)
    assert "Conflict" == refusal(resource.replace, read)["reason"]

    patches: list[tuple[object, dict[str, object]]] = [
        ({"metadata": {"labels": {"strategic": "yes"}}}, {}),
        ({"metadata": {"labels": {"merge": "yes"}}}, {"_content_type": MERGE}),
        ([{"op": "add", "path": "/metadata/labels/json", "value": "yes"}], {}),
        (
            {
                "apiVersion": created.api_version,
                "kind": created.kind,
                "metadata": {"labels": {"apply": "yes"}},
            },
            {"_content_type": APPLY, "field_manager": "tests"},
        ),
    ]
    for patch, options in patches:
        patched = resource.patch(name, patch, **options)
    assert {"strategic", "merge", "json", "apply", "of", "step"} <= patched.metadata.labels.keys()
    assert "tests" in [each.manager for each in patched.metadata.managed_fields]

    resource.create(
        kind.make(f"{name}.dry" if kind.noun != "namespace" else f"{name}-dry"), dry_run="All"
    )
    deleted = api_client.sanitize_for_serialization(resource.delete(name))

    assert kind.deleted == deleted["kind"]
    events = []
    for event in resource.events(selector, start.metadata.resource_version):
        events.append(event)
        if event["type"] == "DELETED":
            break
    assert "NotFound" == refusal(resource.read, name)["reason"]
    assert {type(made)} == {type(event["object"]) for event in events}
    assert ("ADDED", {"MODIFIED"}, "DELETED") == (
        events[0]["type"],
        {event["type"] for event in events[1:-1]},
        events[-1]["type"],
    )
    versions = [int(event["object"].metadata.resource_version) for event in events]
    assert sorted(set(versions)) == versions
    assert {"ADDED": None, "MODIFIED": "replaced"}.items() <= {
        event["type"]: event["object"].metadata.labels.get("step") for event in events
    }.items()


def test_collections(api_client: Model) -> None:
    """Pages of a collection are of one state, and a collection is deleted as a whole."""
    kind, prefix = KINDS[1], "many-pods"
    selector = f"of={prefix}"
    resource = Resource(kind, api_client)
    names = [f"{prefix}.{number}" for number in range(5)]
    for name in names:
        resource.create(kind.make(name))

    page = resource.list(selector, limit=2)
    found, state = [item.metadata.name for item in page.items], page.metadata.resource_version
    resource.create(kind.make(f"{prefix}.later"))
    while page.metadata._continue:  # noqa: SLF001  what the client calls it
        page = resource.list(selector, limit=2, _continue=page.metadata._continue)  # noqa: SLF001
        found += [item.metadata.name for item in page.items]
        assert state == page.metadata.resource_version

    assert names == found
    resource.delete_collection(selector)
    assert [] == resource.list(selector).items


def test_status_and_eviction(api_client: Model) -> None:
    """A pod gets ready by its status, and is evicted once its budget has room."""
    core, policy = client.CoreV1Api(api_client), client.PolicyV1Api(api_client)
    budgets = Resource(KINDS[2], api_client)
    start = budgets.list("of=evicted").metadata.resource_version
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    budgets.create(budget("evicted"))
    for name in ("evicted.0", "evicted.1"):
        core.create_namespaced_pod(NAMESPACE, pod(name))
    core.patch_namespaced_pod_status("evicted.0", NAMESPACE, ready)
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="evicted.0"))

    def evict() -> Model:
        return core.create_namespaced_pod_eviction("evicted.0", NAMESPACE, eviction)

    status = refusal(evict)

    assert (429, "TooManyRequests", "DisruptionBudget") == (
        status["code"],
        status["reason"],
        status["details"]["causes"][0]["reason"],
    )
    core.patch_namespaced_pod_status("evicted.1", NAMESPACE, ready)
    for event in budgets.events("of=evicted", start):
        if event["object"].status.disruptions_allowed:
            break
    # What it answers is no eviction, which is what the client takes it for.
    assert "Status" == evict().kind
    assert ["evicted.1"] == [
        item.metadata.name
        for item in core.list_namespaced_pod(NAMESPACE, label_selector="of=evicted").items
    ]
    read = policy.read_namespaced_pod_disruption_budget_status("evicted", NAMESPACE)
    assert (1, 1) == (read.status.desired_healthy, read.spec.min_available)
    budgets.delete("evicted")
    core.delete_namespaced_pod("evicted.1", NAMESPACE)


def test_what_is_served(api_client: Model, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The client finds groups, versions and resources, also where it finds all by itself."""
    assert ["v1"] == client.CoreApi(api_client).get_api_versions().versions
    groups = client.ApisApi(api_client).get_api_versions().groups
    assert {kind.group for kind in SERVED if kind.group} == {group.name for group in groups}
    assert "36" == client.VersionApi(api_client).get_code().minor
    cache = tmp_path_factory.mktemp("discovery") / "cache.json"
    found = dynamic.DynamicClient(api_client, cache_file=str(cache))
    slices = found.resources.get(api_version="resource.k8s.io/v1beta1", kind="ResourceSlice")
    body = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceSlice",
        "metadata": {"name": "dynamic"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "node-a",
            "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "basic": {"capacity": {"memory": {"value": "1Gi"}}}}],
        },
    }
    assert body["spec"] == slices.create(body=body).spec.to_dict()
    applied = slices.server_side_apply(
        body={**body, "metadata": {"name": "dynamic", "labels": {"a": "b"}}},
        field_manager="tests",
        force_conflicts=True,
    )
    assert {"a": "b"} == applied.metadata.labels.to_dict()
    assert "dynamic" in [item.metadata.name for item in slices.get().items]
    slices.delete(name="dynamic")
