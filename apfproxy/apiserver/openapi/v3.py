"""The OpenAPI 3.0 documents, one for each version of a group, and the index of them.

Source: OpenAPI 3.0; Kubernetes documentation, "OpenAPI V3".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.openapi.definitions import Definitions, Style
from apfproxy.apiserver.openapi.v2 import DESCRIPTIONS, extensions, names, place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apfproxy.apiserver.openapi.paths import Catalog, Operation
    from apfproxy.objects.types import Object


def documents(catalog: Catalog, version: str) -> dict[str, Object]:
    """Path below `/openapi/v3/` to document, of a server of that version."""
    operations: dict[str, list[Operation]] = {}
    for operation in catalog.operations:
        operations.setdefault(operation.document, []).append(operation)
    return {name: document(of_one, catalog, version) for name, of_one in sorted(operations.items())}


def document(operations: list[Operation], catalog: Catalog, version: str) -> Object:
    """One document."""
    definitions = Definitions(Style.V3, catalog.kinds)
    paths: Object = {}
    for operation in operations:
        item = paths.setdefault(operation.path, {})
        item[operation.method] = describe(operation, definitions)
    for item in paths.values():
        share_parameters(item)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(sorted(definitions.schemas.items()))},
    }


def share_parameters(item: Object) -> None:
    """Move parameters that all operations of a path share to the path, sorted by name."""
    operations = list(item.values())
    listed = [operation.get("parameters", []) for operation in operations]
    shared = [one for one in listed[0] if all(one in others for others in listed[1:])]
    if not shared:
        return
    for operation, parameters in zip(operations, listed, strict=True):
        own = [one for one in parameters if one not in shared]
        if own:
            operation["parameters"] = own
        else:
            del operation["parameters"]
    item["parameters"] = sorted(shared, key=lambda one: str(one["name"]))


def index(hashes: Mapping[str, str]) -> Object:
    """The document of `/openapi/v3`, of the hashes of documents by their paths.

    Each link has the hash of its document, so that a client may keep what it got from it for ever;
    a request with another hash, or none, is about the current document.
    """
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={value}"}
            for path, value in hashes.items()
        }
    }


def describe(operation: Operation, definitions: Definitions) -> Object:
    """An operation; the definitions that it needs are added."""
    described = names(operation)
    parameters = [
        {**place(each), "schema": {"type": each.type, "uniqueItems": True}}
        for each in operation.parameters()
    ]
    if parameters:
        described["parameters"] = parameters
    if operation.body:
        schema = definitions.reference(operation.body)
        body: Object = {"content": {type_: {"schema": schema} for type_ in operation.consumes}}
        if operation.is_body_required:
            body["required"] = True
        described["requestBody"] = body
    responses: Object = {
        str(code): {
            "description": DESCRIPTIONS[code],
            "content": {
                type_: {"schema": definitions.reference(answer)} for type_ in operation.produces
            },
        }
        for code, answer in operation.answers.items()
    }
    described["responses"] = {**responses, "401": {"description": DESCRIPTIONS[401]}}
    return {**described, **extensions(operation)}
