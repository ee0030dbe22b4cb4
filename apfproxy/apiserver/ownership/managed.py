"""Keeping account of who owns which fields, on every write.

An update owns what it changes and takes it from other managers.  A manager that applies a
configuration owns exactly what it says: to change what others own is a conflict, unless forced;
what it applied before and does no more goes away, unless others own it.

`metadata.managedFields` has one entry for each manager, operation, API version (but for applying)
and subresource.  Objects are compared in the form of the request's version, entries of other
versions by path.  Entries are never changed in place, so that objects may share them.

Sources: Kubernetes documentation, "Server-Side Apply"; structured-merge-diff v6, package merge;
apimachinery, package managedfields, with its `lastapplied*`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from apfproxy.apiserver.errors import StatusError, bad_request, unknown_error
from apfproxy.apiserver.ownership.field_set import (
    FieldSet,
    FieldSetError,
    as_json,
    difference,
    in_order,
    intersection,
    parse,
    paths,
    shown,
    union,
)
from apfproxy.apiserver.ownership.typed import (
    Node,
    differences,
    empty,
    fields_of,
    merged,
    node_of,
    pruned,
    wrong_types,
)
from apfproxy.objects.documents import LONGEST_PATHS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.apiserver.ownership.field_set import Path
    from apfproxy.apiserver.schema.types import Struct
    from apfproxy.objects.types import Object

APPLY: Final = "Apply"
UPDATE: Final = "Update"

KUBECTL: Final = "kubectl"  # the field manager for which the annotation of client-side apply counts
BEFORE_FIRST_APPLY: Final = "before-first-apply"
"""Manager of what was there before an object without managed fields was first applied to."""
ANCIENT: Final = "ancient-changes"  # manager of the entries that the oldest updates are merged into
MOST_UPDATERS: Final = 10
"""Entries of updates in one object, as in Kubernetes; more are merged, the oldest first."""
EPOCH: Final = "1970-01-01T00:00:00Z"  # entries without a time are sorted by this one
ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Client-side `kubectl apply` leaves it."""
MOST_ANNOTATIONS: Final = 256 * 1024
"""Bytes that all keys and values of annotations may have together, as in Kubernetes."""

STRIPPED: Final[tuple[Path, ...]] = (
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "creationTimestamp"),
    ("metadata", "selfLink"),
    ("metadata", "uid"),
    ("metadata", "generation"),
    ("metadata", "managedFields"),
    ("metadata", "resourceVersion"),
)
"""Fields of every object that have no owner."""
SCALE: Final = "scale"
REPLICAS: Final[FieldSet] = {"f:spec": {"f:replicas": {}}}


@dataclass(frozen=True, slots=True)
class Writer:
    """Says who writes an object, and how.

    Attributes:
        manager: Field manager; "" for `unknown`.
        schema: Of the object, in the version of the request.
        time: Now, RFC 3339 in whole seconds, UTC.
        reset: Fields that this kind of write does not own, by name from the root.
        known: API versions of the object's kind, outside which no field has an owner; None for all.
    """

    manager: str
    schema: Struct
    api_version: str
    time: str
    subresource: str = ""
    reset: tuple[Path, ...] = ()
    known: frozenset[str] | None = None

    @property
    def node(self) -> Node:
        """The fields that this write may own."""
        return node_of(self.schema, STRIPPED + self.reset)

    def identity(self, operation: str) -> Identity:
        """The entry that this write is recorded in."""
        version = "" if operation == APPLY else self.api_version
        return Identity(self.manager or "unknown", operation, version, self.subresource)


class Identity(NamedTuple):
    """Identifies an entry; the version is "" for `Apply`."""

    manager: str
    operation: str
    api_version: str
    subresource: str

    @property
    def text(self) -> str:
        """The form in which Kubernetes writes it, which sorts entries of the same age."""
        names = ("manager", "operation", "apiVersion", "subresource")
        parts = zip(names, self, strict=True)
        return ",".join(f"{as_json(name)}:{as_json(part)}" for name, part in parts if part)

    @property
    def shown(self) -> str:
        """The name in messages about conflicts."""
        name = as_json(self.manager)
        if self.subresource:
            name = f"{name} with subresource {as_json(self.subresource)}"
        return f"{name} using {self.api_version}" if self.operation == UPDATE else name


Managers = dict[Identity, "Object"]


def entry_of(key: Identity, api_version: str, time: str, fields: FieldSet) -> Object:
    entry = {
        "manager": key.manager,
        "operation": key.operation,
        "apiVersion": api_version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": in_order(fields),
        "subresource": key.subresource,
    }
    return {name: value for name, value in entry.items() if value != ""}


def managers_of(entries: Iterable[Object]) -> Managers:
    managers: Managers = {}
    for entry in entries:
        version = "" if entry["operation"] == APPLY else entry["apiVersion"]
        names = entry.get("manager") or "", entry["operation"], version
        managers[Identity(*names, entry.get("subresource") or "")] = entry
    return managers


def sent_managers(entries: object) -> Managers:
    """Read what a client has sent; FieldSetError if it is no list of valid entries."""
    if not isinstance(entries, list):
        raise FieldSetError("managedFields must be a list")
    for entry in entries:
        if not (
            isinstance(entry, dict)
            and entry.get("operation") in {APPLY, UPDATE}
            and entry.get("apiVersion")
            and entry.get("fieldsType") == "FieldsV1"
        ):
            raise FieldSetError("an entry has no operation, no version or fields of another type")
    managers = managers_of({**entry, "fieldsV1": parse(entry.get("fieldsV1"))} for entry in entries)
    return {
        key: entry_of(key, entry["apiVersion"], entry.get("time") or "", entry["fieldsV1"])
        for key, entry in managers.items()
    }


def age(entry: Object) -> tuple[str, ...]:
    names = ("operation", "time", "manager", "apiVersion", "subresource")
    return tuple(entry.get(name) or (EPOCH if name == "time" else "") for name in names)


def record(metadata: Object, managers: Managers) -> None:
    if managers:
        metadata["managedFields"] = sorted(managers.values(), key=age)


def cap_updaters(managers: Managers) -> None:
    """Merge the oldest updaters of an API version until there are at most `MOST_UPDATERS`."""
    updaters = [key for key in managers if key.operation == UPDATE]
    excess = len(updaters) - MOST_UPDATERS
    if excess <= 0:
        return
    updaters.sort(key=lambda key: (managers[key].get("time") or EPOCH, key.text))
    firsts: dict[str, Identity] = {}
    for key in updaters:
        first = firsts.setdefault(key.api_version, key)
        if first is key or excess <= 0:
            continue
        bucket = Identity(ANCIENT, UPDATE, key.api_version, "")
        is_bucket_older = bucket in managers and bucket != key
        into = managers.pop(bucket if is_bucket_older else first)
        entry = managers.pop(key)  # the younger one
        fields = union(entry["fieldsV1"], into["fieldsV1"])
        managers[bucket] = entry_of(bucket, key.api_version, entry.get("time") or "", fields)
        excess -= 1


def update_managed(writer: Writer, live: Object | None, new: Object) -> None:
    """Set the managed fields of a canonical object that is created, or replaces a live one.

    The entries that the new object has are taken for the live one's if they are valid; one empty
    entry, or an empty list, resets them.  Writes to a subresource always keep the live ones.  An
    object that is there without managed fields stays so until something is applied to it.
    """
    metadata = new.setdefault("metadata", {})
    sent = metadata.pop("managedFields", None)
    stored = live.get("metadata", {}).get("managedFields") or [] if live is not None else []
    managers = managers_of(stored)
    if not writer.subresource and sent is not None and sent != stored:
        with contextlib.suppress(FieldSetError):
            managers = {} if sent in ([], [{}]) else sent_managers(sent) or managers
    if writer.subresource == SCALE and live is not None:
        if entries := scaled(writer, of_known_versions(writer, managers), live, new):
            metadata["managedFields"] = entries
        return
    if managers or live is None:
        managers = of_known_versions(writer, managers)
        try:
            take(writer, managers, empty(writer.schema) if live is None else live, new)
        except FieldSetError:
            # An item of a list has not the keys that it must have: who owns it cannot be told.
            managers = of_known_versions(writer, managers_of(stored))
    record(metadata, managers)


def scaled(writer: Writer, managers: Managers, live: Object, new: Object) -> list[Object]:
    """The entries after a write to the subresource `scale`, in which Kubernetes keeps no times.

    Replicas that had no owner get none.  Those who updated them have an entry of
    their own for them from then on; in the next write it yields to a later one of the same name.
    """
    number = new["spec"].get("replicas", 0)
    is_changed = number != live["spec"].get("replicas", 0)
    owners = [key for key, each in managers.items() if intersection(each["fieldsV1"], REPLICAS)]
    for key in owners:
        fields = difference(managers[key]["fieldsV1"], REPLICAS)
        if key.operation == APPLY and not is_changed:
            continue
        managers[key] = {**managers[key], "fieldsV1": fields}
        if not fields:
            del managers[key]
    takers = [key for key in owners if key.operation == UPDATE]
    if is_changed:
        takers = [writer.identity(UPDATE)] if owners and number else []
    split = [entry_of(key, writer.api_version, "", REPLICAS) for key in takers]
    return sorted([*managers.values(), *split], key=age)


def of_known_versions(writer: Writer, managers: Managers) -> Managers:
    """Leave out versions that the kind does not have, which Kubernetes cannot convert."""
    known = writer.known
    return {key: each for key, each in managers.items() if not known or each["apiVersion"] in known}


def take(writer: Writer, managers: Managers, old: Object, new: Object) -> None:
    changed, removed = differences(writer.node, old, new)
    lose(managers, changed, removed)
    own = difference(changed, removed)
    if own:
        key = writer.identity(UPDATE)
        if key in managers:
            own = union(own, managers[key]["fieldsV1"])
        managers[key] = entry_of(key, writer.api_version, writer.time, own)
    cap_updaters(managers)


def lose(managers: Managers, changed: FieldSet, removed: FieldSet) -> None:
    for key, entry in list(managers.items()) if changed or removed else ():
        fields = difference(difference(entry["fieldsV1"], changed), removed)
        if not fields:
            del managers[key]
        elif fields is not entry["fieldsV1"]:
            managers[key] = {**entry, "fieldsV1": fields}


def apply(writer: Writer, live: Object | None, patch: Object, *, force: bool = False) -> Object:
    """Merge an applied configuration into an object, and set its managed fields.

    The live object is in the canonical form of the request's version, None for a creation.  The
    result, which shares nothing with the others, is to be decoded and given defaults again: it has
    what the patch has, nulls included, and nulls where nothing is left.

    Raises:
        StatusError: 400, the patch has managed fields.  409, others own what would change, and it
            is not forced.  500, the patch has not the types of its kind, or would leave the object
            without a key of a list's item.
    """
    sent = patch.get("metadata")
    if isinstance(sent, dict) and sent.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    if errors := first_of(wrong_types(writer.schema, patch)):
        names = sent if isinstance(sent, dict) else {}
        name = f"{names.get('namespace') or ''}/{names.get('name') or ''}"
        kind = shown_kind(patch["apiVersion"], patch["kind"])
        listed = errors[0] if len(errors) == 1 else "\n  ".join(("errors:", *errors))
        raise unknown_error(f"failed to create typed patch object ({name}; {kind}): {listed}")
    try:
        new, managers = applied(writer, live, patch, force=force)
    except FieldSetError as error:
        raise unknown_error(f"failed to compare objects: {error}") from error
    result: Object = copied(new)
    metadata = result["metadata"] = result.get("metadata") or {}
    metadata.pop("managedFields", None)
    if writer.manager == KUBECTL:
        renew(result, patch)
    record(metadata, managers)
    return result


def shown_kind(api_version: object, kind: object) -> str:
    """Group, version and kind as messages name them: `policy/v1, Kind=PodDisruptionBudget`."""
    version = str(api_version)
    return f"{version if '/' in version else f'/{version}'}, Kind={kind}"


def applied(
    writer: Writer, live: Object | None, patch: Object, *, force: bool
) -> tuple[Object, Managers]:
    """The merged object, which shares parts with both others, and who owns what.

    Raises:
        FieldSetError: An item of a list has not its keys.
        StatusError: 409, others own what would change, and it is not forced.
    """
    base, managers = empty(writer.schema), Managers()
    if live is not None:
        base, managers = live, managers_of(live["metadata"].get("managedFields") or [])
        if not managers:
            first = dataclasses.replace(writer, manager=BEFORE_FIRST_APPLY)
            take(first, managers, empty(writer.schema), live)
    managers = of_known_versions(writer, managers)
    applier = writer.identity(APPLY)
    last = managers.pop(applier, {})
    whole = node_of(writer.schema)
    new = merged(whole, base, patch)
    if last:
        mine = fields_of(node_of(writer.schema, writer.reset), patch)
        owned = functools.reduce(union, (each["fieldsV1"] for each in managers.values()), mine)
        new = pruned(whole, new, last["fieldsV1"], owned)
    changed, removed = differences(writer.node, base, new)
    if not force:
        check_conflicts(writer, managers, changed, live)
    lose(managers, changed, removed)
    fields = fields_of(writer.node, patch)
    if not fields.get("f:metadata"):
        fields.pop("f:metadata", None)  # none of its fields is owned
    if fields:
        # An apply that changes nothing is as old as the one before.
        time = writer.time if new != base else last.get("time") or ""
        managers[applier] = entry_of(applier, writer.api_version, time, fields)
    return new, managers


def first_of(texts: Iterable[str]) -> list[str]:
    """As many of the texts as a message may have."""
    found, size = [], 0
    for text in texts:
        found.append(text)
        size += len(text)
        if size >= LONGEST_PATHS:
            break
    return found


def check_conflicts(
    writer: Writer, managers: Managers, changed: FieldSet, live: Object | None
) -> None:
    # `kubectl` may change what its own client-side apply has set, as the annotation of that says.
    conflicts = {key: intersection(entry["fieldsV1"], changed) for key, entry in managers.items()}
    if writer.manager == KUBECTL and live is not None and any(conflicts.values()):
        allowed = still_as_applied(live, writer.schema, writer.api_version)
        conflicts = {key: difference(fields, allowed) for key, fields in conflicts.items()}
    listed = {
        key.shown: first_of(map(shown, paths(conflicts[key])))
        for key in sorted(conflicts, key=lambda key: key.text)
        if conflicts[key]
    }
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, fields in listed.items()
        for path in fields
    ]
    lines = ["\n- ".join((f"conflicts with {name}:", *each)) for name, each in listed.items()]
    text = f"{len(causes)} conflicts: " + "\n".join(lines)
    if len(causes) == 1:
        text = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    if causes:
        raise StatusError(409, "Conflict", f"Apply failed with {text}", {"causes": causes})


def still_as_applied(live: Object, schema: Struct, api_version: str) -> FieldSet:
    """The fields that are as client-side apply has set them in this version; none if unknown."""
    text = (live["metadata"].get("annotations") or {}).get(ANNOTATION)
    try:
        last = msgspec.json.decode(text or "null")
    except (msgspec.DecodeError, RecursionError):
        return {}
    is_of_version = isinstance(last, dict) and last.get("apiVersion") == api_version
    if not is_of_version or any(wrong_types(schema, last)):
        return {}
    node = node_of(schema, STRIPPED)
    changed, removed = differences(node, last, live)
    return difference(difference(fields_of(node, last), changed), removed)


def renew(obj: Object, applied: Object) -> None:
    annotations: dict[str, str] = obj["metadata"].get("annotations") or {}
    if not annotations.get(ANNOTATION):
        return
    metadata: dict[str, Any] = dict(applied.get("metadata") or {})
    if metadata.get("annotations") is not None:
        metadata["annotations"] = {**metadata["annotations"]}
        metadata["annotations"].pop(ANNOTATION, None)
    annotations[ANNOTATION] = as_json({**applied, "metadata": metadata}) + "\n"
    size = sum(len(name.encode()) + len(text.encode()) for name, text in annotations.items())
    if size > MOST_ANNOTATIONS:
        del annotations[ANNOTATION]


def copied(value: Any) -> Any:  # noqa: ANN401  any JSON
    """A copy of JSON data that shares nothing that may change."""
    if isinstance(value, dict):
        return {key: copied(child) for key, child in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


def keep_times(new: Object, old: Object) -> None:
    """Let a write that changes nothing else keep the times of managed fields."""
    entries = old["metadata"].get("managedFields")
    sent = new["metadata"].get("managedFields")
    if entries and entries != sent and timeless(new) == timeless(old):
        new["metadata"]["managedFields"] = list(entries)


def timeless(obj: Object) -> Object:
    entries = obj["metadata"].get("managedFields") or []
    times = {"managedFields": [{**entry, "time": ""} for entry in entries], "resourceVersion": ""}
    return {**obj, "metadata": {**obj["metadata"], **times}}
