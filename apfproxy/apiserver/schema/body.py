"""Parses the body of a request, one JSON or YAML document or a message, as Kubernetes does.

Repeated keys are no error here: the last value wins, and their paths are returned.  JSON takes
some 10 us for an object of 1 KiB.

A body in protobuf is a magic number and an envelope, `runtime.Unknown`, which holds the object: a
message of its struct, with its fields' numbers.  It gives what the same object in JSON gives.  How
deep messages nest is bounded by the schema; unknown fields are passed over without recursion, and
are no error, unless the struct keeps them: their names are not told.  Of singular fields that
occur twice the last one wins, and messages are merged.

Sources: RFC 8259; protobuf.dev, "Encoding"; Kubernetes documentation, "API Concepts", "Kubernetes
Protobuf encoding"; for the wording of errors Go's `encoding/json`, and the `Unmarshal` methods in
Kubernetes' `generated.pb.go`.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64encode
from collections.abc import Callable
from functools import cache, partial
from posixpath import commonprefix
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from yaml.scanner import ScannerError

from apfproxy.apiserver.schema.types import Field, List, Map, Scalar, Struct, Type
from apfproxy.objects.documents import (
    FieldPaths,
    UnreadableError,
    encodable,
    is_deep,
    yaml_documents,
)
from apfproxy.objects.go_text import EARLIEST_S, LATEST_S, quoted, rfc3339

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

MOST_OBJECTS = 1 << 17
"""Objects and nulls in a body, nested ones included: each costs 20 us, and the largest body would
hold a million.  Objects with more of them are too large to be stored."""
MOST_NODES = 400_000
"""Keys and values in a body of YAML, where each costs 5 us; those of 2 MiB of JSON, the largest
object that is stored, are up to 390 000."""
DEEPEST = 100
"""Nested objects and lists; Kubernetes' objects have some 25, with the fields that are owned."""

TOO_DEEP = "exceeded max depth"
UNEXPECTED_END = "unexpected end of JSON input"

KEY = "looking for beginning of object key string"
BEGINNING = "looking for beginning of value"
AFTER_ITEM = "after object key:value pair or array element"
AT_ERROR = {
    "Expecting property name enclosed in double quotes": KEY,
    "Illegal trailing comma before end of object": KEY,
    "Expecting ':' delimiter": "after object key",
    "Expecting ',' delimiter": AFTER_ITEM,
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
    "Invalid \\uXXXX escape": "in \\u hexadecimal character escape",
}
"""The words of Python's parser to those of Go's about the character there, unless `BEGINNING`."""
LITERALS = {"t": "true", "f": "false", "n": "null"}
SIGNS = re.compile(r'\\.|["\[\]{}]')
"""Escapes, and what opens and closes in JSON.  Strings are none: to match one of megabytes takes a
second, in which no other thread goes on."""


class BodyError(ValueError):
    """The body cannot be parsed."""


class Parsed(NamedTuple):
    raw: Any
    """Plain data; of equal keys the last value."""
    duplicates: tuple[str, ...] = ()
    """Paths of the first keys that occur more than once, such as `spec.rules[0].verbs`."""


class Pairs(list[tuple[str, object]]):
    """The members of a JSON object, equal keys included."""


class RepeatedKeyError(Exception):
    pass


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise RepeatedKeyError
    return members


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise BodyError(f"json: cannot unmarshal number {text[:60]} into Go value of type float64")
    return value


def _refuse_constant(name: str) -> object:
    first = name.removeprefix("-")[0]
    where = "in numeric literal" if name.startswith("-") else BEGINNING
    raise BodyError(f"invalid character '{first}' {where}")


def _refuse_fraction(text: str) -> float:
    """Refuse numbers with a fraction, since YAML reads 1.0 as 1."""
    raise BodyError(text)


UNIQUE_DECODER, PAIRS_DECODER, PLAIN_DECODER = (
    json.JSONDecoder(object_pairs_hook=hook, parse_float=read, parse_constant=_refuse_constant)
    for hook, read in ((_unique, _finite), (Pairs, _finite), (_unique, _refuse_fraction))
)


def parse_json(data: bytes) -> Parsed:
    """Parse one JSON value, of UTF-8; what is not that is replaced, as Go does it.

    Raises:
        BodyError: With the message that Go has, where that is cheap to tell.
    """
    text = data.decode("utf-8", "replace")
    duplicates = FieldPaths()
    try:
        try:
            raw = UNIQUE_DECODER.decode(text)
        except RepeatedKeyError:
            pairs = PAIRS_DECODER.decode(text)
            _check_depth(data, pairs)  # before the walk, which is recursive
            raw = _without_duplicates(pairs, (), duplicates)
    except json.JSONDecodeError as error:
        raise BodyError(_go_message(data)) from error
    except RecursionError as error:
        raise BodyError(TOO_DEEP) from error
    except BodyError:
        raise
    except ValueError as error:
        raise BodyError("json: cannot unmarshal number into Go value of type float64") from error
    _check_depth(data, raw)
    return Parsed(encodable(raw) if b"\\u" in data else raw, tuple(duplicates))


def _check_depth(data: bytes, raw: object) -> None:
    if data.count(b"{") + data.count(b"[") > DEEPEST and is_deep(raw, DEEPEST):
        raise BodyError(TOO_DEEP)


def _without_duplicates(raw: object, path: tuple[str, ...], duplicates: FieldPaths) -> object:
    """The value with each key once, the last value or mappings merged; adds paths of the others."""
    if isinstance(raw, Pairs):
        members: dict[str, object] = {}
        for key, value in raw:
            at = (*path, f".{key}" if path else key)
            if key in members:
                duplicates.add(at)
            members[key] = _merged(members.get(key), _without_duplicates(value, at, duplicates))
        return members
    if isinstance(raw, list):
        return [
            _without_duplicates(each, (*path, f"[{index}]"), duplicates)
            for index, each in enumerate(raw)
        ]
    return raw


def _merged(old: object, new: object) -> object:
    """The new value; if both are mappings the old one, with the members of the new one put in."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    for key, value in new.items():
        old[key] = _merged(old.get(key), value)
    return old


def _go_message(data: bytes) -> str:
    try:
        PAIRS_DECODER.decode(data.decode("latin-1"))  # Go looks at bytes
    except json.JSONDecodeError as found:
        error = found
    doc, place = error.doc, error.pos
    if place >= len(doc) or error.msg.startswith("Unterminated string"):
        return UNEXPECTED_END
    where = AT_ERROR.get(error.msg.partition(": ")[0], BEGINNING)
    if where == AFTER_ITEM:
        where = f"after {'object key:value pair' if _is_in_object(doc, place) else 'array element'}"
    literal = LITERALS.get(doc[place])
    if error.msg.startswith("Expecting value") and literal:
        right = len(commonprefix((literal, doc[place : place + len(literal)])))
        place += right
        if place == len(doc):
            return UNEXPECTED_END
        where = f"in literal {literal} (expecting '{literal[right]}')"
    # Python points at the backslash, Go at the character behind it.
    place += error.msg.startswith("Invalid \\escape")
    character = doc[place]
    character = {"'": "\\'", '"': '"'}.get(character) or quoted(character)[1:-1]
    return f"invalid character '{character}' {where}"


def _is_in_object(doc: str, end: int) -> bool:
    """Whether a place in JSON that is right up to there is in an object, not in a list."""
    opened: list[str] = []
    is_in_string = False
    for found in SIGNS.finditer(doc, 0, end):
        sign = found[0]
        if sign == '"':
            is_in_string = not is_in_string
        elif is_in_string:
            continue
        elif sign in "{[":
            opened.append(sign)
        else:
            opened.pop()
    return opened[-1:] == ["{"]


def parse_yaml(data: bytes) -> Parsed:
    """Parse the first document of YAML; None if there is none.

    Raises:
        BodyError: If it is no YAML, or has what is not taken, such as aliases.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BodyError(f"yaml: not UTF-8: {error.reason} at byte {error.start}") from error
    if text.startswith("{") and (found := _json_of(data, text)):
        return found
    try:
        duplicates = FieldPaths()
        documents = yaml_documents(
            text, DEEPEST, duplicates, most_nodes=MOST_NODES, most_objects=MOST_OBJECTS
        )
        raw, _ = next(documents, (None, 0))
        return Parsed(raw, tuple(duplicates))
    except yaml.MarkedYAMLError as error:
        raise BodyError(
            f"yaml: {_place_of(error)}{error.problem or error.context or 'syntax error'}"
        ) from error
    except UnreadableError as error:
        place = f"line {error.line}: " if error.line else ""
        raise BodyError(f"yaml: {place}{error}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise BodyError(f"yaml: {str(error).splitlines()[0]}") from error


def _place_of(error: yaml.MarkedYAMLError) -> str:
    """Where Go says that an error is: it counts lines from 0, or from 1 where its scanner fails."""
    for mark in (error.context_mark, error.problem_mark):
        if mark and mark.line:
            return f"line {mark.line + isinstance(error, ScannerError)}: "
    return ""


def _json_of(data: bytes, text: str) -> Parsed | None:
    """The YAML as JSON, if it is that too: clients write it so, and it takes a tenth of the time.

    None as well where the two would differ: with keys that occur twice, with fractions, and nested
    too deeply.
    """
    try:
        raw = PLAIN_DECODER.decode(text)
        _check_depth(data, raw)
    except (ValueError, RecursionError, RepeatedKeyError):
        return None
    return Parsed(encodable(raw) if b"\\u" in data else raw)


MAGIC = b"k8s\x00"
NOT_PROTOBUF = (
    "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
)
UNEXPECTED_EOF = "unexpected EOF"
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
    """Parse an object; without a struct for it, only what the envelope says is read.

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
    raise BodyError(OVERFLOW if end - position >= LONGEST_VARINT else UNEXPECTED_EOF)


def _signed(bits: int, value: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _block(data: bytes, position: int) -> tuple[bytes, int]:
    """Read what is written behind its length; returns it and the place behind it."""
    size, position = _varint(data, position)
    if size > LARGEST_LENGTH:
        raise BodyError(NEGATIVE_LENGTH)
    if size > len(data) - position:
        raise BodyError(UNEXPECTED_EOF)
    return data[position : position + size], position + size


def _tag_of(data: bytes, position: int) -> tuple[int, int]:
    """Read a tag, of which the number of the field has 32 bits as in Go, and the place behind."""
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
            raise BodyError(UNEXPECTED_EOF)
        if not depth:
            return position
        tag, position = _tag_of(data, position)


class Part(NamedTuple):
    """How a field of a message is read."""

    name: str
    is_number: bool
    """Whether its values, or the items of the list, are varints; else they are blocks."""
    is_list: bool
    put: Callable[[Object, Any], None]
    """Puts the value of a varint or block into an object."""


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
            if schema.kept and data[start:position] != ZERO:
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
