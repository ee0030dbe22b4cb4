"""Tests of the forms that clients ask for."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.negotiation import (
    ALL_SHAPES,
    AS_JSON,
    JSON,
    YAML,
    Shape,
    check_route,
    choices,
    chosen,
)

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
    form = chosen(accept, shapes=ALL_SHAPES)

    assert (media_type, shape, meta_version) == (form.media_type, form.shape, form.meta_version)


def test_chosen_passes_over_shapes_where_there_is_nothing_to_convert() -> None:
    """Where there is no Table, kubectl takes the object."""
    assert Shape.OBJECT is chosen(KUBECTL).shape


@pytest.mark.parametrize(
    "accept",
    [
        "text/csv",
        "APPLICATION/JSON",
        "application",
        "a/b/c",
        "application/json;stream=other",
        "application/yaml;stream=watch",
        "application/json;sv=v2",
        "application/json;as=Table",
        "application/json;g=meta.k8s.io;v=v1",
        "application/json;as=Chart;v=v1;g=meta.k8s.io",
    ],
)
def test_nothing_acceptable(accept: str) -> None:
    """406 says what there is."""
    with pytest.raises(StatusError) as caught:
        chosen(accept, shapes=ALL_SHAPES)

    assert 406 == caught.value.code
    assert "application/yaml" in caught.value.message


def test_versions_of_the_server_need_objects() -> None:
    """`sv` names a version of `meta.k8s.io`, which documents of discovery have not."""
    assert AS_JSON == chosen("application/json;sv=v1", shapes=ALL_SHAPES)
    with pytest.raises(StatusError):
        chosen("application/json;sv=v1")


@pytest.mark.parametrize("accept", ["", "*/*", "text/csv, application/yaml;q=0", f"{JSON};as=X"])
def test_routes_that_take_a_request(accept: str) -> None:
    """A whole media type is enough, of whatever weight and with whatever parameters."""
    check_route(accept)


@pytest.mark.parametrize("accept", ["application/*", "APPLICATION/JSON", "text/csv", ","])
def test_routes_that_refuse_a_request(accept: str) -> None:
    """What is no whole media type of those there finds no way."""
    with pytest.raises(StatusError) as caught:
        check_route(accept)

    assert (406, {}) == (caught.value.code, caught.value.details)
    assert "406: Not Acceptable" in caught.value.message


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param("*/*,a/b;q=0.1", ["a/b", "*/*"], id="exact-before-any"),
        pytest.param("a/b;q=0.5,c/d", ["c/d", "a/b"], id="weights"),
        pytest.param("*", ["*/*"], id="star"),
        pytest.param("a/b;q;x=1=2;y=", ["a/b"], id="odd-parameters"),
        pytest.param(",".join(["*/*", *["a/b"] * 12]), ["a/b"] * 12 + ["*/*"], id="many"),
    ],
)
def test_choices(accept: str, expected: list[str]) -> None:
    """They are in the order in which they are tried."""
    assert expected == [f"{choice.type}/{choice.subtype}" for choice in choices(accept)]


def test_choices_keep_parameters_of_other_groups() -> None:
    """Discovery has shapes of its own."""
    (choice,) = choices("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")

    assert ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList") == choice.converts_to
    assert not AS_JSON.is_yaml
