"""Tests of the Swagger 2.0 document."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.openapi import v2
from apfproxy.apiserver.openapi.paths import catalog
from tests.apiserver.kinds import KINDS

if TYPE_CHECKING:
    from apfproxy.objects.types import Object


@pytest.fixture(scope="module")
def document() -> Object:
    """Of all small kinds."""
    return v2.document(catalog(KINDS), "v1.36.0")


def test_head(document: Object) -> None:
    """It says what it is and of which server."""
    assert "2.0" == document["swagger"]
    assert {"title": "Kubernetes", "version": "v1.36.0"} == document["info"]


def test_operation(document: Object) -> None:
    """An operation with a body is described in full."""
    posted = document["paths"]["/apis/widgets.example.com/v1/widgets"]["post"]
    widget = {"$ref": "#/definitions/io.k8s.api.widgets.v1.Widget"}

    assert {"name": "body", "in": "body", "required": True, "schema": widget} == posted[
        "parameters"
    ][-1]
    assert {
        "200": {"description": "OK", "schema": widget},
        "201": {"description": "Created", "schema": widget},
        "202": {"description": "Accepted", "schema": widget},
        "401": {"description": "Unauthorized"},
    } == posted["responses"]
    assert "post" == posted["x-kubernetes-action"]
    assert {"group": "widgets.example.com", "kind": "Widget", "version": "v1"} == posted[
        "x-kubernetes-group-version-kind"
    ]
    assert ["widgetsExampleCom_v1"] == posted["tags"]
    assert ["*/*"] == posted["consumes"]


def test_dry_run_stands_in_the_patch(document: Object) -> None:
    """Older clients look for `dryRun` among the parameters of the patch itself."""
    patched = document["paths"]["/apis/widgets.example.com/v1/widgets/{name}"]["patch"]

    assert ["name", "dryRun", "fieldManager", "fieldValidation", "force", "pretty", "body"] == [
        parameter["name"] for parameter in patched["parameters"]
    ]
    assert "application/apply-patch+yaml" in patched["consumes"]
    assert {"name", "in", "description", "required", "type", "uniqueItems"} == patched[
        "parameters"
    ][0].keys()


def test_body_that_may_be_left_out(document: Object) -> None:
    """Options of a deletion need not be sent."""
    deleted = document["paths"]["/apis/widgets.example.com/v1/widgets/{name}"]["delete"]

    assert "required" not in deleted["parameters"][-1]


def test_discovery_has_no_action(document: Object) -> None:
    """Operations on no kind have neither parameters nor an action."""
    got = document["paths"]["/version/"]["get"]

    assert {"parameters", "x-kubernetes-action", "x-kubernetes-group-version-kind"}.isdisjoint(got)


def test_sorted(document: Object) -> None:
    """Paths and definitions are in order."""
    assert sorted(document["paths"]) == list(document["paths"])
    assert sorted(document["definitions"]) == list(document["definitions"])
