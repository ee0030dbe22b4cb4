"""How objects are structured, in one description that all code about structure reads.

An object is plain JSON data: dictionaries, lists and scalars.  Its *canonical form* is what a
server written in Go answers: fields without a value are absent, except those that Go writes always
(`Field.is_always_written`) and structs that are not pointers.

Sources: Kubernetes API conventions, "Optional vs. Required" and "Objects"; Kubernetes
documentation, "Server-Side Apply", "Merge strategy"; the extensions `x-kubernetes-*` of OpenAPI.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property

import msgspec


class Scalar(enum.Enum):
    """A type whose value is one JSON value; its name is that in `language`."""

    STRING = "string"
    BOOLEAN = "bool"
    INT32 = "int32"
    INT64 = "int64"
    QUANTITY = "quantity"
    """A string or number on the way in, a canonical string on the way out: `1024Mi` is `1Gi`."""
    TIME = "time"
    """RFC 3339 in whole seconds, UTC; null where it is zero and written always."""
    MICRO_TIME = "microtime"
    """The same with exactly six digits of a second, on the way in, too."""
    BASE64 = "[]byte"
    """Bytes, as a text in base64."""
    INT_OR_STRING = "intOrString"
    ANY = "any"
    """JSON that is kept as it is, such as `fieldsV1`, and what a struct keeps of unknown fields."""
    BYTES = "bytes"
    """Of protobuf's own messages; no object has them."""


class ListType(enum.StrEnum):
    """How server-side apply owns a list; the value of `x-kubernetes-list-type`."""

    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


class Map(msgspec.Struct, frozen=True):
    """A JSON object with any keys; server-side apply owns an atomic one as a whole."""

    value: Type
    is_atomic: bool = False


class List(msgspec.Struct, frozen=True):
    """A JSON array.

    Attributes:
        list_type: None where Kubernetes' documents do not say it, which means `ListType.ATOMIC`.
        list_keys: With `ListType.MAP`, the fields that identify an item.
        merge_key: The field that identifies an item in a strategic merge patch; "" for none.
        is_merged: Whether a strategic merge patch merges instead of replacing.
        retains_keys: Whether a strategic merge patch may say which keys stay.
    """

    item: Type
    list_type: ListType | None = ListType.ATOMIC
    list_keys: tuple[str, ...] = ()
    merge_key: str = ""
    is_merged: bool = False
    retains_keys: bool = False


class Union(msgspec.Struct, frozen=True):
    """Fields of a struct of which only one has a value, as the discriminator, if any, says."""

    fields: tuple[str, ...]
    discriminator: str = ""


@dataclass(frozen=True, eq=False)
class Struct:
    """A JSON object with named fields, in the order of writing.

    Attributes:
        package: Go package as OpenAPI names it, such as `io.k8s.api.flowcontrol.v1`.
        is_atomic: Whether server-side apply owns it as a whole.
        union: For clients; nothing here is decided by it.
        kept: Names of other fields that Kubernetes has; they are kept as they come, as by
            `x-kubernetes-preserve-unknown-fields`.
    """

    name: str
    fields: tuple[Field, ...]
    package: str = ""
    description: str = ""
    is_atomic: bool = False
    union: Union | None = None
    kept: frozenset[str] = frozenset()

    @cached_property
    def by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}

    def __repr__(self) -> str:
        return f"<Struct {self.package}.{self.name}>"


Type = Scalar | Map | List | Struct


class Field(msgspec.Struct, frozen=True):
    """One field of a struct.

    Attributes:
        is_pointer: Whether Go has a pointer there: an absent value differs from a zero one.
            (Maps and lists are absent when empty, in any case.)
        is_always_written: Whether Go writes it although it is empty (no `omitempty`): null for a
            missing list, map or pointer, else the zero value.
        is_required: Whether OpenAPI calls it required; `default` and `enum` are OpenAPI's, too.
        enum: A list has the values of its items.
        is_replaced: Whether a strategic merge patch replaces a struct instead of merging.
        go_type: Its type in Go's messages where that is not called as here; "" for the same.
        number: In Kubernetes' protobuf (`generated.proto`); 0 for a field that no message has, such
            as `kind`, which the envelope has.
    """

    name: str
    type: Type
    description: str = ""
    is_pointer: bool = False
    is_always_written: bool = False
    is_required: bool = False
    default: object = None
    enum: tuple[str, ...] = ()
    is_replaced: bool = False
    number: int = 0
    go_type: str = ""
