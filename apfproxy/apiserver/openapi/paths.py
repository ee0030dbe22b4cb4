"""Every path and operation of the API, in a form from which both versions of OpenAPI are made.

Operations are named as in Kubernetes, so that clients generated from either document have the
same methods.

Sources: Kubernetes API reference; the published documents of Kubernetes for names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from apfproxy.apiserver.apps import SCALE
from apfproxy.apiserver.discovery import EVICTION as EVICTIONS
from apfproxy.apiserver.discovery import SCALE as SCALES
from apfproxy.apiserver.discovery import Discovery, verbs_of
from apfproxy.apiserver.openapi import parameters, structs
from apfproxy.apiserver.openapi.definitions import GroupVersionKind, full_name
from apfproxy.apiserver.openapi.parameters import QUERY, Parameter
from apfproxy.apiserver.policy.kinds import EVICTION
from apfproxy.apiserver.schema.shared_structs import DELETE_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.schema.types import Struct

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
class Sort:
    """What all operations of one action have in common; their names begin with the verb."""

    method: str
    verb: str
    codes: tuple[int, ...]
    query: tuple[str, ...]
    consumes: tuple[str, ...] = ANY_BODY
    produces: tuple[str, ...] = ANSWERS


SORTS = {
    "delete": Sort("delete", "delete", (200, 202), parameters.DELETE),
    "deletecollection": Sort("delete", "delete", (200,), parameters.DELETE_COLLECTION),
    "get": Sort("get", "read", (200,), parameters.READ),
    "list": Sort("get", "list", (200,), parameters.LIST, produces=STREAMED_ANSWERS),
    "patch": Sort("patch", "patch", (200, 201), parameters.PATCH, consumes=PATCH_BODIES),
    "post": Sort("post", "create", (200, 201, 202), parameters.WRITE),
    "put": Sort("put", "replace", (200, 201), parameters.WRITE),
    "watch": Sort("get", "watch", (200,), parameters.LIST, produces=STREAMED_ANSWERS),
    "watchlist": Sort("get", "watch", (200,), parameters.LIST, produces=STREAMED_ANSWERS),
}


@dataclass(frozen=True, slots=True)
class Resource:
    """One version of a kind, as its operations see it."""

    kind: Kind
    version: str
    struct: Struct
    list_struct: Struct

    @property
    def gvk(self) -> GroupVersionKind:
        """Its group, version and kind."""
        return (self.kind.group, self.version, self.kind.name)

    def operation(
        self,
        action: str,
        path: str,
        name: str,
        description: str,
        answer: Struct | None = None,
        body: Struct | None = None,
        kind: GroupVersionKind | None = None,
    ) -> Operation:
        """An operation below the version's path that answers with the object, or something else."""
        group, sort = self.kind.group, SORTS[action]
        document = document_of(group, self.version)
        return Operation(
            document=document,
            path=f"/{document}/{path}",
            method=sort.method,
            id=f"{sort.verb}{group_title(group)}{title(self.version)}{name}",
            description=description,
            tag=tag_of(group, self.version),
            answers=dict.fromkeys(sort.codes, answer or self.struct),
            query=sort.query,
            body=body,
            is_body_required=body is not DELETE_OPTIONS,
            consumes=sort.consumes,
            produces=sort.produces,
            action=action,
            kind=kind or self.gvk,
        )

    def operations(self) -> Iterator[Operation]:
        """All of its operations."""
        kind, plural = self.kind.name, self.kind.plural
        is_namespaced = self.kind.is_namespaced
        items = f"namespaces/{{namespace}}/{plural}" if is_namespaced else plural
        item = f"{items}/{{name}}"
        name = f"Namespaced{kind}" if is_namespaced else kind
        make = self.operation
        if "deletecollection" in verbs_of(self.kind):
            text = f"Delete {kind} objects together."
            yield make(
                "deletecollection", items, f"Collection{name}", text, structs.STATUS, DELETE_OPTIONS
            )
        listed = f"List or watch {kind} objects"
        yield make("list", items, name, f"{listed}.", self.list_struct)
        yield make("post", items, name, f"Create a {kind}.", body=self.struct)
        if is_namespaced:
            text = f"{listed} of all namespaces."
            yield make("list", plural, f"{kind}ForAllNamespaces", text, self.list_struct)
        deleted = self.struct if self.kind.answers_deleted else structs.STATUS
        yield make("delete", item, name, f"Delete a {kind}.", deleted, DELETE_OPTIONS)
        yield from self.object_operations(item, name, f"a {kind}")
        if self.kind.has_status:
            status = f"the status of a {kind}"
            yield from self.object_operations(f"{item}/status", f"{name}Status", status)
        if self.kind.scale_selector is not None:
            yield from self.scale_operations(f"{item}/scale", f"{name}Scale", f"a {kind}")
        if self.kind.rules.prepare_finalize:
            text = f"Replace the finalizers in the spec of a {kind}."
            yield make("put", f"{item}/finalize", f"{name}Finalize", text, body=self.struct)
        yield self.watch("watch", item, name, f"a {kind}")
        yield self.watch("watchlist", items, f"{name}List", f"{kind} objects")
        if is_namespaced:
            text = f"{kind} objects of all namespaces"
            yield self.watch("watchlist", plural, f"{kind}ListForAllNamespaces", text)

    def object_operations(self, path: str, name: str, what: str) -> Iterator[Operation]:
        """The operations that objects and their statuses share."""
        yield self.operation("get", path, name, f"Read {what}.")
        yield self.operation("patch", path, name, f"Change parts of {what}.", body=structs.PATCH)
        yield self.operation("put", path, name, f"Replace {what}.", body=self.struct)

    def scale_operations(self, path: str, name: str, what: str) -> Iterator[Operation]:
        """The operations on how many pods a controller wants."""
        gvk = (SCALES["group"], SCALES["version"], SCALES["kind"])
        make = partial(self.operation, answer=SCALE, kind=gvk)
        text = f"how many pods {what} wants"
        yield make("get", path, name, f"Read {text}.")
        yield make("patch", path, name, f"Change {text}.", body=structs.PATCH)
        yield make("put", path, name, f"Replace {text}.", body=SCALE)

    def watch(self, action: str, path: str, name: str, what: str) -> Operation:
        """A deprecated one."""
        text = f"Watch {what}. {DEPRECATED_WATCH}."
        return self.operation(action, f"watch/{path}", name, text, structs.WATCH_EVENT)


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
        """Record that a struct describes a kind."""
        self.kinds.setdefault(full_name(struct), []).append(kind)


def catalog(kinds: Sequence[Kind]) -> Catalog:
    """All operations on some kinds, and those of discovery."""
    discovery = Discovery(kinds)
    found = Catalog()
    for struct in (structs.STATUS, *structs.DISCOVERED):
        found.describe(struct, ("", "v1", struct.name))
    found.operations.extend(discovery_operations(discovery))
    for group in ("", *discovery.groups):
        for version in discovery.versions(group):
            found.describe(DELETE_OPTIONS, (group, version, "DeleteOptions"))
            found.describe(structs.WATCH_EVENT, (group, version, "WatchEvent"))
    for kind in discovery.kinds:
        for served in kind.versions:
            listed = structs.list_struct(served.schema)
            resource = Resource(kind, served.name, served.schema, listed)
            found.describe(served.schema, resource.gvk)
            found.describe(listed, (kind.group, served.name, f"{kind.name}List"))
            found.operations.extend(resource.operations())
            if kind.resource == "pods":
                gvk = (EVICTIONS["group"], EVICTIONS["version"], EVICTIONS["kind"])
                found.describe(EVICTION, gvk)
                found.operations.append(eviction_operation(resource, gvk))
    if any(kind.scale_selector is not None for kind in kinds):
        found.describe(SCALE, (SCALES["group"], SCALES["version"], SCALES["kind"]))
    return found


def eviction_operation(pods: Resource, gvk: GroupVersionKind) -> Operation:
    """The creation of an eviction."""
    path = f"namespaces/{{namespace}}/{pods.kind.plural}/{{name}}/eviction"
    text = "Evict a Pod, if its disruption budgets permit it."
    return pods.operation("post", path, "NamespacedPodEviction", text, EVICTION, EVICTION, gvk)


def discovery_operations(discovery: Discovery) -> Iterator[Operation]:
    """The operations of discovery and `/version`."""

    def get(document: str, id_: str, tag: str, description: str, answer: Struct) -> Operation:
        return Operation(document, f"/{document}/", "get", id_, description, tag, {200: answer})

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
