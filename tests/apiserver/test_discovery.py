"""Tests of what clients learn of the resources that are served."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest

from apfproxy import __version__
from apfproxy.apiserver.discovery import Discovery, etag, stability, verbs_of, version_document
from apfproxy.apiserver.kind import nothing
from tests.apiserver.kinds import KINDS, NAMESPACE, POD, WIDGET

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

ALL_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
STATUS_VERBS = ["get", "patch", "update"]
WIDGET_RESOURCES = [
    {
        "name": "widgets",
        "singularName": "widget",
        "namespaced": False,
        "kind": "Widget",
        "verbs": ALL_VERBS,
        "storageVersionHash": WIDGET.storage_hash,
    },
    {
        "name": "widgets/status",
        "singularName": "",
        "namespaced": False,
        "kind": "Widget",
        "verbs": STATUS_VERBS,
    },
]


@pytest.fixture
def discovery() -> Discovery:
    """Of all small kinds."""
    return Discovery(KINDS)


def found(document: Object | None) -> Object:
    """The document, which has to be there."""
    assert document is not None
    return document


def test_api_versions(discovery: Discovery) -> None:
    """The document of `/api` has no apiVersion, and says where the server is."""
    expected = {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [
            {"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}
        ],
    }

    assert expected == discovery.api_versions("127.0.0.1:6443")


def test_api_group_prefers_v1(discovery: Discovery) -> None:
    """The stable version comes first and is preferred."""
    v1 = {"groupVersion": "widgets.example.com/v1", "version": "v1"}
    v1beta3 = {"groupVersion": "widgets.example.com/v1beta3", "version": "v1beta3"}

    assert {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "widgets.example.com",
        "versions": [v1, v1beta3],
        "preferredVersion": v1,
    } == discovery.api_group("widgets.example.com")


@pytest.mark.parametrize("group", ["", "gadgets.example.com"])
def test_api_group_that_is_none(discovery: Discovery, group: str) -> None:
    """Neither the core nor an unknown group has a document below `/apis`."""
    assert discovery.api_group(group) is None


def test_api_group_list(discovery: Discovery) -> None:
    """The document of `/apis` holds the groups but for the core, without kind and apiVersion."""
    document = discovery.api_group_list()

    assert document.keys() == {"kind", "apiVersion", "groups"}
    assert [["name", "versions", "preferredVersion"]] == [list(one) for one in document["groups"]]
    assert "APIGroupList" == document["kind"]


@pytest.mark.parametrize("version", ["v1", "v1beta3"])
def test_api_resource_list(discovery: Discovery, version: str) -> None:
    """Every version of a group lists its resources and their statuses."""
    assert {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"widgets.example.com/{version}",
        "resources": WIDGET_RESOURCES,
    } == discovery.api_resource_list("widgets.example.com", version)


def test_api_resource_list_of_core(discovery: Discovery) -> None:
    """The core's resources are sorted, and evictions name the group that they are of."""
    assert {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            {
                "name": "namespaces",
                "singularName": "namespace",
                "namespaced": False,
                "kind": "Namespace",
                "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
                "shortNames": ["ns"],
                "storageVersionHash": "Q3oi5N2YM8M=",
            },
            {
                "name": "pods",
                "singularName": "pod",
                "namespaced": True,
                "kind": "Pod",
                "verbs": ALL_VERBS,
                "shortNames": ["po"],
                "categories": ["all"],
                "storageVersionHash": "xPOwRZ+Yhw8=",
            },
            {
                "name": "pods/eviction",
                "singularName": "",
                "namespaced": True,
                "group": "policy",
                "version": "v1",
                "kind": "Eviction",
                "verbs": ["create"],
            },
            {
                "name": "pods/status",
                "singularName": "",
                "namespaced": True,
                "kind": "Pod",
                "verbs": STATUS_VERBS,
            },
        ],
    } == discovery.api_resource_list("", "v1")


@pytest.mark.parametrize(
    ("group", "version"),
    [("widgets.example.com", "v2"), ("", "v2"), ("gadgets.example.com", "v1")],
)
def test_api_resource_list_that_is_none(discovery: Discovery, group: str, version: str) -> None:
    """There is no document of an unknown version or group."""
    assert discovery.api_resource_list(group, version) is None


def test_versions_have_the_kinds_that_they_have() -> None:
    """A kind without an older version is not listed there."""
    gadget = msgspec.structs.replace(WIDGET, name="Gadget", versions=WIDGET.versions[:1])
    discovery = Discovery((WIDGET, gadget))

    def names(version: str) -> list[str]:
        listed = found(discovery.api_resource_list(WIDGET.group, version))
        return [resource["name"] for resource in listed["resources"]]

    assert ["gadgets", "gadgets/status", "widgets", "widgets/status"] == names("v1")
    assert ["widgets", "widgets/status"] == names("v1beta3")
    entries = discovery.aggregated(is_core=False)["items"][0]["versions"]
    assert [["gadgets", "widgets"], ["widgets"]] == [
        [resource["resource"] for resource in entry["resources"]] for entry in entries
    ]


def test_aggregated_core(discovery: Discovery) -> None:
    """The core is one group without a name."""
    document = discovery.aggregated(is_core=True)

    assert "apidiscovery.k8s.io/v2" == document["apiVersion"]
    assert [{}] == [item["metadata"] for item in document["items"]]
    pods = document["items"][0]["versions"][0]["resources"][1]
    assert {
        "resource": "pods",
        "responseKind": {"group": "", "version": "", "kind": "Pod"},
        "scope": "Namespaced",
        "singularResource": "pod",
        "verbs": ALL_VERBS,
        "shortNames": ["po"],
        "categories": ["all"],
        "subresources": [
            {
                "subresource": "eviction",
                "responseKind": {"group": "policy", "version": "v1", "kind": "Eviction"},
                "verbs": ["create"],
            },
            {
                "subresource": "status",
                "responseKind": {"group": "", "version": "", "kind": "Pod"},
                "verbs": STATUS_VERBS,
            },
        ],
    } == pods


def test_aggregated_groups(discovery: Discovery) -> None:
    """Each group has its versions, the preferred one first, all of them current."""
    document = discovery.aggregated(is_core=False)

    assert [{"name": "widgets.example.com"}] == [item["metadata"] for item in document["items"]]
    versions = document["items"][0]["versions"]
    assert [("v1", "Current"), ("v1beta3", "Current")] == [
        (version["version"], version["freshness"]) for version in versions
    ]
    assert "Cluster" == versions[0]["resources"][0]["scope"]


def test_aggregated_resource_without_subresources() -> None:
    """A resource without any does not name them."""
    resource = Discovery((NAMESPACE,)).aggregated(is_core=True)["items"][0]["versions"][0][
        "resources"
    ][0]

    assert "subresources" not in resource


def test_aggregated_without_core() -> None:
    """Where nothing of the core is served it is there all the same: kubectl seeks List in it."""
    discovery = Discovery((WIDGET,))
    (core,) = discovery.aggregated(is_core=True)["items"]

    assert {"version": "v1", "resources": [], "freshness": "Current"} == core["versions"][0]
    assert ["v1"] == discovery.api_versions("127.0.0.1:6443")["versions"]
    assert {"kind": "APIResourceList", "groupVersion": "v1", "resources": []} == (
        discovery.api_resource_list("", "v1")
    )


def test_finalize() -> None:
    """A kind whose finalizers in the spec can be removed has a subresource for that."""
    rules = msgspec.structs.replace(NAMESPACE.rules, prepare_finalize=nothing)
    kind = msgspec.structs.replace(NAMESPACE, rules=rules)
    listed = found(Discovery((kind,)).api_resource_list("", "v1"))["resources"]

    assert {
        "name": "namespaces/finalize",
        "singularName": "",
        "namespaced": False,
        "kind": "Namespace",
        "verbs": ["update"],
    } == listed[1]


def test_root_paths(discovery: Discovery) -> None:
    """The document of `/` names every other document of discovery once."""
    assert [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/widgets.example.com",
        "/apis/widgets.example.com/v1",
        "/apis/widgets.example.com/v1beta3",
        "/openapi/v2",
        "/openapi/v3",
        "/version",
    ] == discovery.root_paths()


def test_stability() -> None:
    """Stable versions come first, then by number; what is no version comes last."""
    expected = ["v10", "v2", "v1", "v2beta1", "v1beta10", "v1beta2", "v1alpha1", "x1"]

    assert expected == sorted(sorted(expected), key=stability, reverse=True)


def test_verbs_of() -> None:
    """All but namespaces can be deleted together."""
    assert ALL_VERBS == verbs_of(POD)
    assert "deletecollection" not in verbs_of(NAMESPACE)


def test_etag() -> None:
    """Equal bytes have equal tags, quoted; others have others."""
    assert etag(b"a") == etag(b"a") != etag(b"b")
    assert '"' == etag(b"a")[0] == etag(b"a")[-1]


def test_version_document() -> None:
    """The version is a semantic one: that of Kubernetes, with ours behind it."""
    document = version_document()

    assert ("1", "36") == (document["major"], document["minor"])
    assert f"v1.36.0+apfproxy-{__version__}" == document["gitVersion"]


def test_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    """The platform is named as Go names it."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")

    assert "linux/amd64" == version_document()["platform"]
