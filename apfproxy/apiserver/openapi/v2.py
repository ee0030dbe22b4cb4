"""The Swagger 2.0 document of all groups.

Parameters stand where they are used, not in a section of their own: kubectl before 1.27 looks for
`dryRun` there, and takes a server that has it elsewhere for one that cannot do dry runs.

Source: OpenAPI 2.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.openapi.definitions import Definitions, Style, kind_entry

if TYPE_CHECKING:
    from apfproxy.api.kind import Object
    from apfproxy.apiserver.openapi.paths import Catalog, Operation

DESCRIPTIONS = {200: "OK", 201: "Created", 202: "Accepted", 401: "Unauthorized"}
"""HTTP status to its description, which must be there."""


def document(catalog: Catalog, version: str) -> Object:
    """The whole document.

    Args:
        catalog: What is served.
        version: Of the server.
    """
    definitions = Definitions(Style.V2, catalog.kinds)
    paths: Object = {}
    for operation in catalog.operations:
        paths.setdefault(operation.path, {})[operation.method] = describe(operation, definitions)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": dict(sorted(paths.items())),
        "definitions": dict(sorted(definitions.schemas.items())),
    }


def describe(operation: Operation, definitions: Definitions) -> Object:
    """An operation; the definitions that it needs are added."""
    parameters: list[Object] = [
        {
            "name": parameter.name,
            "in": "path" if parameter.is_in_path else "query",
            "description": parameter.description,
            "required": True,
            "type": parameter.type,
            "uniqueItems": True,
        }
        if parameter.is_in_path
        else {
            "name": parameter.name,
            "in": "query",
            "description": parameter.description,
            "type": parameter.type,
            "uniqueItems": True,
        }
        for parameter in operation.parameters()
    ]
    if operation.body:
        body: Object = {"name": "body", "in": "body"}
        if operation.is_body_required:
            body["required"] = True
        parameters.append({**body, "schema": definitions.reference(operation.body)})
    responses: Object = {
        str(code): {"description": DESCRIPTIONS[code], "schema": definitions.reference(answer)}
        for code, answer in operation.answers.items()
    }
    responses["401"] = {"description": DESCRIPTIONS[401]}
    described: Object = {
        "description": operation.description,
        "operationId": operation.id,
        "tags": [operation.tag],
        "consumes": list(operation.consumes),
        "produces": list(operation.produces),
        "schemes": ["https"],
        "responses": responses,
    }
    if parameters:
        described["parameters"] = parameters
    if operation.action:
        described["x-kubernetes-action"] = operation.action
    if operation.kind:
        described["x-kubernetes-group-version-kind"] = kind_entry(operation.kind)
    return described
