"""The documents that tell clients which resources are served; the recorded requests have most."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING

import msgspec

from apfproxy import __version__
from apfproxy.apiserver.discovery import Discovery, etag, stability, version_document
from tests.apiserver.kinds import KINDS, WIDGET

if TYPE_CHECKING:
    import pytest

DISCOVERY = Discovery(KINDS)


def test_versions_and_groups_that_are_none() -> None:
    for group, version in (("widgets.example.com", "v2"), ("", "v2"), ("gadgets", "v1")):
        assert DISCOVERY.api_resource_list(group, version) is None
    assert [None, None] == [DISCOVERY.api_group(name) for name in ("", "gadgets.example.com")]


def test_empty_core() -> None:
    """The list of the core has no apiVersion: kubectl seeks List in it."""
    empty = {"kind": "APIResourceList", "groupVersion": "v1", "resources": []}

    assert empty == Discovery((WIDGET,)).api_resource_list("", "v1")


def test_versions_have_the_kinds_that_they_have() -> None:
    """A kind without an older version is not listed there."""
    gadget = msgspec.structs.replace(WIDGET, name="Gadget", versions=WIDGET.versions[:1])
    discovery = Discovery((WIDGET, gadget))
    listed = [discovery.api_resource_list(WIDGET.group, name) or {} for name in ("v1", "v1beta3")]

    assert [4, 2] == [len(each["resources"]) for each in listed]
    (group,) = discovery.aggregated(is_core=False)["items"]
    assert {"name": "widgets.example.com"} == group["metadata"]
    assert [("v1", "Current", 2), ("v1beta3", "Current", 1)] == [
        (each["version"], each["freshness"], len(each["resources"])) for each in group["versions"]
    ]


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
