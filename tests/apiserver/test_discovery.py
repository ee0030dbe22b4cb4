"""The documents that tell clients which resources are served."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING

import msgspec

from apfproxy import __version__
from apfproxy.apiserver.discovery import Discovery, etag, stability, version_document
from apfproxy.apiserver.kind import nothing
from tests.apiserver.kinds import KINDS, NAMESPACE, POD, WIDGET

if TYPE_CHECKING:
    import pytest

    from apfproxy.apiserver.kind import Kind

DISCOVERY = Discovery(KINDS)
VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
STATUS_VERBS = ["get", "patch", "update"]
V1, V1BETA3 = (
    {"groupVersion": f"widgets.example.com/{version}", "version": version}
    for version in ("v1", "v1beta3")
)
GROUP = {"name": "widgets.example.com", "versions": [V1, V1BETA3], "preferredVersion": V1}


def listed(kind: Kind, group: str = "", version: str = "v1") -> list[tuple[object, ...]]:
    """Name, group and verbs of the resources in the document about one kind."""
    document = Discovery((kind,)).api_resource_list(group, version) or {}
    return [
        (each["name"], each.get("group"), *each["verbs"]) for each in document.get("resources", ())
    ]


def test_groups() -> None:
    """Stable versions come first; neither the core nor an unknown group is below `/apis`."""
    assert DISCOVERY.api_versions("127.0.0.1:6443") == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [
            {"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}
        ],
    }
    assert DISCOVERY.api_group_list() == {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [GROUP],
    }
    group = {"kind": "APIGroup", "apiVersion": "v1", **GROUP}
    assert [group, None, None] == [
        DISCOVERY.api_group(name) for name in ("widgets.example.com", "", "gadgets.example.com")
    ]


def test_resources_of_a_group() -> None:
    """The list of a group's version names itself; unknown versions and groups have none."""
    assert {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "widgets.example.com/v1beta3",
        "resources": [
            {
                "name": "widgets",
                "singularName": "widget",
                "namespaced": False,
                "kind": "Widget",
                "verbs": VERBS,
                "storageVersionHash": WIDGET.storage_hash,
            },
            {
                "name": "widgets/status",
                "singularName": "",
                "namespaced": False,
                "kind": "Widget",
                "verbs": STATUS_VERBS,
            },
        ],
    } == DISCOVERY.api_resource_list("widgets.example.com", "v1beta3")
    for group, version in (("widgets.example.com", "v2"), ("", "v2"), ("gadgets", "v1")):
        assert DISCOVERY.api_resource_list(group, version) is None


def test_resources_of_the_core() -> None:
    """The list of the core, also an empty one, has no apiVersion: kubectl seeks List in it."""
    empty = {"kind": "APIResourceList", "groupVersion": "v1", "resources": []}

    assert empty == Discovery((WIDGET,)).api_resource_list("", "v1")
    assert [
        ("pods", None, *VERBS),
        ("pods/eviction", "policy", "create"),
        ("pods/status", None, *STATUS_VERBS),
    ] == listed(POD)
    rules = msgspec.structs.replace(NAMESPACE.rules, prepare_finalize=nothing)
    finalized = msgspec.structs.replace(NAMESPACE, rules=rules)
    all_but_together = [verb for verb in VERBS if verb != "deletecollection"]
    assert [
        ("namespaces", None, *all_but_together),
        ("namespaces/finalize", None, "update"),
    ] == listed(finalized)[:2]


def test_versions_have_the_kinds_that_they_have() -> None:
    """A kind without an older version is not listed there."""
    gadget = msgspec.structs.replace(WIDGET, name="Gadget", versions=WIDGET.versions[:1])

    assert ["gadgets", "gadgets/status"] == [name for name, *_ in listed(gadget, WIDGET.group)]
    assert [] == listed(gadget, WIDGET.group, "v1beta3")
    (group,) = Discovery((WIDGET, gadget)).aggregated(is_core=False)["items"]
    assert {"name": "widgets.example.com"} == group["metadata"]
    assert [("v1", "Current", 2), ("v1beta3", "Current", 1)] == [
        (each["version"], each["freshness"], len(each["resources"])) for each in group["versions"]
    ]


def test_aggregated_core() -> None:
    """The core is one group without a name; subresources are with their resource."""
    document = DISCOVERY.aggregated(is_core=True)
    (group,) = document["items"]

    assert ("apidiscovery.k8s.io/v2", {}) == (document["apiVersion"], group["metadata"])
    namespaces, pods = group["versions"][0]["resources"]
    assert "subresources" not in namespaces
    assert {
        "resource": "pods",
        "responseKind": {"group": "", "version": "", "kind": "Pod"},
        "scope": "Namespaced",
        "singularResource": "pod",
        "verbs": VERBS,
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


def test_root_paths() -> None:
    """The document of `/` names every other document of discovery once."""
    paths = "/api /api/v1 /apis /apis/{0} /apis/{0}/v1 /apis/{0}/v1beta3 /openapi/v2 /openapi/v3"

    assert [*paths.format("widgets.example.com").split(), "/version"] == DISCOVERY.root_paths()


def test_stability() -> None:
    """Stable versions come first, then by number; other names come last."""
    expected = ["v10", "v2", "v1", "v2beta1", "v1beta10", "v1beta2", "v1alpha1", "x1"]

    assert expected == sorted(sorted(expected), key=stability, reverse=True)


def test_etag() -> None:
    assert etag(b"a") == etag(b"a") != etag(b"b")
    assert '"' == etag(b"a")[0] == etag(b"a")[-1]


def test_version_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version is that of Kubernetes, with ours behind it; the platform has Go's names."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    document = version_document()

    assert ("1", "36", "linux/amd64") == tuple(
        document[name] for name in ("major", "minor", "platform")
    )
    assert f"v1.36.0+apfproxy-{__version__}" == document["gitVersion"]
