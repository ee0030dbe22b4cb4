"""Which resource a path names.

    /api/v1/...                                     the core group
    /apis/GROUP/VERSION/...                         all others
    .../RESOURCE[/NAME[/SUBRESOURCE]]               without a namespace, or in all of them
    .../namespaces/NAMESPACE/RESOURCE[/NAME[/SUBRESOURCE]]
    .../watch/...                                   any of the above, watched: deprecated

Source: Kubernetes documentation, "API Concepts", "Resource URIs".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from apfproxy.apiserver.discovery import subresources_of
from apfproxy.apiserver.errors import bad_request, no_such_resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apfproxy.apiserver.kind import Kind, Version

NAMESPACES = "namespaces"
STATUS = "status"
FINALIZE = "finalize"
EVICTION = "eviction"
SCALE = "scale"

OF_COLLECTION = frozenset({"GET", "POST", "DELETE"})
OF_OBJECT = frozenset({"GET", "PUT", "PATCH", "DELETE"})
OF_SUBRESOURCE = {
    STATUS: frozenset({"GET", "PUT", "PATCH"}),
    FINALIZE: frozenset({"PUT"}),
    EVICTION: frozenset({"POST"}),
    SCALE: frozenset({"GET", "PUT", "PATCH"}),
}


@dataclass(frozen=True, slots=True)
class Target:
    """The resource, object or subresource that a path names.

    Attributes:
        namespace: "" for a kind without, or for all of them.
        name: Of one object; "" for the collection.
        subresource: "" for the object itself.
        is_watch: Whether the path is one that watches.
    """

    kind: Kind
    version: Version
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    is_watch: bool = False

    @property
    def methods(self) -> frozenset[str]:
        """The methods that are allowed there."""
        if self.is_watch:
            return frozenset({"GET"})
        if self.subresource:
            return OF_SUBRESOURCE[self.subresource]
        if self.name:
            return OF_OBJECT
        if self.kind.is_namespaced and not self.namespace:
            return frozenset({"GET"})
        if self.kind.resource == NAMESPACES:
            return OF_COLLECTION - {"DELETE"}
        return OF_COLLECTION


class Paths:
    """All paths of the kinds that are served."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._resources: Mapping[tuple[str, str], dict[str, tuple[Kind, Version]]] = {}
        for kind in kinds:
            for version in kind.versions:
                group_version = self._resources.setdefault((kind.group, version.name), {})
                group_version[kind.plural] = (kind, version)

    def target(self, segments: list[str]) -> Target:
        """Find the target of a path, whose decoded segments begin with `api` or `apis`.

        Raises:
            StatusError: 404, there is no such thing; 400, there can be none of that name.
        """
        if segments[0] == "api":
            group, rest = "", segments[1:]
        else:
            group, rest = segments[1], segments[2:]
        resources = self._resources.get((group, rest[0])) if rest else None
        if resources is None or "" in rest:
            raise no_such_resource()
        rest = rest[1:]
        is_watch = rest[:1] == ["watch"]
        found = self._resource(resources, rest[1:] if is_watch else rest)
        if is_watch and found.subresource:
            raise no_such_resource()
        return replace(found, is_watch=is_watch)

    def _resource(self, resources: dict[str, tuple[Kind, Version]], rest: list[str]) -> Target:
        """The target of what follows the version."""
        namespace = ""
        of_namespace = (STATUS, FINALIZE)
        if len(rest) > 2 and rest[0] == NAMESPACES and rest[2] not in of_namespace:  # noqa: PLR2004
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource, *more = [*rest, "", "", ""]
        if plural not in resources or any(more):
            raise no_such_resource()
        kind, version = resources[plural]
        if bool(namespace) != kind.is_namespaced and (namespace or name):
            raise no_such_resource()
        if subresource and subresource not in {each for each, _, _ in subresources_of(kind)}:
            raise no_such_resource()
        if name in {".", ".."} or "%" in name:
            wrong = "may not contain '%'" if "%" in name else f"may not be '{name}'"
            raise bad_request(f'Name parameter invalid: "{name}": {wrong}')
        return Target(kind, version, namespace, name, subresource)
