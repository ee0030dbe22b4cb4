"""Responses: their form, chosen from the client's Accept field; objects, lists and events as bytes.

Kubernetes looks at `Accept` twice.  The router knows whole media types only and no weights: neither
`application/*` nor other cases of letters.  The handler then takes the first of the choices, by
weight, that it can write in the shape that is asked for.

Objects are stored as JSON of the storage version, so most responses are stored bytes joined
together; only other versions, Tables and YAML are encoded.

Sources: Kubernetes documentation, "API Concepts"; go-restful's `matchesAccept`; apiserver's
`endpoints/handlers/{negotiation,responsewriters}`; goautoneg.
"""

from __future__ import annotations

import asyncio
import enum
import json
import logging
import re
import zlib
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import yaml
from aiohttp import web

from apfproxy.apiserver.errors import StatusError, bad_request
from apfproxy.apiserver.outcomes import decoded, in_version
from apfproxy.apiserver.schema.reading import canonical
from apfproxy.http.grammar import accepted, weight_of
from apfproxy.objects.field_errors import invalid
from apfproxy.objects.names import well_formed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from apfproxy.apiserver.kind import Kind, Version
    from apfproxy.apiserver.store.entries import Entry
    from apfproxy.http.grammar import Accepted
    from apfproxy.objects.types import Object

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
AVAILABLE = (JSON, YAML, PROTOBUF)
"""As Kubernetes names them; protobuf is only read here, so clients get their next choice."""
EVENTS = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
STREAMED = (*AVAILABLE, *EVENTS)
"""Media types where a request may be a watch."""
WRITTEN = (JSON, YAML)

META_GROUP, META_VERSIONS = "meta.k8s.io", ("v1", "v1beta1")
MOST_SORTED_BY_INSERTION = 12
"""Choices; Go sorts more of them by another algorithm."""

LONGEST_REMEMBERED = 512
"""Characters of an `Accept` whose choices are remembered: a long one has thousands."""
UNCACHED = "no-cache, private"
"""`Cache-Control` of responses that only their client may see."""
COMPRESSED_BYTES = 128 * 1024
"""Responses of this size and more are compressed for clients that accept it, as in Kubernetes."""
GZIP_LEVEL = 1
GZIP_WINDOW = 31
"""Tells zlib to use gzip's framing."""
GZIP_HEADERS = [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
STREAMED_ITEMS = 256
"""Lists of so many items and more are written in parts, to keep memory bounded."""
STREAMED_BYTES = 4 * 1024 * 1024
"""So are lists of so many bytes: many clients may read slowly, each its own list."""
TOOLS = ("curl", "Wget", "Mozilla/5.0")
"""Beginnings of the names of clients that people read: they get indented JSON."""
LONGEST_WARNINGS = 4096
"""Characters of all warnings of a response together; Kubernetes' limit."""
CUT_WARNING = 256
"""Characters of each warning if all together exceed the limit."""
WARNINGS: ContextVar[list[str] | None] = ContextVar("warnings", default=None)
"""Warnings for the client of the request, sent with its response, success or failure."""

LIST_END = b"]}"
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
TEXT = "tag:yaml.org,2002:str"
TEXTS = frozenset({TEXT, "tag:yaml.org,2002:yaml"})
"""Tags of plain text; that of the second is always quoted."""
ELSEWHERE_NO_TEXT = re.compile(r"[yYnN]|0o[0-7]+|[-+]?[0-9]*\.?[0-9]+([eE][-+][0-9]+)?")
"""Text that other YAML readers, such as Go's, take for another type."""

encode = msgspec.json.encode
log = logging.getLogger(__name__)


class Shape(enum.Enum):
    OBJECT = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


ALL_SHAPES = frozenset(Shape)
WITHOUT_TABLE = ALL_SHAPES - {Shape.TABLE}


@dataclass(frozen=True, slots=True)
class Form:
    """A form of responses: JSON or YAML, of a shape in a version of `meta.k8s.io`."""

    media_type: str = JSON
    shape: Shape = Shape.OBJECT
    meta_version: str = META_VERSIONS[0]

    @property
    def is_yaml(self) -> bool:
        return self.media_type == YAML


AS_JSON = Form()


class Choice(NamedTuple):
    """One of the choices of a client; type and subtype are `*` for any."""

    type: str
    subtype: str
    quality: float
    parameters: dict[str, str]

    def written(self) -> tuple[str, ...]:
        """The media types that this server writes and the choice stands for, the best first."""
        if self.subtype == "*" and self.type in {"*", "application"}:
            return WRITTEN
        name = f"{self.type}/{self.subtype}"
        return (name,) if name in WRITTEN else ()

    @property
    def converts_to(self) -> tuple[str, str, str] | None:
        """Group, version and kind that objects are to be converted to; None for none."""
        values = self.parameters
        if not values.keys() & {"g", "v", "as"}:
            return None
        return values.get("g", ""), values.get("v", ""), values.get("as", "")


def check_route(accept: str, available: tuple[str, ...] = AVAILABLE) -> None:
    """Raise 406 unless a client accepts one of the available media types by name."""
    for choice in (accept or "*/*").split(","):
        name = choice.partition(";")[0].strip(" ")
        if name == "*/*" or name in available:
            return
    message = f"406: Not Acceptable\n\nAvailable representations: {', '.join(available)}"
    raise StatusError(406, "NotAcceptable", message, {})


def choices(accept: str) -> tuple[Choice, ...]:
    """The choices, the best first; those of usual clients are remembered."""
    return _known_choices(accept) if len(accept) <= LONGEST_REMEMBERED else _choices(accept)


def _choices(accept: str) -> tuple[Choice, ...]:
    found = [choice for each in accepted(accept) if (choice := _choice(each)) is not None]
    if len(found) > MOST_SORTED_BY_INSERTION:
        found.sort(key=lambda choice: (-choice.quality, choice.type == "*", choice.subtype == "*"))
        return tuple(found)
    # The comparison is no order: a may come before b and b before a.  So the result depends on the
    # algorithm, which is Go's insertion sort.
    for end in range(1, len(found)):
        place = end
        while place and _is_better(found[place], found[place - 1]):
            found[place - 1], found[place] = found[place], found[place - 1]
            place -= 1
    return tuple(found)


_known_choices = lru_cache(maxsize=256)(_choices)


def _choice(element: Accepted) -> Choice | None:
    """None for what is no media type."""
    type_, slash, subtype = (each.strip() for each in element.name.partition("/"))
    if type_ == "*" and not subtype:
        subtype = "*"
    elif not slash or not subtype or "/" in subtype:
        return None
    parameters = {key: value for key, value in element.parameters if value and "=" not in value}
    return Choice(type_, subtype, weight_of(parameters.pop("q", "1")), parameters)


def _is_better(one: Choice, other: Choice) -> bool:
    return (
        one.quality > other.quality
        or (one.type != "*" and other.type == "*")
        or (one.subtype != "*" and other.subtype == "*")
    )


def _form(media_type: str, choice: Choice, shapes: frozenset[Shape]) -> Form | None:
    """The form of a choice, which stands for a media type; None if it cannot be written."""
    stream = choice.parameters.get("stream")
    if stream and (stream != "watch" or media_type == YAML):
        return None
    if choice.parameters.get("sv", "") not in {"", *(META_VERSIONS[:1] if shapes else ())}:
        return None
    if (wanted := choice.converts_to) is None:
        return Form(media_type)
    group, version, kind = wanted
    shape = next((shape for shape in shapes if shape.value == kind), None)
    if group != META_GROUP or version not in META_VERSIONS or not kind or shape is None:
        return None
    return Form(media_type, shape, version)


def chosen(accept: str, *, shapes: frozenset[Shape] = frozenset(), streams: bool = False) -> Form:
    """The form of a response; StatusError 406 if nothing that the client accepts can be written.

    Args:
        accept: The field's value; "" for any form.
        shapes: Of `meta.k8s.io`, which objects can be converted to here.
        streams: Whether the response is a stream of events, which is never YAML.
    """
    if not accept:
        return AS_JSON
    for choice in choices(accept):
        for media_type in choice.written():
            form = _form(media_type, choice, shapes)
            if form is not None and not (streams and form.is_yaml):
                return form
    available = ", ".join(EVENTS if streams else AVAILABLE)
    message = f"only the following media types are accepted: {available}"
    raise StatusError(406, "NotAcceptable", message)


def wants_indented(request: web.Request, pretty: bool | None) -> bool:
    """Whether JSON is written for people: by the parameter, else by the client's name."""
    return request.headers.get("User-Agent", "").startswith(TOOLS) if pretty is None else pretty


def takes_gzip(request: web.Request) -> bool:
    return "gzip" in request.headers.get("Accept-Encoding", "")


def warn(texts: Iterable[str]) -> None:
    warnings = WARNINGS.get()
    assert warnings is not None, "each request begins with a list of its own"
    warnings.extend(texts)


def headers_for(form: Form) -> list[tuple[str, str]]:
    """The header fields of every response, and the warnings.

    A warning with a control character is left out: no header field may hold one.
    """
    headers = [("Content-Type", form.media_type), ("Cache-Control", UNCACHED)]
    warnings = [
        text for text in dict.fromkeys(WARNINGS.get() or ()) if CONTROL.search(text) is None
    ]
    if sum(map(len, warnings)) > LONGEST_WARNINGS:
        warnings = [warning[:CUT_WARNING] for warning in warnings]
    length = 0
    for warning in warnings:
        if length >= LONGEST_WARNINGS:
            break
        length += len(warning)
        escaped = well_formed(warning).replace("\\", "\\\\").replace('"', '\\"')
        headers.append(("Warning", f'299 - "{escaped}"'))
    return headers


async def document(
    request: web.Request, form: Form, body: bytes, *, status: int = 200, pretty: bool | None = None
) -> web.Response:
    """A response of a JSON document; `pretty` is the parameter, None if absent."""
    if not form.is_yaml and not wants_indented(request, pretty):
        body += b"\n"
    else:
        change = as_yaml if form.is_yaml else indented
        is_large = len(body) >= COMPRESSED_BYTES
        body = await asyncio.to_thread(change, body) if is_large else change(body)
    headers = headers_for(form)
    if len(body) >= COMPRESSED_BYTES and request.method == "GET" and takes_gzip(request):
        body = await asyncio.to_thread(zlib.compress, body, GZIP_LEVEL, GZIP_WINDOW)
        headers += GZIP_HEADERS
    return web.Response(body=body, status=status, headers=headers)


async def stream(request: web.Request, form: Form, chunks: Iterator[bytes]) -> web.StreamResponse:
    """Write a response while it is made; in a thread what has to decode the objects."""
    is_slow = form.is_yaml or form.shape is Shape.TABLE
    headers = headers_for(form)
    compressor = None
    if takes_gzip(request):
        compressor = zlib.compressobj(GZIP_LEVEL, wbits=GZIP_WINDOW)
        headers += GZIP_HEADERS

    async def write(response: web.StreamResponse) -> None:
        while True:
            chunk = await asyncio.to_thread(next, chunks, None) if is_slow else next(chunks, None)
            if chunk is None:
                break
            if data := compressor.compress(chunk) if compressor else chunk:
                await response.write(data)
            # Writing to a fast client never waits, so let other tasks run.
            await asyncio.sleep(0)
        if compressor:
            await response.write(compressor.flush())

    return await respond_in_parts(request, headers, write)


async def respond_in_parts(
    request: web.Request,
    headers: list[tuple[str, str]],
    write: Callable[[web.StreamResponse], Awaitable[None]],
) -> web.StreamResponse:
    """Send the status before the whole response is known.

    If `write` fails the connection is cut: a response that ends in order would seem complete.
    """
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    try:
        await write(response)
        await response.write_eof()
    except ConnectionError:
        log.debug("%s %s: the client left", request.method, request.path)
    except Exception:
        log.exception("%s %s: failed in the middle of the answer", request.method, request.path)
        if request.transport is not None:
            request.transport.abort()
    return response


async def failure(request: web.Request, error: StatusError) -> web.Response:
    try:
        form = chosen(request.headers.get("Accept", ""))
    except StatusError:
        form = AS_JSON
    response = await document(request, form, encode(error.status()), status=error.code)
    if error.retry_after_s:
        response.headers["Retry-After"] = str(error.retry_after_s)
    if error.code == HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="apfproxy"'
    return response


def indented(body: bytes) -> bytes:
    return msgspec.json.format(body, indent=2) + b"\n"


def indented_list(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """A list for people, in parts as `Renderer.list_chunks` gives them."""
    yield msgspec.json.format(next(chunks) + LIST_END, indent=2).removesuffix(b"]\n}")
    separator, end = b"", b"]\n}\n"
    for chunk in chunks:
        if chunk == LIST_END:
            break
        # Formatted as a document, of which only the items are kept.
        whole = b'{"":[%b%b' % (chunk.removeprefix(b","), LIST_END)
        items = msgspec.json.format(whole, indent=2).removeprefix(b'{\n  "": [')
        yield separator + items.removesuffix(b"\n  ]\n}")
        separator, end = b",", b"\n  ]\n}\n"
    yield end


class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes text as Go's YAML does."""


def _represent_text(dumper: Dumper, text: str) -> yaml.Node:
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


Dumper.add_representer(str, _represent_text)


def as_yaml(body: bytes) -> bytes:
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


CHUNK_ITEMS = 64
"""Items of a list that are joined before they are written: about 64 KiB of usual objects."""
CHUNK_BYTES = 256 * 1024
"""Bytes that are joined at most, or one object."""
DATA = attrgetter("data")
PARTIAL = Shape.METADATA.value
INCLUDED = ("", "None", "Metadata", "Object")
"""Holds what a row of a Table includes of its object; "" is `Metadata`."""


class OnlyMetadata(msgspec.Struct):
    metadata: msgspec.Raw


decode_metadata = msgspec.json.Decoder(OnlyMetadata).decode


class Renderer:
    """Writes the objects of one kind in one form, of the version that clients see.

    `include` is what a row of a Table carries, one of `INCLUDED`; `now_s` gives seconds since 1970,
    for ages.

    Attributes:
        cache_key: Of events that watchers share; "" for Tables, whose rows they share.
    """

    def __init__(
        self, kind: Kind, version: Version, form: Form, include: str, now_s: Callable[[], float]
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
            raise self._not_convertible("not a list", "")
        return self._object(entry) if self._shape is Shape.OBJECT else self._partial(entry)

    def list_chunks(self, entries: Sequence[Entry], metadata: Object) -> Iterator[bytes]:
        """A list in parts; StatusError 406, at once, if a list has no such form."""
        if self._shape is Shape.METADATA:
            raise self._not_convertible("a list", "List")
        return self._chunks(entries, metadata)

    def _not_convertible(self, what: str, ending: str) -> StatusError:
        type_ = f"*{self._kind.group.partition('.')[0] or 'core'}.{self._kind.name}{ending}"
        message = f"you requested {self._shape.value}, but the requested object is {what} ({type_})"
        return StatusError(406, "NotAcceptable", message)

    def _chunks(
        self,
        entries: Sequence[Entry],
        metadata: Object,
        row: Callable[[Entry], bytes] | None = None,
    ) -> Iterator[bytes]:
        if self._is_table:
            write, head = row or self._row, _type_bytes("Table", self._meta_version)
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
        is_data = self._shape is Shape.OBJECT and self._is_stored  # joined without a call for each
        for some in pieces(map(DATA, entries) if is_data else map(write, entries)):
            yield separator + b",".join(some)
            separator = b","
        if not rest.endswith(b"}"):
            yield LIST_END

    def event(self, type_: str, entry: Entry, encoded: dict[str, bytes] | None = None) -> bytes:
        """An event; its row of a Table is in `encoded`, which is of one change, or put there."""
        if self._is_table and encoded is not None:
            metadata = {"resourceVersion": str(entry.resource_version)}
            row = self._shared_row(type_, entry, encoded)
            document = b"".join(self._chunks([entry], metadata, lambda _: row))
        elif self._shape is Shape.METADATA_LIST:
            document = self._object(entry)
        else:
            document = self.document(entry)
        self._has_columns = True
        return b'{"type":"%b","object":%b}\n' % (type_.encode(), document)

    def bookmark(self, resource_version: int, *, is_end_of_initial: bool) -> bytes:
        metadata: Object = {"resourceVersion": str(resource_version)}
        if is_end_of_initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj: Object = {"kind": PARTIAL, "apiVersion": self._meta_version, "metadata": metadata}
        if self._shape is Shape.OBJECT:
            type_ = {"kind": self._kind.name, "apiVersion": self._api_version}
            obj = {**canonical(self._version.schema, {}), **type_, "metadata": metadata}
            if self._kind.scale_selector is not None and self._kind.group:
                obj["spec"]["replicas"] = 0  # it is no pointer inside kube-apiserver
        elif self._is_table:
            content = {**canonical(self._kind.storage.schema, {}), "metadata": {"name": ""}}
            cells = list(self._kind.cells(content, self._now_s()))
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

    def _shared_row(self, type_: str, entry: Entry, encoded: dict[str, bytes]) -> bytes:
        """A row that is made once in a second, for its ages."""
        key = f"{type_} {self._api_version} {self._meta_version} {self._include}"
        made_at, now = f"{key} at", b"%d" % self._now_s()
        if encoded.get(made_at) != now:
            encoded[key], encoded[made_at] = self._row(entry), now
        return encoded[key]

    def _row(self, entry: Entry) -> bytes:
        obj = decoded(self._kind, entry)
        row = b'{"cells":' + encode(list(self._kind.cells(obj, self._now_s())))
        if conditions := self._kind.row_conditions(obj):
            row += b',"conditions":' + encode(conditions)
        if self._include == "None":
            return row + b',"object":null}'
        shown = self._partial(entry) if self._include == "Metadata" else self._object(entry)
        return b'%b,"object":%b}' % (row, shown)


def _type_bytes(kind: str, api_version: str) -> bytes:
    return b'{"kind":%b,"apiVersion":%b,' % (encode(kind), encode(api_version))


def pieces(items: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Items in order, as many at a time as are written at once."""
    some: list[bytes] = []
    size = 0
    for item in items:
        some.append(item)
        size += len(item)
        if len(some) == CHUNK_ITEMS or size >= CHUNK_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
