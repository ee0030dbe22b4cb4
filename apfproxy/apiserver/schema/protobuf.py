"""Parses the body of a request in Kubernetes' protobuf, into what the same object in JSON gives.

Such a body is a magic number and an envelope, `runtime.Unknown`, which says what is within: a
message of the object's struct, with its fields' numbers.  How deep messages nest is bounded by the
schema; what it does not have is passed over without recursion.

Fields that are unknown are no error here, as Kubernetes has it, unless the struct keeps what it
does not know: protobuf does not say the names of such fields, so they cannot be kept.  Of singular
fields that occur twice the last one wins, and messages are merged.

Sources: protobuf.dev, "Encoding"; Kubernetes documentation, "API Concepts", "Kubernetes Protobuf
encoding"; the `Unmarshal` methods in Kubernetes' `generated.pb.go`, for the wording of errors.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from apfproxy.apiserver.schema.body import BodyError, Parsed, parse_json
from apfproxy.apiserver.schema.types import Field, List, Map, Scalar, Struct, Type
from apfproxy.objects.go_text import EARLIEST_S, LATEST_S, rfc3339

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

MAGIC = b"k8s\x00"
NOT_PROTOBUF = (
    "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
)

VARINT, FIXED_64, LENGTH, START_GROUP, END_GROUP, FIXED_32 = range(6)
"""Wire types: how the value behind a tag is written."""
FIXED_BYTES = {FIXED_64: 8, FIXED_32: 4}
WIRE_BITS = 3
MORE = 0x80
"""Set in each byte of a varint but the last."""
LONGEST_VARINT = 10
"""Bytes, for 64 bits."""
LARGEST_LENGTH = 2**63 - 1

ZERO = b"\x00"
"""A number that is 0 or an empty text: Go writes those of fields that are no pointers."""

UNEXPECTED_END = "unexpected EOF"
OVERFLOW = "proto: integer overflow"
NEGATIVE_LENGTH = "proto: negative length found during unmarshaling"

SchemaFor = Callable[[str, str], "Struct | None"]
"""The struct of an `apiVersion` and a `kind`, either of which may be empty; None for none."""

TYPE_META = Struct(
    "TypeMeta",
    (Field("apiVersion", Scalar.STRING, number=1), Field("kind", Scalar.STRING, number=2)),
)
ENVELOPE = Struct(
    "Unknown", (Field("typeMeta", TYPE_META, number=1), Field("raw", Scalar.BYTES, number=2))
)
QUANTITY = Struct("Quantity", (Field("string", Scalar.STRING, number=1),))
INT_OR_STRING = Struct(
    "IntOrString",
    (
        Field("type", Scalar.INT64, number=1),
        Field("intVal", Scalar.INT32, number=2),
        Field("strVal", Scalar.STRING, number=3),
    ),
)
TIME = Struct(
    "Timestamp",
    (Field("seconds", Scalar.INT64, number=1), Field("nanos", Scalar.INT32, number=2)),
)
RAW = Struct("FieldsV1", (Field("raw", Scalar.BYTES, number=1),))
"""Messages that JSON has as scalars."""

TIMES = frozenset({Scalar.TIME, Scalar.MICRO_TIME})


class MessageError(BodyError):
    """The message in the envelope cannot be parsed.

    Attributes:
        api_version: As the envelope has it.
        kind: As the envelope has it.
    """

    def __init__(self, text: str, api_version: str, kind: str) -> None:
        super().__init__(text)
        self.api_version = api_version
        self.kind = kind


def parse_protobuf(data: bytes, schema_for: SchemaFor) -> Parsed:
    """Parse an object.

    Args:
        data: The magic number, the envelope and the object in it.
        schema_for: Finds the struct to read the object by; without one, only what the envelope
            says is read.

    Raises:
        BodyError: With Go's message; `MessageError` for what is in the envelope, `LostFieldError`
            where only JSON or YAML can say what is sent.
    """
    if not data.startswith(MAGIC):
        raise BodyError(NOT_PROTOBUF if data else "empty data")
    envelope = message(ENVELOPE, data, len(MAGIC), len(data))
    obj: Object = {name: text for name, text in envelope.get("typeMeta", {}).items() if text}
    api_version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    schema = schema_for(api_version, kind)
    raw = envelope.get("raw", b"")
    if schema is not None:
        try:
            read_message(schema, raw, 0, len(raw), obj)
        except LostFieldError:
            raise
        except BodyError as error:
            raise MessageError(str(error), api_version, kind) from error
    return Parsed(obj)


def varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Read a number of 64 bits without sign; returns it and the place behind it."""
    if position < end and data[position] < MORE:
        return data[position], position + 1
    value = shift = 0
    for place in range(position, min(end, position + LONGEST_VARINT)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < MORE:
            return value & 0xFFFF_FFFF_FFFF_FFFF, place + 1
        shift += 7
    raise BodyError(OVERFLOW if end - position >= LONGEST_VARINT else UNEXPECTED_END)


def signed(value: int, bits: int) -> int:
    """The number with a sign that the last bits of a varint stand for."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def length(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Read a length; returns the place behind it, and the end of what is so long."""
    size, position = varint(data, position, end)
    if size > LARGEST_LENGTH:
        raise BodyError(NEGATIVE_LENGTH)
    if size > end - position:
        raise BodyError(UNEXPECTED_END)
    return position, position + size


def tag_of(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Read a tag: the number of a field, of 32 bits as in Go, and its wire type.

    Returns:
        The tag, and the place behind it.
    """
    value, position = varint(data, position, end)
    return signed(value >> WIRE_BITS, 32) << WIRE_BITS | value & 7, position


def passed_over(data: bytes, tag: int, position: int, end: int) -> int:
    """The place behind a field that is not read, of which the tag is read."""
    depth = 0
    while True:
        wire = tag & 7
        if wire == VARINT:
            _, position = varint(data, position, end)
        elif wire == LENGTH:
            _, position = length(data, position, end)
        elif wire in FIXED_BYTES:
            position += FIXED_BYTES[wire]
        elif wire == START_GROUP:
            depth += 1
        elif wire == END_GROUP:
            depth -= 1
        else:
            raise BodyError(f"proto: illegal wireType {wire}")
        if position > end:
            raise BodyError(UNEXPECTED_END)
        if not depth:
            return position
        tag, position = tag_of(data, position, end)


class LostFieldError(BodyError):
    """A message has a field that JSON would keep although the schema does not have it."""


NUMBERS: dict[Scalar, Callable[[int], object]] = {
    Scalar.BOOLEAN: bool,
    Scalar.INT32: lambda value: signed(value, 32),
    Scalar.INT64: lambda value: signed(value, 64),
}
"""What a varint of a type stands for."""


@dataclass(frozen=True, slots=True)
class Part:
    """How a field of a message is read.

    Attributes:
        name: In JSON.
        type: Of its value, or of the items of a list.
        is_list: Whether it may occur several times.
        read_number: Makes the value of a varint; None where the value is no number.
        entry: The message of a map's entries; None where the value is no map.
    """

    name: str
    type: Type
    is_list: bool
    read_number: Callable[[int], object] | None
    entry: Struct | None


@cache
def parts_of(schema: Struct) -> dict[int, Part]:
    """The fields that a message of the struct has, by their numbers."""
    return {field.number: part_of(field) for field in schema.fields if field.number}


def part_of(field: Field) -> Part:
    """How a field is read."""
    kind, is_list, entry = field.type, isinstance(field.type, List), None
    if isinstance(kind, List):
        kind = kind.item
    if isinstance(kind, Map):
        key, value = Field("key", Scalar.STRING, number=1), Field("value", kind.value, number=2)
        entry = Struct(field.name, (key, value))
    read_number = NUMBERS.get(kind) if isinstance(kind, Scalar) else None
    return Part(field.name, kind, is_list, read_number, entry)


def message(schema: Struct, data: bytes, position: int, end: int) -> Object:
    """The fields of a message."""
    obj: Object = {}
    read_message(schema, data, position, end, obj)
    return obj


def read_message(schema: Struct, data: bytes, position: int, end: int, obj: Object) -> None:
    """Put the fields of a message, which stands between two places of the data, into an object.

    Raises:
        BodyError: The bytes are no such message; `LostFieldError` where a field would be lost.
    """
    parts = parts_of(schema)
    while position < end:
        # One byte is enough for the first 15 fields.
        tag = data[position]
        if tag < MORE:
            position += 1
        else:
            tag, position = tag_of(data, position, end)
        number, wire = tag >> WIRE_BITS, tag & 7
        if wire == END_GROUP:
            raise BodyError(f"proto: {schema.name}: wiretype end group for non-group")
        if number <= 0:
            raise BodyError(f"proto: {schema.name}: illegal tag {number} (wire type {wire})")
        if number in parts:
            position = read_part(parts[number], wire, data, position, end, obj)
            continue
        start, position = position, passed_over(data, tag, position, end)
        if schema.keeps_unknown and data[start:position] != ZERO:
            raise LostFieldError(f"field {number} of {schema.name} cannot be kept")


def read_part(part: Part, wire: int, data: bytes, position: int, end: int, obj: Object) -> int:
    """Put a field, whose tag is read, into an object; returns the place behind it."""
    name, read_number = part.name, part.read_number
    if wire == VARINT and read_number is not None:
        number, position = varint(data, position, end)
        put(obj, part, read_number(number))
        return position
    # Go takes lists of numbers in one block, too.
    if wire != LENGTH or (read_number is not None and not part.is_list):
        shown = name[:1].upper() + name[1:]
        raise BodyError(f"proto: wrong wireType = {wire} for field {shown}")
    start, position = length(data, position, end)
    if read_number is not None:
        while start < position:
            number, start = varint(data, start, position)
            put(obj, part, read_number(number))
    elif part.entry is not None:
        entry = message(part.entry, data, start, position)
        if "value" not in entry:
            entry["value"] = value_of(parts_of(part.entry)[2].type, b"", 0, 0)
        obj.setdefault(name, {})[entry.get("key", "")] = entry["value"]
    elif isinstance(part.type, Struct) and not part.is_list:
        read_message(part.type, data, start, position, obj.setdefault(name, {}))
    else:
        put(obj, part, value_of(part.type, data, start, position))
    return position


def put(obj: Object, part: Part, value: object) -> None:
    """Put a value into a field, or add it to the list there."""
    if part.is_list:
        obj.setdefault(part.name, []).append(value)
    else:
        obj[part.name] = value


def value_of(kind: Type, data: bytes, start: int, end: int) -> object:
    """The value of a type that is no number, between two places of the data."""
    if isinstance(kind, Struct):
        return message(kind, data, start, end)
    if kind is Scalar.STRING:
        # What is no UTF-8 is replaced, as Go does when it writes JSON.
        return data[start:end].decode("utf-8", "replace")
    if kind is Scalar.BYTES:
        return data[start:end]
    if kind is Scalar.QUANTITY:
        return message(QUANTITY, data, start, end).get("string", "0")
    if kind is Scalar.INT_OR_STRING:
        return int_or_string(message(INT_OR_STRING, data, start, end))
    if kind in TIMES:
        return None if start == end else time_text(message(TIME, data, start, end), kind)
    if kind is Scalar.BASE64:
        return b64encode(data[start:end]).decode()
    assert kind is Scalar.ANY, f"no rule for {kind}"
    raw = message(RAW, data, start, end).get("raw", b"")
    return parse_json(raw).raw if raw else None


def int_or_string(fields: Object) -> object:
    """The number or text of an `IntOrString`."""
    which = fields.get("type", 0)
    if which not in (0, 1):
        raise BodyError(f"impossible IntOrString.Type {which}")
    return fields.get("strVal", "") if which else fields.get("intVal", 0)


def time_text(fields: Object, kind: Type) -> str:
    """The text of a time, with or without microseconds."""
    seconds = fields.get("seconds", 0)
    if not EARLIEST_S <= seconds <= LATEST_S:
        raise BodyError("Time.MarshalJSON: year outside of range [0,9999]")
    text = rfc3339(seconds)
    if kind is Scalar.TIME:
        return text
    micros = fields.get("nanos", 0) // 1000 % 1_000_000
    return f"{text.removesuffix('Z')}.{micros:06}Z"
