"""The structs of `meta.k8s.io/v1`, which objects of all kinds share.

Sources: Kubernetes API reference, "Common Definitions"; Kubernetes API conventions, "Metadata".
"""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from apfproxy.apiserver.schema.derived import struct_of
from apfproxy.apiserver.schema.types import (
    Field,
    List,
    ListType,
    Map,
    Scalar,
    Struct,
    changed,
    pointer,
    required,
)
from apfproxy.objects.types import OwnerReference, WrittenMeta

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
STRING, BOOLEAN, INT32, INT64 = Scalar.STRING, Scalar.BOOLEAN, Scalar.INT32, Scalar.INT64
TIME, ANY = Scalar.TIME, Scalar.ANY

STRINGS = List(STRING)
STRING_MAP = Map(STRING)

KIND = Field("kind", STRING, "What the object is, in CamelCase. Cannot be changed.")
API_VERSION = Field(
    "apiVersion", STRING, "Group and version of the form that the object is written in."
)
TYPE_META = (KIND, API_VERSION)


def struct(name: str, description: str, *fields: Field, is_atomic: bool = False) -> Struct:
    """A struct of the group."""
    return Struct(name, fields, META, description, is_atomic)


def in_order_of_numbers(struct: Struct) -> Struct:
    """The struct with its fields in the order of their numbers, which is that of writing."""
    fields = sorted(struct.fields, key=lambda field: field.number)
    return dataclasses.replace(struct, fields=tuple(fields))


MANAGED_FIELDS_ENTRY = struct(
    "ManagedFieldsEntry",
    "The fields of an object that one manager has written in one way.",
    Field("manager", STRING, "Who manages these fields.", number=1),
    Field("operation", STRING, "How they were written: Apply or Update.", number=2),
    Field("apiVersion", STRING, "The version that the field names belong to.", number=3),
    pointer("time", TIME, "When the entry was added or its fields changed.", number=4),
    Field("fieldsType", STRING, "Format of the set of fields: FieldsV1.", number=6),
    pointer("fieldsV1", ANY, "The set of fields, as a tree.", number=7),
    Field("subresource", STRING, "Subresource that was written, empty for none.", number=8),
)

OWNERS = List(
    struct_of(OwnerReference, META, {}, is_atomic=True),
    ListType.MAP,
    list_keys=("uid",),
    merge_key="uid",
    is_merged=True,
)
WRITTEN_META = struct_of(WrittenMeta, META, {}, name="ObjectMeta")
OBJECT_META = in_order_of_numbers(
    changed(
        WRITTEN_META,
        replace(WRITTEN_META.by_name["ownerReferences"], type=OWNERS),
        replace(
            WRITTEN_META.by_name["finalizers"], type=List(STRING, ListType.SET, is_merged=True)
        ),
        Field("selfLink", STRING, "No longer set by servers.", number=4),
        pointer("deletionTimestamp", TIME, "When the object is to be gone.", number=9),
        pointer(
            "deletionGracePeriodSeconds",
            INT64,
            "Seconds that the object gets to end before it is removed.",
            number=10,
        ),
        Field(
            "managedFields",
            List(MANAGED_FIELDS_ENTRY),
            "Which manager owns which fields of the object.",
            number=17,
        ),
    )
)

LABEL_SELECTOR_REQUIREMENT = struct(
    "LabelSelectorRequirement",
    "A condition on the label of one key.",
    required("key", STRING, "Key of the label.", number=1),
    required("operator", STRING, "In, NotIn, Exists or DoesNotExist.", number=2),
    Field("values", STRINGS, "What In and NotIn compare with; empty for the others.", number=3),
)

LABEL_SELECTOR = struct(
    "LabelSelector",
    "Selects objects by labels: all for an empty selector, none for an absent one.",
    Field("matchLabels", STRING_MAP, "Labels that an object must have.", number=1),
    Field(
        "matchExpressions",
        List(LABEL_SELECTOR_REQUIREMENT),
        "Conditions that must all hold.",
        number=2,
    ),
    is_atomic=True,
)

CONDITION = struct(
    "Condition",
    "One aspect of the current state of an object.",
    required("type", STRING, "What the condition is about, in CamelCase.", number=1),
    required("status", STRING, "True, False or Unknown.", number=2),
    Field(
        "observedGeneration",
        INT64,
        "Generation of the object that the condition was set for.",
        number=3,
    ),
    required("lastTransitionTime", TIME, "When the status changed.", number=4),
    required("reason", STRING, "Why it changed, as a word for programs.", number=5),
    required("message", STRING, "Why it changed, for people.", number=6),
)

CONDITIONS = List(CONDITION, ListType.MAP, list_keys=("type",), merge_key="type", is_merged=True)
"""Conditions as most kinds have them."""

PRECONDITIONS = struct(
    "Preconditions",
    "What must be true of an object for an operation to take place.",
    pointer("uid", STRING, "The UID that the object must have.", number=1),
    pointer("resourceVersion", STRING, "The resource version that it must have.", number=2),
)

DELETE_OPTIONS = struct(
    "DeleteOptions",
    "How to delete an object.",
    *TYPE_META,
    pointer(
        "gracePeriodSeconds",
        INT64,
        "Seconds that the object gets to end: 0 for none; absent for the default of its kind.",
        number=1,
    ),
    pointer("preconditions", PRECONDITIONS, "What must be true of the object, else 409.", number=2),
    pointer("orphanDependents", BOOLEAN, "Deprecated: use propagationPolicy.", number=3),
    pointer(
        "propagationPolicy",
        STRING,
        "What becomes of dependents: Orphan, Background or Foreground.",
        number=4,
    ),
    Field("dryRun", STRINGS, "All: do everything but the change itself.", number=5),
    pointer(
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        BOOLEAN,
        "Whether to delete an object that cannot be read.",
        number=6,
    ),
)


def object_struct(
    name: str,
    package: str,
    spec: Struct,
    status: Struct | None,
    description: str,
    *,
    is_required: bool = False,
) -> Struct:
    """The struct of a kind's objects, with the usual parts, of which the spec may be required."""
    fields = [
        *TYPE_META,
        Field("metadata", OBJECT_META, "Name, labels and the like.", number=1),
        Field("spec", spec, f"Desired state of the {name}.", is_required=is_required, number=2),
    ]
    if status is not None:
        text = f"Observed state of the {name}, as controllers report it."
        fields.append(Field("status", status, text, number=3))
    return Struct(name, tuple(fields), package, description)
