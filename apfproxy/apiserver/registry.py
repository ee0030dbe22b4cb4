"""Operations on stored objects, by kind: what handlers, controllers and seeds call.

A decision (is it there, is it valid, is it still as the client believes) and the hand-over of its
result to the store are one synchronous step, so that nothing changes in between; what is awaited is
that the store has it for good.
"""

from __future__ import annotations

from dataclasses import dataclass

from apfproxy.api.kind import Kind, Object


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Who writes, and how.

    Attributes:
        manager: Field manager, as `managedFields` names it.
        is_dry_run: Whether to answer as if, and store nothing.
    """

    manager: str
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete.

    Attributes:
        is_dry_run: Whether to answer as if, and delete nothing.
        grace_period_s: Seconds that the object gets to end; None for the kind's default.
        uid: The object must have it; "" for any.
        resource_version: The object must have it; "" for any.
        propagation: `Background`, `Foreground`, `Orphan`, or "" for the kind's default.
        manager: Field manager.
    """

    is_dry_run: bool = False
    grace_period_s: int | None = None
    uid: str = ""
    resource_version: str = ""
    propagation: str = ""
    manager: str = "unknown"


@dataclass(frozen=True, slots=True)
class Written:
    """What a write came to.

    Attributes:
        obj: The object as stored, in the storage version, with `kind` and `apiVersion`.
        is_created: Whether it was not there before.
        is_gone: Whether it is there no more.
    """

    obj: Object
    is_created: bool = False
    is_gone: bool = False


__all__ = ["DeleteOptions", "Kind", "Object", "WriteOptions", "Written"]
