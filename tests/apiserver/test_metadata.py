"""Tests of the metadata of stored objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apfproxy.apiserver.metadata import (
    carry_over,
    check_path_segment,
    count_generation,
    generated_name,
    keep_metadata,
    validate_any_update,
    validate_core_update,
    validate_managed_fields,
    validate_manager,
    validate_stored,
)
from apfproxy.objects.field_errors import Reason
from apfproxy.objects.validation import (
    LARGEST_ANNOTATIONS_BYTES,
    drop_repeated_owners,
)

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}
CONTROLLERS = [{**OWNER, "uid": uid, "controller": True} for uid in "123"]
STORED: dict[str, Any] = {
    "name": "a",
    "uid": "1",
    "resourceVersion": "5",
    "generation": 2,
    "creationTimestamp": "2024-01-01T00:00:00Z",
}
DELETED: dict[str, Any] = {
    **STORED,
    "deletionTimestamp": "2024-01-02T00:00:00Z",
    "deletionGracePeriodSeconds": 30,
    "finalizers": ["a/b"],
}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"name": "a.b"}, []),
        ({}, ["name FieldValueRequired"]),
        ({"name": "A"}, ["name FieldValueInvalid"]),
        (
            {"name": "A_x", "generateName": "A_"},
            ["generateName FieldValueInvalid", "name FieldValueInvalid"],
        ),
        ({"name": "a", "generateName": "a-"}, []),
        ({"name": "a", "namespace": "b"}, ["namespace FieldValueForbidden"]),
        ({"name": "a", "generation": -1}, ["generation FieldValueInvalid"]),
        ({"name": "a", "labels": {"a b": "c"}}, ["labels FieldValueInvalid"]),
        ({"name": "a", "annotations": {"a b": "c"}}, ["annotations FieldValueInvalid"]),
        ({"name": "a", "ownerReferences": [OWNER]}, []),
        (
            {"name": "a", "ownerReferences": [{**OWNER, "uid": ""}]},
            ["ownerReferences.uid FieldValueInvalid"],
        ),
        ({"name": "a", "finalizers": ["orphan", "kubernetes", "example.com/x"]}, []),
        ({"name": "a", "finalizers": ["example.com/x", "x"]}, ["finalizers[1] FieldValueInvalid"]),
        (
            {"name": "a", "finalizers": [""]},
            [*["finalizers FieldValueInvalid"] * 2, "finalizers[0] FieldValueInvalid"],
        ),
        (
            {"name": "a", "finalizers": ["orphan", "foregroundDeletion"]},
            ["finalizers FieldValueInvalid"],
        ),
        (
            {"name": "a", "labels": {"a/b": "c", "example.com/": "d", "e": "f g"}},
            ["labels FieldValueInvalid"] * 3,
        ),
        (
            {"name": "a", "annotations": {"Example.COM/A": "any \n", "b c": ""}},
            ["annotations FieldValueInvalid"],
        ),
        ({"name": "a", "annotations": {"a": "x" * (LARGEST_ANNOTATIONS_BYTES - 1)}}, []),
        (
            {"name": "a", "annotations": {"a": "x" * LARGEST_ANNOTATIONS_BYTES}},
            ["annotations FieldValueTooLong"],
        ),
        ({"name": "a", "ownerReferences": [OWNER, {**OWNER, "controller": True}]}, []),
        (
            {"name": "a", "ownerReferences": [dict.fromkeys(OWNER, "")]},
            [f"ownerReferences.{name} FieldValueInvalid" for name in OWNER],
        ),
        *(
            (
                {"name": "a", "ownerReferences": [{**OWNER, "apiVersion": version}]},
                ["ownerReferences.apiVersion FieldValueInvalid"],
            )
            for version in ("apps/", "a/b/v1", "/")
        ),
        (
            {"name": "a", "ownerReferences": [{**OWNER, "kind": "Event"}]},
            ["ownerReferences FieldValueInvalid"],
        ),
        (
            {
                "name": "a",
                "ownerReferences": [{**OWNER, "uid": i, "controller": True} for i in "123"],
            },
            ["ownerReferences FieldValueInvalid"] * 2,
        ),
        ({"name": "a", "managedFields": [{"manager": "m", "operation": "Apply"}]}, []),
        (
            {
                "name": "a",
                "managedFields": [
                    {
                        "manager": "x" * 128 + "\n",
                        "fieldsType": "FieldsV2",
                        "subresource": "x" * 257,
                    }
                ],
            },
            [
                "managedFields[0].operation FieldValueInvalid",
                "managedFields[0].fieldsType FieldValueInvalid",
                "managedFields[0].manager FieldValueTooLong",
                "managedFields[0].manager FieldValueInvalid",
                "managedFields[0].subresource FieldValueTooLong",
            ],
        ),
    ],
)
def test_cluster_scoped(metadata: dict[str, Any], expected: list[str]) -> None:
    """Each broken rule is told with its field, of a kind without namespaces."""
    found = validate_stored(metadata, is_namespaced=False)

    assert [f"metadata.{each}" for each in expected] == [
        f"{error.field} {error.reason}" for error in found
    ]


def test_messages_name_both_controllers() -> None:
    """The message says which two owners both claim to be the controller."""
    owners = [{**OWNER, "controller": True}, {**OWNER, "name": "e", "controller": True}]

    (error,) = validate_stored({"name": "a", "ownerReferences": owners}, is_namespaced=False)

    assert "Pod/p and Pod/e" in error.detail


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"name": "A b", "namespace": "b"}, []),
        ({"name": "a"}, ["metadata.namespace: Required value"]),
        (
            {"name": "..", "namespace": "b"},
            ["metadata.name: Invalid value: \"..\": may not be '..'"],
        ),
    ],
)
def test_namespaced(metadata: dict[str, Any], expected: list[str]) -> None:
    """A namespace is required where the kind has them; names follow the rule that is given."""
    found = validate_stored(metadata, is_namespaced=True, check_name=check_path_segment)

    assert expected == [str(error) for error in found]


def test_bad_namespace() -> None:
    """A namespace is a DNS label."""
    found = validate_stored({"name": "a", "namespace": "b.c"}, is_namespaced=True)

    assert ["metadata.namespace"] == [error.field for error in found]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"generation": 3, "labels": {"a": "b"}, "generateName": "A"}, []),
        ({"resourceVersion": ""}, ["resourceVersion"]),
        ({"generation": 1}, ["generation"]),
        ({"name": "b", "uid": "2"}, ["name", "uid"]),
        ({"deletionTimestamp": "2024-01-01T00:00:00Z"}, ["deletionTimestamp"]),
        ({"deletionGracePeriodSeconds": 1}, ["deletionGracePeriodSeconds"]),
        ({"finalizers": ["a/b"]}, []),
        ({"labels": {"a b": "c"}}, ["labels"]),
    ],
)
def test_update(changes: dict[str, Any], expected: list[str]) -> None:
    """What identifies an object cannot change; the rest follows its rules."""
    found = validate_core_update({**STORED, **changes}, STORED)

    assert [f"metadata.{field}" for field in expected] == [error.field for error in found]


def test_any_update() -> None:
    """Of any kind names may be what a path can hold; what changes is judged as often as found."""
    new = {**STORED, "generateName": "A", "uid": "2", "labels": {"-": ""}}

    found = [error.field for error in validate_any_update(new, STORED, is_namespaced=False)]

    assert ["metadata.labels", "metadata.uid", "metadata.labels"] == found


def test_finalizers_of_deleted_objects() -> None:
    """Finalizers can only be removed once an object is being deleted."""
    assert [] == validate_core_update({**DELETED, "finalizers": []}, DELETED)

    (error,) = validate_core_update({**DELETED, "finalizers": ["a/b", "c/d"]}, DELETED)

    assert (
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being"
        ' deleted, found new finalizers []string{"c/d"}'
    ) == str(error)


def test_carry_over_of_links() -> None:
    """What a client says of itself in an obsolete field stays, as in Kubernetes."""
    new = {"name": "a", "selfLink": "/a"}

    carry_over(new, DELETED)

    assert new["selfLink"] == "/a"


@pytest.mark.parametrize("version", ["5", "", "0"])
def test_carry_over(version: str) -> None:
    """A replacement may leave out what the server keeps."""
    new = {"name": "a", "resourceVersion": version, "generation": 9}

    carry_over(new, DELETED)

    assert {key: value for key, value in DELETED.items() if key != "finalizers"} == new


def test_carry_over_of_what_differs() -> None:
    """Timestamps are put right in silence; a wrong uid or period is left for validation."""
    new = {"uid": "2", "creationTimestamp": "x", "deletionGracePeriodSeconds": 1, "generation": 9}

    carry_over(new, {"uid": "1", "creationTimestamp": "y"})

    assert {"uid": "2", "creationTimestamp": "y", "deletionGracePeriodSeconds": 1} == new


def test_carry_over_from_an_object_with_little() -> None:
    """What the old object does not have is not made up."""
    new: dict[str, Any] = {"name": "a", "creationTimestamp": "x"}

    carry_over(new, {"name": "a"})

    assert {"name": "a", "creationTimestamp": "x"} == new


@pytest.mark.parametrize(
    ("managed", "expected"), [([{"manager": "new"}], [{"manager": "new"}]), (None, None)]
)
def test_keep_metadata(managed: object, expected: object) -> None:
    """Writes to a subresource change no metadata, but who wrote."""
    old = {"metadata": {**STORED, "managedFields": [{"manager": "old"}]}}
    before = copy.deepcopy(old)
    new: dict[str, Any] = {"metadata": {"name": "b", "labels": {"a": "b"}}}
    if managed:
        new["metadata"]["managedFields"] = managed

    keep_metadata(new, old)

    assert ({**STORED, **({"managedFields": expected} if expected else {})}, before) == (
        new["metadata"],
        old,
    )


@pytest.mark.parametrize(
    ("old_generation", "new_spec", "expected"),
    [({"generation": 2}, 1, 2), ({"generation": 2}, 2, 3), ({}, 1, None), ({}, 2, 1)],
)
def test_count_generation(
    old_generation: dict[str, int], new_spec: int, expected: int | None
) -> None:
    """The generation counts changes of the specification."""
    new = {"metadata": {"generation": 7}, "spec": new_spec}

    count_generation(new, {"metadata": old_generation, "spec": 1})

    assert ({} if expected is None else {"generation": expected}) == new["metadata"]


def test_repeated_owners() -> None:
    """Owner references that equal an earlier one are dropped, with a warning."""
    other = {**OWNER, "controller": True}
    metadata = {"ownerReferences": [OWNER, other, dict(reversed(OWNER.items())), other]}

    warnings = drop_repeated_owners(metadata)

    assert [OWNER, other] == metadata["ownerReferences"]
    assert [True] == [each.endswith("observed: 1, 1") for each in warnings]


@pytest.mark.parametrize("metadata", [{}, {"ownerReferences": [OWNER]}])
def test_different_owners(metadata: dict[str, Any]) -> None:
    """Where nothing is repeated, nothing is dropped."""
    before = copy.deepcopy(metadata)

    assert ([], before) == (drop_repeated_owners(metadata), metadata)


ENTRY_FIELD = "metadata.managedFields[0]"
ENTRY = {"manager": "m", "operation": "Update", "fieldsType": "FieldsV1"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, [], id="right"),
        pytest.param({"fieldsType": "", "subresource": "x" * 256}, [], id="still-right"),
        pytest.param(
            {"operation": "Patch"},
            [f'{ENTRY_FIELD}.operation: Invalid value: "Patch": must be `Apply` or `Update`'],
            id="operation",
        ),
        pytest.param(
            {"fieldsType": "V2"},
            [f'{ENTRY_FIELD}.fieldsType: Invalid value: "V2": must be `FieldsV1`'],
            id="type",
        ),
        pytest.param(
            {"manager": "é" * 65},
            [f"{ENTRY_FIELD}.manager: Too long: may not be more than 128 bytes"],
            id="manager",
        ),
        pytest.param(
            {"subresource": "x" * 257},
            [f"{ENTRY_FIELD}.subresource: Too long: may not be more than 256 bytes"],
            id="subresource",
        ),
    ],
)
def test_stored_entries_are_validated(changes: dict[str, object], expected: list[str]) -> None:
    """Every field of an entry that breaks a rule is told."""
    assert expected == [
        str(error)
        for error in validate_managed_fields([{**ENTRY, **changes}], "metadata.managedFields")
    ]


def test_every_character_that_cannot_be_printed_is_told() -> None:
    """Positions count bytes."""
    errors = validate_manager("é\a b\n")

    assert ["fieldManager"] * 2 == [error.field for error in errors]
    assert [Reason.INVALID] * 2 == [error.reason for error in errors]
    assert [
        "invalid character U+0007 (at position 2)",
        "invalid character U+000A (at position 5)",
    ] == [error.detail for error in errors]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("A b", []),
        (".", ["may not be '.'"]),
        ("..", ["may not be '..'"]),
        ("a/b%", ["may not contain '/'", "may not contain '%'"]),
    ],
)
def test_path_segment(value: str, expected: list[str]) -> None:
    """Any name, as long as a URL can hold it."""
    assert expected == check_path_segment(value)


def test_generated_name() -> None:
    """The prefix gives way so that the suffix fits."""
    assert generated_name("ab-", "12345") == "ab-12345"
    assert generated_name("a" * 63, "12345") == "a" * 58 + "12345"
