"""Tests of the paths and operations that are described."""

from __future__ import annotations

import msgspec
import pytest

from apfproxy.apiserver.kind import Rules, nothing
from apfproxy.apiserver.openapi import parameters
from apfproxy.apiserver.openapi.paths import Catalog, catalog, group_title, tag_of
from apfproxy.apiserver.openapi.structs import STATUS, WATCH_EVENT
from tests.apiserver.kinds import KINDS, NAMESPACE, POD, WIDGET

V1 = "/apis/widgets.example.com/v1"
PODS = "/api/v1/namespaces/{namespace}/pods"
WATCHED_PODS = "/api/v1/watch/namespaces/{namespace}/pods"


@pytest.fixture(scope="module")
def found() -> Catalog:
    """Of all small kinds."""
    return catalog(KINDS)


def ids(found: Catalog, prefix: str) -> set[tuple[str, str, str]]:
    """Method, path and name of the operations whose path begins so."""
    return {
        (operation.method, operation.path, operation.id)
        for operation in found.operations
        if operation.path.startswith(prefix)
    }


def test_operations_of_a_cluster(found: Catalog) -> None:
    """A kind outside of namespaces has these operations, named as Kubernetes names them."""
    name = "WidgetsExampleComV1"
    items, item = f"{V1}/widgets", f"{V1}/widgets/{{name}}"

    assert {
        ("get", f"{V1}/", f"get{name}APIResources"),
        ("delete", items, f"delete{name}CollectionWidget"),
        ("get", items, f"list{name}Widget"),
        ("post", items, f"create{name}Widget"),
        ("delete", item, f"delete{name}Widget"),
        ("get", item, f"read{name}Widget"),
        ("patch", item, f"patch{name}Widget"),
        ("put", item, f"replace{name}Widget"),
        ("get", f"{item}/status", f"read{name}WidgetStatus"),
        ("patch", f"{item}/status", f"patch{name}WidgetStatus"),
        ("put", f"{item}/status", f"replace{name}WidgetStatus"),
        ("get", f"{V1}/watch/widgets", f"watch{name}WidgetList"),
        ("get", f"{V1}/watch/widgets/{{name}}", f"watch{name}Widget"),
    } == ids(found, f"{V1}/")


def test_operations_of_namespaces(found: Catalog) -> None:
    """A kind in namespaces has operations on one of them, and on all."""
    assert {
        ("delete", PODS, "deleteCoreV1CollectionNamespacedPod"),
        ("get", PODS, "listCoreV1NamespacedPod"),
        ("post", PODS, "createCoreV1NamespacedPod"),
        ("delete", f"{PODS}/{{name}}", "deleteCoreV1NamespacedPod"),
        ("get", f"{PODS}/{{name}}", "readCoreV1NamespacedPod"),
        ("patch", f"{PODS}/{{name}}", "patchCoreV1NamespacedPod"),
        ("put", f"{PODS}/{{name}}", "replaceCoreV1NamespacedPod"),
        ("post", f"{PODS}/{{name}}/eviction", "createCoreV1NamespacedPodEviction"),
        ("get", f"{PODS}/{{name}}/status", "readCoreV1NamespacedPodStatus"),
        ("patch", f"{PODS}/{{name}}/status", "patchCoreV1NamespacedPodStatus"),
        ("put", f"{PODS}/{{name}}/status", "replaceCoreV1NamespacedPodStatus"),
    } == ids(found, PODS)
    assert {
        ("get", WATCHED_PODS, "watchCoreV1NamespacedPodList"),
        ("get", f"{WATCHED_PODS}/{{name}}", "watchCoreV1NamespacedPod"),
    } == ids(found, WATCHED_PODS)
    assert {("get", "/api/v1/pods", "listCoreV1PodForAllNamespaces")} == ids(found, "/api/v1/pods")
    assert {("get", "/api/v1/watch/pods", "watchCoreV1PodListForAllNamespaces")} == ids(
        found, "/api/v1/watch/pods"
    )


def test_operations_of_discovery() -> None:
    """What tells clients what there is, is described too."""
    assert {
        ("get", "/api/", "getCoreAPIVersions"),
        ("get", "/api/v1/", "getCoreV1APIResources"),
        ("get", "/apis/", "getAPIVersions"),
        ("get", "/apis/widgets.example.com/", "getWidgetsExampleComAPIGroup"),
        ("get", f"{V1}/", "getWidgetsExampleComV1APIResources"),
        ("get", "/apis/widgets.example.com/v1beta3/", "getWidgetsExampleComV1beta3APIResources"),
        ("get", "/version/", "getCodeVersion"),
    } == {one for one in ids(catalog(KINDS), "/") if one[1].endswith("/")}


def test_without_core() -> None:
    """Where nothing of the core is served there is its discovery alone."""
    assert {
        ("get", "/api/", "getCoreAPIVersions"),
        ("get", "/api/v1/", "getCoreV1APIResources"),
    } == ids(catalog((WIDGET,)), "/api/")


def test_namespaces_are_not_deleted_together(found: Catalog) -> None:
    """There is no deletion of all namespaces."""
    assert "deleteCoreV1CollectionNamespace" not in {operation.id for operation in found.operations}
    assert {"get", "post"} == {
        method
        for method, path, _ in ids(found, "/api/v1/namespaces")
        if path.endswith("/namespaces")
    }


def test_finalize() -> None:
    """A kind whose finalizers are in the spec has an operation for them."""
    kind = msgspec.structs.replace(NAMESPACE, rules=Rules(prepare_finalize=nothing))
    path = "/api/v1/namespaces/{name}/finalize"

    assert {("put", path, "replaceCoreV1NamespaceFinalize")} == ids(catalog((kind,)), path)


@pytest.mark.parametrize(
    ("id_", "query"),
    [
        ("listWidgetsExampleComV1Widget", parameters.LIST),
        ("watchWidgetsExampleComV1Widget", parameters.LIST),
        ("createWidgetsExampleComV1Widget", parameters.WRITE),
        ("replaceWidgetsExampleComV1WidgetStatus", parameters.WRITE),
        ("patchWidgetsExampleComV1Widget", parameters.PATCH),
        ("readWidgetsExampleComV1Widget", parameters.READ),
        ("deleteWidgetsExampleComV1Widget", parameters.DELETE),
        ("deleteWidgetsExampleComV1CollectionWidget", parameters.DELETE_COLLECTION),
        ("createCoreV1NamespacedPodEviction", parameters.WRITE),
    ],
)
def test_query(found: Catalog, id_: str, query: tuple[str, ...]) -> None:
    """Every operation has the parameters of its sort."""
    (operation,) = [one for one in found.operations if one.id == id_]

    assert query == operation.query


@pytest.mark.parametrize(
    ("id_", "action", "codes"),
    [
        ("listCoreV1NamespacedPod", "list", [200]),
        ("watchCoreV1NamespacedPod", "watch", [200]),
        ("watchCoreV1NamespacedPodList", "watchlist", [200]),
        ("createCoreV1NamespacedPod", "post", [200, 201, 202]),
        ("replaceCoreV1NamespacedPod", "put", [200, 201]),
        ("patchCoreV1NamespacedPod", "patch", [200, 201]),
        ("readCoreV1NamespacedPod", "get", [200]),
        ("deleteCoreV1NamespacedPod", "delete", [200, 202]),
        ("deleteCoreV1CollectionNamespacedPod", "deletecollection", [200]),
    ],
)
def test_action_and_codes(found: Catalog, id_: str, action: str, codes: list[int]) -> None:
    """Operations say what they do, to a pod, and with which statuses they answer."""
    (operation,) = [one for one in found.operations if one.id == id_]

    assert (action, ("", "v1", "Pod")) == (operation.action, operation.kind)
    assert codes == list(operation.answers)


def test_answers(found: Catalog) -> None:
    """A deletion answers with a Status, or with the object where the kind says so."""
    deleted = next(one for one in found.operations if one.id == "deleteCoreV1NamespacedPod")
    kind = msgspec.structs.replace(POD, answers_deleted=True)
    with_object = next(
        one for one in catalog((kind,)).operations if one.id == "deleteCoreV1NamespacedPod"
    )
    watched = next(one for one in found.operations if one.id == "watchCoreV1NamespacedPod")

    assert STATUS is deleted.answers[200]
    assert "Pod" == with_object.answers[200].name
    assert WATCH_EVENT is watched.answers[200]
    assert not deleted.is_body_required


def test_parameters_of_the_path(found: Catalog) -> None:
    """Names and namespaces are parameters of the path, before those of the query."""
    (operation,) = [one for one in found.operations if one.id == "readCoreV1NamespacedPod"]

    assert [
        ("namespace", True, "Namespace that the object belongs to."),
        ("name", True, "Name of the Pod."),
        ("pretty", False, parameters.QUERY["pretty"].description),
    ] == [(one.name, one.is_in_path, one.description) for one in operation.parameters()]


def test_names_are_unique(found: Catalog) -> None:
    """Clients are generated from names, so no two operations share one."""
    names = [operation.id for operation in found.operations]

    assert sorted(set(names)) == sorted(names)


def test_eviction_is_of_its_own_kind(found: Catalog) -> None:
    """The eviction of a pod is no pod."""
    (operation,) = [one for one in found.operations if one.path.endswith("/eviction")]

    assert ("policy", "v1", "Eviction") == operation.kind
    assert [("policy", "v1", "Eviction")] == found.kinds["io.k8s.api.policy.v1.Eviction"]


def test_kinds(found: Catalog) -> None:
    """Definitions of kinds and lists name them; what all versions share names all versions."""
    versions = [("", "v1"), ("widgets.example.com", "v1"), ("widgets.example.com", "v1beta3")]
    meta = "io.k8s.apimachinery.pkg.apis.meta.v1"

    assert [("widgets.example.com", "v1", "WidgetList")] == found.kinds[
        "io.k8s.api.widgets.v1.WidgetList"
    ]
    assert [(*one, "DeleteOptions") for one in versions] == found.kinds[f"{meta}.DeleteOptions"]
    assert [(*one, "WatchEvent") for one in versions] == found.kinds[f"{meta}.WatchEvent"]
    assert [("", "v1", "Status")] == found.kinds[f"{meta}.Status"]


def test_parts_of_names() -> None:
    """Groups are written without `.k8s.io` and dots."""
    assert ["Core", "Policy", "FlowcontrolApiserver"] == [
        group_title(group) for group in ("", "policy", "flowcontrol.apiserver.k8s.io")
    ]
    assert "flowcontrolApiserver_v1beta3" == tag_of("flowcontrol.apiserver.k8s.io", "v1beta3")
    assert "core" == tag_of("")
