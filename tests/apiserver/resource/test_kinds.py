"""Tests of the kind ResourceSlice."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.resource.kinds import RESOURCE_SLICE
from apfproxy.apiserver.schema.reading import MismatchError, canonical, read
from tests.apiserver.resource.causes import causes
from tests.conformance.vectors import load

NOW = "2026-01-02T03:04:05Z"
LOWERCASE = "spec.driver: driver names should be lowercase;"
RULES = RESOURCE_SLICE.rules
STEPS: list[dict[str, Any]] = [
    step for step in load("api_exchanges") if step["id"].startswith("rs-") and step.get("body")
]


def steps(method: str) -> list[Any]:
    """The recorded steps of a method, each with its name."""
    return [pytest.param(step, id=step["id"]) for step in STEPS if step["method"] == method]


def create(version: str, body: object) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """What becomes of an object that is created, in the storage version, and its errors."""
    form = RESOURCE_SLICE.version(version)
    assert form is not None
    obj = form.to_storage(read(form.schema, body).obj)
    obj["metadata"] |= {"uid": "u", "creationTimestamp": NOW}
    RULES.stamp(obj, NOW)
    RULES.prepare_create(obj)
    return obj, causes(RULES.validate(obj))


def recorded_causes(answer: dict[str, Any]) -> set[tuple[str, str]]:
    """The path and the reason of each cause of a recorded answer."""
    found = answer.get("details", {}).get("causes", [])
    return {(cause["field"], cause["reason"]) for cause in found}


@pytest.mark.parametrize("step", steps("POST"))
def test_recorded_creations(step: dict[str, Any]) -> None:
    """Slices are created, or refused, as by kube-apiserver."""
    version = step["path"].split("/")[3]
    answer = step["expect"]["body"]
    if step["expect"]["status"] == 400:
        with pytest.raises(MismatchError) as caught:
            create(version, step["body"])
        assert answer["message"].endswith(str(caught.value))
        return
    obj, found = create(version, step["body"])
    assert recorded_causes(answer) == set(found)
    if not found:
        form = RESOURCE_SLICE.version(version)
        assert form is not None
        written = canonical(form.schema, form.from_storage(obj))
        assert answer["spec"] == written["spec"]
        assert answer["metadata"]["generation"] == written["metadata"]["generation"]


@pytest.mark.parametrize("step", steps("PUT"))
def test_recorded_replacements(step: dict[str, Any]) -> None:
    """Slices are replaced, or refused, as by kube-apiserver."""
    first = next(one for one in STEPS if one["id"] == "rs-create")
    old, _ = create("v1", first["body"])
    new = read(RESOURCE_SLICE.storage.schema, step["body"]).obj
    new["metadata"] = {**old["metadata"], **new["metadata"], "resourceVersion": "1"}
    RULES.prepare_update(new, old)
    found = causes(RULES.validate_update(new, old))

    assert recorded_causes(step["expect"]["body"]) == set(found)


def test_generation_counts_changes_of_the_specification() -> None:
    """Fields that are dropped count as well, as they are dropped afterwards."""
    first = next(one for one in STEPS if one["id"] == "rs-create")
    old, _ = create("v1", first["body"])
    same, _ = create("v1", first["body"])
    RULES.prepare_update(same, old)
    assert (1, old["spec"]) == (same["metadata"]["generation"], same["spec"])

    same["spec"]["devices"][0]["attributes"]["model"]["strings"] = ["x"]
    RULES.prepare_update(same, old)
    assert (2, old["spec"]) == (same["metadata"]["generation"], same["spec"])


def test_taints_get_their_time() -> None:
    """The rules hand the time on."""
    body = {"spec": {"devices": [{"name": "d", "taints": [{"key": "k", "effect": "None"}]}]}}
    obj, _ = create("v1", body)

    assert NOW == obj["spec"]["devices"][0]["taints"][0]["timeAdded"]


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        ("gpu.example.com", []),
        (
            "GPU.example.com",
            [f'{LOWERCASE} "GPU.example.com" contains uppercase characters'],
        ),
    ],
)
def test_warnings(driver: str, expected: list[str]) -> None:
    """Capital letters in a driver's name are allowed, but not wanted."""
    assert expected == RULES.warnings({"spec": {"driver": driver}}, None)


@pytest.mark.parametrize(("node", "cell"), [({"nodeName": "n1"}, "n1"), ({}, "")])
def test_rows_and_selectable_fields(node: dict[str, str], cell: str) -> None:
    """Both show the node and the driver."""
    slice_ = {
        "metadata": {"name": "s", "creationTimestamp": "1970-01-01T00:00:00Z"},
        "spec": {"driver": "gpu.example.com", "pool": {"name": "p"}, **node},
    }

    assert ("s", cell, "gpu.example.com", "p", "5s") == RESOURCE_SLICE.cells(slice_, 5.0)
    assert {"spec.nodeName": cell, "spec.driver": "gpu.example.com"} == RESOURCE_SLICE.selectable(
        slice_
    )


def test_columns_are_as_recorded() -> None:
    """Tables have the headings of kube-apiserver."""
    table = next(one for one in load("api_exchanges") if one["id"] == "rs-table")["expect"]["body"]
    expected = [(one["name"], one["type"], one["format"]) for one in table["columnDefinitions"]]

    assert expected == [(one.name, one.type, one.format) for one in RESOURCE_SLICE.columns]


def test_requests_without_policy_default_write_null() -> None:
    """Go writes the default of a policy although there is none."""
    body = {"spec": {"devices": [{"name": "d", "capacity": {"c": {"requestPolicy": {}}}}]}}
    obj, _ = create("v1", body)

    assert {"value": "0", "requestPolicy": {"default": None}} == (
        obj["spec"]["devices"][0]["capacity"]["c"]
    )
