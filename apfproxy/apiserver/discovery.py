"""What a server serves, as clients ask for it before anything else: groups, versions, resources.

There are two forms of the same: one document for each group and version, and the aggregated one,
`APIGroupDiscoveryList`, which has all in two answers, of `/api` and of `/apis`.

Sources: Kubernetes documentation, "API concepts", "Discovery API"; API conventions; the types
`APIResource` (meta/v1) and `APIGroupDiscovery` (apidiscovery.k8s.io/v2, of which v2beta1 is alike).
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apfproxy.api.kind import Kind, Object

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
"""What clients may do with a resource."""

STATUS_VERBS = ("get", "patch", "update")
"""What clients may do with a status."""

AGGREGATED_VERSIONS = ("v2",)
"""Versions of aggregated discovery; kubectl before 1.30, which knows none of them, asks for each
group."""

WITHOUT_DELETE_COLLECTION = frozenset({("", "namespaces")})
"""Resources that cannot be deleted together, as group and plural."""

VERSION_NAME = re.compile(r"v(?P<major>\d+)(?:(?P<stage>alpha|beta)(?P<minor>\d+))?")
STAGES = ("alpha", "beta", None)
"""From the least to the most stable; None is that of `v1`."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource that is no status.

    Attributes:
        parent_group: Group of the resource that it belongs to.
        parent: That resource's plural.
        name: Such as `eviction`.
        group: Group of the objects that it takes and gives.
        version: Version of them.
        kind: Kind of them.
        verbs: What clients may do with it.
    """

    parent_group: str
    parent: str
    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


EVICTION = Subresource("", "pods", "eviction", "policy", "v1", "Eviction", ("create",))


def verbs_of(kind: Kind) -> list[str]:
    """What clients may do with a kind's objects, in alphabetical order."""
    if (kind.group, kind.plural) in WITHOUT_DELETE_COLLECTION:
        return [verb for verb in VERBS if verb != "deletecollection"]
    return list(VERBS)


def stability(version: str) -> tuple[int, int, int]:
    """What to sort versions by: v2, v1, v1beta2, v1beta1, v1alpha1 is from greatest to least.

    Names of another form come last.
    """
    match = VERSION_NAME.fullmatch(version)
    if not match:
        return (-1, 0, 0)
    return (STAGES.index(match["stage"]), int(match["major"]), int(match["minor"] or 0))


def storage_version_hash(kind: Kind) -> str:
    """What tells clients whether two resources are stored as one; of the storage version's name."""
    stored = f"{kind.group}/{kind.storage.name}/{kind.name}"
    return base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()


def etag(document: bytes) -> str:
    """The ETag of a document: quoted, the same for the same bytes in every run."""
    return f'"{hashlib.sha256(document).hexdigest().upper()}"'


class Discovery:
    """The documents about a set of kinds.

    Every method builds a new document, which the caller may change or keep.
    """

    def __init__(
        self, kinds: Sequence[Kind], subresources: Sequence[Subresource] = (EVICTION,)
    ) -> None:
        """Describe the kinds.

        Args:
            kinds: In the order of groups; resources are sorted by name.
            subresources: Those that are no status; of kinds that are not given they are ignored.
        """
        self.kinds = tuple(sorted(kinds, key=lambda kind: kind.plural))
        self.subresources = tuple(subresources)
        self.groups = tuple(dict.fromkeys(kind.group for kind in kinds if kind.group))

    def versions(self, group: str) -> list[str]:
        """Versions of a group, the preferred one first; empty if there is no such group."""
        names = {version.name for kind in self.kinds_of(group) for version in kind.versions}
        return sorted(names, key=stability, reverse=True)

    def kinds_of(self, group: str) -> list[Kind]:
        """Kinds of a group, sorted by plural."""
        return [kind for kind in self.kinds if kind.group == group]

    def api_versions(self, host: str) -> Object:
        """The document of `/api`.

        Args:
            host: Where the server can be reached, with port.
        """
        return {
            "kind": "APIVersions",
            "versions": self.versions(""),
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
        }

    def api_group_list(self) -> Object:
        """The document of `/apis`."""
        groups = [self.group_entry(group) for group in self.groups]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def api_group(self, group: str) -> Object | None:
        """The document of `/apis/{group}`; None if there is no such group."""
        if group not in self.groups:
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **self.group_entry(group)}

    def group_entry(self, group: str) -> Object:
        """A group and its versions."""
        versions = [
            {"groupVersion": f"{group}/{version}", "version": version}
            for version in self.versions(group)
        ]
        return {"name": group, "versions": versions, "preferredVersion": dict(versions[0])}

    def api_resource_list(self, group: str, version: str) -> Object | None:
        """The document of `/apis/{group}/{version}`, or of `/api/{version}` for the group "".

        Returns:
            The document; None if there is no such version of such a group.
        """
        if version not in self.versions(group):
            return None
        resources = []
        for kind in self.kinds_of(group):
            if kind.version(version):
                resources.append(resource_entry(kind))
                resources += [
                    {
                        "name": f"{kind.plural}/{name}",
                        "singularName": "",
                        "namespaced": kind.is_namespaced,
                        **response_kind,
                        "verbs": verbs,
                    }
                    for name, response_kind, verbs in self.subresources_of(kind)
                ]
        if not group:  # The oldest document of all has no apiVersion.
            return {"kind": "APIResourceList", "groupVersion": version, "resources": resources}
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}",
            "resources": resources,
        }

    def subresources_of(self, kind: Kind) -> Iterator[tuple[str, dict[str, str], list[str]]]:
        """Name, kind of the objects and verbs of a kind's subresources, sorted by name.

        Group and version of the objects are named only where they are not the resource's own.
        """
        found: list[tuple[str, dict[str, str], list[str]]] = [
            (
                extra.name,
                {"group": extra.group, "version": extra.version, "kind": extra.kind},
                list(extra.verbs),
            )
            for extra in self.subresources
            if (extra.parent_group, extra.parent) == (kind.group, kind.plural)
        ]
        if kind.rules.prepare_finalize:
            found.append(("finalize", {"kind": kind.name}, ["update"]))
        if kind.has_status:
            found.append(("status", {"kind": kind.name}, list(STATUS_VERBS)))
        return iter(sorted(found, key=lambda subresource: subresource[0]))

    def aggregated_core(self, version: str = "v2") -> Object:
        """The aggregated document of `/api`.

        Args:
            version: One of `AGGREGATED_VERSIONS`.
        """
        return aggregated_list(version, [self.aggregated_group("")] if self.versions("") else [])

    def aggregated_groups(self, version: str = "v2") -> Object:
        """The aggregated document of `/apis`.

        Args:
            version: One of `AGGREGATED_VERSIONS`.
        """
        return aggregated_list(version, [self.aggregated_group(group) for group in self.groups])

    def aggregated_group(self, group: str) -> Object:
        """A group with its versions and their resources."""
        return {
            "metadata": {"name": group} if group else {},
            "versions": [
                {
                    "version": version,
                    "resources": [
                        self.aggregated_resource(kind)
                        for kind in self.kinds_of(group)
                        if kind.version(version)
                    ],
                    "freshness": "Current",
                }
                for version in self.versions(group)
            ],
        }

    def aggregated_resource(self, kind: Kind) -> Object:
        """A resource with its subresources; an empty group and version mean the surrounding one."""
        resource: Object = {
            "resource": kind.plural,
            "responseKind": full_kind({"kind": kind.name}),
            "scope": "Namespaced" if kind.is_namespaced else "Cluster",
            "singularResource": kind.singular,
            "verbs": verbs_of(kind),
            **names_for_kubectl(kind),
        }
        subresources = [
            {"subresource": name, "responseKind": full_kind(response_kind), "verbs": verbs}
            for name, response_kind, verbs in self.subresources_of(kind)
        ]
        if subresources:
            resource["subresources"] = subresources
        return resource

    def root_paths(self) -> Object:
        """The document of `/`: the paths of discovery."""
        paths = []
        for version in self.versions(""):
            paths += ["/api", f"/api/{version}"]
        paths.append("/apis")
        for group in self.groups:
            paths.append(f"/apis/{group}")
            paths += [f"/apis/{group}/{version}" for version in self.versions(group)]
        return {"paths": [*dict.fromkeys(paths), "/openapi/v2", "/openapi/v3", "/version"]}


def aggregated_list(version: str, items: list[Object]) -> Object:
    """An aggregated document."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def resource_entry(kind: Kind) -> Object:
    """A resource in the list of its group's version."""
    return {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.is_namespaced,
        "kind": kind.name,
        "verbs": verbs_of(kind),
        **names_for_kubectl(kind),
        "storageVersionHash": kind.storage_hash or storage_version_hash(kind),
    }


def names_for_kubectl(kind: Kind) -> dict[str, list[str]]:
    """Short names and categories, absent where there are none."""
    names = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {key: value for key, value in names.items() if value}


def full_kind(response_kind: dict[str, Any]) -> dict[str, str]:
    """The kind of objects in the aggregated form, which always names group and version."""
    return {"group": "", "version": "", "kind": "", **response_kind}
