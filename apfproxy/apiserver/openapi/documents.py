"""The OpenAPI documents of a server, each made at the first request for it, and cached.

A document is tens to hundreds of kilobytes of JSON that never change while the server runs, so it
is cached as bytes, compressed too.  There is one of version 2 (Swagger), and one of version 3 for
each version of a group.

In version 2, parameters stand where they are used, not in a section of their own: kubectl before
1.27 looks for `dryRun` there, and takes a server that has it elsewhere for one that cannot do dry
runs.

Sources: OpenAPI 2.0 and 3.0; Kubernetes documentation, "OpenAPI V3".
"""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from apfproxy.apiserver.discovery import MAJOR, MINOR
from apfproxy.apiserver.openapi.definitions import Definitions, Style, kind_entry
from apfproxy.apiserver.openapi.operations import JSON, catalog
from apfproxy.apiserver.openapi.protobuf import encode
from apfproxy.apiserver.schema.shared_structs import DELETE_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.openapi.operations import Catalog, Operation
    from apfproxy.objects.types import Object

V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""Content type of the protobuf form; clients also write an `@` in place of the dot before `v1.0`,
which is no valid content type."""
INFO = {"title": "Kubernetes", "version": f"{MAJOR}.{MINOR}"}
STATUSES = {"200": "OK", "201": "Created", "202": "Accepted", "401": "Unauthorized"}


@dataclass(frozen=True)
class Document:
    """A document as it is sent."""

    data: bytes
    content_type: str = JSON

    @cached_property
    def gzipped(self) -> bytes:
        """Compressed bytes; the same in every run."""
        return gzip.compress(self.data, compresslevel=6, mtime=0)

    @cached_property
    def hash(self) -> str:
        """In upper-case hexadecimal digits; quoted it is the document's ETag."""
        return hashlib.sha512(self.data).hexdigest().upper()


class OpenAPI:
    """The OpenAPI documents of some kinds."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        """Describe the kinds; each document is made when it is first used."""
        self._kinds = tuple(kinds)

    @cached_property
    def _swagger(self) -> Object:
        return swagger(catalog(self._kinds))

    @cached_property
    def v2_json(self) -> Document:
        """The document of `/openapi/v2`."""
        return _in_json(self._swagger)

    @cached_property
    def v2_protobuf(self) -> Document:
        """The same in protobuf, for kubectl."""
        return Document(encode(self._swagger), V2_PROTOBUF)

    @cached_property
    def v3_documents(self) -> dict[str, Document]:
        """By path below `/openapi/v3/`, such as `apis/policy/v1`."""
        found = catalog(self._kinds)
        names = sorted({operation.document for operation in found.operations})
        return {name: _in_json(_v3_document(name, found)) for name in names}

    @cached_property
    def v3_index(self) -> Document:
        """The document of `/openapi/v3`.

        Each link has the hash of its document, so that a client may keep what it got from it for
        ever; a request with another hash, or none, is about the current document.
        """
        paths = {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={document.hash}"}
            for path, document in self.v3_documents.items()
        }
        return _in_json({"paths": paths})


def _in_json(document: Object) -> Document:
    return Document(json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode())


def swagger(catalog: Catalog) -> Object:
    """The document of version 2 about all operations."""
    definitions = Definitions(Style.V2, catalog.kinds)
    return {
        "swagger": "2.0",
        "info": INFO,
        "paths": _paths_of(catalog.operations, definitions),
        "definitions": dict(sorted(definitions.schemas.items())),
    }


def _v3_document(name: str, catalog: Catalog) -> Object:
    definitions = Definitions(Style.V3, catalog.kinds)
    operations = (each for each in catalog.operations if each.document == name)
    paths = _paths_of(operations, definitions)
    for item in paths.values():
        _share_parameters(item)
    return {
        "openapi": "3.0.0",
        "info": INFO,
        "paths": paths,
        "components": {"schemas": dict(sorted(definitions.schemas.items()))},
    }


def _paths_of(operations: Iterable[Operation], definitions: Definitions) -> Object:
    """The operations by path and method; the definitions that they need are added."""
    describe = _v2_operation if definitions.style is Style.V2 else _v3_operation
    paths: Object = {}
    for operation in operations:
        described = {
            "description": operation.description,
            "operationId": operation.id,
            "tags": [operation.tag],
            **describe(operation, definitions),
        }
        if operation.action.name:
            described["x-kubernetes-action"] = operation.action.name
        if operation.kind:
            described["x-kubernetes-group-version-kind"] = kind_entry(operation.kind)
        paths.setdefault(operation.path, {})[operation.action.method] = described
    return dict(sorted(paths.items()))


def _v2_operation(operation: Operation, definitions: Definitions) -> Object:
    parameters = operation.parameters
    if body := operation.body:
        must_be_sent = {"required": True} if body is not DELETE_OPTIONS else {}
        place = {"name": "body", "in": "body", **must_be_sent}
        parameters.append({**place, "schema": definitions.reference(body)})
    described = {
        "consumes": list(operation.consumes),
        "produces": list(operation.produces),
        "schemes": ["https"],
        "responses": _responses(operation, schema=definitions.reference(operation.response)),
    }
    return {**described, "parameters": parameters} if parameters else described


def _v3_operation(operation: Operation, definitions: Definitions) -> Object:
    described: Object = {}
    if parameters := operation.parameters:
        for each in parameters:
            each["schema"] = {name: each.pop(name) for name in ("type", "uniqueItems")}
        described["parameters"] = parameters
    if body := operation.body:
        must_be_sent = {"required": True} if body is not DELETE_OPTIONS else {}
        content = {type_: {"schema": definitions.reference(body)} for type_ in operation.consumes}
        described["requestBody"] = {"content": content, **must_be_sent}
    response = {"schema": definitions.reference(operation.response)}
    content = dict.fromkeys(operation.produces, response)
    return {**described, "responses": _responses(operation, content=content)}


def _responses(operation: Operation, **content: Object) -> Object:
    codes = operation.action.codes.split()
    found: Object = {code: {"description": STATUSES[code], **content} for code in codes}
    return {**found, "401": {"description": STATUSES["401"]}}


def _share_parameters(item: Object) -> None:
    """Move parameters that all operations of a path share to the path, sorted by name."""
    operations = list(item.values())
    first, *others = (operation.get("parameters", []) for operation in operations)
    shared = [each for each in first if all(each in parameters for parameters in others)]
    for operation, parameters in zip(operations, (first, *others), strict=True):
        if own := [each for each in parameters if each not in shared]:
            operation["parameters"] = own
        else:
            operation.pop("parameters", None)
    if shared:
        item["parameters"] = sorted(shared, key=lambda each: str(each["name"]))
