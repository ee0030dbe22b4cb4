"""Kinds: all that a server has to know of one kind of object: its versions, rules and columns.

Objects are plain data (see `schema.types`) in the storage version's canonical form, unless said
otherwise.  A rule that may change an object changes the new one in place, and never the old one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from apfproxy.apiserver.metadata import validate_core_update, validate_stored
from apfproxy.apiserver.tables import Column, at, row_of, values_at
from apfproxy.objects.field_errors import NOT_NEGATIVE, FieldError, invalid, not_supported
from apfproxy.objects.types import Object

if TYPE_CHECKING:
    from apfproxy.apiserver.schema.types import Struct
    from apfproxy.request.attributes import User

Change = Callable[[Object], None]
Check = Callable[[Object], list[FieldError]]
ChangeFromOld = Callable[[Object, Object], None]
CheckFromOld = Callable[[Object, Object], list[FieldError]]
"""These change, or judge, the new object, the first argument, by what the old one has."""
Convert = Callable[[Object], Object]
Rule = Callable[[str, Any], list[FieldError]]
"""Judges the value of the field that the first argument names."""
Review = Callable[[Object, "User", str], Object]
"""Makes the response to a review that a user creates; the last argument is now, as text."""
Path = tuple[str, ...]
"""The names to a field from the object's root: `("spec",)`."""


def nothing(*_: object) -> None:
    """Change nothing."""


def same(obj: Object) -> Object:
    return obj


def all_right(*_: object) -> list[Any]:
    return []


def no_grace(*_: object) -> int:
    return 0


def complete(obj: Object, defaults: Object) -> None:
    """Give absent fields their values, those of structs field by field."""
    for name, value in defaults.items():
        if isinstance(value, dict):
            complete(obj.setdefault(name, {}), value)
        else:
            obj.setdefault(name, value)


def within(lowest: float, highest: float, detail: str) -> Rule:
    return lambda at, value: [] if lowest <= value <= highest else [invalid(at, value, detail)]


def between(lowest: int, highest: int) -> Rule:
    return within(lowest, highest, f"must be between {lowest} and {highest}, inclusive")


not_negative = within(0, math.inf, NOT_NEGATIVE)
positive = within(1, math.inf, "must be greater than 0")


def one_of(*choices: str) -> Rule:
    return lambda field, value: [] if value in choices else [not_supported(field, value, choices)]


def by_path(rules: Mapping[str, Rule]) -> Callable[..., list[FieldError]]:
    """Make a check of what is present at paths, such as `spec.replicas`, in their order.

    The check takes the object, and the path of what it is a part of, with a dot, if it is one.
    """
    fields = [(path, at(path, None), rule) for path, rule in rules.items()]

    def check(obj: Object, parent: str = "") -> list[FieldError]:
        errors: list[FieldError] = []
        for path, value_of, rule in fields:
            if (value := value_of(obj)) is not None:
                errors += rule(parent + path, value)
        return errors

    return check


def deprecated_since(what: str, minor: int) -> str:
    return f"{what} is deprecated in v1.{minor}+, unavailable in v1.{minor + 3}+"


class Version(msgspec.Struct, frozen=True):
    """A form in which clients send and get the objects of a kind.

    Attributes:
        to_storage: From this version's form to the storage version's; may return its argument,
            changed or not.
        from_storage: The other way; must not change its argument.
        deprecation: Warning that every response carries; "" for none.
    """

    name: str
    schema: Struct
    set_defaults: Change = nothing
    to_storage: Convert = same
    from_storage: Convert = same
    deprecation: str = ""


class Rules(msgspec.Struct, frozen=True):
    """The "strategy" of a kind in Kubernetes: how its objects change on the way to the store.

    Attributes:
        admit_create: Adds what admission does before the other rules, owned by no field manager;
            returns why the object may not be created, "" if it may.
        stamp: Gives absent times the second argument, now in RFC 3339, before the next two.
        prepare_create: Resets what a creation may not set; sets `generation` where the kind has it.
        prepare_update: Resets what an update may not change; counts `generation` up if due.
        prepare_finalize: As `prepare_update`, for the finalize subresource; None for no such one.
        grace_s: Seconds to end; the second argument is what the client asked for, if it did.
        is_held: Whether a deleted object has to stay for what finalizers stand for.
        mark_deleted: What else changes when a deletion begins that has to wait.
        objection: Why the object may not be deleted; "" if it may.
        has_dependents: Whether a deletion may name a propagation policy to any effect.
        default_propagation: Used if a deletion names none: `Orphan`; "" for the background.
        warnings: Given the new object and the old one, if any.
        allows_unconditional_update: Whether a replacement may leave out the resource version.
        is_created_by_update: Whether a replacement of what is not there creates it.
        reset_fields: What a write to the main resource does not own.
    """

    admit_create: Callable[[Object], str] = lambda _obj: ""
    stamp: Callable[[Object, str], None] = nothing
    prepare_create: Change = nothing
    prepare_update: ChangeFromOld = nothing
    validate: Check = all_right
    validate_update: CheckFromOld = all_right
    prepare_status: ChangeFromOld = nothing
    validate_status: CheckFromOld = all_right
    prepare_finalize: ChangeFromOld | None = None
    grace_s: Callable[[Object, int | None], int] = no_grace
    is_held: Callable[[Object], bool] = lambda obj: bool(obj["metadata"].get("finalizers"))
    mark_deleted: Change = nothing
    objection: Callable[[Object], str] = lambda _obj: ""
    has_dependents: bool = True
    default_propagation: str = ""
    warnings: Callable[[Object, Object | None], list[str]] = all_right
    allows_unconditional_update: bool = True
    is_created_by_update: bool = False
    reset_fields: tuple[Path, ...] = (("status",),)
    reset_status_fields: tuple[Path, ...] = (("spec",),)


def with_checks(
    rules: Rules,
    check: Check = all_right,
    check_change: CheckFromOld = all_right,
    *,
    is_namespaced: bool = True,
) -> Rules:
    """Let the rules check metadata first, then the object, then how it changes."""

    def validate(obj: Object) -> list[FieldError]:
        return validate_stored(obj["metadata"], is_namespaced=is_namespaced) + check(obj)

    def validate_update(new: Object, old: Object) -> list[FieldError]:
        errors = validate_core_update(new["metadata"], old["metadata"])
        return errors + check(new) + check_change(new, old)

    return msgspec.structs.replace(
        rules, validate=validate, validate_update=validate_update, validate_status=validate_update
    )


def starts(**status: int) -> Change:

    def prepare_create(obj: Object) -> None:
        obj["metadata"]["generation"] = 1
        obj["status"] = dict(status)

    return prepare_create


class Kind(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A declaration of all that the server knows of one kind.

    Attributes:
        versions: The storage version first; it is also the preferred one.
        row: Gives all cells of an object's row, in place of the columns; the second argument is
            now, in seconds since 1970.
        row_conditions: Conditions of an object's row as a whole, as Tables have them.
        row_order: Sorts the rows of a list; None for the order of namespace and name.
        selectable_fields: The paths that field selectors may name, `metadata.name` and
            `metadata.namespace` apart.
        selectable_values: Gives the values of these fields, and of those that other kinds of the
            same objects name; None for what is at the paths.
        answers_deleted: Whether the response to DELETE is the object and not a Status.
        stored_as: The kind of another group whose objects these are, in another form, if any.
        scale_selector: The selector in the subresource `scale`; None for no such subresource.
        review: Makes the response of a kind that is only created, never stored; None for others.
    """

    group: str
    name: str
    versions: tuple[Version, ...]
    rules: Rules = Rules()
    columns: tuple[Column, ...] = ()
    row: Callable[[Object, float], Sequence[object]] | None = None
    row_conditions: Callable[[Object], Sequence[Object]] = lambda _obj: ()
    row_order: Callable[[Object], tuple[Any, ...]] | None = None
    selectable_fields: tuple[str, ...] = ()
    selectable_values: Callable[[Object], dict[str, str]] | None = None
    is_namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    answers_deleted: bool = False
    storage_hash: str = ""
    stored_as: Kind | None = None
    scale_selector: Callable[[Object], str] | None = None
    review: Review | None = None

    def __repr__(self) -> str:
        return f"<Kind {self.name}.{self.group}>"

    @cached_property
    def singular(self) -> str:
        return self.name.lower()

    @cached_property
    def plural(self) -> str:
        """The name with an ending by Kubernetes' rule (`UnsafeGuessKindToResource`)."""
        name = self.singular
        if name.endswith("y"):
            return f"{name[:-1]}ies"
        return name if name == "endpoints" else f"{name}es" if name.endswith("s") else f"{name}s"

    @cached_property
    def resource(self) -> str:
        """Resource and group, as errors and metrics name them."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def collection(self) -> str:
        return (self.stored_as or self).resource

    @property
    def has_collection(self) -> bool:
        return self.stored_as is None and self.review is None

    @cached_property
    def has_status(self) -> bool:
        return self.review is None and "status" in self.storage.schema.by_name

    @cached_property
    def storage(self) -> Version:
        return (self.stored_as or self).versions[0]

    @cached_property
    def cells(self) -> Callable[[Object, float], Sequence[object]]:
        return self.row or row_of(self.columns)

    @cached_property
    def selectable(self) -> Callable[[Object], dict[str, str]]:
        return self.selectable_values or values_at(self.selectable_fields, self.storage.schema)

    def version(self, name: str) -> Version | None:
        return next((version for version in self.versions if version.name == name), None)

    def api_version(self, version: str) -> str:
        return f"{self.group}/{version}" if self.group else version
