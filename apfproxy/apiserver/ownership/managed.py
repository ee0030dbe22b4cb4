"""Keeping account of who owns which fields, on every write.

Who updates an object owns what he changed and takes it from whoever owned it.  Who applies a
configuration owns exactly what it says: what others own and he would change is a conflict, unless
he forces it; what he applied before and does no more goes away, unless somebody else owns it.

Objects are compared in the form of the request's version; what entries of other versions own is
compared by path, as it is.  Entries are never changed in place, so that objects may share them.

Sources: Kubernetes documentation, "Server-Side Apply"; structured-merge-diff v6, package merge;
apimachinery, package managedfields.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.apiserver.ownership.applied import AppliedTypeError, check_types
from apfproxy.apiserver.ownership.conflicts import OwnershipConflicts
from apfproxy.apiserver.ownership.entries import (
    APPLY,
    UPDATE,
    Managers,
    Owned,
    cap_updaters,
    entries_of,
    identity,
    managers_of,
    sent_managers,
)
from apfproxy.apiserver.ownership.field_set import (
    FieldSet,
    FieldSetError,
    Path,
    difference,
    intersection,
    of_paths,
    paths,
    recursive_difference,
    shown,
    union,
)
from apfproxy.apiserver.ownership.last_applied import KUBECTL, renew, still_as_applied
from apfproxy.apiserver.ownership.structure import empty, structure
from apfproxy.apiserver.ownership.typed import (
    STRIPPED,
    STRIPPED_METADATA,
    Value,
    compare_objects,
    fields_of,
    merged,
    pruned,
)

if TYPE_CHECKING:
    from apfproxy.apiserver.schema.types import Struct
    from apfproxy.objects.types import Object

BEFORE_FIRST_APPLY = "before-first-apply"
"""Manager of what was there before an object without managed fields was first applied to."""

STRIPPED_SET: FieldSet = of_paths(
    ("f:metadata",),
    *((f"f:{name}",) for name in sorted(STRIPPED)),
    *(("f:metadata", f"f:{name}") for name in sorted(STRIPPED_METADATA)),
)
"""Paths that nobody owns."""


class AppliedObjectError(ValueError):
    """What is applied is no configuration of this object.  At fault: the client; code 400."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes an object, and how.

    Attributes:
        manager: Field manager; "" for `unknown`.
        schema: Of the object, in the version of the request.
        api_version: Of the request, such as `flowcontrol.apiserver.k8s.io/v1`.
        time: Now, RFC 3339 in whole seconds, UTC.
        subresource: That is written; "" for the object itself.
        reset: Fields that this kind of write does not own, by name from the root.
        known: The API versions of the object's kind; nobody owns fields in any other. None for all.
    """

    manager: str
    schema: Struct
    api_version: str
    time: str
    subresource: str = ""
    reset: tuple[Path, ...] = ()
    known: frozenset[str] | None = None


def update_managed(writer: Writer, live: Object | None, new: Object) -> None:
    """Set the managed fields of a canonical object that is created, or replaces a live one.

    The entries that the new object has are taken for the live one's if they are valid; one empty
    entry, or an empty list, resets them.  Writes to a subresource always keep the live ones.  An
    object that is there without managed fields stays so until something is applied to it.
    """
    metadata = new.setdefault("metadata", {})
    sent = metadata.pop("managedFields", None)
    stored = live.get("metadata", {}).get("managedFields") or [] if live is not None else []
    managers = managers_before(stored, sent, is_subresource=bool(writer.subresource))
    if managers or live is None:
        forget_unknown(writer, managers)
        try:
            take(writer, managers, empty(writer.schema) if live is None else live, new)
        except FieldSetError:
            # An item of a list has not the keys that it must have: who owns it cannot be told.
            managers = managers_of(stored)
            forget_unknown(writer, managers)
    if managers:
        metadata["managedFields"] = entries_of(managers)


def forget_unknown(writer: Writer, managers: Managers) -> None:
    """Drop who owns fields in a version that the kind does not have, such as another group's.

    Kubernetes cannot convert those, and forgets them at the next write.
    """
    if writer.known is not None:
        for key, owned in list(managers.items()):
            if owned.api_version not in writer.known:
                del managers[key]


def managers_before(stored: list[Object], sent: object, *, is_subresource: bool) -> Managers:
    """Who owns what before a write: what the client says if that is valid, else what is stored."""
    if is_subresource or sent is None or (sent and sent == stored):
        return managers_of(stored)
    if sent in ([], [{}]):
        return {}
    try:
        return sent_managers(sent) or managers_of(stored)
    except FieldSetError:
        return managers_of(stored)


def take(writer: Writer, managers: Managers, old: Object, new: Object) -> None:
    """Give the writer of an update what he changed, and take it from the others."""
    changed, removed = changes(writer, old, new)
    lose(managers, changed, removed)
    own = difference(changed, removed)
    if own:
        key = identity(writer.manager, UPDATE, writer.api_version, writer.subresource)
        known = managers.get(key)
        fields = own if known is None else union(own, known.fields)
        managers[key] = Owned(fields, writer.api_version, writer.time)
    cap_updaters(managers)


def changes(writer: Writer, old: Object, new: Object) -> tuple[FieldSet, FieldSet]:
    """What is added or modified, and what is removed, in fields that the writer may own."""
    unowned, deeper = ignored(writer.reset)
    changed, removed = compare_objects(structure(writer.schema), old, new, unowned)
    if deeper:
        changed = recursive_difference(changed, deeper)
        removed = recursive_difference(removed, deeper)
    return changed, removed


@functools.cache
def ignored(reset: tuple[Path, ...]) -> tuple[frozenset[str], FieldSet]:
    """The fields of the root that a write does not own, and the set of those below."""
    names = STRIPPED | {path[0] for path in reset if len(path) == 1}
    return names, of_paths(
        *(tuple(f"f:{name}" for name in path) for path in reset if len(path) > 1)
    )


def lose(managers: Managers, changed: FieldSet, removed: FieldSet) -> None:
    """Take from everybody what has changed or gone."""
    if not changed and not removed:
        return
    for key, owned in list(managers.items()):
        fields = difference(difference(owned.fields, changed), removed)
        if not fields:
            del managers[key]
        elif fields is not owned.fields:
            managers[key] = Owned(fields, owned.api_version, owned.time)


def apply(writer: Writer, live: Object | None, patch: Object, *, force: bool = False) -> Object:
    """Merge an applied configuration into an object, and set its managed fields.

    Args:
        writer: Who applies.
        live: What is stored, in the canonical form of the request's version; None for a creation.
        patch: The configuration as parsed: what it does not say is not owned.
        force: Whether to take what others own.

    Returns:
        The merged object, to be decoded and given defaults again: it has what the patch has, nulls
        included, and nulls where nothing is left.  It shares nothing with the others.

    Raises:
        AppliedObjectError: The patch has managed fields.
        AppliedTypeError: The patch has not the types of its kind, or would leave the object without
            a key of a list's item.
        OwnershipConflicts: Others own what would change, and it is not forced.
    """
    sent = patch.get("metadata")
    if isinstance(sent, dict) and sent.get("managedFields") is not None:
        raise AppliedObjectError("metadata.managedFields must be nil")
    check_types(patch, writer.schema)
    try:
        new, managers = applied(writer, live, patch, force=force)
    except FieldSetError as error:
        raise AppliedTypeError(f"failed to compare objects: {error}") from error
    result: Object = copied(new)
    metadata = result.setdefault("metadata", {})
    metadata.pop("managedFields", None)
    if writer.manager == KUBECTL:
        renew(result, patch)
    if managers:
        metadata["managedFields"] = entries_of(managers)
    return result


def applied(
    writer: Writer, live: Object | None, patch: Object, *, force: bool
) -> tuple[Object, Managers]:
    """The merged object, which shares parts with both others, and who owns what.

    Raises:
        FieldSetError: An item of a list has not its keys.
        OwnershipConflicts: Others own what would change, and it is not forced.
    """
    stored = live["metadata"].get("managedFields") or [] if live is not None else []
    managers = managers_of(stored)
    base = empty(writer.schema) if live is None else live
    if not managers and live is not None:
        first = dataclasses.replace(writer, manager=BEFORE_FIRST_APPLY)
        take(first, managers, empty(writer.schema), live)
    forget_unknown(writer, managers)
    applier = identity(writer.manager, APPLY, writer.api_version, writer.subresource)
    last = managers.pop(applier, None)
    tables = structure(writer.schema)
    unowned, deeper = ignored(writer.reset)
    shallow: FieldSet = {f"f:{name}": {} for name in unowned}
    fields = recursive_difference(fields_of(tables, patch), union(deeper, shallow))
    new = merged(tables, base, patch)
    if last is not None:
        owned = functools.reduce(union, (each.fields for each in managers.values()), fields)
        new = pruned(tables, new, last.fields, owned)
    changed, removed = changes(writer, base, new)
    if not force:
        check_conflicts(writer, managers, changed, live)
    lose(managers, changed, removed)
    fields = difference(fields, STRIPPED_SET)
    if fields:
        # An apply that changes nothing is as old as the one before.
        time = writer.time if new != base else last.time if last is not None else ""
        managers[applier] = Owned(fields, writer.api_version, time)
    return new, managers


def check_conflicts(
    writer: Writer, managers: Managers, changed: FieldSet, live: Object | None
) -> None:
    """Check that nobody else owns what an apply would change.

    `kubectl` may change what its own client-side apply has set: the annotation that this leaves
    says what it was.

    Raises:
        OwnershipConflicts: Somebody does.
    """
    conflicts = {key: intersection(owned.fields, changed) for key, owned in managers.items()}
    if writer.manager == KUBECTL and live is not None and any(conflicts.values()):
        allowed = still_as_applied(live, writer.schema, writer.api_version)
        conflicts = {key: difference(fields, allowed) for key, fields in conflicts.items()}
    listed = [
        (key.shown, shown(path))
        for key in sorted(conflicts, key=lambda key: key.text)
        for path in paths(conflicts[key])
    ]
    if listed:
        raise OwnershipConflicts(listed)


def copied(value: Value) -> Value:
    """A copy of JSON data that shares nothing that may change."""
    if isinstance(value, dict):
        return {key: copied(child) for key, child in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


def keep_times(new: Object, old: Object) -> None:
    """Take the times of managed fields back where nothing else has changed.

    Without that, a write that changes nothing but passes through defaults or other normal forms
    would be a change of its own.
    """
    entries = old["metadata"].get("managedFields")
    if (
        entries
        and entries != new["metadata"].get("managedFields")
        and timeless(new) == timeless(old)
    ):
        new["metadata"]["managedFields"] = list(entries)


def timeless(obj: Object) -> Object:
    """The object without what a write that changes nothing changes."""
    entries = obj["metadata"].get("managedFields") or []
    metadata = {
        **obj["metadata"],
        "managedFields": [{**entry, "time": ""} for entry in entries],
        "resourceVersion": "",
    }
    return {**obj, "metadata": metadata}
