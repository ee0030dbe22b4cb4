"""Splits a file into its YAML or JSON documents, as plain data with the lines they begin at.

YAML is read as Kubernetes' tools do: version 1.1, but timestamps and sexagesimal numbers are
strings; from the parser's events, with no constructor that a tag could reach.  What could grow is
bounded: nodes count as often as aliases repeat them, and nesting is.  A key that occurs twice is
refused, because one of its values would be lost in silence.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import yaml

from apfproxy.objects.names import well_formed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LARGEST_INPUT_BYTES = 3 * 1024 * 1024
"""kube-apiserver accepts no larger body; the built-in objects together have 10 kB."""
MOST_DOCUMENTS = 10_000
"""Documents in one input; Kubernetes objects take some 200 bytes each at the least."""
LARGEST_LINED_BYTES = 256 * 1024
"""Bytes of JSON that is also read as YAML, for its lines: it takes ten times as long."""
DEEPEST = 100
"""Nested mappings and lists.  A List of FlowSchemas has 9, CustomResourceDefinitions beside them
have 50; the limit only keeps recursion safe."""
SOMETHING = re.compile(r"\S")
TEMPLATE = re.compile(r"\{\{|\{%")
STATEMENT = re.compile(r"^[ \t]*(\{\{|\{%)", re.MULTILINE)
UNRENDERED = "a template that was not rendered: render it first, such as by helm template"

LONGEST_NUMBER = 60
"""Characters of a number; longer ones stay strings, since their conversion takes quadratic time."""
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where PyYAML is built with it: ten times faster than the parser in Python."""
MOST_NODES = 1_000_000
"""Nodes of a text, each as often as aliases repeat it; 3 MB of objects have 300 000."""
MOST_PATHS = 100
"""Fields of one document that messages name: Kubernetes' limit."""
LONGEST_PATHS = 1024 * 1024
"""Characters of their paths together, after which no more are named."""
MERGE = "<<"
"""The key of a mapping, or a list of them, with what the mapping around it lacks."""
STRING_TAGS = frozenset({None, "!", "tag:yaml.org,2002:str"})
COLLECTION_TAGS = frozenset({None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})
CONSTANTS: dict[str, bool | None] = {
    text: value
    for words, value in ((" ~ null", None), ("true y yes on", True), ("false n no off", False))
    for word in words.split(" ")
    for text in (word, word.capitalize(), word.upper())
}
DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
OCTAL = re.compile(r"([-+]?)0o?([0-7][0-7_]*)")
RADIX = re.compile(r"[-+]?0(x[0-9a-fA-F][0-9a-fA-F_]*|b[01][01_]*)")
FLOAT = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+][0-9]+)?")


class UnreadableError(ValueError):
    """The text breaks a rule of YAML, JSON or this program, in a line counted from 1 if known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Mapping(dict[str, object]):
    """A mapping with the lines of itself and its keys; parsers of JSON make plain ones."""

    __slots__ = ("key_lines", "line")

    def __init__(self, line: int) -> None:
        self.line = line
        self.key_lines: dict[str, int] = {}


class Sequence(list[object]):
    __slots__ = ("item_lines",)

    def __init__(self) -> None:
        super().__init__()
        self.item_lines: list[int] = []


class Extent:
    """Counts the nodes of a text, and refuses one that is too much with its aliases written out.

    Attributes:
        _known: By anchor the nodes of what it names, and how deep they are nested.
        _open: Collections that have begun: anchor, nodes before it, and nesting within it so far.
    """

    def __init__(self, most_nodes: int, deepest: int) -> None:
        self._most_nodes = most_nodes
        self._deepest = deepest
        self._nodes = 0
        self._known: dict[str, tuple[int, int]] = {}
        self._open: list[tuple[str | None, int, int]] = []

    def count(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):  # most of them
            self._nodes += 1
            if self._nodes > self._most_nodes or event.anchor is not None:
                self._add(event, 0, 0)
                self._close(event.anchor, 1, 0)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._add(event, 1, 1)
            self._open.append((event.anchor, self._nodes - 1, 0))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before, depth = self._open.pop()
            self._close(anchor, self._nodes - before, depth + 1)
        elif isinstance(event, yaml.AliasEvent):
            if any(event.anchor == anchor for anchor, _, _ in self._open):
                self._refuse(event, f"alias *{event.anchor} is within what it stands for")
            # One that is not known is refused by the reader.
            size, depth = self._known.get(event.anchor or "", (1, 0))
            self._add(event, size, depth)
            self._close(None, size, depth)

    def _add(self, event: yaml.Event, size: int, depth: int) -> None:
        self._nodes += size
        if self._nodes > self._most_nodes:
            self._refuse(event, f"more than {self._most_nodes} values, with aliases written out")
        if len(self._open) + depth > self._deepest:
            self._refuse(event, "nested too deeply")

    def _close(self, anchor: str | None, size: int, depth: int) -> None:
        if anchor is not None:
            self._known[anchor] = size, depth
        if self._open:
            outer, before, known = self._open[-1]
            self._open[-1] = outer, before, max(known, depth)

    def _refuse(self, event: yaml.Event, problem: str) -> NoReturn:
        assert event.start_mark is not None, "the event was read"
        raise UnreadableError(problem, event.start_mark.line + 1)


class BoundedComposer(yaml.SafeLoader):
    def __init__(self, data: bytes, extent: Extent) -> None:
        super().__init__(data)
        self._extent = extent

    def get_event(self) -> yaml.Event:
        event: yaml.Event = super().get_event()  # type: ignore[no-untyped-call]
        self._extent.count(event)
        return event


def compose(data: bytes, most_nodes: int, deepest: int) -> yaml.Node | None:
    """The node of a document, which knows its lines and has keys that stand twice; None of nothing.

    An `UnreadableError` says that it is no YAML, or too much of it.
    """
    try:
        return BoundedComposer(data, Extent(most_nodes, deepest)).get_single_node()
    except UnreadableError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        raise unreadable(error) from error


def unreadable(error: yaml.YAMLError | ValueError) -> UnreadableError:
    mark = getattr(error, "problem_mark", None)
    reason = getattr(error, "problem", None) or getattr(error, "context", None)
    message = f"not YAML: {reason or str(error).splitlines()[0]}"
    return UnreadableError(message, mark.line + 1 if mark else None)


class FieldPaths:
    """The paths of fields that messages name: each once, in order, until they are many or long.

    A path comes as pieces, which are joined only then: a long key may have many fields below it.
    """

    def __init__(self) -> None:
        self._paths: dict[str, None] = {}
        self._characters = 0

    @property
    def is_full(self) -> bool:
        return len(self._paths) >= MOST_PATHS or self._characters >= LONGEST_PATHS

    def add(self, pieces: tuple[str, ...]) -> None:
        if not self.is_full:
            path = "".join(pieces)
            self._paths[path] = None
            self._characters += len(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)


def yaml_documents(
    text: str,
    deepest: int,
    duplicates: FieldPaths | None = None,
    *,
    has_aliases: bool = False,
    is_forgiven: Callable[[object], bool] | None = None,
    most_nodes: int = MOST_NODES,
    most_objects: int = MOST_NODES,
) -> Iterator[tuple[object, int]]:
    """The documents of a text, each with the line where it begins.

    Args:
        text: YAML.
        deepest: Mappings and lists that may be nested.
        duplicates: Gets the paths of keys that occur twice, of which the last value counts; None to
            refuse them.
        has_aliases: Whether aliases and the merge key are taken; what they stand for is shared.
        is_forgiven: Whether a document may have tags, and keys that occur twice; None for none.
        most_nodes: Keys, values, lists and mappings, each as often as aliases repeat it.
        most_objects: Mappings and nulls, of which aliases repeat none.

    Besides `UnreadableError` it raises what the parser raises: `yaml.YAMLError` or `ValueError`.
    """
    reader = Reader(text, duplicates, Extent(most_nodes, deepest), has_aliases=has_aliases)
    reader.most_objects = most_objects
    reader.forgives = is_forgiven is not None
    while not reader.loader.check_event(yaml.StreamEndEvent):
        if isinstance(reader.take(), yaml.DocumentStartEvent):
            reader.anchored.clear()
            line = reader.next_line()
            content = reader.node()
            if (flaw := reader.flaw) is not None:
                assert is_forgiven is not None, "else it was raised"
                reader.flaw = None
                if not is_forgiven(content):
                    raise flaw
            yield content, line


class Reader:
    def __init__(
        self, text: str, duplicates: FieldPaths | None, extent: Extent, *, has_aliases: bool
    ) -> None:
        self.duplicates = duplicates
        self.has_aliases = has_aliases
        self.forgives = False
        self.flaw: UnreadableError | None = None
        self.anchored: dict[str, object] = {}
        self.loader: Any = LOADER(text)
        self.extent = extent
        self.most_objects = MOST_NODES
        self.objects = 0

    def blame(self, message: str, line: int) -> None:
        """Refuse a document, at once or, if it may be forgiven, at its end."""
        error = UnreadableError(message, line)
        if not self.forgives:
            raise error
        self.flaw = self.flaw or error

    def take(self) -> yaml.Event:
        event: yaml.Event = self.loader.get_event()
        self.extent.count(event)
        return event

    def next_line(self) -> int:
        return int(self.loader.peek_event().start_mark.line) + 1

    def node(self, path: tuple[str, ...] = ()) -> object:
        """The next node, at a path of pieces such as `spec`, `.rules`, `[0]`, and all below it."""
        line = self.next_line()
        event = self.take()
        if isinstance(event, yaml.AliasEvent):
            return self.alias(str(event.anchor), line)
        assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
        is_scalar = isinstance(event, yaml.ScalarEvent)
        if event.tag not in (STRING_TAGS if is_scalar else COLLECTION_TAGS):
            self.blame(f"tag {event.tag} is not supported: leave it out", line)
        value: object
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
            self.objects += value is None
        elif isinstance(event, yaml.MappingStartEvent):
            self.objects += 1
            value = self.mapping(line, path)
        else:
            value = self.sequence(path)
        if self.objects > self.most_objects:
            raise UnreadableError(f"more than {self.most_objects} mappings and nulls", line)
        if event.anchor is not None:
            self.anchored[event.anchor] = value
        return value

    def alias(self, anchor: str, line: int) -> object:
        if not self.has_aliases:
            raise UnreadableError(f"alias *{anchor} is not supported: write the value out", line)
        if anchor not in self.anchored:
            raise UnreadableError(f"alias *{anchor}: there is no &{anchor} before it", line)
        return self.anchored[anchor]

    def sequence(self, path: tuple[str, ...]) -> Sequence:
        items = Sequence()
        while not self.loader.check_event(yaml.SequenceEndEvent):
            items.item_lines.append(self.next_line())
            items.append(self.node((*path, f"[{len(items)}]")))
        self.take()
        return items

    def mapping(self, line: int, path: tuple[str, ...]) -> Mapping:
        members = Mapping(line)
        merged: list[Mapping] = []
        while not self.loader.check_event(yaml.MappingEndEvent):
            at = self.next_line()
            if self.has_aliases and _is_merge(self.loader.peek_event()):
                self.take()
                merged += _mappings(self.node(), at)
                continue
            key = _key_text(self.node(), at)
            below = (*path, f".{key}" if path else key)
            if key in members:
                if self.duplicates is None:
                    shown = json.dumps(key[:60])
                    self.blame(f"key {shown} occurs twice in one mapping: keep one", at)
                else:
                    self.duplicates.add(below)
            members.key_lines[key] = at
            members[key] = self.node(below)
        self.take()
        for each in merged:
            for key in each.keys() - members.keys():
                members.key_lines[key] = each.key_lines[key]
                members[key] = each[key]
        return members


def _is_merge(event: yaml.Event) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.value == MERGE and event.implicit[0]


def _mappings(value: object, line: int) -> list[Mapping]:
    values = value if isinstance(value, list) else [value]
    found = [each for each in values if isinstance(each, Mapping)]
    if len(found) == len(values):
        return found
    raise UnreadableError("<< takes a mapping, or a list of them", line)


def _key_text(key: object, line: int) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise UnreadableError("a key must be a plain value", line)


def _scalar(event: yaml.ScalarEvent) -> object:
    text = well_formed(event.value)
    if event.tag is not None or not event.implicit[0]:
        return text
    if text in CONSTANTS:
        return CONSTANTS[text]
    if len(text) > LONGEST_NUMBER:
        return text
    digits = text.replace("_", "")
    if DECIMAL.fullmatch(text):
        return int(digits)
    if octal := OCTAL.fullmatch(digits):
        return int(octal[1] + octal[2], 8)
    if RADIX.fullmatch(text):
        return int(digits, 0)
    if FLOAT.fullmatch(text):
        value = float(text)
        # Without a fraction it becomes an integer, as on the way through JSON of Kubernetes' tools.
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return text


class Document(msgspec.Struct, frozen=True):
    content: object
    line: int


def split_documents(
    data: bytes, is_forgiven: Callable[[object], bool] | None = None
) -> tuple[list[Document], UnreadableError | None]:
    """Read YAML documents, or JSON values one after another, in UTF-8, UTF-16 or UTF-32.

    Returns the documents that have content, up to the first that cannot be read, and why that one
    cannot.  For `is_forgiven` see `yaml_documents`.
    """
    if len(data) > LARGEST_INPUT_BYTES:
        message = f"too large: {len(data)} bytes, at most {LARGEST_INPUT_BYTES} are read: split it"
        return [], UnreadableError(message)
    encoding = json.detect_encoding(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        name = encoding.removesuffix("-sig").upper()
        line = data.count(b"\n", 0, error.start) + 1
        message = f"not {name}: {error.reason} at byte {error.start}: save it as UTF-8"
        return [], UnreadableError(message, line)
    documents: list[Document] = []
    try:
        if not text.lstrip().startswith("{"):
            _read_yaml(text, documents, is_forgiven)
            return documents, None
        try:
            _read_json(text, documents)
            return _with_lines(text, documents), None
        except UnreadableError:
            # A YAML mapping may begin with a brace, too.  If it is not that either, the complaint
            # about JSON helps more.
            flow_style: list[Document] = []
            with suppress(UnreadableError):
                _read_yaml(text, flow_style, is_forgiven)
                return flow_style, None
            raise
    except UnreadableError as error:
        return documents, _explained(error, text)
    return documents, None


def _explained(error: UnreadableError, text: str) -> UnreadableError:
    line = error.line or 1
    wrong = text.splitlines()[max(0, line - 2) : line] or [""]
    if (template := STATEMENT.search(text)) is not None:
        line = text.count("\n", 0, template.start()) + 1
        return UnreadableError(f"{template[1]} is of {UNRENDERED}", line)
    for number, each in enumerate(wrong, line - len(wrong) + 1):
        if (template := TEMPLATE.search(each)) is not None:
            return UnreadableError(f"{template[0]} is of {UNRENDERED}", number)
    if "\t" in wrong[-1][: -len(wrong[-1].lstrip()) or None] and str(error).startswith("not YAML"):
        return UnreadableError(f"{error}: indent by spaces, not by tabs", error.line)
    return error


def _read_json(text: str, documents: list[Document]) -> None:
    line, counted, end = 1, 0, 0
    while something := SOMETHING.search(text, end):
        position = something.start()
        line += text.count("\n", counted, position)
        counted = position
        try:
            content, end = DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise UnreadableError(f"not JSON: {error.msg}", error.lineno) from error
        except RecursionError as error:
            raise UnreadableError("nested too deeply", line) from error
        except UnreadableError as error:
            raise UnreadableError(str(error), line) from error
        except ValueError as error:
            raise UnreadableError("a number is too long", line) from error
        if is_deep(content, DEEPEST):
            raise UnreadableError(f"nested more than {DEEPEST} deep", line)
        _append(documents, encodable(content), line)


def _with_lines(text: str, documents: list[Document]) -> list[Document]:
    """A single small document of JSON, with the lines of its fields from its YAML."""
    if len(documents) != 1 or len(text) > LARGEST_LINED_BYTES:
        return documents
    lined: list[Document] = []
    with suppress(UnreadableError):
        _read_yaml(text, lined)
    # Only their text tells 1 from 1.0 and from true.
    is_same = len(lined) == 1 and repr(lined[0].content) == repr(documents[0].content)
    return [Document(lined[0].content, documents[0].line)] if is_same else documents


def _read_yaml(
    text: str, documents: list[Document], is_forgiven: Callable[[object], bool] | None = None
) -> None:
    try:
        for each, line in yaml_documents(text, DEEPEST, has_aliases=True, is_forgiven=is_forgiven):
            if each is not None:
                _append(documents, each, line)
    except UnreadableError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        raise unreadable(error) from error


def _append(documents: list[Document], content: object, line: int) -> None:
    if len(documents) >= MOST_DOCUMENTS:
        raise UnreadableError(f"more than {MOST_DOCUMENTS} documents: split it", line)
    documents.append(Document(content, line))


def _unique_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for key, value in pairs:
        if key in members:
            shown = json.dumps(key[:60])
            raise UnreadableError(f"key {shown} occurs twice in one object: keep one")
        members[key] = value
    return members


def _refuse_constant(name: str) -> object:
    raise UnreadableError(f"not JSON: {name}")


DECODER = json.JSONDecoder(object_pairs_hook=_unique_members, parse_constant=_refuse_constant)


def encodable(content: object) -> object:
    """The content with lone surrogates replaced: JSON can escape them, no encoding holds them."""
    if isinstance(content, str):
        return well_formed(content)
    if isinstance(content, list):
        return [encodable(each) for each in content]
    if isinstance(content, dict):
        return {well_formed(key): encodable(value) for key, value in content.items()}
    return content


def is_deep(content: object, deepest: int) -> bool:
    level: list[object] = [content]
    for _ in range(deepest + 1):
        level = [
            child
            for each in level
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)
