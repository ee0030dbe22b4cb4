"""How objects are structured, in one description that all code about structure reads.

An object is plain JSON data: dictionaries, lists and scalars.  Its *canonical form* is what a
server written in Go answers: fields without a value are absent, except those that Go writes always
(`Field.is_always_written`) and structs that are not pointers.

Structs are declared as text, a field a line, in Go's notation; `structs` reads it.  A struct begins
with its name at the margin; its fields, indented, have their numbers in Kubernetes' protobuf, if
any, names in JSON, types, marks and descriptions.  A line that is indented by eight columns or more
goes on with the one before.  After `+open` are names of other fields, which are kept as they come.
Structs may stand in any order.

    Lease +object: A claim with an end.
    LeaseSpec: Who holds the lease, and for how long.
      1 holderIdentity  *string               Who holds the lease.
      3 acquireTime     *microtime            When the holder got it.
    LeaseStatus: How the claim is doing.
      1 phase           string +enum=A|B      A text; OpenAPI names its values.
      2 conditions      []Condition +keys=type  A struct that is declared here or in `others`.
      +open details history

Types are those of `Scalar` and the names of structs; `[]T` and `map[string]T` have items of another
type, and `*T` says that Go has a pointer there.  What is absent if it is empty, or zero, needs no
mark; a time that is no pointer is written as null.  Marks of fields (see `Field`, `List`):

    +required       required, and written always; with +omitempty not written if it is empty
    +written        written always
    +omitempty      not written if it is empty, for a time and with +required
    +default=TEXT   the default in OpenAPI
    +enum=A|B       the values in OpenAPI
    +replaced       a strategic merge patch replaces the struct
    +go=TYPE        the type in Go's messages, without the package if it is that of the struct
    +keys=a,b       a list of the type `map` with these keys, merged by the first of them
    +set            a list of the type `set`
    +untyped        a list without a type
    +merged         a strategic merge patch merges the list
    +retainkeys     and may say which keys stay
    +atomic         server-side apply owns the map as one

Marks of structs (see `Struct`):

    +typed          begins with `kind` and `apiVersion`
    +object         has `metadata`, too, and `spec` and `status` if the text has their structs, by
                    the names of Kubernetes: `LeaseSpec`
    +atomic         server-side apply owns it as one
    +union=d:a,b    one of the fields a and b has a value; the field d, or none, says which

Sources: Kubernetes API conventions, "Optional vs. Required" and "Objects"; Kubernetes
documentation, "Server-Side Apply", "Merge strategy"; the extensions `x-kubernetes-*` of OpenAPI.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping


class Scalar(enum.Enum):
    """A type whose value is one JSON value, as texts name it."""

    STRING = "string"
    BOOLEAN = "bool"
    INT32 = "int32"
    INT64 = "int64"
    QUANTITY = "quantity"
    """A string or number on the way in, a canonical string on the way out: `1024Mi` is `1Gi`."""
    TIME = "time"
    """RFC 3339 in whole seconds, UTC; null where it is zero and written always."""
    MICRO_TIME = "microtime"
    """A time with exactly six digits of a second, on the way in, too."""
    BASE64 = "[]byte"
    INT_OR_STRING = "intOrString"
    ANY = "any"
    """JSON that is kept as it is, such as `fieldsV1`, and what a struct keeps of unknown fields."""
    BYTES = "bytes"
    """Type of protobuf's own messages; no object has them."""


class ListType(enum.StrEnum):
    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


class Map(msgspec.Struct, frozen=True):
    """A JSON object with any keys; server-side apply owns an atomic one as a whole."""

    value: Type
    is_atomic: bool = False


class List(msgspec.Struct, frozen=True):
    """A JSON array; no type means `ListType.ATOMIC`, and `list_keys` are of `ListType.MAP`."""

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

    The union is for clients; `kept` are names of other fields, as after `+open`.
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
        enum: A list has the values of its items.
        number: In Kubernetes' protobuf; 0 for a field that no message has, such as `kind`.
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


SCALARS = {scalar.value: scalar for scalar in Scalar}
TIMES = (Scalar.TIME, Scalar.MICRO_TIME)
LIST, MAP, OPEN = "[]", "map[string]", "+open "
LIST_TYPES = {"keys": ListType.MAP, "set": ListType.SET, "untyped": None}

TYPED = (
    "kind string What the object is, in CamelCase. Cannot be changed.",
    "apiVersion string Group and version of the form that the object is written in.",
)
METADATA = "1 metadata ObjectMeta Name, labels and so on."
PARTS = (
    ("Spec", "2 spec {0}Spec Desired state of the {0}."),
    ("Status", "3 status {0}Status Observed state of the {0}, as controllers report it."),
)

HEAD = re.compile(r"(\w+)((?: +\+\S+)*): (.+)")
UNQUALIFIED = re.compile(r"(?<![.\w])(?=[A-Z])")
FIELD = re.compile(r"(?:(\d+) +)?([A-Za-z]\w*) +(\*?)(\S+)((?: +\+\S+)*) +([^+].*)")
STRUCT_MARKS = frozenset({"typed", "object", "atomic", "union"})
FIELD_MARKS = frozenset(
    {"required", "written", "omitempty", "default", "enum", "replaced", "go"}
    | {"keys", "set", "untyped", "merged", "retainkeys", "atomic"}
)


class SchemaError(ValueError):
    """A text that declares structs is wrong; the message has the line."""


def structs(package: str, text: str, *others: Mapping[str, Struct]) -> dict[str, Struct]:
    """Read the structs that the text declares, by name; it may name those of `others`, too."""
    reader = Reader(package, text, others)
    return {name: reader.struct(name, name) for name in tuple(reader.declared)}


def marks_of(text: str, known: frozenset[str], line: str) -> dict[str, str]:
    marks = {name: value for name, _, value in (mark[1:].partition("=") for mark in text.split())}
    if unknown := marks.keys() - known:
        raise SchemaError(f"no mark +{unknown.pop()} is known: {line}")
    return marks


class Reader:
    """Reads a text; `declared` has the lines of structs that are not yet in `made`."""

    def __init__(self, package: str, text: str, others: tuple[Mapping[str, Struct], ...]) -> None:
        self.package = package
        self.declared: dict[str, list[str]] = {}
        self.made = {name: struct for other in others for name, struct in other.items()}
        for block in re.split(r"\n+(?=\S)", re.sub(r"\n {8,}", " ", text.strip())):
            lines = block.split("\n")
            name = re.split("[ :]", lines[0])[0]
            if name in self.declared:
                raise SchemaError(f"{name} is declared twice: {lines[0]}")
            self.declared[name] = lines
            self.made.pop(name, None)

    def struct(self, name: str, line: str) -> Struct:
        if name in self.made:
            return self.made[name]
        if name not in self.declared:
            raise SchemaError(f"no type {name} is known, or it contains itself: {line}")
        head, *lines = self.declared.pop(name)
        found = HEAD.fullmatch(head)
        if found is None:
            raise SchemaError(f"no name, colon and description: {head}")
        marks = marks_of(found[2], STRUCT_MARKS, head)
        if "object" in marks:
            known = self.declared.keys() | self.made.keys()
            parts = [text.format(name) for part, text in PARTS if name + part in known]
            lines = [*TYPED, METADATA, *parts, *lines]
        elif "typed" in marks:
            lines = [*TYPED, *lines]
        fields: dict[str, Field] = {}
        kept: set[str] = set()
        for text in map(str.strip, lines):
            if text.startswith(OPEN):
                kept.update(text.split()[1:])
            else:
                field = self.field(text)
                fields[field.name] = field
        discriminator, _, members = marks.get("union", "").partition(":")
        self.made[name] = struct = Struct(
            name,
            tuple(fields.values()),
            self.package,
            found[3],
            is_atomic="atomic" in marks,
            union=Union(tuple(members.split(",")), discriminator) if members else None,
            kept=frozenset(kept),
        )
        return struct

    def field(self, line: str) -> Field:
        found = FIELD.fullmatch(line)
        if found is None:
            raise SchemaError(f"no name, type and description: {line}")
        number, name, star, type_text, mark_text, description = found.groups()
        marks = marks_of(mark_text, FIELD_MARKS, line)
        kind = self.type_of(type_text, marks, line)
        is_written = "written" in marks or "required" in marks or (kind in TIMES and not star)
        return Field(
            name,
            kind,
            description,
            is_pointer=bool(star),
            is_always_written=is_written and "omitempty" not in marks,
            is_required="required" in marks,
            default=marks.get("default"),
            enum=tuple(marks["enum"].split("|")) if "enum" in marks else (),
            is_replaced="replaced" in marks,
            number=int(number or 0),
            go_type=UNQUALIFIED.sub(f"{self.package.rpartition('.')[2]}.", marks.get("go", "")),
        )

    def type_of(self, text: str, marks: Mapping[str, str], line: str) -> Type:
        if text in SCALARS:
            return SCALARS[text]
        if text.startswith(MAP):
            return Map(self.type_of(text.removeprefix(MAP), {}, line), "atomic" in marks)
        if not text.startswith(LIST):
            return self.struct(text, line)
        item = self.type_of(text.removeprefix(LIST), {}, line)
        keys = tuple(marks["keys"].split(",")) if "keys" in marks else ()
        types = (LIST_TYPES[mark] for mark in marks if mark in LIST_TYPES)
        key, is_merged = keys[0] if keys else "", bool(keys) or "merged" in marks
        list_type = next(types, ListType.ATOMIC)
        return List(item, list_type, keys, key, is_merged, "retainkeys" in marks)
