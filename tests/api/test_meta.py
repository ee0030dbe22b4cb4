"""Metadata and its validation."""

from __future__ import annotations

from uuid import UUID

import pytest
from msgspec.structs import replace

from apfproxy.api.field_errors import Reason
from apfproxy.api.meta import (
    LARGEST_ANNOTATIONS_BYTES,
    ObjectMeta,
    OwnerReference,
    SystemFields,
    as_created,
    canonical,
    stable_uid,
    validate_object_meta,
)

OWNER = OwnerReference(api_version="apps/v1", kind="Deployment", name="d", uid="1")
CREATED = SystemFields(uid="u", creation_timestamp="2024-01-01T00:00:00Z", name_suffix="abcde")


def owned(*owners: OwnerReference) -> ObjectMeta:
    """Metadata with these owner references."""
    return ObjectMeta(name="a", owner_references=owners)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param(ObjectMeta(name="a.b"), [], id="valid"),
        pytest.param(ObjectMeta(), ["name Required"], id="no-name"),
        pytest.param(ObjectMeta(name="A"), ["name Invalid"], id="name"),
        pytest.param(
            ObjectMeta(name="A_abcde", generate_name="A_"),
            ["generateName Invalid", "name Invalid"],
            id="generate-name",
        ),
        pytest.param(ObjectMeta(name="a", namespace="b"), ["namespace Forbidden"], id="namespace"),
        pytest.param(ObjectMeta(name="a", generation=-1), ["generation Invalid"], id="generation"),
        pytest.param(
            ObjectMeta(name="a", labels={"a/b": "c", "example.com/": "d", "e": "f g"}),
            ["labels Invalid"] * 3,
            id="labels",
        ),
        pytest.param(
            ObjectMeta(name="a", annotations={"Example.COM/A": "any \n", "b c": ""}),
            ["annotations Invalid"],
            id="annotations",
        ),
        pytest.param(
            ObjectMeta(name="a", annotations={"a": "x" * (LARGEST_ANNOTATIONS_BYTES - 1)}),
            [],
            id="largest-annotations",
        ),
        pytest.param(
            ObjectMeta(name="a", annotations={"a": "x" * LARGEST_ANNOTATIONS_BYTES}),
            ["annotations TooLong"],
            id="annotations-too-large",
        ),
        pytest.param(
            ObjectMeta(name="a", finalizers=("orphan", "kubernetes", "example.com/x")),
            [],
            id="finalizers",
        ),
        pytest.param(
            ObjectMeta(name="a", finalizers=("example.com/x", "hold")),
            ["finalizers[1] Invalid"],
            id="unqualified-finalizer",
        ),
        pytest.param(
            ObjectMeta(name="a", finalizers=("",)),
            ["finalizers Invalid", "finalizers Invalid", "finalizers[0] Invalid"],
            id="empty-finalizer",
        ),
        pytest.param(
            ObjectMeta(name="a", finalizers=("orphan", "foregroundDeletion")),
            ["finalizers Invalid"],
            id="conflicting-finalizers",
        ),
        pytest.param(ObjectMeta(name="a", uid="!" * 253), [], id="uid"),
        *(
            pytest.param(ObjectMeta(name="a", uid=uid), ["uid Invalid"], id=f"uid-{name}")
            for name, uid in {
                "with-a-line-break": "u\r\nX-Evil: 1",
                "with-a-space": "u 1",
                "with-a-letter-that-is-not-ascii": "\u00fc",
                "too-long": "u" * 254,
            }.items()
        ),
        pytest.param(owned(OWNER, replace(OWNER, controller=True)), [], id="owners"),
        pytest.param(
            owned(OwnerReference()),
            [
                "ownerReferences.apiVersion Invalid",
                "ownerReferences.kind Invalid",
                "ownerReferences.name Invalid",
                "ownerReferences.uid Invalid",
            ],
            id="empty-owner",
        ),
        *(
            pytest.param(
                owned(replace(OWNER, api_version=version)),
                ["ownerReferences.apiVersion Invalid"],
                id=f"owner-of-{version}",
            )
            for version in ("apps/", "a/b/v1", "/")
        ),
        pytest.param(
            owned(replace(OWNER, api_version="v1", kind="Event")),
            ["ownerReferences Invalid"],
            id="owned-by-an-event",
        ),
        pytest.param(
            owned(*(replace(OWNER, uid=uid, controller=True) for uid in "123")),
            ["ownerReferences Invalid"] * 2,
            id="several-controllers",
        ),
    ],
)
def test_validation(metadata: ObjectMeta, expected: list[str]) -> None:
    """Each broken rule is reported at its field, for its reason."""
    assert expected == [
        f"{error.field.removeprefix('metadata.')} {error.reason.removeprefix('FieldValue')}"
        for error in validate_object_meta(metadata)
    ]


def test_messages_name_both_controllers() -> None:
    """The message says which two owners both claim to be the controller."""
    (error,) = validate_object_meta(
        owned(replace(OWNER, controller=True), replace(OWNER, name="e", controller=True))
    )

    assert error.reason == Reason.INVALID
    assert "Deployment/d and Deployment/e" in error.detail


def test_stable_uid() -> None:
    """A uid is kept; without one it depends on kind and name alone."""
    assert stable_uid("FlowSchema", ObjectMeta(name="a", uid="u-1")) == "u-1"
    made = stable_uid("FlowSchema", ObjectMeta(name="a"))
    assert made == str(UUID(made)) == stable_uid("FlowSchema", ObjectMeta(name="a", generation=3))
    assert (
        len(
            {
                made,
                stable_uid("FlowSchema", ObjectMeta(name="b")),
                stable_uid("PriorityLevelConfiguration", ObjectMeta(name="a")),
            }
        )
        == 3
    )


def test_as_created() -> None:
    """A server names an object only if it has no name."""
    assert as_created(ObjectMeta(name="a", generate_name="b-"), CREATED).name == "a"
    assert as_created(ObjectMeta(generate_name="b-"), CREATED).name == "b-abcde"
    assert ObjectMeta(
        uid="u", creation_timestamp="2024-01-01T00:00:00Z", generation=1
    ) == as_created(ObjectMeta(uid="v", generation=5), CREATED)


def test_canonical() -> None:
    """The namespace goes, and so do repeated owners, but for the first."""
    other = replace(OWNER, uid="2")
    metadata = ObjectMeta(namespace="n", owner_references=(OWNER, other, OWNER))

    assert ObjectMeta(owner_references=(OWNER, other)) == canonical(metadata)
