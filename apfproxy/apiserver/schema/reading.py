"""Reads JSON data into objects of a schema, as a typed decoder in Go does.

For every struct a reader is made once, a closure over a table of its fields: reading takes some
20 us for an object of 1 KiB.  Names are case-sensitive; null is an absent value.

Sources: Go's `encoding/json`, "Unmarshal" and "Marshal"; RFC 3339; Kubernetes API conventions,
"Primitive types".
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from apfproxy.apiserver.go_values import number, type_name
from apfproxy.apiserver.schema.go_names import GO_SCALARS, field_type_name, go_name, value_name
from apfproxy.apiserver.schema.quantity import QuantityError, canonical_quantity
from apfproxy.apiserver.schema.times import MICRO_LAYOUT, micro_time, time_error
from apfproxy.apiserver.schema.types import Field, List, Map, Scalar, Struct, Type
from apfproxy.objects.go_text import EARLIEST_S, parse_time, rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.objects.types import Object

MOST_UNKNOWN = 100
"""Unknown fields that are reported: Kubernetes' limit, too."""

INT_LIMITS = {Scalar.INT32: 2**31, Scalar.INT64: 2**63}

ZEROS: dict[Scalar, object] = {
    Scalar.STRING: "",
    Scalar.BOOLEAN: False,
    Scalar.INT32: 0,
    Scalar.INT64: 0,
    Scalar.QUANTITY: "0",
    Scalar.TIME: None,
    Scalar.MICRO_TIME: None,
    Scalar.BASE64: "",
    Scalar.INT_OR_STRING: 0,
    Scalar.ANY: None,
}
"""What null in a list or map stands for, and what an absent field is written as, if at all."""

MOST_MISMATCHES = 100
"""The most wrong values that are compared; a body can have a million of them."""

NEVER_ABSENT = frozenset({Scalar.QUANTITY, Scalar.INT_OR_STRING})
"""Scalars that are structs in Go, whose zero values are written."""

KINDS_OF_TYPES = {"[]interface {}": "slice", "map[string]interface {}": "map"}
"""What Go calls types whose values have structure."""
LINE_BREAKS = re.compile("[\r\n]")
NO_BASE64 = re.compile("[^A-Za-z0-9+/=]")
CONVERTIBLE = frozenset(
    {
        ("int64", Scalar.STRING),
        ("float64", Scalar.INT32),
        ("float64", Scalar.INT64),
    }
)
"""What Go's types can be made of each other, but are not where that means another value."""

OMIT = object()
"""An absent field is not written."""
FRESH = object()
"""An absent field is written as an empty struct."""


class MismatchError(ValueError):
    """A value does not have the type that the schema says; the message is the one of Go.

    Attributes:
        path: Names of the fields that lead to the value, from the root.
    """

    def __init__(self, text: str, kind: Type | None = None, value: object = None) -> None:
        super().__init__(text)
        self.text = text
        self.kind = kind
        self.value = value
        self.go_type = "" if kind is None else go_name(kind)
        self.struct = ""
        self.path: list[str] = []

    def within(self, schema: Struct, field: str) -> None:
        """Note that the value is in this field of this struct."""
        if not self.path and self.kind is not None:
            self.struct = schema.name
            self.go_type = field_type_name(schema, field, self.kind) or self.go_type
        self.path = [field, *self.path]

    @property
    def restored(self) -> str:
        """The message where Go makes a struct of decoded data, not of text."""
        if self.kind is None or self.kind in NEVER_ABSENT:
            return self.text if self.kind is None else str(self)
        found = type_name(self.value)
        if isinstance(self.kind, Struct):
            return f"cannot restore struct from: {KINDS_OF_TYPES.get(found, found)}"
        if isinstance(self.kind, List | Map):
            what = "slice" if isinstance(self.kind, List) else "map"
            return f"cannot restore {what} from {KINDS_OF_TYPES.get(found, found)}"
        if (found, self.kind) in CONVERTIBLE:
            return f"cannot convert {found} to {self.go_type}"
        return f"unrecognized type: {GO_SCALARS[self.kind]}"

    def __str__(self) -> str:
        if not self.go_type:
            return self.text
        place = f"struct field {self.struct}.{'.'.join(self.path)}" if self.path else "value"
        return f"json: cannot unmarshal {self.text} into Go {place} of type {self.go_type}"


class Read(NamedTuple):
    """What reading has found.

    Attributes:
        obj: The object in canonical form; it shares only values of `Scalar.ANY` with its source.
        unknown: Paths of the fields that the schema does not have.
    """

    obj: Object
    unknown: tuple[str, ...]


Reader = Callable[[Any, list[bool]], Any]
"""Makes the canonical form of a value that is not null, None for a time that is zero; adds to the
list where it leaves an unknown field out."""


def read(schema: Struct, raw: object) -> Read:
    """Read decoded JSON, which is not changed.

    Raises:
        MismatchError: At the first value of a wrong type.
    """
    left_out: list[bool] = []
    obj = struct_reader(schema)(raw, left_out)
    # The walk that finds paths is only made where there is something to find.
    unknown = dict.fromkeys(at for at, _, _ in unknown_fields(schema, raw, "")) if left_out else ()
    return Read(obj, tuple(unknown)[:MOST_UNKNOWN])


def read_in_order(schema: Struct, raw: object) -> Read:
    """Read decoded JSON as `read` does.

    Raises:
        MismatchError: At the wrong value that comes first in the document, as where Go reads text.
    """
    try:
        return read(schema, raw)
    except MismatchError:
        found = [error for _, error in islice(mismatches(schema, raw), MOST_MISMATCHES)]
        # What no value of a right type can stand for ends the parsing at once.
        raise next((error for error in found if error.kind is None), found[0]) from None


def mismatches(kind: Type, raw: object, path: str = "") -> Iterator[tuple[str, MismatchError]]:
    """The values of wrong types, in the order of the document, each with its path."""
    if isinstance(kind, Struct) and isinstance(raw, dict):
        for name, value in raw.items():
            field = kind.by_name.get(name)
            if field is not None and value is not None:
                for at, error in mismatches(field.type, value, f"{path}.{name}" if path else name):
                    error.within(kind, name)
                    yield at, error
    elif isinstance(kind, Map) and isinstance(raw, dict):
        for key, value in raw.items():
            if value is not None:
                yield from mismatches(kind.value, value, f"{path}[{key}]")
    elif isinstance(kind, List) and isinstance(raw, list):
        for index, value in enumerate(raw):
            if value is not None:
                yield from mismatches(kind.item, value, f"{path}[{index}]")
    else:
        try:
            reader_of(kind)(raw, [])
        except MismatchError as error:
            yield path, error


def canonical(schema: Struct, obj: Object) -> Object:
    """The canonical form of an object, such as one that has got defaults or was patched.

    Fields that the schema does not have are dropped.  The argument is not changed, and the result
    shares only values of `Scalar.ANY` with it.
    """
    result: Object = struct_reader(schema)(obj, [])
    return result


def go_number(value: float) -> str:
    """A number in a message; of those that are too large, what was decoded of them."""
    return number(value) if isinstance(value, float) else str(value)


@cache
def struct_reader(schema: Struct) -> Reader:
    """The reader of a struct: made once for each."""
    plan = [field_plan(field) for field in schema.fields]
    known = schema.by_name

    def read_struct(raw: Any, left_out: list[bool]) -> Object:  # noqa: ANN401  any JSON value
        if not isinstance(raw, dict):
            raise MismatchError(value_name(raw), schema, raw)
        get = raw.get
        obj: Object = {}
        taken = 0
        name = ""
        try:
            for name, reader, is_kept, absent in plan:
                value = get(name)
                if value is not None:
                    taken += 1
                    value = reader(value, left_out)
                    if value or (is_kept and value is not None):
                        obj[name] = value
                        continue
                if absent is not OMIT:
                    obj[name] = reader({}, left_out) if absent is FRESH else absent
        except MismatchError as error:
            error.within(schema, name)
            raise
        if taken != len(raw) and not raw.keys() <= known.keys():
            if schema.keeps_unknown:
                obj.update(
                    (key, value)
                    for key, value in raw.items()
                    if value is not None and key not in known
                )
            else:
                left_out.append(True)
        return obj

    return read_struct


def field_plan(field: Field) -> tuple[str, Reader, bool, object]:
    """How to read a field.

    Returns:
        Its name; the reader of its values; whether empty values are kept; what to write if there is
        no value or one that is not kept: `OMIT`, `FRESH` or the value itself.
    """
    kind = field.type
    is_struct = isinstance(kind, Struct) or kind in NEVER_ABSENT
    is_kept = (field.is_pointer or is_struct) and not isinstance(kind, List | Map)
    absent: object = OMIT
    if isinstance(kind, Struct) and not field.is_pointer:
        absent = FRESH
    elif isinstance(kind, Scalar) and not field.is_pointer:
        if field.is_always_written or kind in NEVER_ABSENT:
            absent = ZEROS[kind]
    elif field.is_always_written:
        absent = None
    if kind is Scalar.ANY:
        is_kept = True
    return field.name, reader_of(kind), is_kept, absent


@cache
def reader_of(kind: Type) -> Reader:
    """The reader of values of a type."""
    if isinstance(kind, Struct):
        return struct_reader(kind)
    if isinstance(kind, List):
        return list_reader(kind)
    if isinstance(kind, Map):
        return map_reader(kind)
    return integer_reader(kind) if kind in INT_LIMITS else SCALAR_READERS[kind]


def list_reader(kind: List) -> Reader:
    """The reader of lists of a type."""
    item_reader = reader_of(kind.item)
    zero_of = zero_maker(kind.item)

    def read_list(raw: Any, left_out: list[bool]) -> list[Any]:  # noqa: ANN401  any JSON value
        if not isinstance(raw, list):
            raise MismatchError(value_name(raw), kind, raw)
        return [zero_of() if each is None else item_reader(each, left_out) for each in raw]

    return read_list


def map_reader(kind: Map) -> Reader:
    """The reader of maps of a type."""
    value_reader = reader_of(kind.value)
    zero_of = zero_maker(kind.value)

    def read_map(raw: Any, left_out: list[bool]) -> dict[str, Any]:  # noqa: ANN401  any JSON value
        if not isinstance(raw, dict):
            raise MismatchError(value_name(raw), kind, raw)
        return {
            key: zero_of() if each is None else value_reader(each, left_out)
            for key, each in raw.items()
        }

    return read_map


def zero_maker(kind: Type) -> Callable[[], object]:
    """Makes what null stands for in a list or map."""
    if isinstance(kind, Struct):
        reader = struct_reader(kind)
        return lambda: reader({}, [])
    zero = ZEROS[kind] if isinstance(kind, Scalar) else None
    return lambda: zero


def integer_reader(kind: Scalar) -> Reader:
    """The reader of integers of a type."""
    limit = INT_LIMITS[kind]

    def read_integer(raw: Any, _left_out: list[bool]) -> int:  # noqa: ANN401  any JSON value
        if type(raw) is int and -limit <= raw < limit:
            return raw
        if isinstance(raw, int | float) and not isinstance(raw, bool):
            raise MismatchError(f"number {go_number(raw)}", kind, raw)
        raise MismatchError(value_name(raw), kind, raw)

    return read_integer


def read_string(raw: Any, _left_out: list[bool]) -> str:  # noqa: ANN401  any JSON value
    """Read a string."""
    if isinstance(raw, str):
        return raw
    raise MismatchError(value_name(raw), Scalar.STRING, raw)


def read_boolean(raw: Any, _left_out: list[bool]) -> bool:  # noqa: ANN401  any JSON value
    """Read a truth value."""
    if isinstance(raw, bool):
        return raw
    raise MismatchError(value_name(raw), Scalar.BOOLEAN, raw)


def read_quantity(raw: Any, _left_out: list[bool]) -> str:  # noqa: ANN401  any JSON value
    """Read a quantity, which may be a number."""
    is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
    text = raw.strip() if isinstance(raw, str) else str(raw) if is_number else value_name(raw)
    try:
        return canonical_quantity(text)
    except QuantityError as error:
        raise MismatchError(str(error)) from error


def read_time(raw: Any, left_out: list[bool]) -> str | None:  # noqa: ANN401  any JSON value
    """Read a time."""
    return canonical_time(read_string(raw, left_out))


@lru_cache(maxsize=4096)
def canonical_time(text: str) -> str | None:
    """The time in UTC and whole seconds; None for the zero time."""
    try:
        seconds = parse_time(text)
    except ValueError as error:
        raise MismatchError(time_error(text)) from error
    return None if seconds == EARLIEST_S else rfc3339(seconds)


@lru_cache(maxsize=4096)
def canonical_micro_time(text: str) -> str | None:
    """The time in UTC with microseconds; None for the zero time."""
    try:
        return micro_time(text)
    except ValueError as error:
        raise MismatchError(time_error(text, MICRO_LAYOUT)) from error


def read_micro_time(raw: Any, left_out: list[bool]) -> str | None:  # noqa: ANN401  any JSON value
    """Read a time with microseconds."""
    return canonical_micro_time(read_string(raw, left_out))


def read_base64(raw: Any, _left_out: list[bool]) -> str:  # noqa: ANN401  any JSON value
    """Read bytes in base64, which may have line breaks."""
    if not isinstance(raw, str):
        raise MismatchError(value_name(raw), Scalar.BASE64, raw)
    text = LINE_BREAKS.sub("", raw)
    try:
        return b64encode(b64decode(text, validate=True)).decode()
    except ValueError:
        wrong = NO_BASE64.search(text)
        place = wrong.start() if wrong else len(text) // 4 * 4  # four characters are three bytes
        raise MismatchError(f"illegal base64 data at input byte {place}") from None


read_int32 = integer_reader(Scalar.INT32)


def read_int_or_string(raw: Any, left_out: list[bool]) -> int | str:  # noqa: ANN401  any JSON value
    """Read a string or an integer of 32 bits."""
    if isinstance(raw, str):
        return raw
    number: int = read_int32(raw, left_out)
    return number


def read_any(raw: Any, _left_out: list[bool]) -> object:  # noqa: ANN401  any JSON value
    """Take JSON as it is."""
    return raw


SCALAR_READERS: dict[Scalar, Reader] = {
    Scalar.STRING: read_string,
    Scalar.BOOLEAN: read_boolean,
    Scalar.QUANTITY: read_quantity,
    Scalar.TIME: read_time,
    Scalar.MICRO_TIME: read_micro_time,
    Scalar.BASE64: read_base64,
    Scalar.INT_OR_STRING: read_int_or_string,
    Scalar.ANY: read_any,
}


def unknown_fields(kind: Type, raw: object, path: str) -> Iterator[tuple[str, Struct, str]]:
    """The paths of the fields that the schema does not have, each with its struct and name."""
    if isinstance(raw, dict) and isinstance(kind, Struct):
        for name, value in raw.items():
            at = f"{path}.{name}" if path else name
            field = kind.by_name.get(name)
            if field is not None:
                yield from unknown_fields(field.type, value, at)
            elif not kind.keeps_unknown:
                yield at, kind, name
    elif isinstance(raw, dict) and isinstance(kind, Map):
        for key, value in raw.items():
            yield from unknown_fields(kind.value, value, f"{path}.{key}")
    elif isinstance(raw, list) and isinstance(kind, List):
        for index, value in enumerate(raw):
            yield from unknown_fields(kind.item, value, f"{path}[{index}]")
