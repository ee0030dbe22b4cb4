"""Parses the body of a request in Kubernetes' protobuf, into what the same object in JSON gives.

Such a body is a magic number and an envelope, `runtime.Unknown`, which says what is within: a
message of the object's struct, with its fields' numbers.  For every struct a reader is
made once, over a table from tags to what takes a value: reading takes some 70 us for an object of
600 bytes, which are 1.7 KiB of JSON.  How deep messages nest is bounded by the schema; what it does
not have is passed over without recursion.

Fields that are unknown are no error here, as Kubernetes has it, unless the struct keeps what it
does not know: protobuf does not say the names of such fields, so they cannot be kept.  Of singular
fields that occur twice the last one wins, and messages are merged.

Sources: protobuf.dev, "Encoding"; Kubernetes documentation, "API Concepts", "Kubernetes Protobuf
encoding"; the `Unmarshal` methods in Kubernetes' `generated.pb.go`, for the wording of errors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from apfproxy.api.schema.body import BodyError, Parsed, parse_json
from apfproxy.api.schema.types import List, Map, Scalar, Struct, Type
from apfproxy.api.times import EARLIEST_S, LATEST_S, rfc3339

if TYPE_CHECKING:
    from apfproxy.api.kind import Object

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

Take = Callable[["Object", Any], None]
"""Puts a number into an object."""
TakeBytes = Callable[[bytes, int, int, "Object"], None]
"""Puts into an object what is between two places of the data."""
ReadBytes = Callable[[bytes, int, int], Any]
"""Makes a value of what is between two places of the data."""


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
        schema_for: Tells what to read the object by; where it knows no struct, only what the
            envelope says is told.

    Returns:
        Plain data, as JSON has it.  `kind` and `apiVersion` are there where the envelope has them.

    Raises:
        BodyError: With Go's message; `MessageError` for what is in the envelope, `LostFieldError`
            where only JSON or YAML can say what is sent.
    """
    if not data.startswith(MAGIC):
        raise BodyError(NOT_PROTOBUF if data else "empty data")
    envelope: Object = {}
    ENVELOPE(data, len(MAGIC), len(data), envelope)
    obj: Object = {name: text for name, text in envelope.get("typeMeta", {}).items() if text}
    api_version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    schema = schema_for(api_version, kind)
    raw = envelope.get("raw", b"")
    if schema is not None:
        try:
            message_reader(schema)(raw, 0, len(raw), obj)
        except LostFieldError:
            raise
        except BodyError as error:
            raise MessageError(str(error), api_version, kind) from error
    return Parsed(obj)


def varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Read a number of 64 bits without sign.

    Returns:
        It, and the place behind it.
    """
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
    """Read how long what follows is.

    Returns:
        The place behind the length, and the one behind what follows.
    """
    size, position = varint(data, position, end)
    if size > LARGEST_LENGTH:
        raise BodyError(NEGATIVE_LENGTH)
    if size > end - position:
        raise BodyError(UNEXPECTED_END)
    return position, position + size


def tag_of(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Read the number of a field, of 32 bits as in Go, and its wire type.

    Returns:
        They as one, and the place behind them.
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
            message = f"proto: illegal wireType {wire}"
            raise BodyError(message)
        if position > end:
            raise BodyError(UNEXPECTED_END)
        if not depth:
            return position
        tag, position = tag_of(data, position, end)


class LostFieldError(BodyError):
    """A message has a field that JSON would keep although the schema does not have it."""


class Message:
    """The reader of messages of a struct.

    Args:
        name: Of the struct, for messages.
        keeps_unknown: Whether no field may be lost.

    Attributes:
        numbers: Tag to what takes the number behind it.
        texts: Tag to what takes the bytes behind it, after their length.
        names: Number to name of the field, as Go has it.
    """

    __slots__ = ("keeps_unknown", "name", "names", "numbers", "texts")

    def __init__(self, name: str, *, keeps_unknown: bool = False) -> None:
        self.name = name
        self.keeps_unknown = keeps_unknown
        self.numbers: dict[int, Take] = {}
        self.texts: dict[int, TakeBytes] = {}
        self.names: dict[int, str] = {}

    def __repr__(self) -> str:
        return f"<Message {self.name} of {len(self.names)} fields>"

    def add(self, number: int, name: str, kind: Type) -> None:
        """Read a field."""
        self.names[number] = go_name(name)
        item = kind.item if isinstance(kind, List) else kind
        if item in NUMBER_READERS:
            read_number = NUMBER_READERS[item]
            is_list = isinstance(kind, List)
            take = taker_of_numbers(name, read_number) if is_list else taker(name, read_number)
            self.numbers[number << WIRE_BITS | VARINT] = take
            if is_list:
                # Go takes both forms of lists of numbers.
                self.texts[number << WIRE_BITS | LENGTH] = unpacker(take)
        else:
            self.texts[number << WIRE_BITS | LENGTH] = bytes_taker(name, kind)

    def __call__(self, data: bytes, position: int, end: int, obj: Object) -> None:
        """Put the fields of a message into an object.

        Args:
            data: All of it.
            position: Where the message starts.
            end: Where it ends; at most the end of the data.
            obj: What was read of it before.

        Raises:
            BodyError: It is none; `LostFieldError` where a field would be lost.
        """
        texts, numbers = self.texts, self.numbers
        while position < end:
            # One byte is enough for the first 15 fields, and for most lengths: calling `varint`
            # for those, too, takes twice the time.
            tag = data[position]
            if tag < MORE:
                position += 1
            else:
                tag, position = tag_of(data, position, end)
            if tag in texts:
                if position < end and data[position] < MORE:
                    start = position + 1
                    position = start + data[position]
                    if position > end:
                        raise BodyError(UNEXPECTED_END)
                else:
                    start, position = length(data, position, end)
                texts[tag](data, start, position, obj)
            elif tag in numbers:
                value, position = varint(data, position, end)
                numbers[tag](obj, value)
            else:
                self.check(tag)
                start, position = position, passed_over(data, tag, position, end)
                if self.keeps_unknown and data[start:position] != ZERO:
                    message = f"field {tag >> WIRE_BITS} of {self.name} cannot be kept"
                    raise LostFieldError(message)

    def check(self, tag: int) -> None:
        """Make sure that a field which is not read may be passed over.

        Raises:
            BodyError: It may not.
        """
        number, wire = tag >> WIRE_BITS, tag & 7
        message = ""
        if wire == END_GROUP:
            message = f"proto: {self.name}: wiretype end group for non-group"
        elif number <= 0:
            message = f"proto: {self.name}: illegal tag {number} (wire type {wire})"
        elif number in self.names:
            message = f"proto: wrong wireType = {wire} for field {self.names[number]}"
        if message:
            raise BodyError(message)


def go_name(name: str) -> str:
    """What Go calls a field."""
    return name[:1].upper() + name[1:]


@cache
def message_reader(schema: Struct) -> Message:
    """The reader of messages of a struct: made once for each."""
    message = Message(schema.name, keeps_unknown=schema.keeps_unknown)
    for field in schema.fields:
        if field.number:
            message.add(field.number, field.name, field.type)
    return message


def taker(name: str, read_number: Callable[[int], object]) -> Take:
    """Puts a number into a field."""

    def take(obj: Object, value: int) -> None:
        obj[name] = read_number(value)

    return take


def taker_of_numbers(name: str, read_number: Callable[[int], object]) -> Take:
    """Adds a number to the list in a field."""

    def take(obj: Object, value: int) -> None:
        obj.setdefault(name, []).append(read_number(value))

    return take


def unpacker(take: Take) -> TakeBytes:
    """Takes numbers that are written one behind another."""

    def take_all(data: bytes, position: int, end: int, obj: Object) -> None:
        while position < end:
            value, position = varint(data, position, end)
            take(obj, value)

    return take_all


def bytes_taker(name: str, kind: Type) -> TakeBytes:
    """Puts what has a length into a field."""
    if isinstance(kind, Struct):
        return merger(name, message_reader(kind))
    if isinstance(kind, List):
        return appender(name, bytes_reader(kind.item))
    if isinstance(kind, Map):
        return entry_taker(name, kind)
    return setter(name, bytes_reader(kind))


def merger(name: str, read_message: TakeBytes) -> TakeBytes:
    """Puts a message into a field, over what is there."""

    def take(data: bytes, start: int, end: int, obj: Object) -> None:
        inner = obj.get(name)
        if inner is None:
            inner = obj[name] = {}
        read_message(data, start, end, inner)

    return take


def appender(name: str, read_bytes: ReadBytes) -> TakeBytes:
    """Adds a value to the list in a field."""

    def take(data: bytes, start: int, end: int, obj: Object) -> None:
        obj.setdefault(name, []).append(read_bytes(data, start, end))

    return take


def setter(name: str, read_bytes: ReadBytes) -> TakeBytes:
    """Puts a value into a field."""

    def take(data: bytes, start: int, end: int, obj: Object) -> None:
        obj[name] = read_bytes(data, start, end)

    return take


def entry_taker(name: str, kind: Map) -> TakeBytes:
    """Adds an entry to the map in a field."""
    entry_reader = Message(name)
    entry_reader.add(1, "key", Scalar.STRING)
    entry_reader.add(2, "value", kind.value)
    read_empty = bytes_reader(kind.value)

    def take(data: bytes, start: int, end: int, obj: Object) -> None:
        entry: Object = {}
        entry_reader(data, start, end, entry)
        value = entry["value"] if "value" in entry else read_empty(data, end, end)
        obj.setdefault(name, {})[entry.get("key", "")] = value

    return take


def bytes_reader(kind: Type) -> ReadBytes:
    """Makes a value of what has a length."""
    if not isinstance(kind, Struct):
        return BYTES_READERS[kind]
    read_message = message_reader(kind)

    def read_struct(data: bytes, start: int, end: int) -> Object:
        obj: Object = {}
        read_message(data, start, end, obj)
        return obj

    return read_struct


def read_text(data: bytes, start: int, end: int) -> str:
    """Read text; what is no UTF-8 is replaced, as Go does when it writes JSON."""
    return data[start:end].decode("utf-8", "replace")


def read_quantity(data: bytes, start: int, end: int) -> str:
    """Read a quantity; "0" for an empty one."""
    return str(fields_of(QUANTITY, data, start, end).get("string", "0"))


def read_int_or_string(data: bytes, start: int, end: int) -> int | str:
    """Read a number or a text."""
    fields = fields_of(INT_OR_STRING, data, start, end)
    which = fields.get("type", 0)
    if which not in (0, 1):
        message = f"impossible IntOrString.Type {which}"
        raise BodyError(message)
    found: int | str = fields.get("strVal", "") if which else fields.get("intVal", 0)
    return found


def read_time(data: bytes, start: int, end: int) -> str | None:
    """Read a time, without the part of a second; None for an empty one."""
    if start == end:
        return None
    seconds = fields_of(TIME, data, start, end).get("seconds", 0)
    if not EARLIEST_S <= seconds <= LATEST_S:
        message = "Time.MarshalJSON: year outside of range [0,9999]"
        raise BodyError(message)
    return rfc3339(seconds)


def read_any(data: bytes, start: int, end: int) -> object:
    """Read JSON, which a message holds as bytes; None for none."""
    raw = fields_of(RAW, data, start, end).get("raw", b"")
    return parse_json(raw).raw if raw else None


def fields_of(message: Message, data: bytes, start: int, end: int) -> Object:
    """The fields of a message."""
    fields: Object = {}
    message(data, start, end, fields)
    return fields


NUMBER_READERS: dict[Type, Callable[[int], object]] = {
    Scalar.BOOLEAN: bool,
    Scalar.INT32: lambda value: signed(value, 32),
    Scalar.INT64: lambda value: signed(value, 64),
}

BYTES_READERS: dict[Type, ReadBytes] = {
    Scalar.STRING: read_text,
    Scalar.QUANTITY: read_quantity,
    Scalar.TIME: read_time,
    Scalar.INT_OR_STRING: read_int_or_string,
    Scalar.ANY: read_any,
}


def message_of(name: str, **fields: Scalar) -> Message:
    """The reader of a message whose fields have the numbers from 1 on."""
    message = Message(name)
    for number, (field, kind) in enumerate(fields.items(), start=1):
        message.add(number, field, kind)
    return message


def message_of_bytes(name: str, number: int) -> Message:
    """The reader of a message that has bytes, in the field `raw`."""
    message = Message(name)
    message.names[number] = "Raw"
    message.texts[number << WIRE_BITS | LENGTH] = setter(
        "raw", lambda data, start, end: data[start:end]
    )
    return message


QUANTITY = message_of("Quantity", string=Scalar.STRING)
INT_OR_STRING = message_of(
    "IntOrString", type=Scalar.INT64, intVal=Scalar.INT32, strVal=Scalar.STRING
)
TIME = message_of("Timestamp", seconds=Scalar.INT64, nanos=Scalar.INT32)
RAW = message_of_bytes("FieldsV1", 1)
TYPE_META = message_of("TypeMeta", apiVersion=Scalar.STRING, kind=Scalar.STRING)
ENVELOPE = message_of_bytes("Unknown", 2)
ENVELOPE.names[1] = "TypeMeta"
ENVELOPE.texts[1 << WIRE_BITS | LENGTH] = merger("typeMeta", TYPE_META)
