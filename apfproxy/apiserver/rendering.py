"""Objects, lists and events as the bytes of answers, in every form that clients ask for.

Objects are stored as JSON of the storage version, so most answers are stored bytes joined together;
only other versions, Tables and YAML are encoded.

Source: Kubernetes documentation, "API Concepts", "Receiving resources as Tables".
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import msgspec
import yaml

from apfproxy.apiserver.errors import StatusError, bad_request
from apfproxy.apiserver.negotiation import META_GROUP, Form, Shape
from apfproxy.apiserver.outcomes import decoded, in_version
from apfproxy.apiserver.schema.reading import canonical
from apfproxy.objects.field_errors import invalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apfproxy.apiserver.kind import Column, Kind, Version
    from apfproxy.apiserver.store.entries import Entry
    from apfproxy.objects.types import Object

CHUNK_ITEMS = 64
"""Items of a list that are joined before they are written: about 64 KiB of usual objects."""
CHUNK_BYTES = 256 * 1024
"""Bytes that are joined at most, and one object."""

LIST_END = b"]}"
"""The last part of a list."""

TEXTS = frozenset({"tag:yaml.org,2002:str", "tag:yaml.org,2002:yaml"})
"""Tags of plain text; that of the second is always quoted."""
TEXT = "tag:yaml.org,2002:str"
ELSEWHERE_NO_TEXT = re.compile(r"[yYnN]|0o[0-7]+|[-+]?[0-9]*\.?[0-9]+([eE][-+][0-9]+)?")
"""Text that other YAML readers, such as Go's, take for another type."""

encode = msgspec.json.encode


class OnlyMetadata(msgspec.Struct):
    """An object of which only the metadata is read, as raw JSON."""

    metadata: msgspec.Raw


METADATA_DECODER = msgspec.json.Decoder(OnlyMetadata)

INCLUDED = ("", "None", "Metadata", "Object")
"""What a row of a Table includes of its object; "" is `Metadata`."""
INCLUDED_RULE = "must be 'Metadata', 'Object', 'None', or empty"


class Renderer:
    """Writes the objects of one kind in one form, of the version that clients see.

    `include` is what a row of a Table carries, one of `INCLUDED`; `now_s`, in seconds since 1970,
    is for ages.

    Attributes:
        cache_key: Of events that watchers share; "" for Tables, which contain ages.
    """

    def __init__(
        self, kind: Kind, version: Version, form: Form, include: str, now_s: float
    ) -> None:
        if form.shape is Shape.TABLE and include not in INCLUDED:
            wrong = invalid("includeObject", include, INCLUDED_RULE)
            raise bad_request(f"Unable to convert to Table as requested: {wrong}")
        self._kind = kind
        self._version = version
        self._form = form
        self._include = include or "Metadata"
        self._now_s = now_s
        self._has_columns = False
        self._is_stored = version is kind.storage
        self._go_type = f"*{kind.group.partition('.')[0] or 'core'}.{kind.name}"
        # Kinds may share objects, and the names of their versions.
        served = kind.api_version(version.name)
        self._type = type_bytes(kind.name, served)
        shape = form.shape
        is_table = shape is Shape.TABLE
        self.cache_key = "" if is_table else f"{served} {shape.value} {form.meta_version}"
        self._meta_version = f"{META_GROUP}/{form.meta_version}"
        self._partial_type = type_bytes("PartialObjectMetadata", self._meta_version)

    def document(self, entry: Entry) -> bytes:
        """A whole document about one object."""
        shape = self._form.shape
        if shape is Shape.TABLE:
            version = entry.resource_version
            metadata = {"resourceVersion": str(version)} if version else {}
            return b"".join(self.list_chunks([entry], metadata))
        if shape is Shape.METADATA_LIST:
            raise not_convertible(shape, f"is not a list ({self._go_type})")
        return self._object(entry) if shape is Shape.OBJECT else self._partial(entry)

    def list_chunks(self, entries: Sequence[Entry], metadata: Object) -> Iterator[bytes]:
        """A list in parts; StatusError 406, at once, if a list has no such form."""
        if self._form.shape is Shape.METADATA:
            raise not_convertible(self._form.shape, f"is a list ({self._go_type}List)")
        return self._chunks(entries, metadata)

    def _chunks(self, entries: Sequence[Entry], metadata: Object) -> Iterator[bytes]:
        shape = self._form.shape
        if shape is Shape.TABLE:
            head = type_bytes("Table", self._meta_version)
            head += b'"metadata":%b,"columnDefinitions":%b,"rows":[' % (
                encode(metadata),
                encode(self._columns()),
            )
            write = self._row
            entries = self._in_order_of_rows(entries)
        else:
            if shape is Shape.OBJECT:
                name, api_version = self._kind.name, self._kind.api_version(self._version.name)
                write = self._item
            else:
                name, api_version = "PartialObjectMetadata", self._meta_version
                write = self._partial
            head = type_bytes(f"{name}List", api_version)
            head += b'"metadata":%b,"items":[' % encode(metadata)
        if shape is Shape.METADATA_LIST and not entries:
            yield head.removesuffix(b"[") + b"null}"
            return
        yield head
        separator = b""
        for some in pieces(entries):
            yield separator + b",".join(map(write, some))
            separator = b","
        yield LIST_END

    def event(self, type_: str, entry: Entry) -> bytes:
        """A line of a watch."""
        is_unconverted = self._form.shape is Shape.METADATA_LIST
        document = self._object(entry) if is_unconverted else self.document(entry)
        self._has_columns = True
        return b'{"type":"%b","object":%b}\n' % (type_.encode(), document)

    def bookmark(self, resource_version: int, *, is_end_of_initial: bool) -> bytes:
        """The line of a watch that says how far it has come."""
        metadata: Object = {"resourceVersion": str(resource_version)}
        if is_end_of_initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj = self._empty(metadata)
        self._has_columns = True
        return b'{"type":"BOOKMARK","object":%b}\n' % encode(obj)

    def _empty(self, metadata: Object) -> Object:
        """An object without content in the form of the events."""
        if self._form.shape is Shape.OBJECT:
            name, api_version = self._kind.name, self._kind.api_version(self._version.name)
            empty = canonical(self._version.schema, {})
            return {**empty, "kind": name, "apiVersion": api_version, "metadata": metadata}
        partial = {
            "kind": "PartialObjectMetadata",
            "apiVersion": self._meta_version,
            "metadata": metadata,
        }
        if self._form.shape is not Shape.TABLE:
            return partial
        content = {**canonical(self._kind.storage.schema, {}), "metadata": {"name": ""}}
        cells = list(self._kind.cells(content, self._now_s))
        return {
            "kind": "Table",
            "apiVersion": self._meta_version,
            "metadata": {"resourceVersion": metadata["resourceVersion"]},
            "columnDefinitions": self._columns(),
            "rows": [{"cells": cells, "object": partial}],
        }

    def _columns(self) -> Sequence[Column] | None:
        """The column definitions of a Table; only the first Table of a watch has them."""
        return None if self._has_columns else self._kind.columns

    def _in_order_of_rows(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The objects in the order of rows, which is for readers."""
        kind = self._kind
        if kind.row_order is None or len(entries) <= 1:
            return entries
        row_order = kind.row_order
        return sorted(entries, key=lambda entry: row_order(decoded(kind, entry)))

    def _object(self, entry: Entry) -> bytes:
        return self._type + self._item(entry)[1:]

    def _item(self, entry: Entry) -> bytes:
        if self._is_stored:
            return entry.data
        obj = in_version(self._kind, self._version, entry)
        del obj["kind"], obj["apiVersion"]
        return encode(obj)

    def _partial(self, entry: Entry) -> bytes:
        return self._partial_type + b'"metadata":%b}' % bytes(
            METADATA_DECODER.decode(entry.data).metadata
        )

    def _row(self, entry: Entry) -> bytes:
        obj = decoded(self._kind, entry)
        row = b'{"cells":' + encode(list(self._kind.cells(obj, self._now_s)))
        if conditions := self._kind.row_conditions(obj):
            row += b',"conditions":' + encode(conditions)
        if self._include == "None":
            return row + b',"object":null}'
        shown = self._partial(entry) if self._include == "Metadata" else self._object(entry)
        return b'%b,"object":%b}' % (row, shown)


def not_convertible(shape: Shape, what: str) -> StatusError:
    """406: the answer cannot be converted to what the client asks for."""
    message = f"you requested {shape.value}, but the requested object {what}"
    return StatusError(406, "NotAcceptable", message)


def type_bytes(kind: str, api_version: str) -> bytes:
    """The beginning of an object, up to its metadata."""
    return b'{"kind":%b,"apiVersion":%b,' % (encode(kind), encode(api_version))


def indented(body: bytes) -> bytes:
    """JSON for people."""
    return msgspec.json.format(body, indent=2) + b"\n"


def indented_list(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """A list for people, in parts as `Renderer.list_chunks` gives them."""
    yield msgspec.json.format(next(chunks) + LIST_END, indent=2).removesuffix(b"]\n}")
    has_items = False
    for chunk in chunks:
        if chunk == LIST_END:
            break
        # Formatted as a document, of which only the items are kept.
        laid_out = msgspec.json.format(
            b'{"":[%b%b' % (chunk.removeprefix(b","), LIST_END), indent=2
        )
        items = laid_out.removeprefix(b'{\n  "": [').removesuffix(b"\n  ]\n}")
        yield b"," + items if has_items else items
        has_items = True
    yield b"\n  ]\n}\n" if has_items else b"]\n}\n"


class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes text as Go's YAML does."""


def represent_text(dumper: Dumper, text: str) -> yaml.Node:
    """Text in double quotes if it would be read as something else, in a block if it has lines."""
    style = None
    if "\n" in text:
        style = "|"
    elif (
        ELSEWHERE_NO_TEXT.fullmatch(text)
        or dumper.resolve(yaml.ScalarNode, text, (True, False)) not in TEXTS
    ):
        style = '"'
    node: yaml.Node = dumper.represent_scalar(TEXT, text, style)
    return node


Dumper.add_representer(str, represent_text)


def as_yaml(body: bytes) -> bytes:
    """The JSON document as YAML."""
    text: str = yaml.dump(
        json.loads(body), Dumper=Dumper, default_flow_style=False, allow_unicode=True
    )
    return text.encode()


def yaml_list(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """A list as YAML, of the parts of `list_chunks`; each takes tens of milliseconds to make."""
    head: Object = json.loads(next(chunks) + LIST_END)
    name = next(reversed(head))  # of the items, for now an empty list
    before = {key: value for key, value in head.items() if key < name}
    after = {key: value for key, value in head.items() if key > name}
    yield as_yaml(encode(before)) + name.encode()
    start = b":\n"
    for chunk in chunks:
        if chunk == LIST_END:
            break
        yield start + as_yaml(b"[%b]" % chunk.removeprefix(b","))
        start = b""
    yield (b": []\n" if start else b"") + (as_yaml(encode(after)) if after else b"")


def pieces(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Objects in order, as many at a time as are written at once."""
    start = size = 0
    for end, entry in enumerate(entries, 1):
        size += len(entry.data)
        if end - start == CHUNK_ITEMS or size >= CHUNK_BYTES:
            yield entries[start:end]
            start, size = end, 0
    if start < len(entries):
        yield entries[start:]
