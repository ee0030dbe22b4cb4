"""Objects, lists and events as the bytes of responses, in every form that clients ask for.

Objects are stored as JSON of the storage version, so most responses are stored bytes joined
together; only other versions, Tables and YAML are encoded.

Source: Kubernetes documentation, "API Concepts", "Receiving resources as Tables".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from apfproxy.apiserver.errors import StatusError, bad_request
from apfproxy.apiserver.outcomes import decoded, in_version
from apfproxy.apiserver.responses import LIST_END, META_GROUP, Form, Shape, encode
from apfproxy.apiserver.schema.reading import canonical
from apfproxy.objects.field_errors import invalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apfproxy.apiserver.kind import Kind, Version
    from apfproxy.apiserver.store.entries import Entry
    from apfproxy.objects.types import Object

CHUNK_ITEMS = 64
"""Items of a list that are joined before they are written: about 64 KiB of usual objects."""
CHUNK_BYTES = 256 * 1024
"""Bytes that are joined at most, or one object."""
PARTIAL = Shape.METADATA.value
INCLUDED = ("", "None", "Metadata", "Object")
"""What a row of a Table includes of its object; "" is `Metadata`."""


class OnlyMetadata(msgspec.Struct):
    metadata: msgspec.Raw


decode_metadata = msgspec.json.Decoder(OnlyMetadata).decode


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
        self._is_table = form.shape is Shape.TABLE
        if self._is_table and include not in INCLUDED:
            rule = "must be 'Metadata', 'Object', 'None', or empty"
            wrong = invalid("includeObject", include, rule)
            raise bad_request(f"Unable to convert to Table as requested: {wrong}")
        self._kind, self._version = kind, version
        self._shape = shape = form.shape
        self._include = include or "Metadata"
        self._now_s = now_s
        self._has_columns = False
        self._is_stored = version is kind.storage
        self._go_type = f"*{kind.group.partition('.')[0] or 'core'}.{kind.name}"
        # Kinds may share objects, and the names of their versions.
        self._api_version = kind.api_version(version.name)
        self._type = _type_bytes(kind.name, self._api_version)
        key = f"{self._api_version} {shape.value} {form.meta_version}"
        self.cache_key = "" if self._is_table else key
        self._meta_version = f"{META_GROUP}/{form.meta_version}"
        self._partial_type = _type_bytes(PARTIAL, self._meta_version)

    def document(self, entry: Entry) -> bytes:
        if self._is_table:
            version = entry.resource_version
            metadata = {"resourceVersion": str(version)} if version else {}
            return b"".join(self._chunks([entry], metadata))
        if self._shape is Shape.METADATA_LIST:
            raise self._not_convertible(f"is not a list ({self._go_type})")
        return self._object(entry) if self._shape is Shape.OBJECT else self._partial(entry)

    def list_chunks(self, entries: Sequence[Entry], metadata: Object) -> Iterator[bytes]:
        """A list in parts; StatusError 406, at once, if a list has no such form."""
        if self._shape is Shape.METADATA:
            raise self._not_convertible(f"is a list ({self._go_type}List)")
        return self._chunks(entries, metadata)

    def _not_convertible(self, what: str) -> StatusError:
        message = f"you requested {self._shape.value}, but the requested object {what}"
        return StatusError(406, "NotAcceptable", message)

    def _chunks(self, entries: Sequence[Entry], metadata: Object) -> Iterator[bytes]:
        if self._is_table:
            write, head = self._row, _type_bytes("Table", self._meta_version)
            rest = b',"columnDefinitions":%b,"rows":[' % encode(self._columns())
            row_order = self._kind.row_order
            if row_order is not None and len(entries) > 1:
                entries = sorted(entries, key=lambda entry: row_order(decoded(self._kind, entry)))
        elif self._shape is Shape.OBJECT:
            head = _type_bytes(f"{self._kind.name}List", self._api_version)
            write, rest = self._item, b',"items":['
        else:
            head = _type_bytes(f"{PARTIAL}List", self._meta_version)
            write, rest = self._partial, b',"items":[' if entries else b',"items":null}'
        yield head + b'"metadata":' + encode(metadata) + rest
        separator = b""
        for some in pieces(entries):
            yield separator + b",".join(map(write, some))
            separator = b","
        if not rest.endswith(b"}"):
            yield LIST_END

    def event(self, type_: str, entry: Entry) -> bytes:
        is_unconverted = self._shape is Shape.METADATA_LIST
        document = self._object(entry) if is_unconverted else self.document(entry)
        self._has_columns = True
        return b'{"type":"%b","object":%b}\n' % (type_.encode(), document)

    def bookmark(self, resource_version: int, *, is_end_of_initial: bool) -> bytes:
        """The line of a watch that says how far it has come."""
        metadata: Object = {"resourceVersion": str(resource_version)}
        if is_end_of_initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj: Object = {"kind": PARTIAL, "apiVersion": self._meta_version, "metadata": metadata}
        if self._shape is Shape.OBJECT:
            type_ = {"kind": self._kind.name, "apiVersion": self._api_version}
            obj = {**canonical(self._version.schema, {}), **type_, "metadata": metadata}
        elif self._is_table:
            content = {**canonical(self._kind.storage.schema, {}), "metadata": {"name": ""}}
            cells = list(self._kind.cells(content, self._now_s))
            obj = {
                "kind": "Table",
                "apiVersion": self._meta_version,
                "metadata": {"resourceVersion": metadata["resourceVersion"]},
                "columnDefinitions": self._columns(),
                "rows": [{"cells": cells, "object": obj}],
            }
        self._has_columns = True
        return b'{"type":"BOOKMARK","object":%b}\n' % encode(obj)

    def _columns(self) -> Sequence[Object] | None:
        """The column definitions of a Table; only the first Table of a watch has them."""
        return None if self._has_columns else [one.definition for one in self._kind.columns]

    def _object(self, entry: Entry) -> bytes:
        return self._type + self._item(entry)[1:]

    def _item(self, entry: Entry) -> bytes:
        if self._is_stored:
            return entry.data
        obj = in_version(self._kind, self._version, entry)
        del obj["kind"], obj["apiVersion"]
        return encode(obj)

    def _partial(self, entry: Entry) -> bytes:
        return b'%b"metadata":%b}' % (self._partial_type, decode_metadata(entry.data).metadata)

    def _row(self, entry: Entry) -> bytes:
        obj = decoded(self._kind, entry)
        row = b'{"cells":' + encode(list(self._kind.cells(obj, self._now_s)))
        if conditions := self._kind.row_conditions(obj):
            row += b',"conditions":' + encode(conditions)
        if self._include == "None":
            return row + b',"object":null}'
        shown = self._partial(entry) if self._include == "Metadata" else self._object(entry)
        return b'%b,"object":%b}' % (row, shown)


def _type_bytes(kind: str, api_version: str) -> bytes:
    return b'{"kind":%b,"apiVersion":%b,' % (encode(kind), encode(api_version))


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
