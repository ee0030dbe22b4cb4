"""The parameters of operations, each described once.

Source: Kubernetes API reference, "Common Parameters" and the operations of each resource.
"""

from __future__ import annotations

from typing import NamedTuple


class Parameter(NamedTuple):
    """A parameter in the query, or in the path, where it is required.

    Attributes:
        type: `string`, `integer` or `boolean`.
    """

    name: str
    type: str
    description: str
    is_in_path: bool = False


BOOLEANS = {
    "allowWatchBookmarks": "Whether a watch may send events of type BOOKMARK, which carry nothing "
    "but a resource version to go on from.",
    "force": "Whether server-side apply takes fields that others own. Not for other patches.",
    "ignoreStoreReadErrorWithClusterBreakingPotential": "Whether to delete an object that cannot "
    "be read, whatever depends on it.",
    "orphanDependents": "Deprecated: use propagationPolicy. Whether dependents stay.",
    "sendInitialEvents": "Whether a watch begins with an event for each object that is there, and "
    "a bookmark after them. Requires resourceVersionMatch to be NotOlderThan.",
    "watch": "Whether to answer with a stream of changes instead of a list.",
}
INTEGERS = {
    "gracePeriodSeconds": "Seconds that the object gets to end; 0 for none. Its kind has a "
    "default.",
    "limit": "How many objects to answer at most. If there are more, the list has a token to go "
    "on with; all parts together show one state of the store. Not for watches.",
    "timeoutSeconds": "Seconds after which a list or watch ends, in any case.",
}
STRINGS = {
    "continue": "Where to go on with a list: the token in the metadata of its last part. A token "
    "that is too old is answered with 410 and another token. Not for watches.",
    "dryRun": "All: do everything but the change itself, and answer as if it was done.",
    "fieldManager": "Who is responsible for the fields that are written: at most 128 printable "
    "characters. Required for server-side apply.",
    "fieldSelector": "Restricts to objects by the values of some fields.",
    "fieldValidation": "What becomes of unknown and duplicate fields: Ignore drops them, Warn, the "
    "default, drops them with a warning, Strict refuses the request.",
    "labelSelector": "Restricts to objects by their labels.",
    "pretty": "true: indent the answer.",
    "propagationPolicy": "What becomes of dependents: Orphan, Background or Foreground.",
    "resourceVersion": "The state of the store that the answer has to show, as "
    "resourceVersionMatch says; of a watch, the state to begin after.",
    "resourceVersionMatch": "How resourceVersion is meant: Exact or NotOlderThan.",
    "shardSelector": "Restricts to objects by ranges of the hash of a field, such as "
    "shardRange(object.metadata.uid, '0x0', '0x8000000000000000'); several are joined with ||. "
    "The fields are object.metadata.uid and object.metadata.namespace, the hash is the 64-bit one "
    "of FNV-1a, and the end of a range is not part of it.",
}

QUERY = {
    name: Parameter(name, type_, description)
    for type_, described in (("boolean", BOOLEANS), ("integer", INTEGERS), ("string", STRINGS))
    for name, description in described.items()
}
"""All that occur in queries, by name."""

SELECTION = (
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
)
READ = ("pretty",)
WRITE = ("dryRun", "fieldManager", "fieldValidation", "pretty")
PATCH = ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")
DELETE = (
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "pretty",
    "propagationPolicy",
)
DELETE_COLLECTION = tuple(sorted((*SELECTION, *DELETE)))
LIST = tuple(sorted((*SELECTION, "allowWatchBookmarks", "pretty", "watch")))
"""Of lists and watches, deprecated watches included."""
