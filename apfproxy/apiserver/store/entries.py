"""States of objects, and the changes between them."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

encode = msgspec.json.Encoder().encode


class TooOldError(Exception):
    """A resource version is asked for that the window, which begins at `floor`, has no longer."""

    def __init__(self, resource_version: int, floor: int) -> None:
        super().__init__(f"too old resource version: {resource_version} ({floor})")
        self.resource_version = resource_version
        self.floor = floor


class StoreError(Exception):
    """The disk refused, or what is on it cannot be used; says what, where and what to do."""


class ObjectTooLargeError(StoreError):
    """An object is larger than the store takes; the client's fault."""


class ChangeType(enum.StrEnum):
    """The type of a change, in the words of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


# Entries are in no reference cycle, so the garbage collector need not visit hundreds of thousands.
class Entry(msgspec.Struct, frozen=True, gc=False):
    """One state of an object; never changes.

    Attributes:
        resource: Plural, with the group if the caller's names have it.
        namespace: "" for objects without.
        resource_version: Of the change that led to this state.
        fields: Field selector's name to value.
        data: JSON of the object in the storage version, without `apiVersion` and `kind`; with
            `metadata.resourceVersion`.
    """

    resource: str
    namespace: str
    name: str
    resource_version: int
    uid: str
    labels: dict[str, str]
    fields: dict[str, str]
    data: bytes

    @property
    def key(self) -> str:
        """What lists are ordered by."""
        return key_of(self.namespace, self.name)


class Change(msgspec.Struct, gc=False):
    """One step from a state to the next.

    Attributes:
        resource_version: Unique in the store.
        entry: The new state; for DELETED the final one, which has the deletion's resource version.
        old: The state before; None for ADDED.
        encoded: What watchers made of it, by a key of their own, so that many of a kind encode
            once; None for all but the newest changes.
    """

    resource_version: int
    type: ChangeType
    entry: Entry
    old: Entry | None
    encoded: dict[str, bytes] | None = msgspec.field(default_factory=dict)


def entry_of(
    resource: str, obj: dict[str, Any], fields: Mapping[str, str], resource_version: int
) -> Entry:
    """The state of an object, whose metadata has name and uid; TypeError if it is not JSON."""
    metadata = obj["metadata"]
    return Entry(
        resource,
        metadata.get("namespace", ""),
        metadata["name"],
        resource_version,
        metadata["uid"],
        dict(metadata.get("labels") or {}),
        dict(fields),
        encode({name: part for name, part in obj.items() if name not in {"apiVersion", "kind"}}),
    )


def key_of(namespace: str, name: str) -> str:
    """The sort key: lists are in the order of etcd's keys, in which `/` follows `-` and `.`."""
    return f"{namespace}/{name}"
