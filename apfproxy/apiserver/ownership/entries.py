"""Managed fields entries: how `metadata.managedFields` lists who owns what.

There is one entry for each manager, operation, API version (but for applying) and subresource.

Source: apimachinery, package managedfields.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Final

from apfproxy.apiserver.ownership.field_set import (
    FieldSet,
    FieldSetError,
    as_json,
    in_order,
    parse,
    union,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.objects.types import Object

APPLY: Final = "Apply"
UPDATE: Final = "Update"

MOST_UPDATERS: Final = 10
"""Entries of updates in one object, as in Kubernetes; more are merged, the oldest first."""

ANCIENT: Final = "ancient-changes"
"""Manager of the entries that the oldest updates are merged into."""

EPOCH: Final = "1970-01-01T00:00:00Z"
"""When an entry without a time was made, for sorting."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells entries apart.

    Attributes:
        manager: Name of the field manager.
        operation: `Apply` or `Update`.
        api_version: Of the fields' names; "" for `Apply`.
        subresource: That was written; "" for the object itself.
    """

    manager: str
    operation: str
    api_version: str
    subresource: str

    @property
    def text(self) -> str:
        """As Kubernetes writes it; what entries of the same age are sorted by."""
        names = ("manager", "operation", "apiVersion", "subresource")
        parts = zip(names, astuple(self), strict=True)
        return ",".join(f"{as_json(name)}:{as_json(part)}" for name, part in parts if part)

    @property
    def shown(self) -> str:
        """As messages about conflicts name it."""
        name = as_json(self.manager)
        if self.subresource:
            name = f"{name} with subresource {as_json(self.subresource)}"
        return f"{name} using {self.api_version}" if self.operation == UPDATE else name


@dataclass(frozen=True, slots=True)
class Owned:
    """What one entry says.

    Attributes:
        fields: Never empty.
        api_version: That the fields are named in.
        time: Of the last change, RFC 3339; "" for none.
        entry: As it came, if it still says the same.
    """

    fields: FieldSet
    api_version: str
    time: str
    entry: Object | None = None


Managers = dict[Identity, Owned]


def identity(manager: str, operation: str, api_version: str, subresource: str) -> Identity:
    """What the entry of a write is known by."""
    version = "" if operation == APPLY else api_version
    return Identity(manager or "unknown", operation, version, subresource)


def managers_of(entries: Iterable[Object]) -> Managers:
    """Read valid entries."""
    managers: Managers = {}
    for entry in entries:
        version, operation = entry["apiVersion"], entry["operation"]
        key = Identity(
            entry.get("manager") or "",
            operation,
            "" if operation == APPLY else version,
            entry.get("subresource") or "",
        )
        managers[key] = Owned(entry["fieldsV1"], version, entry.get("time") or "", entry)
    return managers


def sent_managers(entries: object) -> Managers:
    """Read entries that a client has sent.

    Raises:
        FieldSetError: One of them is no valid entry.
    """
    if not isinstance(entries, list):
        raise FieldSetError("managedFields must be a list")
    for entry in entries:
        is_valid = (
            isinstance(entry, dict)
            and entry.get("operation") in {APPLY, UPDATE}
            and bool(entry.get("apiVersion"))
            and entry.get("fieldsType") == "FieldsV1"
        )
        if not is_valid:
            raise FieldSetError("an entry has no operation, no version or fields of another type")
    valid = managers_of({**entry, "fieldsV1": parse(entry.get("fieldsV1"))} for entry in entries)
    return {key: replace(owned, entry=None) for key, owned in valid.items()}


def entries_of(managers: Managers) -> list[Object]:
    """The entries, in the order of Kubernetes: appliers first, then by age and name."""
    entries = [owned.entry or entry_of(key, owned) for key, owned in managers.items()]
    entries.sort(key=age)
    return entries


def entry_of(key: Identity, owned: Owned) -> Object:
    """The entry that says who owns what."""
    entry = {
        "manager": key.manager,
        "operation": key.operation,
        "apiVersion": owned.api_version,
        "time": owned.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": in_order(owned.fields),
        "subresource": key.subresource,
    }
    return {name: value for name, value in entry.items() if value != ""}


def age(entry: Object) -> tuple[str, ...]:
    """What entries are sorted by."""
    names = ("operation", "time", "manager", "apiVersion", "subresource")
    return tuple(entry.get(name) or (EPOCH if name == "time" else "") for name in names)


def cap_updaters(managers: Managers) -> None:
    """Merge the oldest entries of updates until there are no more than `MOST_UPDATERS`.

    Only entries of the same API version are merged, into one of the manager `ANCIENT`.
    """
    updaters = [key for key in managers if key.operation == UPDATE]
    updaters.sort(key=lambda key: (managers[key].time or EPOCH, key.text))
    excess = len(updaters) - MOST_UPDATERS
    firsts: dict[str, Identity] = {}
    for key in updaters:
        if excess <= 0:
            return
        owned = managers[key]
        first = firsts.setdefault(owned.api_version, key)
        if first is key:
            continue
        bucket = Identity(ANCIENT, UPDATE, owned.api_version, "")
        is_bucket_older = bucket in managers and bucket != key
        into = managers.pop(bucket if is_bucket_older else first)
        fields = union(owned.fields, into.fields)
        del managers[key]
        # The entry that goes is the younger one.
        managers[bucket] = Owned(fields, owned.api_version, owned.time)
        excess -= 1
