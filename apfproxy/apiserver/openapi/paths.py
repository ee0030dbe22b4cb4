"""Every path and operation that is served, in a form that both versions of OpenAPI are made from.

Operations are named as in Kubernetes, so that clients generated from either document have the
same methods.

Sources: Kubernetes API reference; the published documents of Kubernetes for names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from apfproxy.api.policy.schema import EVICTION
from apfproxy.api.schema.shared_structs import DELETE_OPTIONS, STATUS, WATCH_EVENT, list_struct
from apfproxy.apiserver.discovery import EVICTION as EVICTIONS
from apfproxy.apiserver.discovery import Discovery, verbs_of
from apfproxy.apiserver.openapi import parameters, structs
from apfproxy.apiserver.openapi.definitions import GroupVersionKind, full_name
from apfproxy.apiserver.openapi.parameters import QUERY, Parameter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apfproxy.api.kind import Kind
    from apfproxy.api.schema.types import Struct

JSON = "application/json"
ANSWERS = (JSON, "application/yaml")
STREAMED_ANSWERS = (*ANSWERS, "application/json;stream=watch")
"""Content types of answers; the last is that of a list that is watched."""
ANY_BODY = ("*/*",)
PATCH_BODIES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)

PATH_PARAMETER = re.compile(r"\{(\w+)\}")
DEPRECATED_WATCH = "Deprecated: use the parameter watch with a list operation instead"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path.

    Attributes:
        document: The version 3 document that it belongs to, such as `apis/policy/v1`.
        path: With the names of parameters in braces.
        method: In lower case.
        id: `operationId`.
        tag: What generated clients group operations by.
        answers: HTTP status to what is answered.
        query: Names of the parameters in the query.
        consumes, produces: Content types of what is sent, and of answers.
        action: As Kubernetes calls what is done; "" for none.
        kind: What it is done with; None for none.
    """

    document: str
    path: str
    method: str
    id: str
    description: str
    tag: str
    answers: dict[int, Struct]
    query: tuple[str, ...] = ()
    body: Struct | None = None
    is_body_required: bool = True
    consumes: tuple[str, ...] = ANY_BODY
    produces: tuple[str, ...] = ANSWERS
    action: str = ""
    kind: GroupVersionKind | None = None

    def parameters(self) -> list[Parameter]:
        """The parameters of the path, then those of the query."""
        described = {"namespace": "Namespace that the object belongs to."}
        if self.kind:
            described["name"] = f"Name of the {self.kind[2]}."
        found = [
            Parameter(name, "string", described[name], is_in_path=True)
            for name in PATH_PARAMETER.findall(self.path)
        ]
        return found + [QUERY[name] for name in self.query]


def title(name: str) -> str:
    """A word of an operation's name, such as `Apiserver`."""
    return name[:1].upper() + name[1:]


def group_title(group: str) -> str:
    """A group in an operation's name: `FlowcontrolApiserver`, `Policy`, `Core`."""
    return "".join(map(title, (group or "core").removesuffix(".k8s.io").split(".")))


def tag_of(group: str, version: str = "") -> str:
    """What generated clients group operations by: `flowcontrolApiserver_v1`."""
    name = group_title(group)
    name = name[:1].lower() + name[1:]
    return f"{name}_{version}" if version else name


def document_of(group: str, version: str) -> str:
    """The version 3 document of a group's version, and the beginning of its paths."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


@dataclass(frozen=True, slots=True)
class Resource:
    """One version of a kind, as its operations see it."""

    kind: Kind
    version: str
    struct: Struct
    list_struct: Struct

    @property
    def document(self) -> str:
        """The document that it belongs to."""
        return document_of(self.kind.group, self.version)

    @property
    def gvk(self) -> GroupVersionKind:
        """Its group, version and kind."""
        return (self.kind.group, self.version, self.kind.name)

    @property
    def items(self) -> str:
        """The path of all objects, of one namespace where they have one."""
        scope = "namespaces/{namespace}/" if self.kind.is_namespaced else ""
        return f"/{self.document}/{scope}{self.kind.plural}"

    def operation(  # noqa: PLR0913  an operation has that many parts
        self,
        method: str,
        path: str,
        name: tuple[str, str],
        description: str,
        action: str,
        answers: dict[int, Struct],
        query: tuple[str, ...],
        body: Struct | None = None,
        *,
        kind: GroupVersionKind | None = None,
        consumes: tuple[str, ...] = ANY_BODY,
        produces: tuple[str, ...] = ANSWERS,
    ) -> Operation:
        """An operation on this resource, named by a verb and an object."""
        verb, object_ = name
        return Operation(
            document=self.document,
            path=path,
            method=method,
            id=f"{verb}{group_title(self.kind.group)}{title(self.version)}{object_}",
            description=description,
            tag=tag_of(self.kind.group, self.version),
            answers=answers,
            query=query,
            body=body,
            is_body_required=body is not DELETE_OPTIONS,
            consumes=consumes,
            produces=produces,
            action=action,
            kind=kind or self.gvk,
        )

    def operations(self) -> Iterator[Operation]:
        """All of its operations."""
        namespaced = "Namespaced" if self.kind.is_namespaced else ""
        name = f"{namespaced}{self.kind.name}"
        yield from self.collection_operations(name)
        yield from self.item_operations(name)
        if self.kind.has_status:
            yield from self.object_operations(
                f"{self.items}/{{name}}/status",
                f"{name}Status",
                f"the status of a {self.kind.name}",
            )
        if self.kind.rules.prepare_finalize:
            yield self.operation(
                "put", f"{self.items}/{{name}}/finalize", ("replace", f"{name}Finalize"),
                f"Replace the finalizers in the spec of a {self.kind.name}.", "put",
                self.written(200, 201), parameters.WRITE, self.struct,
            )  # fmt: skip
        yield from self.watch_operations(name)

    def written(self, *codes: int) -> dict[int, Struct]:
        """The object, with each of some HTTP statuses."""
        return dict.fromkeys(codes, self.struct)

    def collection_operations(self, name: str) -> Iterator[Operation]:
        """Those on all objects, or all of a namespace."""
        kind, items = self.kind.name, self.items
        if "deletecollection" in verbs_of(self.kind):
            yield self.operation(
                "delete", items, ("delete", f"Collection{name}"),
                f"Delete {kind} objects together.", "deletecollection",
                {200: STATUS}, parameters.DELETE_COLLECTION, DELETE_OPTIONS,
            )  # fmt: skip
        listed = {200: self.list_struct}
        yield self.operation(
            "get", items, ("list", name), f"List or watch {kind} objects.", "list", listed,
            parameters.LIST, produces=STREAMED_ANSWERS,
        )  # fmt: skip
        yield self.operation(
            "post", items, ("create", name), f"Create a {kind}.", "post",
            self.written(200, 201, 202), parameters.WRITE, self.struct,
        )  # fmt: skip
        if self.kind.is_namespaced:
            yield self.operation(
                "get", f"/{self.document}/{self.kind.plural}", ("list", f"{kind}ForAllNamespaces"),
                f"List or watch {kind} objects of all namespaces.", "list", listed,
                parameters.LIST, produces=STREAMED_ANSWERS,
            )  # fmt: skip

    def item_operations(self, name: str) -> Iterator[Operation]:
        """Those on one object."""
        kind, item = self.kind.name, f"{self.items}/{{name}}"
        deleted = self.struct if self.kind.answers_deleted else STATUS
        yield self.operation(
            "delete", item, ("delete", name), f"Delete a {kind}.", "delete",
            {200: deleted, 202: deleted}, parameters.DELETE, DELETE_OPTIONS,
        )  # fmt: skip
        yield from self.object_operations(item, name, f"a {kind}")

    def object_operations(self, path: str, name: str, what: str) -> Iterator[Operation]:
        """Those that an object and its status have in common."""
        yield self.operation(
            "get", path, ("read", name), f"Read {what}.", "get",
            self.written(200), parameters.READ,
        )  # fmt: skip
        yield self.operation(
            "patch", path, ("patch", name), f"Change parts of {what}.", "patch",
            self.written(200, 201), parameters.PATCH, structs.PATCH, consumes=PATCH_BODIES,
        )  # fmt: skip
        yield self.operation(
            "put", path, ("replace", name), f"Replace {what}.", "put",
            self.written(200, 201), parameters.WRITE, self.struct,
        )  # fmt: skip

    def watch_operations(self, name: str) -> Iterator[Operation]:
        """The deprecated ones."""
        kind = self.kind.name
        scope = "namespaces/{namespace}/" if self.kind.is_namespaced else ""
        watched = f"/{self.document}/watch/{scope}{self.kind.plural}"
        found = [
            (f"{watched}/{{name}}", name, f"Watch a {kind}", "watch"),
            (watched, f"{name}List", f"Watch {kind} objects", "watchlist"),
        ]
        if self.kind.is_namespaced:
            found.append(
                (
                    f"/{self.document}/watch/{self.kind.plural}",
                    f"{kind}ListForAllNamespaces",
                    f"Watch {kind} objects of all namespaces",
                    "watchlist",
                )
            )
        for path, object_, description, action in found:
            yield self.operation(
                "get", path, ("watch", object_), f"{description}. {DEPRECATED_WATCH}.", action,
                {200: WATCH_EVENT}, parameters.LIST, produces=STREAMED_ANSWERS,
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Catalog:
    """All operations, and what the definitions that they need describe.

    Attributes:
        operations: Of all documents.
        kinds: Name of a definition to the kinds that it describes.
    """

    operations: list[Operation] = field(default_factory=list)
    kinds: dict[str, list[GroupVersionKind]] = field(default_factory=dict)

    def describe(self, struct: Struct, kind: GroupVersionKind) -> None:
        """Say that a struct describes a kind."""
        self.kinds.setdefault(full_name(struct), []).append(kind)


def catalog(kinds: Sequence[Kind]) -> Catalog:
    """All operations on some kinds, and those of discovery."""
    discovery = Discovery(kinds)
    found = Catalog()
    for struct in (STATUS, *structs.DISCOVERED):
        found.describe(struct, ("", "v1", struct.name))
    found.operations.extend(discovery_operations(discovery))
    for group in ("", *discovery.groups):
        for version in discovery.versions(group):
            found.describe(DELETE_OPTIONS, (group, version, "DeleteOptions"))
            found.describe(WATCH_EVENT, (group, version, "WatchEvent"))
    for kind in discovery.kinds:
        for served in kind.versions:
            listed = list_struct(served.schema)
            resource = Resource(kind, served.name, served.schema, listed)
            found.describe(served.schema, resource.gvk)
            found.describe(listed, (kind.group, served.name, f"{kind.name}List"))
            found.operations.extend(resource.operations())
            if kind.resource == "pods":
                gvk = (EVICTIONS["group"], EVICTIONS["version"], EVICTIONS["kind"])
                found.describe(EVICTION, gvk)
                found.operations.append(eviction_operation(resource, gvk))
    return found


def eviction_operation(pods: Resource, gvk: GroupVersionKind) -> Operation:
    """The creation of an eviction."""
    return pods.operation(
        "post", f"{pods.items}/{{name}}/eviction", ("create", "NamespacedPodEviction"),
        "Evict a Pod, if its disruption budgets permit it.", "post",
        dict.fromkeys((200, 201, 202), EVICTION), parameters.WRITE, EVICTION,
        kind=gvk,
    )  # fmt: skip


def discovery_operations(discovery: Discovery) -> Iterator[Operation]:
    """Those of discovery and of `/version`."""

    def get(document: str, id_: str, tag: str, description: str, answer: Struct) -> Operation:
        return Operation(document, f"/{document}/", "get", id_, description, tag, {200: answer})

    core = discovery.versions("")
    if core:
        yield get(
            "api", "getCoreAPIVersions", "core", "Tell the versions of the core.",
            structs.API_VERSIONS,
        )  # fmt: skip
    yield get("apis", "getAPIVersions", "apis", "Tell all groups.", structs.API_GROUP_LIST)
    told = get("version", "getCodeVersion", "version", "Tell the version.", structs.VERSION_INFO)
    yield replace(told, produces=(JSON,))
    for group in ("", *discovery.groups):
        name = group_title(group)
        if group:
            yield get(
                f"apis/{group}", f"get{name}APIGroup", tag_of(group),
                "Tell the versions of the group.", structs.API_GROUP,
            )  # fmt: skip
        for version in discovery.versions(group):
            yield get(
                document_of(group, version), f"get{name}{title(version)}APIResources",
                tag_of(group, version), "Tell the resources.", structs.API_RESOURCE_LIST,
            )  # fmt: skip
