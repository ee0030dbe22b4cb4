"""The Swagger 2.0 document of all groups.

Parameters stand where they are used, not in a section of their own: kubectl before 1.27 looks for
`dryRun` there, and takes a server that has it elsewhere for one that cannot do dry runs.

Source: OpenAPI 2.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.openapi.definitions import Definitions, Style, kind_entry

if TYPE_CHECKING:
    from apfproxy.apiserver.openapi.parameters import Parameter
    from apfproxy.apiserver.openapi.paths import Catalog, Operation
    from apfproxy.objects.types import Object

DESCRIPTIONS = {200: "OK", 201: "Created", 202: "Accepted", 401: "Unauthorized"}
"""HTTP status to its description, which must be there."""


def document(catalog: Catalog, version: str) -> Object:
    """The whole document of a server of that version."""
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
    parameters = [
        {**place(each), "type": each.type, "uniqueItems": True} for each in operation.parameters()
    ]
    if operation.body:
        required = {"required": True} if operation.is_body_required else {}
        schema = definitions.reference(operation.body)
        parameters.append({"name": "body", "in": "body", **required, "schema": schema})
    responses: Object = {
        str(code): {"description": DESCRIPTIONS[code], "schema": definitions.reference(answer)}
        for code, answer in operation.answers.items()
    }
    return {
        **names(operation),
        "consumes": list(operation.consumes),
        "produces": list(operation.produces),
        "schemes": ["https"],
        "responses": {**responses, "401": {"description": DESCRIPTIONS[401]}},
        **({"parameters": parameters} if parameters else {}),
        **extensions(operation),
    }


def place(parameter: Parameter) -> Object:
    """Name, description and place of a parameter, in both versions."""
    where = {"in": "path", "required": True} if parameter.is_in_path else {"in": "query"}
    return {"name": parameter.name, "description": parameter.description, **where}


def names(operation: Operation) -> Object:
    """Description, name and tag of an operation, in both versions."""
    return {
        "description": operation.description,
        "operationId": operation.id,
        "tags": [operation.tag],
    }


def extensions(operation: Operation) -> Object:
    """Kubernetes' extensions of an operation, in both versions."""
    found: Object = {}
    if operation.action:
        found["x-kubernetes-action"] = operation.action
    if operation.kind:
        found["x-kubernetes-group-version-kind"] = kind_entry(operation.kind)
    return found
