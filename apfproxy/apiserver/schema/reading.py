"""Reads JSON data into objects of a schema, as a typed decoder in Go does.

For every type a reader is made once, a closure over what it needs: reading takes some 20 us for an
object of 1 KiB.  Names are case-sensitive; null is an absent value.

Sources: Go's `encoding/json`, "Unmarshal" and "Marshal", and `time/format.go`; Kubernetes API
conventions, "Primitive types"; the types of Kubernetes' API, as its packages name them.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import date
from functools import cache, lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from apfproxy.apiserver.go_values import number, type_name, value_name
from apfproxy.apiserver.schema.quantity import QuantityError, parse
from apfproxy.apiserver.schema.types import Field, List, Map, Scalar, Struct, Type
from apfproxy.objects.documents import FieldPaths
from apfproxy.objects.go_text import EARLIEST_S, TEXT, parse_time, rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.objects.types import Object

MOST_MISMATCHES = 100
"""The most wrong values that are compared; a body can have a million of them."""

OMIT = object()
"""An absent field is not written."""
FRESH = object()
"""An absent field is written as an empty struct."""

STRUCTURES = {"[]interface {}": "slice", "map[string]interface {}": "map"}
"""Go's names of types whose values have structure, in messages about restoring."""
CONVERTIBLE = frozenset(
    {("int64", Scalar.STRING), ("float64", Scalar.INT32), ("float64", Scalar.INT64)}
)
"""Types of values that Go could convert, and does not where another value comes of it."""

LAYOUT = "2006-01-02T15:04:05Z07:00"
MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
"""RFC 3339 as Go writes it, without and with microseconds."""
MICRO_DIGITS = len(".000000")
ELEMENTS = {
    "2006": ("[0-9]{4}", ""),
    "01": ("[0-9]{2}", "month"),
    "02": ("[0-9]{2}", ""),
    "15": ("[0-9]{1,2}", "hour"),
    "04": ("[0-9]{2}", "minute"),
    "05": ("[0-9]{2}", "second"),
    ".000000": ("[.,][0-9]{6}", ""),
    "Z07:00": ("Z|[+-][0-9]{2}:[0-9]{2}", ""),
}
"""Elements of the layouts to the texts and the parts of a time that they stand for."""
RANGES = {"month": range(1, 13), "hour": range(24), "minute": range(60), "second": range(60)}
ELEMENT_OR_CHARACTER = re.compile(rf"{'|'.join(map(re.escape, ELEMENTS))}|.")
LONGEST_SHOWN = 60
"""Characters of a text that is no time."""

Reader = Callable[[Any, list[bool]], Any]
"""Makes the canonical form of a value that is not null, None for a time that is zero; adds to the
list where it leaves an unknown field out."""


class MismatchError(ValueError):
    """A value does not have the type that the schema says; the message is the one of Go.

    Attributes:
        kind: The type that it should have; None where its text cannot be parsed.
        path: Names of the fields that lead to the value, from the root.
    """

    def __init__(self, text: str, kind: Type | None = None, value: object = None) -> None:
        super().__init__(text)
        self.text = text
        self.kind = kind
        self.value = value
        self.go_type = "" if kind is None else _go_name(kind)
        self.struct = ""
        self.path: list[str] = []

    def within(self, schema: Struct, field: str) -> None:
        if not self.path and self.kind is not None:
            self.struct = schema.name
            name, kind = schema.by_name[field].go_type, schema.by_name[field].type
            while kind != self.kind and isinstance(kind, List | Map):
                kind = kind.item if isinstance(kind, List) else kind.value
                name = name.partition("]")[2]
            self.go_type = name or self.go_type
        self.path.insert(0, field)

    @property
    def restored(self) -> str:
        """The message where Go makes a struct of decoded data, not of text."""
        if self.kind is None or self.kind in GO_STRUCTS:
            return str(self)
        found = type_name(self.value)
        structure = STRUCTURES.get(found, found)
        if isinstance(self.kind, Struct):
            return f"cannot restore struct from: {structure}"
        if isinstance(self.kind, List | Map):
            wanted = "slice" if isinstance(self.kind, List) else "map"
            return f"cannot restore {wanted} from {structure}"
        if (found, self.kind) in CONVERTIBLE:
            return f"cannot convert {found} to {self.go_type}"
        return f"unrecognized type: {SCALARS[self.kind].go_name}"

    def __str__(self) -> str:
        if not self.go_type:
            return self.text
        place = f"struct field {self.struct}.{'.'.join(self.path)}" if self.path else "value"
        return f"json: cannot unmarshal {self.text} into Go {place} of type {self.go_type}"


def _go_name(kind: Type) -> str:
    if isinstance(kind, Struct):
        return f"{kind.package.rpartition('.')[2]}.{kind.name}"
    if isinstance(kind, List):
        return f"[]{_go_name(kind.item)}"
    if isinstance(kind, Map):
        return f"map[string]{_go_name(kind.value)}"
    return SCALARS[kind].go_name


class Read(NamedTuple):
    obj: Object
    """In canonical form; it shares only values of `Scalar.ANY` with its source."""
    unknown: tuple[str, ...]
    """Paths of the first fields that the schema does not have."""


def read(schema: Struct, raw: object) -> Read:
    """Read decoded JSON, which is not changed.

    Raises:
        MismatchError: At the first value of a wrong type.
    """
    left_out: list[bool] = []
    obj = _reader_of(schema)(raw, left_out)
    if not left_out:
        return Read(obj, ())
    unknown = FieldPaths()
    for path, _ in _faults(schema, raw, (), (), has_wrong=False):
        unknown.add(path)
        if unknown.is_full:
            break
    return Read(obj, tuple(unknown))


def read_in_order(schema: Struct, raw: object) -> Read:
    """Read decoded JSON as `read` does.

    Raises:
        MismatchError: At the wrong value that comes first in the document, as where Go reads text.
    """
    try:
        return read(schema, raw)
    except MismatchError as error:
        # The errors' traces have this frame: if it had them, they would keep the body.
        raise _first_wrong(schema, raw, error) from None


def _first_wrong(schema: Struct, raw: object, last: MismatchError) -> MismatchError:
    faults = _faults(schema, raw, (), (), has_wrong=True)
    wrong = (each for _, each in faults if each is not None)
    found = [*islice(wrong, MOST_MISMATCHES), last]
    # What no value of a right type can stand for ends the parsing at once.
    return next((each for each in found if each.kind is None), found[0])


def canonical(schema: Struct, obj: Object) -> Object:
    """The canonical form of an object, which drops unknown fields.

    The argument is not changed, and the result shares only values of `Scalar.ANY` with it.
    """
    result: Object = _reader_of(schema)(obj, [])
    return result


def _faults(
    kind: Type,
    raw: object,
    path: tuple[str, ...],
    fields: tuple[tuple[Struct, str], ...],
    *,
    has_wrong: bool,
) -> Iterator[tuple[tuple[str, ...], MismatchError | None]]:
    """The path of each unknown field, with None, and of each wrong value, with its error.

    They are in the order of the document; paths are in pieces; fields are those that lead to the
    value.
    """
    if isinstance(kind, Struct) and isinstance(raw, dict):
        for name, value in raw.items():
            at = (*path, f".{name}" if path else name)
            field = kind.by_name.get(name)
            if field is not None:
                within = (*fields, (kind, name))
                yield from _faults(field.type, value, at, within, has_wrong=has_wrong)
            elif name not in kind.kept:
                yield at, None
    elif isinstance(kind, Map) and isinstance(raw, dict):
        for key, value in raw.items():
            at = (*path, f".{key}")
            yield from _faults(kind.value, value, at, fields, has_wrong=has_wrong)
    elif isinstance(kind, List) and isinstance(raw, list):
        if has_wrong or not isinstance(kind.item, Scalar):
            for index, value in enumerate(raw):
                at = (*path, f"[{index}]")
                yield from _faults(kind.item, value, at, fields, has_wrong=has_wrong)
    elif has_wrong and raw is not None:
        try:
            _reader_of(kind)(raw, [])
        except MismatchError as error:
            for struct, name in reversed(fields):
                error.within(struct, name)
            yield path, error


@cache
def _reader_of(kind: Type) -> Reader:
    if isinstance(kind, Struct):
        return _struct_reader(kind)
    if isinstance(kind, List | Map):
        return _list_reader(kind) if isinstance(kind, List) else _map_reader(kind)
    return SCALARS[kind].read


def _struct_reader(schema: Struct) -> Reader:
    plan = [_field_plan(field) for field in schema.fields]
    known, kept = schema.by_name, schema.kept

    def read_struct(raw: object, left_out: list[bool]) -> Object:
        if not isinstance(raw, dict):
            raise MismatchError(value_name(raw), schema, raw)
        get = raw.get
        obj: Object = {}
        taken = 0
        name = ""
        try:
            for name, plain, reader, is_kept, absent in plan:
                value = get(name)
                if value is not None:
                    taken += 1
                    if type(value) is not plain:
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
            for key, value in raw.items():
                if key in kept:
                    if value is not None:
                        obj[key] = value
                elif key not in known:
                    left_out.append(True)
        return obj

    return read_struct


def _field_plan(field: Field) -> tuple[str, type | None, Reader, bool, object]:
    """Name, plain type, reader, whether empty values are kept, and what is written where none is.

    Values of the plain type are taken as they are.  The last is `OMIT`, `FRESH` or the value.
    """
    kind = field.type
    is_struct = isinstance(kind, Struct) or kind in GO_STRUCTS
    is_kept = is_struct or (field.is_pointer and not isinstance(kind, List | Map))
    absent: object = OMIT
    if isinstance(kind, Struct) and not field.is_pointer:
        absent = FRESH
    elif field.is_always_written or (is_struct and not field.is_pointer):
        absent = None if field.is_pointer else zero_of(kind)
    plain = str if kind is Scalar.STRING else None
    return field.name, plain, _reader_of(kind), is_kept or kind is Scalar.ANY, absent


def zero_of(kind: Type) -> object:
    """Return what Go has in the place of an absent value of a type; None for an empty struct."""
    return SCALARS[kind].zero if isinstance(kind, Scalar) else None


def _null_maker(kind: Type) -> Callable[[], object]:
    if isinstance(kind, Struct):
        return partial(_reader_of(kind), {}, [])
    return partial(zero_of, kind)


def _list_reader(kind: List) -> Reader:
    item_reader = _reader_of(kind.item)
    null = _null_maker(kind.item)

    def read_list(raw: object, left_out: list[bool]) -> list[Any]:
        if not isinstance(raw, list):
            raise MismatchError(value_name(raw), kind, raw)
        return [null() if each is None else item_reader(each, left_out) for each in raw]

    return read_list


def _map_reader(kind: Map) -> Reader:
    value_reader = _reader_of(kind.value)
    null = _null_maker(kind.value)

    def read_map(raw: object, left_out: list[bool]) -> dict[str, Any]:
        if not isinstance(raw, dict):
            raise MismatchError(value_name(raw), kind, raw)
        return {
            key: null() if each is None else value_reader(each, left_out)
            for key, each in raw.items()
        }

    return read_map


def _integer_reader(kind: Scalar, limit: int) -> Reader:
    def read_integer(raw: object, _left_out: list[bool]) -> int:
        if type(raw) is int and -limit <= raw < limit:
            return raw
        if isinstance(raw, int | float) and not isinstance(raw, bool):
            shown = number(raw) if isinstance(raw, float) else str(raw)
            raise MismatchError(f"number {shown}", kind, raw)
        raise MismatchError(value_name(raw), kind, raw)

    return read_integer


def _plain_reader(kind: Scalar, type_: type) -> Reader:
    def read_plain(raw: object, _left_out: list[bool]) -> object:
        if isinstance(raw, type_):
            return raw
        raise MismatchError(value_name(raw), kind, raw)

    return read_plain


_read_int32 = _integer_reader(Scalar.INT32, 1 << 31)
_read_string = _plain_reader(Scalar.STRING, str)


def _read_quantity(raw: object, _left_out: list[bool]) -> str:
    is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
    text = raw.strip() if isinstance(raw, str) else str(raw) if is_number else value_name(raw)
    try:
        return parse(text).text
    except QuantityError as error:
        raise MismatchError(str(error)) from error


def _read_base64(raw: object, _left_out: list[bool]) -> str:
    if not isinstance(raw, str):
        raise MismatchError(value_name(raw), Scalar.BASE64, raw)
    text = re.sub("[\r\n]", "", raw)
    try:
        return b64encode(b64decode(text, validate=True)).decode()
    except ValueError:
        wrong = re.search("[^A-Za-z0-9+/=]", text)
        place = wrong.start() if wrong else len(text) // 4 * 4  # four characters are three bytes
        raise MismatchError(f"illegal base64 data at input byte {place}") from None


def _read_int_or_string(raw: object, left_out: list[bool]) -> object:
    return raw if isinstance(raw, str) else _read_int32(raw, left_out)


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
    """The time in UTC with microseconds, of exactly six digits; None for the zero time."""
    match = TEXT.fullmatch(text)
    fraction = (match[7] if match else None) or ""
    try:
        whole = parse_time(text.replace(fraction, "", 1) if len(fraction) == MICRO_DIGITS else "")
    except ValueError as error:
        raise MismatchError(time_error(text, MICRO_LAYOUT)) from error
    if whole == EARLIEST_S and not int(fraction[1:]):
        return None
    return f"{rfc3339(whole).removesuffix('Z')}.{fraction[1:]}Z"


class Rule(NamedTuple):
    go_name: str
    zero: object
    """Null in a list or map stands for it, and an absent field that is written."""
    read: Reader
    is_struct: bool = False
    """Whether it is a struct in Go, whose zero value is written."""


SCALARS = {
    Scalar.STRING: Rule("string", "", _read_string),
    Scalar.BOOLEAN: Rule("bool", False, _plain_reader(Scalar.BOOLEAN, bool)),
    Scalar.INT32: Rule("int32", 0, _read_int32),
    Scalar.INT64: Rule("int64", 0, _integer_reader(Scalar.INT64, 1 << 63)),
    Scalar.QUANTITY: Rule("resource.Quantity", "0", _read_quantity, is_struct=True),
    Scalar.TIME: Rule("v1.Time", None, lambda raw, none: canonical_time(_read_string(raw, none))),
    Scalar.MICRO_TIME: Rule(
        "v1.MicroTime", None, lambda raw, none: canonical_micro_time(_read_string(raw, none))
    ),
    Scalar.BASE64: Rule("[]uint8", "", _read_base64),
    Scalar.INT_OR_STRING: Rule("intstr.IntOrString", 0, _read_int_or_string, is_struct=True),
    Scalar.ANY: Rule("runtime.RawExtension", None, lambda raw, _left_out: raw),
}
GO_STRUCTS = frozenset(kind for kind, rule in SCALARS.items() if rule.is_struct)


def time_error(text: str, layout: str = LAYOUT) -> str:
    """The message about a text that is no point in time, in one of the layouts."""
    said = f"parsing time {_quoted(text)}"
    rest, found = text, dict.fromkeys(ELEMENTS, "")
    for element in ELEMENT_OR_CHARACTER.findall(layout):
        pattern, part = ELEMENTS.get(element, (re.escape(element), ""))
        match = re.match(pattern, rest)
        if match is None:
            return f'{said} as "{layout}": cannot parse {_quoted(rest)} as "{element}"'
        found[element], rest = match[0], rest[match.end() :]
        if element == "05" and layout == LAYOUT:
            rest = re.sub("^[.,][0-9]+", "", rest)
        if part and int(match[0]) not in RANGES[part]:
            return f"{said}: {part} out of range"
        if element == "Z07:00" and match[0] != "Z":
            hour, minute = map(int, match[0][1:].split(":"))
            if hour not in range(25) or minute not in range(61):
                part = "hour" if hour not in range(25) else "minute"
                return f"{said}: time zone offset {part} out of range"
    if rest:
        return f"{said}: extra text: {_quoted(rest)}"
    try:
        # The calendar repeats every 400 years, and Python's has no year 0.
        date(int(found["2006"]) % 400 or 400, int(found["01"]), int(found["02"]))
    except ValueError:
        return f"{said}: day out of range"
    # It lies outside the years that can be written, which only its offset makes it do.
    return f'{said} as "{layout}": cannot parse {_quoted(text)} as "2006"'


def _quoted(text: str) -> str:
    """A text between quotes, cut to `LONGEST_SHOWN`; bytes that are not ASCII by number."""
    shown = text[:LONGEST_SHOWN].replace("\\", "\\\\").replace('"', '\\"').encode(errors="replace")
    characters = (chr(each) if each in range(0x20, 0x7F) else f"\\x{each:02x}" for each in shown)
    return f'"{"".join(characters)}"'
