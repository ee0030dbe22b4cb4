"""The structs of `meta.k8s.io/v1`, which objects of all kinds share.

Sources: Kubernetes API reference, "Common Definitions"; Kubernetes API conventions, "Metadata".
"""

from __future__ import annotations

from typing import Any

from apfproxy.api.schema.types import (
    Field,
    List,
    ListType,
    Map,
    Scalar,
    Struct,
    pointer,
    required,
)

META = "io.k8s.apimachinery.pkg.apis.meta.v1"

STRINGS = List(Scalar.STRING)
STRING_MAP = Map(Scalar.STRING)

KIND = Field("kind", Scalar.STRING, "What the object is, in CamelCase. Cannot be changed.")
API_VERSION = Field(
    "apiVersion", Scalar.STRING, "Group and version of the form that the object is written in."
)
TYPE_META = (KIND, API_VERSION)

OWNER_REFERENCE = Struct(
    "OwnerReference",
    (
        required("apiVersion", Scalar.STRING, "Group and version of the owner.", number=5),
        required("kind", Scalar.STRING, "Kind of the owner.", number=1),
        required("name", Scalar.STRING, "Name of the owner.", number=3),
        required("uid", Scalar.STRING, "UID of the owner.", number=4),
        pointer(
            "controller", Scalar.BOOLEAN, "Whether the owner is the managing controller.", number=6
        ),
        pointer(
            "blockOwnerDeletion",
            Scalar.BOOLEAN,
            "Whether foreground deletion of the owner waits until this object is gone.",
            number=7,
        ),
    ),
    META,
    "Names an object that this one belongs to, in the same namespace or in none.",
    is_atomic=True,
)

MANAGED_FIELDS_ENTRY = Struct(
    "ManagedFieldsEntry",
    (
        Field("manager", Scalar.STRING, "Who manages these fields.", number=1),
        Field("operation", Scalar.STRING, "How they were written: Apply or Update.", number=2),
        Field("apiVersion", Scalar.STRING, "The version that the field names belong to.", number=3),
        pointer("time", Scalar.TIME, "When the entry was added or its fields changed.", number=4),
        Field("fieldsType", Scalar.STRING, "Format of the set of fields: FieldsV1.", number=6),
        pointer("fieldsV1", Scalar.ANY, "The set of fields, as a tree.", number=7),
        Field(
            "subresource", Scalar.STRING, "Subresource that was written, empty for none.", number=8
        ),
    ),
    META,
    "The fields of an object that one manager has written in one way.",
)

OBJECT_META = Struct(
    "ObjectMeta",
    (
        Field("name", Scalar.STRING, "Unique within the namespace. Cannot be changed.", number=1),
        Field(
            "generateName",
            Scalar.STRING,
            "Prefix of the name that the server makes up if there is no name.",
            number=2,
        ),
        Field("namespace", Scalar.STRING, "The space within which the name is unique.", number=3),
        Field("selfLink", Scalar.STRING, "No longer set by servers.", number=4),
        Field("uid", Scalar.STRING, "Unique in time and space. Set by the server.", number=5),
        Field(
            "resourceVersion",
            Scalar.STRING,
            "Opaque version of the object, which changes with every write.",
            number=6,
        ),
        Field(
            "generation",
            Scalar.INT64,
            "Number of the desired state, counted up by the server as it changes.",
            number=7,
        ),
        Field("creationTimestamp", Scalar.TIME, "When the server created the object.", number=8),
        pointer("deletionTimestamp", Scalar.TIME, "When the object is to be gone.", number=9),
        pointer(
            "deletionGracePeriodSeconds",
            Scalar.INT64,
            "Seconds that the object gets to end before it is removed.",
            number=10,
        ),
        Field("labels", STRING_MAP, "Keys and values to select objects by.", number=11),
        Field(
            "annotations",
            STRING_MAP,
            "Keys and values that tools store with the object.",
            number=12,
        ),
        Field(
            "ownerReferences",
            List(
                OWNER_REFERENCE,
                ListType.MAP,
                list_keys=("uid",),
                merge_key="uid",
                is_merged=True,
            ),
            "The objects that this one depends on. It is collected when all of them are gone.",
            number=13,
        ),
        Field(
            "finalizers",
            List(Scalar.STRING, ListType.SET, is_merged=True),
            "What has to be done before the object is removed.",
            number=14,
        ),
        Field(
            "managedFields",
            List(MANAGED_FIELDS_ENTRY),
            "Which manager owns which fields of the object.",
            number=17,
        ),
    ),
    META,
    "What every stored object carries beside its content.",
)

SHARD_INFO = Struct(
    "ShardInfo",
    (required("selector", Scalar.STRING, "The shard selector of the request."),),
    META,
    "Which part of a collection a list shows.",
)

LIST_META = Struct(
    "ListMeta",
    (
        Field("selfLink", Scalar.STRING, "No longer set by servers."),
        Field("resourceVersion", Scalar.STRING, "The state of the store that the list shows."),
        Field("continue", Scalar.STRING, "Token for the next part of the list, if there is one."),
        pointer(
            "remainingItemCount", Scalar.INT64, "Number of items that follow, where it is known."
        ),
        pointer("shardInfo", SHARD_INFO, "Set if the list shows one part of the collection."),
    ),
    META,
    "What lists, and other answers that are not stored, carry.",
)

LABEL_SELECTOR_REQUIREMENT = Struct(
    "LabelSelectorRequirement",
    (
        required("key", Scalar.STRING, "Key of the label.", number=1),
        required("operator", Scalar.STRING, "In, NotIn, Exists or DoesNotExist.", number=2),
        Field("values", STRINGS, "What In and NotIn compare with; empty for the others.", number=3),
    ),
    META,
    "A condition on the label of one key.",
)

LABEL_SELECTOR = Struct(
    "LabelSelector",
    (
        Field("matchLabels", STRING_MAP, "Labels that an object must have.", number=1),
        Field(
            "matchExpressions",
            List(LABEL_SELECTOR_REQUIREMENT),
            "Conditions that must all hold.",
            number=2,
        ),
    ),
    META,
    "Selects objects by labels: all for an empty selector, none for an absent one.",
    is_atomic=True,
)

CONDITION = Struct(
    "Condition",
    (
        required("type", Scalar.STRING, "What the condition is about, in CamelCase.", number=1),
        required("status", Scalar.STRING, "True, False or Unknown.", number=2),
        Field(
            "observedGeneration",
            Scalar.INT64,
            "Generation of the object that the condition was set for.",
            number=3,
        ),
        required("lastTransitionTime", Scalar.TIME, "When the status changed.", number=4),
        required("reason", Scalar.STRING, "Why it changed, as a word for programs.", number=5),
        required("message", Scalar.STRING, "Why it changed, for people.", number=6),
    ),
    META,
    "One aspect of the current state of an object.",
)

CONDITIONS = List(CONDITION, ListType.MAP, list_keys=("type",), merge_key="type", is_merged=True)
"""Conditions as most kinds have them."""

PRECONDITIONS = Struct(
    "Preconditions",
    (
        pointer("uid", Scalar.STRING, "The UID that the object must have.", number=1),
        pointer(
            "resourceVersion", Scalar.STRING, "The resource version that it must have.", number=2
        ),
    ),
    META,
    "What must be true of an object for an operation to take place.",
)

DELETE_OPTIONS = Struct(
    "DeleteOptions",
    (
        *TYPE_META,
        pointer(
            "gracePeriodSeconds",
            Scalar.INT64,
            "Seconds that the object gets to end: 0 for none; absent for the default of its kind.",
            number=1,
        ),
        pointer(
            "preconditions", PRECONDITIONS, "What must be true of the object, else 409.", number=2
        ),
        pointer("orphanDependents", Scalar.BOOLEAN, "Deprecated: use propagationPolicy.", number=3),
        pointer(
            "propagationPolicy",
            Scalar.STRING,
            "What becomes of dependents: Orphan, Background or Foreground.",
            number=4,
        ),
        Field("dryRun", STRINGS, "All: do everything but the change itself.", number=5),
        pointer(
            "ignoreStoreReadErrorWithClusterBreakingPotential",
            Scalar.BOOLEAN,
            "Whether to delete an object that cannot be read.",
            number=6,
        ),
    ),
    META,
    "How to delete an object.",
)

STATUS_CAUSE = Struct(
    "StatusCause",
    (
        Field("reason", Scalar.STRING, "What is wrong, as a word for programs."),
        Field("message", Scalar.STRING, "What is wrong, for people."),
        Field("field", Scalar.STRING, "Path of the field that is at fault."),
    ),
    META,
    "One of the causes of a failure.",
)

STATUS_DETAILS = Struct(
    "StatusDetails",
    (
        Field("name", Scalar.STRING, "Name of the object concerned."),
        Field("group", Scalar.STRING, "Its group."),
        Field("kind", Scalar.STRING, "Its kind or resource."),
        Field("uid", Scalar.STRING, "Its UID."),
        Field("causes", List(STATUS_CAUSE), "Causes of the failure, one by one."),
        Field("retryAfterSeconds", Scalar.INT32, "Seconds to wait before trying again."),
    ),
    META,
    "More about an answer, for programs.",
)

STATUS = Struct(
    "Status",
    (
        *TYPE_META,
        Field("metadata", LIST_META, "As of lists."),
        Field("status", Scalar.STRING, "Success or Failure."),
        Field("message", Scalar.STRING, "What happened, for people."),
        Field("reason", Scalar.STRING, "Why it failed, as a word for programs."),
        pointer("details", STATUS_DETAILS, "More about the reason."),
        Field("code", Scalar.INT32, "HTTP status."),
    ),
    META,
    "The answer of an operation that returns no object.",
)

WATCH_EVENT = Struct(
    "WatchEvent",
    (
        required("type", Scalar.STRING, "ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."),
        required("object", Scalar.ANY, "The object, or a Status of type ERROR."),
    ),
    META,
    "One change that a watch reports.",
)

TABLE_COLUMN_DEFINITION = Struct(
    "TableColumnDefinition",
    (
        required("name", Scalar.STRING, "Heading."),
        required("type", Scalar.STRING, "Type of the cells, as in OpenAPI."),
        required("format", Scalar.STRING, "More about the type; name for the object's name."),
        required("description", Scalar.STRING, "What the column shows."),
        required("priority", Scalar.INT32, "0 is shown always, larger numbers in wide output."),
    ),
    META,
    "A column of a table.",
)

TABLE_ROW_CONDITION = Struct(
    "TableRowCondition",
    (
        required("type", Scalar.STRING, "What the condition is about, such as Completed."),
        required("status", Scalar.STRING, "True, False or Unknown."),
        Field("reason", Scalar.STRING, "Why, as a word for programs."),
        Field("message", Scalar.STRING, "Why, for people."),
    ),
    META,
    "Something to know of a row as a whole.",
)

TABLE_ROW = Struct(
    "TableRow",
    (
        required("cells", List(Scalar.ANY), "A value for each column."),
        Field("conditions", List(TABLE_ROW_CONDITION), "What is to be known of the row."),
        Field("object", Scalar.ANY, "The object, or what of it was asked for."),
    ),
    META,
    "A row of a table.",
)

TABLE = Struct(
    "Table",
    (
        *TYPE_META,
        Field("metadata", LIST_META, "As of lists."),
        required("columnDefinitions", List(TABLE_COLUMN_DEFINITION), "The columns."),
        required("rows", List(TABLE_ROW), "A row for each object."),
    ),
    META,
    "Objects as a server suggests to show them.",
)


def object_struct(
    name: str,
    package: str,
    spec: Struct | None,
    status: Struct | None,
    description: str = "",
    *,
    extra: tuple[Field, ...] = (),
    **flags: Any,  # noqa: ANN401  passed on to `Field`, which has types for them
) -> Struct:
    """The struct of a kind's objects, with the usual parts.

    Args:
        name: The kind.
        package: Go package as OpenAPI names it.
        spec: Desired state; None for kinds without.
        status: Current state; None for kinds without.
        description: Of the kind.
        extra: Fields beside the usual ones, written after `metadata`.
        flags: For the field `spec`, such as `is_required=True`.
    """
    fields = [
        *TYPE_META,
        Field("metadata", OBJECT_META, "Name, labels and the like.", number=1),
        *extra,
    ]
    if spec is not None:
        fields.append(Field("spec", spec, "What is wanted.", number=2, **flags))
    if status is not None:
        fields.append(Field("status", status, "How it is, as last seen by controllers.", number=3))
    return Struct(name, tuple(fields), package, description)


def list_struct(item: Struct) -> Struct:
    """The struct of lists of an object, such as `FlowSchemaList`."""
    return Struct(
        f"{item.name}List",
        (
            *TYPE_META,
            Field("metadata", LIST_META, "Where the list stands in the history of the store."),
            required("items", List(item, list_type=None), "The objects."),
        ),
        item.package,
        f"A list of {item.name} objects.",
    )
