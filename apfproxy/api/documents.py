"""Splits bytes into YAML or JSON documents, as plain data with the lines they begin at.

YAML is read as Kubernetes' tools read it (version 1.1, but timestamps and sexagesimal numbers are
strings), from parser events, with no constructor that a tag could reach.  Input that could grow is
refused: aliases (a few lines of them expand to gigabytes), deep nesting, and more than
`LARGEST_INPUT_BYTES`.  So is a key that occurs twice in a mapping, because one of the two values
would be lost in silence.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import yaml

from apfproxy.api.names import well_formed

LARGEST_INPUT_BYTES = 3 * 1024 * 1024
"""kube-apiserver accepts no larger body; the built-in objects together have 10 kB."""

MOST_DOCUMENTS = 10_000
"""In one input; Kubernetes objects take some 200 bytes each at the least."""

DEEPEST = 40
"""Nested mappings and lists.  A List of FlowSchemas has 9; the limit only keeps recursion safe."""

LONGEST_NUMBER = 60
"""Characters of a number; longer ones stay strings, since their conversion takes quadratic time."""

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where PyYAML is built with it: ten times faster than the parser in Python."""

STRING_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})

CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys(
        ["true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"], True
    ),
    **dict.fromkeys(
        ["false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF"], False
    ),
}
DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
OCTAL = re.compile(r"([-+]?)0o?([0-7][0-7_]*)")
RADIX = re.compile(r"[-+]?0(x[0-9a-fA-F][0-9a-fA-F_]*|b[01][01_]*)")
WHITESPACE = re.compile(r"\s*")
FLOAT = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+][0-9]+)?")


class SyntaxProblem(msgspec.Struct, frozen=True):
    """Why the bytes, or the rest of them, cannot be read."""

    message: str
    line: int | None = None
    """Counted from 1."""


class Document(msgspec.Struct, frozen=True):
    """One document."""

    content: object
    line: int
    """Where it begins, counted from 1."""


class Mapping(dict[str, object]):
    """A mapping that knows its lines; parsers of JSON make plain dictionaries.

    Attributes:
        line: Where it begins.
        key_lines: Where each of its keys stands.
    """

    __slots__ = ("key_lines", "line")

    def __init__(self, line: int) -> None:
        self.line = line
        self.key_lines: dict[str, int] = {}


class UnreadableError(ValueError):
    """The text breaks a rule of YAML, JSON or this module."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.problem = SyntaxProblem(message, line)


def split_documents(
    data: bytes, *, unique_keys: bool = True
) -> tuple[list[Document], SyntaxProblem | None]:
    """Read all documents.

    Args:
        data: UTF-8: YAML documents, or JSON values one after another.
        unique_keys: Whether to refuse a key that occurs twice.  kube-apiserver takes the
            last value, with a warning; in JSON it merges mappings.

    Returns:
        The documents that have content, up to the first that cannot be read; and why that one
        cannot.
    """
    if len(data) > LARGEST_INPUT_BYTES:
        message = f"too large: {len(data)} bytes, at most {LARGEST_INPUT_BYTES} are read: split it"
        return [], SyntaxProblem(message)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return [], SyntaxProblem(f"not UTF-8: {error.reason} at byte {error.start}")
    documents: list[Document] = []
    try:
        if text.lstrip().startswith("{"):
            try:
                read_json(text, documents, unique_keys=unique_keys)
            except UnreadableError:
                # A YAML mapping may begin with a brace, too.  If it is not that either, the
                # complaint about JSON helps more.
                flow_style: list[Document] = []
                try:
                    read_yaml(text, flow_style, unique_keys=unique_keys)
                except UnreadableError:
                    flow_style.clear()
                if not flow_style:
                    raise
                documents = flow_style
        else:
            read_yaml(text, documents, unique_keys=unique_keys)
    except UnreadableError as error:
        return documents, error.problem
    return documents, None


def read_json(text: str, documents: list[Document], *, unique_keys: bool) -> None:
    """Append the JSON values of the text to the documents.

    Raises:
        UnreadableError: At the first that cannot be read.
    """
    members = unique_members if unique_keys else merged_members
    decoder = json.JSONDecoder(object_pairs_hook=members, parse_constant=refuse_constant)
    line, counted, position = 1, 0, skip_whitespace(text, 0)
    while position < len(text):
        line += text.count("\n", counted, position)
        counted = position
        try:
            content, end = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise UnreadableError(f"not JSON: {error.msg}", error.lineno) from error
        except RecursionError as error:
            raise UnreadableError("nested too deeply", line) from error
        except UnreadableError as error:
            raise UnreadableError(str(error), line) from error
        except ValueError as error:
            raise UnreadableError("a number is too long", line) from error
        if is_deep(content):
            raise UnreadableError(f"nested more than {DEEPEST} deep", line)
        append(documents, Document(encodable(content), line))
        position = skip_whitespace(text, end)


def append(documents: list[Document], document: Document) -> None:
    """Append the document, if there is room."""
    if len(documents) >= MOST_DOCUMENTS:
        raise UnreadableError(f"more than {MOST_DOCUMENTS} documents: split it", document.line)
    documents.append(document)


def skip_whitespace(text: str, position: int) -> int:
    """Where the next character that is not whitespace stands, or the end."""
    found = WHITESPACE.match(text, position)
    assert found is not None, "the pattern matches nothing as well"
    return found.end()


def encodable(content: object) -> object:
    """The content with lone surrogates replaced: JSON can escape them, no encoding holds them."""
    if isinstance(content, str):
        return well_formed(content)
    if isinstance(content, list):
        return [encodable(each) for each in content]
    if isinstance(content, dict):
        return {well_formed(key): encodable(value) for key, value in content.items()}
    return content


def unique_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The members of a JSON object, none of which occurs twice."""
    members: dict[str, object] = {}
    for key, value in pairs:
        if key in members:
            raise UnreadableError(
                f"key {json.dumps(key[:60])} occurs twice in one object: keep one"
            )
        members[key] = value
    return members


def merged_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The members of a JSON object, of equal keys the last, but mappings merged."""
    members: dict[str, object] = {}
    for key, value in pairs:
        members[key] = merged(members.get(key), value)
    return members


def merged(old: object, new: object) -> object:
    """The new value; if both are mappings the old one, with the members of the new one put in."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    for key, value in new.items():
        old[key] = merged(old.get(key), value)
    return old


def refuse_constant(name: str) -> object:
    """Refuse NaN and infinities, which JSON has not."""
    raise UnreadableError(f"not JSON: {name}")


def is_deep(content: object, deepest: int = DEEPEST) -> bool:
    """Whether the content is nested more than so many mappings and lists deep."""
    level: list[object] = [content]
    for _ in range(deepest + 1):
        level = [
            child
            for each in level
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)


def read_yaml(text: str, documents: list[Document], *, unique_keys: bool) -> None:
    """Append the YAML documents of the text that are not empty to the documents.

    Raises:
        UnreadableError: At the first that cannot be read.
    """
    try:
        events = Events(text, unique_keys=unique_keys)
        while not events.is_next(yaml.StreamEndEvent):
            event = events.take()
            if isinstance(event, yaml.DocumentStartEvent):
                line = events.next_line()
                content = read_node(events, DEEPEST)
                if content is not None:
                    append(documents, Document(content, line))
    except UnreadableError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        message = error.problem or error.context or "syntax error"
        raise UnreadableError(f"not YAML: {message}", mark.line + 1 if mark else None) from error
    except (yaml.YAMLError, ValueError) as error:
        message = str(error).splitlines()[0]
        raise UnreadableError(f"not YAML: {message}") from error


class Events:
    """The parser's events, one ahead.

    Attributes:
        unique_keys: Whether a key that occurs twice in a mapping is refused.
        duplicates: Else the paths of those that do.
    """

    def __init__(self, text: str, *, unique_keys: bool) -> None:
        self.unique_keys = unique_keys
        self.duplicates: list[str] = []
        self.loader: Any = LOADER(text)

    def take(self) -> yaml.Event:
        """The next event, which is used up."""
        event: yaml.Event = self.loader.get_event()
        return event

    def is_next(self, kind: type[yaml.Event]) -> bool:
        """Whether the next event is of the kind."""
        return bool(self.loader.check_event(kind))

    def next_line(self) -> int:
        """The line of the next event, counted from 1."""
        return int(self.loader.peek_event().start_mark.line) + 1


def read_node(events: Events, depth: int, path: str = "") -> object:
    """The next node and all below it, as plain data.

    Args:
        events: From the node on.
        depth: How deep it may be nested.
        path: Of the node, such as `spec.rules[0]`.
    """
    line = events.next_line()
    event = events.take()
    if isinstance(event, yaml.AliasEvent):
        raise UnreadableError(f"alias *{event.anchor} is not supported: write the value out", line)
    if isinstance(event, yaml.ScalarEvent):
        return scalar(event, line)
    assert isinstance(event, yaml.CollectionStartEvent)
    if event.tag not in (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
        raise UnreadableError(f"tag {event.tag} is not supported: leave it out", line)
    if depth == 0:
        raise UnreadableError("nested too deeply", line)
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[object] = []
        while not events.is_next(yaml.SequenceEndEvent):
            items.append(read_node(events, depth - 1, f"{path}[{len(items)}]"))
        events.take()
        return items
    mapping = Mapping(line)
    while not events.is_next(yaml.MappingEndEvent):
        at = events.next_line()
        key = key_text(read_node(events, depth - 1), at)
        below = f"{path}.{key}" if path else key
        if key in mapping:
            if events.unique_keys:
                raise UnreadableError(
                    f"key {json.dumps(key[:60])} occurs twice in one mapping: keep one", at
                )
            events.duplicates.append(below)
        mapping.key_lines[key] = at
        mapping[key] = read_node(events, depth - 1, below)
    events.take()
    return mapping


def key_text(key: object, line: int) -> str:
    """A mapping's key as JSON has it: numbers and truth values become strings."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise UnreadableError("a key must be a plain value", line)


def scalar(event: yaml.ScalarEvent, line: int) -> object:
    """The value of a scalar: a string if it is quoted or tagged so, else what it looks like."""
    text: str = event.value
    if event.tag is not None and event.tag not in STRING_TAGS:
        raise UnreadableError(f"tag {event.tag} is not supported: leave it out", line)
    if event.tag is not None or not event.implicit[0]:
        return text
    if text in CONSTANTS:
        return CONSTANTS[text]
    return number(text)


def number(text: str) -> object:
    """The number that the text stands for, or else the text.

    A float without a fraction becomes an integer, as it does on the way through JSON that
    Kubernetes' tools take.
    """
    if len(text) > LONGEST_NUMBER:
        return text
    digits = text.replace("_", "")
    if DECIMAL.fullmatch(text):
        return int(digits)
    octal = OCTAL.fullmatch(digits)
    if octal:
        return int(octal[1] + octal[2], 8)
    if RADIX.fullmatch(text):
        return int(digits, 0)
    if FLOAT.fullmatch(text):
        value = float(text)
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    return text
