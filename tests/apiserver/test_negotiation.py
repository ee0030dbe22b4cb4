"""Tests of the forms that clients ask for."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.negotiation import AS_JSON, JSON, YAML, Form, Shape, chosen, forms

ALL = frozenset(Shape)
OBJECTS = frozenset({Shape.OBJECT})
KUBECTL = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)


@pytest.mark.parametrize(
    ("accept", "media_type", "shape", "meta_version"),
    [
        pytest.param("", JSON, Shape.OBJECT, "v1", id="anything"),
        pytest.param("*/*", JSON, Shape.OBJECT, "v1", id="any-type"),
        pytest.param("application/*", JSON, Shape.OBJECT, "v1", id="any-application"),
        pytest.param("application/yaml", YAML, Shape.OBJECT, "v1", id="yaml"),
        pytest.param("text/csv, application/yaml", YAML, Shape.OBJECT, "v1", id="second"),
        pytest.param(
            "application/yaml;q=0.5, application/json", JSON, Shape.OBJECT, "v1", id="weighed"
        ),
        pytest.param(
            "application/vnd.kubernetes.protobuf,application/json",
            JSON,
            Shape.OBJECT,
            "v1",
            id="protobuf-first",
        ),
        pytest.param(KUBECTL, JSON, Shape.TABLE, "v1", id="kubectl"),
        pytest.param(
            "application/json;as=Table;v=v2;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io",
            JSON,
            Shape.TABLE,
            "v1beta1",
            id="older-table",
        ),
        pytest.param(
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            JSON,
            Shape.METADATA,
            "v1",
            id="metadata",
        ),
        pytest.param(
            "application/json;as=Chart;v=v1;g=meta.k8s.io,application/json",
            JSON,
            Shape.OBJECT,
            "v1",
            id="unknown-shape",
        ),
        pytest.param('application/json; charset="utf-8"', JSON, Shape.OBJECT, "v1", id="charset"),
        pytest.param(
            "application/json;as=X;g=other;v=v2,application/yaml",
            YAML,
            Shape.OBJECT,
            "v1",
            id="another-group",
        ),
    ],
)
def test_chosen(accept: str, media_type: str, shape: Shape, meta_version: str) -> None:
    """The first form that both sides know is taken."""
    form = chosen(accept, shapes=ALL)

    assert (media_type, shape, meta_version) == (form.media_type, form.shape, form.meta_version)


def test_chosen_passes_over_shapes_that_the_answer_cannot_have() -> None:
    """Where there is no Table, kubectl takes the object."""
    assert Shape.OBJECT is chosen(KUBECTL, shapes=OBJECTS).shape


@pytest.mark.parametrize("accept", ["text/csv", "application/json;q=0", "application/json;q=much"])
def test_nothing_acceptable(accept: str) -> None:
    """406 says what there is."""
    with pytest.raises(StatusError) as caught:
        chosen(accept, shapes=ALL)

    assert 406 == caught.value.code
    assert "application/yaml" in caught.value.message


def test_forms_keep_parameters_of_other_groups() -> None:
    """Discovery has shapes of its own."""
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

    assert (
        Form(JSON, Shape.OBJECT, "v2", "apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"),
    ) == forms(accept)


def test_forms_of_nothing() -> None:
    """Who accepts anything gets JSON."""
    assert (AS_JSON,) == forms("")
    assert not AS_JSON.is_yaml
