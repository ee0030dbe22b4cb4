"""The parameters of operations, each described once.

Source: Kubernetes API reference, "Common Parameters" and the operations of each resource.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the query or the path.

    Attributes:
        name: Its name.
        type: `string`, `integer`, `boolean`.
        description: What it does.
        is_in_path: Whether it is part of the path, and required.
    """

    name: str
    type: str
    description: str
    is_in_path: bool = False


QUERY: dict[str, Parameter] = {
    parameter.name: parameter
    for parameter in (
        Parameter(
            "allowWatchBookmarks",
            "boolean",
            "Whether a watch may send events of type BOOKMARK, which carry nothing but a resource "
            "version to go on from.",
        ),
        Parameter(
            "continue",
            "string",
            "Where to go on with a list: the token in the metadata of its last part. A token that "
            "is too old is answered with 410 and another token. Not for watches.",
        ),
        Parameter(
            "dryRun",
            "string",
            "All: do everything but the change itself, and answer as if it was done.",
        ),
        Parameter(
            "fieldManager",
            "string",
            "Who is responsible for the fields that are written: at most 128 printable characters. "
            "Required for server-side apply.",
        ),
        Parameter("fieldSelector", "string", "Restricts to objects by the values of some fields."),
        Parameter(
            "fieldValidation",
            "string",
            "What becomes of unknown and duplicate fields: Ignore drops them, Warn, the default, "
            "drops them with a warning, Strict refuses the request.",
        ),
        Parameter(
            "force",
            "boolean",
            "Whether server-side apply takes fields that others own. Not for other patches.",
        ),
        Parameter(
            "gracePeriodSeconds",
            "integer",
            "Seconds that the object gets to end; 0 for none. Its kind has a default.",
        ),
        Parameter(
            "ignoreStoreReadErrorWithClusterBreakingPotential",
            "boolean",
            "Whether to delete an object that cannot be read, whatever depends on it.",
        ),
        Parameter("labelSelector", "string", "Restricts to objects by their labels."),
        Parameter(
            "limit",
            "integer",
            "How many objects to answer at most. If there are more, the list has a token to go on "
            "with; all parts together show one state of the store. Not for watches.",
        ),
        Parameter(
            "orphanDependents",
            "boolean",
            "Deprecated: use propagationPolicy. Whether dependents stay.",
        ),
        Parameter("pretty", "string", "true: indent the answer."),
        Parameter(
            "propagationPolicy",
            "string",
            "What becomes of dependents: Orphan, Background or Foreground.",
        ),
        Parameter(
            "resourceVersion",
            "string",
            "The state of the store that the answer has to show, as resourceVersionMatch says; of "
            "a watch, the state to begin after.",
        ),
        Parameter(
            "resourceVersionMatch",
            "string",
            "How resourceVersion is meant: Exact or NotOlderThan.",
        ),
        Parameter(
            "sendInitialEvents",
            "boolean",
            "Whether a watch begins with an event for each object that is there, and a bookmark "
            "after them. Requires resourceVersionMatch to be NotOlderThan.",
        ),
        Parameter(
            "shardSelector",
            "string",
            "Restricts to objects by ranges of the hash of a field, such as "
            "shardRange(object.metadata.uid, '0x0', '0x8000000000000000'); several are joined "
            "with ||. The fields are object.metadata.uid and object.metadata.namespace, the hash "
            "is the 64-bit one of FNV-1a, and the end of a range is not part of it.",
        ),
        Parameter(
            "timeoutSeconds", "integer", "Seconds after which a list or watch ends, in any case."
        ),
        Parameter(
            "watch",
            "boolean",
            "Whether to answer with a stream of changes instead of a list.",
        ),
    )
}
"""All that occur in queries, by name."""

WRITE = ("dryRun", "fieldManager", "fieldValidation", "pretty")
PATCH = ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")
READ = ("pretty",)
DELETE = (
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "pretty",
    "propagationPolicy",
)
DELETE_COLLECTION = (
    "continue",
    "dryRun",
    "fieldSelector",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "labelSelector",
    "limit",
    "orphanDependents",
    "pretty",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
)
LIST = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "pretty",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
)
"""Of lists and watches, deprecated watches included."""
