"""Discovery: the version of the server, and its groups, their versions and resources.

It has two forms: a document for each group and version, and the aggregated `APIGroupDiscoveryList`,
which has everything in two answers, of `/api` and `/apis`.

Sources: Kubernetes documentation, "API concepts", "Discovery API"; API conventions; the types
`APIResource` (meta/v1) and `APIGroupDiscovery` (apidiscovery.k8s.io/v2); the type `Info` of
apimachinery's `version` package, of which kubectl warns where `minor` is far from its own.
"""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from typing import TYPE_CHECKING

from apfproxy import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.apiserver.kind import Kind
    from apfproxy.objects.types import Object

MAJOR = "1"
MINOR = "36"
"""The release of Kubernetes whose behaviour this server has."""
GO_SYSTEMS = {"win32": "windows"}
GO_MACHINES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64", "i686": "386"}
"""System and machine as Python names them to their names in Go, where those differ."""

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
STATUS_VERBS = ["get", "patch", "update"]
EVICTION = {"group": "policy", "version": "v1", "kind": "Eviction"}
SCALE = {"group": "autoscaling", "version": "v1", "kind": "Scale"}

AGGREGATED = ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList")
"""Group, version and kind; kubectl before 1.30, which does not know it, asks for each group."""

VERSION_NAME = re.compile(r"v(?P<major>\d+)(?:(?P<stage>alpha|beta)(?P<minor>\d+))?")
STAGES = ("alpha", "beta", None)
"""From the least to the most stable; None is that of `v1`."""


def version_document() -> Object:
    system = GO_SYSTEMS.get(sys.platform, sys.platform)
    machine = GO_MACHINES.get(platform.machine(), platform.machine())
    return {
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": str(int(MINOR) - 1),
        "gitVersion": f"v{MAJOR}.{MINOR}.0+apfproxy-{__version__}",
        **dict.fromkeys(("gitCommit", "gitTreeState", "buildDate", "goVersion"), ""),
        "compiler": sys.implementation.name,
        "platform": f"{system}/{machine}",
    }


def verbs_of(kind: Kind) -> list[str]:
    if kind.review:
        return ["create"]
    return [verb for verb in VERBS if verb != "deletecollection" or kind.resource != "namespaces"]


def subresources_of(kind: Kind) -> list[tuple[str, dict[str, str], list[str]]]:
    """Name, kind of the objects and verbs of a kind's subresources, sorted by name.

    Group and version of the objects are named only where they are not the resource's own.
    """
    own = {"kind": kind.name}
    rules = (
        (kind.resource == "pods", "eviction", EVICTION, ["create"]),
        (kind.rules.prepare_finalize is not None, "finalize", own, ["update"]),
        (kind.scale_selector is not None, "scale", SCALE, STATUS_VERBS),
        (kind.has_status, "status", own, STATUS_VERBS),
    )
    return [(name, of, verbs) for is_there, name, of, verbs in rules if is_there]


def stability(version: str) -> tuple[int, int, int]:
    """Sort key of versions: v2, v1, v1beta2, v1beta1, v1alpha1, others is from greatest on."""
    match = VERSION_NAME.fullmatch(version)
    if not match:
        return (-1, 0, 0)
    return (STAGES.index(match["stage"]), int(match["major"]), int(match["minor"] or 0))


def etag(document: bytes) -> str:
    return f'"{hashlib.sha256(document).hexdigest().upper()}"'


class Discovery:
    """The documents about a set of kinds; `groups` are all but the core, "", in their order."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self.kinds = tuple(sorted(kinds, key=lambda kind: kind.plural))
        self.groups = tuple(dict.fromkeys(kind.group for kind in kinds if kind.group))

    def versions(self, group: str) -> list[str]:
        """Versions of a group, the preferred one first; empty if there is no such group."""
        kinds = (kind for kind in self.kinds if kind.group == group)
        names = {version.name for kind in kinds for version in kind.versions}
        if not group:
            names.add("v1")  # also without a kind: kubectl takes a List for one of it
        return sorted(names, key=stability, reverse=True)

    def api_versions(self, host: str) -> Object:
        """The document of `/api`; clients are told to connect to the host, which has a port."""
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}]
        found = {"kind": "APIVersions", "versions": self.versions("")}
        return {**found, "serverAddressByClientCIDRs": addresses}

    def api_group_list(self) -> Object:
        groups = [self._group_entry(group) for group in self.groups]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def api_group(self, group: str) -> Object | None:
        if group not in self.groups:
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group_entry(group)}

    def api_resource_list(self, group: str, version: str) -> Object | None:
        """The document of `/apis/{group}/{version}`, or `/api/{version}`; None for no version."""
        if version not in self.versions(group):
            return None
        resources = [entry for kind in self._served(group, version) for entry in _entries(kind)]
        # The oldest document of all has no apiVersion.
        head = {"apiVersion": "v1"} if group else {}
        in_group = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", **head, "groupVersion": in_group, "resources": resources}

    def aggregated(self, *, is_core: bool) -> Object:
        group, version, kind = AGGREGATED
        items = [self._aggregated_group(group) for group in ([""] if is_core else self.groups)]
        head = {"kind": kind, "apiVersion": f"{group}/{version}", "metadata": {}}
        return {**head, "items": items}

    def root_paths(self) -> list[str]:
        paths = ["/api", *(f"/api/{version}" for version in self.versions("")), "/apis"]
        for group in self.groups:
            paths.append(f"/apis/{group}")
            paths += [f"/apis/{group}/{version}" for version in self.versions(group)]
        return [*paths, "/openapi/v2", "/openapi/v3", "/version"]

    def _served(self, group: str, version: str) -> list[Kind]:
        return [kind for kind in self.kinds if kind.group == group and kind.version(version)]

    def _group_entry(self, group: str) -> Object:
        names = self.versions(group)
        versions = [{"groupVersion": f"{group}/{name}", "version": name} for name in names]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _aggregated_group(self, group: str) -> Object:
        served = {version: self._served(group, version) for version in self.versions(group)}
        versions = [
            {"version": name, "resources": [*map(_aggregated_entry, kinds)], "freshness": "Current"}
            for name, kinds in served.items()
        ]
        return {"metadata": {"name": group} if group else {}, "versions": versions}


def _entries(kind: Kind) -> list[Object]:
    scope = {"namespaced": kind.is_namespaced}
    resource = {
        "name": kind.plural,
        "singularName": kind.singular,
        **scope,
        "kind": kind.name,
        "verbs": verbs_of(kind),
        **_names_for_kubectl(kind),
        **({} if kind.review else {"storageVersionHash": kind.storage_hash}),
    }
    subresources = (
        {"name": f"{kind.plural}/{name}", "singularName": "", **scope, **of, "verbs": verbs}
        for name, of, verbs in subresources_of(kind)
    )
    return [resource, *subresources]


def _aggregated_entry(kind: Kind) -> Object:
    """A resource with its subresources; an empty group and version mean the surrounding one."""
    surrounding = {"group": "", "version": ""}
    subresources = [
        {"subresource": name, "responseKind": {**surrounding, **of}, "verbs": verbs}
        for name, of, verbs in subresources_of(kind)
    ]
    return {
        "resource": kind.plural,
        "responseKind": {**surrounding, "kind": kind.name},
        "scope": "Namespaced" if kind.is_namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": verbs_of(kind),
        **_names_for_kubectl(kind),
        **({"subresources": subresources} if subresources else {}),
    }


def _names_for_kubectl(kind: Kind) -> dict[str, list[str]]:
    names = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {key: value for key, value in names.items() if value}
