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

import functools
from typing import TYPE_CHECKING

from apfproxy.api.ownership.applied import AppliedTypeError, check_types, shown_kind
from apfproxy.api.ownership.conflicts import OwnershipConflicts
from apfproxy.api.ownership.entries import (
    APPLY,
    UPDATE,
    Identity,
    Managers,
    Owned,
    cap_updaters,
    entries_of,
    identity,
    managers_of,
    sent_managers,
)
from apfproxy.api.ownership.field_set import (
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
from apfproxy.api.ownership.last_applied import KUBECTL, renew, still_as_applied
from apfproxy.api.ownership.structure import empty, structure
from apfproxy.api.ownership.typed import (
    STRIPPED,
    STRIPPED_METADATA,
    Value,
    compare_objects,
    fields_of,
    merged,
    pruned,
)

if TYPE_CHECKING:
    from apfproxy.api.kind import Object
    from apfproxy.api.schema.types import Struct

BEFORE_FIRST_APPLY = "before-first-apply"
"""Manager of what was there before an object without managed fields was first applied to."""

STRIPPED_SET: FieldSet = of_paths(
    ("f:metadata",),
    *((f"f:{name}",) for name in sorted(STRIPPED)),
    *(("f:metadata", f"f:{name}") for name in sorted(STRIPPED_METADATA)),
)
"""Paths that nobody owns."""

LEAF_SET: FieldSet = {}
"""The part of a set below a path that is a member, with none below it."""


class AppliedObjectError(ValueError):
    """What is applied is no configuration of this object.  At fault: the client; code 400."""


def update_managed(  # noqa: PLR0913  all of it is what a write consists of
    live: Object | None,
    new: Object,
    schema: Struct,
    *,
    manager: str,
    api_version: str,
    subresource: str = "",
    time: str,
    reset: tuple[Path, ...] = (),
    is_reset: bool = False,
) -> None:
    """Set the managed fields of an object that is created, or replaces another.

    The entries that the new object has are taken for the live one's if they are valid; to have one
    empty entry, or an empty list, resets them.  Writes to a subresource always keep the live ones.
    An object that is there without managed fields stays so until something is applied to it.

    Args:
        live: What is stored, in the canonical form; None for a creation.  Not changed.
        new: What is to be stored, in the canonical form, defaults included; its
            `metadata.managedFields` are set, or removed where there are none.
        schema: Of both.
        manager: Field manager who writes; "" for `unknown`.
        api_version: Of both objects, such as `flowcontrol.apiserver.k8s.io/v1`.
        subresource: That is written; "" for the object itself.
        time: Now, RFC 3339 in whole seconds, UTC.
        reset: Fields that this kind of write does not own, by name from the root.
        is_reset: Whether the client sent an empty list, where decoding has dropped it.
    """
    metadata = new.setdefault("metadata", {})
    sent = metadata.pop("managedFields", None)
    stored = live.get("metadata", {}).get("managedFields") or [] if live is not None else []
    managers = managers_before(stored, sent, is_subresource=bool(subresource), is_reset=is_reset)
    if managers or live is None:
        old = empty(schema) if live is None else live
        writer = identity(manager, UPDATE, api_version, subresource)
        try:
            take(managers, old, new, schema, writer, api_version, time, reset)
        except FieldSetError:
            # An item of a list has not the keys that it must have: who owns it cannot be told.
            managers = managers_of(stored)
    if managers:
        metadata["managedFields"] = entries_of(managers)


def managers_before(
    stored: list[Object], sent: object, *, is_subresource: bool, is_reset: bool
) -> Managers:
    """Who owns what before a write: what the client says if that is valid, else what is stored."""
    if is_subresource or (sent is None and not is_reset) or (sent and sent == stored):
        return managers_of(stored)
    if is_reset or sent in ([], [{}]):
        return {}
    try:
        return sent_managers(sent) or managers_of(stored)
    except FieldSetError:
        return managers_of(stored)


def take(
    managers: Managers,
    old: Object,
    new: Object,
    schema: Struct,
    writer: Identity,
    api_version: str,
    time: str,
    reset: tuple[Path, ...],
) -> None:
    """Give the writer of an update what he changed, and take it from the others."""
    changed, removed = changes(schema, old, new, reset)
    lose(managers, changed, removed)
    own = difference(changed, removed)
    if own:
        known = managers.get(writer)
        fields = own if known is None else union(own, known.fields)
        managers[writer] = Owned(fields, api_version, time)
    cap_updaters(managers)


def changes(
    schema: Struct, old: Object, new: Object, reset: tuple[Path, ...]
) -> tuple[FieldSet, FieldSet]:
    """What is added or modified, and what is removed, in fields that a write may own."""
    tables = structure(schema)
    unowned, deeper = ignored(reset)
    changed, removed = compare_objects(tables, old, new, unowned)
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


def apply(  # noqa: PLR0913  all of it is what an apply consists of
    live: Object | None,
    patch: Object,
    schema: Struct,
    *,
    manager: str,
    api_version: str,
    subresource: str = "",
    time: str,
    reset: tuple[Path, ...] = (),
    force: bool = False,
) -> Object:
    """Merge an applied configuration into an object, and set its managed fields.

    Args:
        live: What is stored, in the canonical form of the request's version; None for a creation.
            Not changed.
        patch: The configuration as parsed, neither decoded nor given defaults: what it does not
            say is not owned.  Not changed.
        schema: Of both.
        manager: Field manager who applies.
        api_version: Of the request.
        subresource: That is applied to; "" for the object itself.
        time: Now, RFC 3339 in whole seconds, UTC.
        reset: Fields that this kind of write does not own, by name from the root.
        force: Whether to take what others own.

    Returns:
        The merged object.  It has to be decoded and given defaults again: it has what the patch
        has, nulls included, and nulls where nothing is left.  It shares nothing that may change
        with its arguments.

    Raises:
        AppliedObjectError: The patch is of another kind or version, or has managed fields.
        AppliedTypeError: The patch has not the types of its kind, or would leave the object without
            a key of a list's item.
        OwnershipConflicts: Others own what would change, and it is not forced.
    """
    check_applied(patch, schema, api_version)
    applier = identity(manager, APPLY, api_version, subresource)
    try:
        new, managers = applied(live, patch, schema, applier, api_version, time, reset, force=force)
    except FieldSetError as error:
        message = f"failed to compare objects: {error}"
        raise AppliedTypeError(message) from error
    result: Object = copied(new)
    metadata = result.setdefault("metadata", {})
    metadata.pop("managedFields", None)
    if manager == KUBECTL:
        renew(result, patch)
    if managers:
        metadata["managedFields"] = entries_of(managers)
    return result


def applied(
    live: Object | None,
    patch: Object,
    schema: Struct,
    applier: Identity,
    api_version: str,
    time: str,
    reset: tuple[Path, ...],
    *,
    force: bool,
) -> tuple[Object, Managers]:
    """The merged object, which shares parts with both others, and who owns what.

    Raises:
        FieldSetError: An item of a list has not its keys.
        OwnershipConflicts: Others own what would change, and it is not forced.
    """
    stored = live["metadata"].get("managedFields") or [] if live is not None else []
    managers = managers_of(stored)
    base = empty(schema) if live is None else live
    if not managers and live is not None:
        first = identity(BEFORE_FIRST_APPLY, UPDATE, api_version, applier.subresource)
        take(managers, empty(schema), live, schema, first, api_version, time, reset)
    last = managers.pop(applier, None)
    tables = structure(schema)
    unowned, deeper = ignored(reset)
    shallow = {f"f:{name}": LEAF_SET for name in unowned}
    fields = recursive_difference(fields_of(tables, patch), union(deeper, shallow))
    new = merged(tables, base, patch)
    if last is not None:
        owned = functools.reduce(union, (each.fields for each in managers.values()), fields)
        new = pruned(tables, new, last.fields, owned)
    changed, removed = changes(schema, base, new, reset)
    if not force:
        check_conflicts(managers, changed, live, schema, applier.manager, api_version)
    lose(managers, changed, removed)
    when = time if new != base else ""
    own = applied_entry(difference(fields, STRIPPED_SET), api_version, when, last)
    if own is not None:
        managers[applier] = own
    return new, managers


def check_applied(patch: Object, schema: Struct, api_version: str) -> None:
    """Check that a patch can be applied to this kind of object.

    Raises:
        AppliedObjectError: It is of another kind or version, or has managed fields.
        AppliedTypeError: It has not the types of its kind.
    """
    sent = patch.get("apiVersion", ""), patch.get("kind", "")
    if sent != (api_version, schema.name):
        message = f"invalid object type: {shown_kind(*sent)}"
        raise AppliedObjectError(message)
    metadata = patch.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        message = "metadata.managedFields must be nil"
        raise AppliedObjectError(message)
    check_types(patch, schema)


def applied_entry(
    fields: FieldSet, api_version: str, time: str, last: Owned | None
) -> Owned | None:
    """What the applier owns now; None for nothing.

    Args:
        fields: That he applied.
        api_version: That they are named in.
        time: Now; "" if the object is the same as before.
        last: What he owned before; None for nothing.
    """
    if not fields:
        return None
    if last is None or time:
        return Owned(fields, api_version, time)
    if fields == last.fields and api_version == last.api_version:
        return last
    return Owned(fields, api_version, last.time)


def check_conflicts(
    managers: Managers,
    changed: FieldSet,
    live: Object | None,
    schema: Struct,
    manager: str,
    api_version: str,
) -> None:
    """Check that nobody else owns what an apply would change.

    `kubectl` may change what its own client-side apply has set: the annotation that this leaves
    says what it was.

    Raises:
        OwnershipConflicts: Somebody does.
    """
    conflicts = {key: intersection(owned.fields, changed) for key, owned in managers.items()}
    if manager == KUBECTL and live is not None and any(conflicts.values()):
        allowed = still_as_applied(live, schema, api_version)
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

    Args:
        new: What is to be stored, complete but for its `resourceVersion`.  Its
            `metadata.managedFields` may be set to those of the old object.
        old: What is stored.
    """
    after = new["metadata"].get("managedFields") or []
    before = old["metadata"].get("managedFields") or []
    if after == before or len(after) != len(before):
        return
    for one, other in zip(after, before, strict=True):
        if {**one, "time": ""} != {**other, "time": ""}:
            return
    if timeless(new) == timeless(old):
        new["metadata"]["managedFields"] = list(before)


def timeless(obj: Object) -> tuple[Object, Object]:
    """The metadata and the rest of an object, without what a write that changes nothing changes."""
    metadata = {
        name: value
        for name, value in obj["metadata"].items()
        if name not in {"managedFields", "resourceVersion"}
    }
    return metadata, {name: value for name, value in obj.items() if name != "metadata"}
