"""Tests of the OpenAPI 3.0 documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.openapi import v3
from apfproxy.apiserver.openapi.paths import catalog
from tests.apiserver.kinds import KINDS

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

V1 = "apis/widgets.example.com/v1"


@pytest.fixture(scope="module")
def documents() -> dict[str, Object]:
    """Of all small kinds."""
    return v3.documents(catalog(KINDS), "v1.36.0")


def test_one_for_each_version(documents: dict[str, Object]) -> None:
    """Each version of a group has a document, and so has discovery."""
    assert [
        "api",
        "api/v1",
        "apis",
        "apis/widgets.example.com",
        "apis/widgets.example.com/v1",
        "apis/widgets.example.com/v1beta3",
        "version",
    ] == list(documents)


def test_each_has_its_own(documents: dict[str, Object]) -> None:
    """A document has the paths and definitions of its version alone."""
    document = documents[V1]

    assert {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.0"}} == {
        key: document[key] for key in ("openapi", "info")
    }
    assert set() == {path for path in document["paths"] if not path.startswith(f"/{V1}/")}
    schemas = document["components"]["schemas"]
    assert "io.k8s.api.widgets.v1.WidgetList" in schemas
    assert "io.k8s.api.widgets.v1beta3.Widget" not in schemas


def test_operation(documents: dict[str, Object]) -> None:
    """A patch takes four content types and answers in two."""
    item = documents[V1]["paths"][f"/{V1}/widgets/{{name}}"]
    patched = item["patch"]

    assert {
        "name": "name",
        "in": "path",
        "required": True,
        "description": "Name of the Widget.",
        "schema": {"type": "string", "uniqueItems": True},
    } == item["parameters"][0]
    assert ["name", "pretty"] == [each["name"] for each in item["parameters"]]
    assert {"dryRun", "fieldManager", "fieldValidation", "force"} == {
        each["name"] for each in patched["parameters"]
    }
    assert "parameters" not in item["get"]
    assert [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    ] == list(patched["requestBody"]["content"])
    assert patched["requestBody"]["required"]
    assert ["200", "201", "401"] == list(patched["responses"])
    assert ["application/json", "application/yaml"] == list(patched["responses"]["200"]["content"])
    assert "patch" == patched["x-kubernetes-action"]


def test_body_that_may_be_left_out(documents: dict[str, Object]) -> None:
    """Options of a deletion need not be sent."""
    deleted = documents[V1]["paths"][f"/{V1}/widgets/{{name}}"]["delete"]

    assert "required" not in deleted["requestBody"]


def test_discovery(documents: dict[str, Object]) -> None:
    """Operations on no kind have neither parameters nor a body nor an action."""
    got = documents["version"]["paths"]["/version/"]["get"]

    assert {"description", "operationId", "tags", "responses"} == got.keys()


def test_index() -> None:
    """The index links to documents by their hashes."""
    assert {"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=ABC"}}} == v3.index(
        {"api/v1": "ABC"}
    )
