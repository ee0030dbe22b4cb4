"""Tests of the annotation of client-side apply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apfproxy.apiserver.ownership.last_applied import (
    ANNOTATION,
    MOST_ANNOTATIONS,
    renew,
    still_as_applied,
)
from tests.apiserver.ownership.schemas import THING, VERSION, configuration, thing


def annotated(text: str, **spec: object) -> dict[str, Any]:
    """An object with this annotation."""
    metadata = {"name": "one", "annotations": {ANNOTATION: text, "a": "b"}}
    return {**thing(**spec), "metadata": metadata}


def test_what_is_still_as_applied_is_told() -> None:
    """Fields that have been changed or removed since are not in it."""
    text = json.dumps(configuration(size=1, title="a", isOn=True))
    live = annotated(text, size=1, title="b")

    fields = still_as_applied(live, THING, VERSION)

    assert {"f:size": {}} == fields["f:spec"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="no-json"),
        pytest.param("[" * 5000, id="deep"),
        pytest.param("[]", id="no-object"),
        pytest.param(json.dumps({"apiVersion": "example.com/v2"}), id="other-version"),
        pytest.param(json.dumps(configuration(bogus=1)), id="other-types"),
    ],
)
def test_what_cannot_be_told_is_nothing(text: str) -> None:
    """An annotation that says nothing about this version allows nothing."""
    assert {} == still_as_applied(annotated(text), THING, VERSION)
    assert {} == still_as_applied(thing(), THING, VERSION)


def test_the_annotation_says_what_has_been_applied() -> None:
    """It has the configuration without itself, as Go writes JSON."""
    obj = annotated("{}")
    applied = configuration(title="<")
    applied["metadata"] = {"name": "one", "annotations": {ANNOTATION: "x", "c": "d"}}

    renew(obj, applied)

    expected = (
        '{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"annotations":{"c":"d"},'
        '"name":"one"},"spec":{"title":"\\u003c"}}\n'
    )
    assert {ANNOTATION: expected, "a": "b"} == obj["metadata"]["annotations"]


def test_a_configuration_without_annotations_stays_without() -> None:
    """Nothing is added to the configuration."""
    obj = annotated("{}")
    renew(obj, configuration())

    assert configuration() == json.loads(obj["metadata"]["annotations"][ANNOTATION])


def test_an_object_without_the_annotation_gets_none() -> None:
    """Only who has used client-side apply has it."""
    obj = thing()
    renew(obj, configuration())

    assert thing() == obj


def test_an_annotation_that_is_too_large_goes() -> None:
    """What could not be stored is left out."""
    obj = annotated("{}")
    renew(obj, configuration(title="x" * MOST_ANNOTATIONS))

    assert {"a": "b"} == obj["metadata"]["annotations"]
