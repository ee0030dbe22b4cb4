"""Parses the body of a request in Kubernetes' protobuf, into what the same object in JSON gives.

Such a body is a magic number and an envelope, `runtime.Unknown`, which holds the object: a message
of its struct, with its fields' numbers.  How deep messages nest is bounded by the schema; fields
that it does not have are passed over without recursion.

Fields that are unknown are no error here, as Kubernetes has it, unless the struct keeps what it
does not know: protobuf does not say the names of such fields, so they cannot be kept.  Of singular
fields that occur twice the last one wins, and messages are merged.

Sources: protobuf.dev, "Encoding"; Kubernetes documentation, "API Concepts", "Kubernetes Protobuf
encoding"; the `Unmarshal` methods in Kubernetes' `generated.pb.go`, for the wording of errors.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from apfproxy.apiserver.schema.body import BodyError, Parsed, parse_json
from apfproxy.apiserver.schema.types import Field, List, Map, Scalar, Struct, Type
from apfproxy.objects.go_text import EARLIEST_S, LATEST_S, rfc3339

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

MAGIC = b"k8s\x00"
NOT_PROTOBUF = (
    "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
)
UNEXPECTED_END = "unexpected EOF"
OVERFLOW = "proto: integer overflow"
NEGATIVE_LENGTH = "proto: negative length found during unmarshaling"

VARINT, FIXED_64, LENGTH, START_GROUP, END_GROUP, FIXED_32 = range(6)
"""Wire types: how the value behind a tag is written."""
WIRE_BITS = 3
MORE = 0x80
"""Set in each byte of a varint but the last."""
LONGEST_VARINT = 10
"""Bytes, for 64 bits."""
LARGEST_LENGTH = 2**63 - 1
ZERO = b"\x00"
"""A number that is 0 or an empty text: Go writes those of fields that are no pointers."""

SchemaFor = Callable[[str, str], "Struct | None"]
"""The struct of an `apiVersion` and a `kind`, either of which may be empty; None for none."""


class MessageError(BodyError):
    """The message in the envelope, which names its type, cannot be parsed."""

    def __init__(self, text: str, api_version: str, kind: str) -> None:
        super().__init__(text)
        self.api_version = api_version
        self.kind = kind


class LostFieldError(BodyError):
    """A message has a field that JSON would keep although the schema does not have it."""


def _own(name: str, **fields: Type) -> Struct:
    """A message of protobuf's own, whose fields are numbered from 1."""
    numbered = enumerate(fields.items(), 1)
    return Struct(name, tuple(Field(field, kind, number=each) for each, (field, kind) in numbered))


TYPE_META = _own("TypeMeta", apiVersion=Scalar.STRING, kind=Scalar.STRING)
ENVELOPE = _own("Unknown", typeMeta=TYPE_META, raw=Scalar.BYTES)
QUANTITY = _own("Quantity", string=Scalar.STRING)
INT_OR_STRING = _own("IntOrString", type=Scalar.INT64, intVal=Scalar.INT32, strVal=Scalar.STRING)
TIME = _own("Timestamp", seconds=Scalar.INT64, nanos=Scalar.INT32)
RAW = _own("FieldsV1", raw=Scalar.BYTES)


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
    if data == MAGIC:
        raise BodyError("empty body")
    envelope = _message(ENVELOPE, data[len(MAGIC) :])
    obj: Object = {name: text for name, text in envelope.get("typeMeta", {}).items() if text}
    api_version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    schema = schema_for(api_version, kind)
    if schema is not None:
        try:
            read_message(schema, envelope.get("raw", b""), obj)
        except LostFieldError:
            raise
        except BodyError as error:
            raise MessageError(str(error), api_version, kind) from error
    return Parsed(obj)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a number of 64 bits without sign; returns it and the place behind it."""
    end = len(data)
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


def _signed(bits: int, value: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _block(data: bytes, position: int) -> tuple[bytes, int]:
    """Read what is written behind its length; returns it and the place behind it."""
    size, position = _varint(data, position)
    if size > LARGEST_LENGTH:
        raise BodyError(NEGATIVE_LENGTH)
    if size > len(data) - position:
        raise BodyError(UNEXPECTED_END)
    return data[position : position + size], position + size


def _tag_of(data: bytes, position: int) -> tuple[int, int]:
    """Read a tag: the number of a field, of 32 bits as in Go, and its wire type.

    Returns:
        The tag, and the place behind it.
    """
    value, position = _varint(data, position)
    return _signed(32, value >> WIRE_BITS) << WIRE_BITS | value & 7, position


def _passed_over(data: bytes, tag: int, position: int) -> int:
    """The place behind a field that is not read, of which the tag is read."""
    depth = 0
    while True:
        wire = tag & 7
        if wire == VARINT:
            _, position = _varint(data, position)
        elif wire == LENGTH:
            _, position = _block(data, position)
        elif wire in {FIXED_64, FIXED_32}:
            position += 8 if wire == FIXED_64 else 4
        elif wire in {START_GROUP, END_GROUP}:
            depth += 1 if wire == START_GROUP else -1
        else:
            raise BodyError(f"proto: illegal wireType {wire}")
        if position > len(data):
            raise BodyError(UNEXPECTED_END)
        if not depth:
            return position
        tag, position = _tag_of(data, position)


class Part(NamedTuple):
    """How a field of a message is read.

    Attributes:
        name: In JSON.
        is_number: Whether its values, or the items of the list, are varints; else they are blocks.
        is_list: Whether it may occur several times.
        put: Puts the value of a varint or block into an object.
    """

    name: str
    is_number: bool
    is_list: bool
    put: Callable[[Object, Any], None]


@cache
def _parts_of(schema: Struct) -> dict[int, Part]:
    return {field.number: _part_of(field) for field in schema.fields if field.number}


def _part_of(field: Field) -> Part:
    name, kind = field.name, field.type
    is_list = isinstance(kind, List)
    item = kind.item if isinstance(kind, List) else kind
    if isinstance(kind, Map):
        # A map has no lists there, but messages with one.
        has_lists = isinstance(kind.value, List)
        inner = _own("Values", items=kind.value) if has_lists else kind.value
        entry, reader = _own(name, key=Scalar.STRING, value=inner), _reader_of(inner)
        empty: Any = 0 if kind.value in NUMBERS else b""

        def put(obj: Object, content: Any) -> None:  # noqa: ANN401  bytes
            found = _message(entry, content)
            value: Any = found["value"] if "value" in found else reader(empty)
            if has_lists:
                value = value.get("items", [])
            obj.setdefault(name, {})[found.get("key", "")] = value

    elif isinstance(kind, Struct):

        def put(obj: Object, content: Any) -> None:  # noqa: ANN401  bytes
            read_message(kind, content, obj.setdefault(name, {}))

    else:
        reader = _reader_of(item)

        def put(obj: Object, content: Any) -> None:  # noqa: ANN401  bytes, or a number
            if is_list:
                obj.setdefault(name, []).append(reader(content))
            else:
                obj[name] = reader(content)

    return Part(name, item in NUMBERS, is_list, put)


def _reader_of(kind: Type) -> Callable[[Any], object]:
    if isinstance(kind, Struct):
        return partial(_message, kind)
    assert isinstance(kind, Scalar), f"no rule for {kind}"
    return READERS[kind]


def _message(schema: Struct, data: bytes) -> Object:
    """The fields of a message."""
    obj: Object = {}
    read_message(schema, data, obj)
    return obj


def read_message(schema: Struct, data: bytes, obj: Object) -> None:
    """Put the fields of a message into an object.

    Raises:
        BodyError: The bytes are no such message; `LostFieldError` where a field would be lost.
    """
    parts = _parts_of(schema)
    position, end = 0, len(data)
    while position < end:
        # One byte is enough for the first 15 fields.
        tag = data[position]
        if tag < MORE:
            position += 1
        else:
            tag, position = _tag_of(data, position)
        number, wire = tag >> WIRE_BITS, tag & 7
        if wire == END_GROUP:
            raise BodyError(f"proto: {schema.name}: wiretype end group for non-group")
        if number <= 0:
            raise BodyError(f"proto: {schema.name}: illegal tag {number} (wire type {wire})")
        part = parts.get(number)
        if part is None:
            start, position = position, _passed_over(data, tag, position)
            if schema.keeps_unknown and data[start:position] != ZERO:
                raise LostFieldError(f"field {number} of {schema.name} cannot be kept")
        elif wire == LENGTH and not part.is_number:
            content, position = _block(data, position)
            part.put(obj, content)
        elif wire == VARINT and part.is_number:
            value, position = _varint(data, position)
            part.put(obj, value)
        elif wire == LENGTH and part.is_list:
            # Go takes lists of numbers in one block, too.
            content, position = _block(data, position)
            place = 0
            while place < len(content):
                value, place = _varint(content, place)
                part.put(obj, value)
        else:
            shown = part.name[:1].upper() + part.name[1:]
            raise BodyError(f"proto: wrong wireType = {wire} for field {shown}")


def _int_or_string(content: bytes) -> object:
    fields = _message(INT_OR_STRING, content)
    which = fields.get("type", 0)
    if which not in (0, 1):
        raise BodyError(f"impossible IntOrString.Type {which}")
    return fields.get("strVal", "") if which else fields.get("intVal", 0)


def _time_text(has_micros: bool, content: bytes) -> str | None:
    if not content:
        return None
    fields = _message(TIME, content)
    seconds = fields.get("seconds", 0)
    if not EARLIEST_S <= seconds <= LATEST_S:
        raise BodyError("Time.MarshalJSON: year outside of range [0,9999]")
    micros = f".{fields.get('nanos', 0) // 1000 % 1_000_000:06}" if has_micros else ""
    return f"{rfc3339(seconds).removesuffix('Z')}{micros}Z"


def _any_json(content: bytes) -> object:
    raw = _message(RAW, content).get("raw", b"")
    return parse_json(raw).raw if raw else None


READERS: dict[Scalar, Callable[[Any], object]] = {
    Scalar.BOOLEAN: bool,
    Scalar.INT32: partial(_signed, 32),
    Scalar.INT64: partial(_signed, 64),
    # What is no UTF-8 is replaced, as Go does when it writes JSON.
    Scalar.STRING: lambda content: content.decode("utf-8", "replace"),
    Scalar.BYTES: bytes,
    Scalar.BASE64: lambda content: b64encode(content).decode(),
    Scalar.QUANTITY: lambda content: _message(QUANTITY, content).get("string", "0"),
    Scalar.INT_OR_STRING: _int_or_string,
    Scalar.TIME: partial(_time_text, False),
    Scalar.MICRO_TIME: partial(_time_text, True),
    Scalar.ANY: _any_json,
}
"""Makes values of scalars from their varints or blocks."""
NUMBERS = frozenset({Scalar.BOOLEAN, Scalar.INT32, Scalar.INT64})
"""Scalars that are varints."""
