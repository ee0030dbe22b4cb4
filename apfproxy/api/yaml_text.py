"""Reads YAML as Kubernetes' tools do.

It is version 1.1, but timestamps and sexagesimal numbers are strings.  It is read from the parser's
events, with no constructor that a tag could reach.  Input that could grow is refused: aliases (a
few lines of them expand to gigabytes) and deep nesting.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import yaml

from apfproxy.api.names import well_formed

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_NUMBER = 60
"""Characters of a number; longer ones stay strings, since their conversion takes quadratic time."""

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where PyYAML is built with it: ten times faster than the parser in Python."""

STRING_TAGS = frozenset({"!", "tag:yaml.org,2002:str"})
COLLECTION_TAGS = frozenset({None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})

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
FLOAT = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+][0-9]+)?")


class UnreadableError(ValueError):
    """The text breaks a rule of YAML, JSON or this program.

    Attributes:
        line: Where, counted from 1; None if that is not known.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


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


class Sequence(list[object]):
    """A list that knows its lines; parsers of JSON make plain lists.

    Attributes:
        item_lines: Where each of its items begins.
    """

    __slots__ = ("item_lines",)

    def __init__(self) -> None:
        super().__init__()
        self.item_lines: list[int] = []


def yaml_documents(
    text: str, deepest: int, duplicates: list[str] | None = None
) -> Iterator[tuple[object, int]]:
    """The documents of a text, each with the line where it begins.

    Args:
        text: YAML.
        deepest: Mappings and lists that may be nested.
        duplicates: Gets the paths of keys that occur twice, of which the last value counts; None to
            refuse them.

    Raises:
        UnreadableError: The text has something that is refused.
        yaml.YAMLError: The text is not YAML.
        ValueError: The text has characters that the parser refuses.
    """
    reader = Reader(text, duplicates)
    while not reader.is_next(yaml.StreamEndEvent):
        if isinstance(reader.take(), yaml.DocumentStartEvent):
            line = reader.next_line()
            yield reader.node(deepest), line


class Reader:
    """Makes plain data of the parser's events."""

    def __init__(self, text: str, duplicates: list[str] | None) -> None:
        self.duplicates = duplicates
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

    def node(self, depth: int, path: str = "") -> object:
        """The next node, at a path such as `spec.rules[0]`, and all below it, as plain data."""
        line = self.next_line()
        event = self.take()
        if isinstance(event, yaml.AliasEvent):
            message = f"alias *{event.anchor} is not supported: write the value out"
            raise UnreadableError(message, line)
        if isinstance(event, yaml.ScalarEvent):
            return scalar(event, line)
        assert isinstance(event, yaml.CollectionStartEvent)
        if event.tag not in COLLECTION_TAGS:
            raise UnreadableError(f"tag {event.tag} is not supported: leave it out", line)
        if depth == 0:
            raise UnreadableError("nested too deeply", line)
        if isinstance(event, yaml.MappingStartEvent):
            return self.mapping(line, depth - 1, path)
        items = Sequence()
        while not self.is_next(yaml.SequenceEndEvent):
            items.item_lines.append(self.next_line())
            items.append(self.node(depth - 1, f"{path}[{len(items)}]"))
        self.take()
        return items

    def mapping(self, line: int, depth: int, path: str) -> Mapping:
        """The members of a mapping that has begun."""
        members = Mapping(line)
        while not self.is_next(yaml.MappingEndEvent):
            at = self.next_line()
            key = key_text(self.node(depth), at)
            below = f"{path}.{key}" if path else key
            if key in members:
                if self.duplicates is None:
                    shown = json.dumps(key[:60])
                    raise UnreadableError(f"key {shown} occurs twice in one mapping: keep one", at)
                self.duplicates.append(below)
            members.key_lines[key] = at
            members[key] = self.node(depth, below)
        self.take()
        return members


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
    text = well_formed(event.value)
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
