"""Splits a file into its YAML or JSON documents, as plain data with the lines they begin at.

A key that occurs twice in a mapping is refused, because one of the two values would be lost in
silence.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import yaml

from apfproxy.objects.names import well_formed
from apfproxy.objects.yaml_text import UnreadableError, unreadable, yaml_documents

if TYPE_CHECKING:
    from collections.abc import Callable

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
"""A line that is of a template alone."""
UNRENDERED = "a template that was not rendered: render it first, such as by helm template"


class Document(msgspec.Struct, frozen=True):
    """A document, and the line where it begins, counted from 1."""

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
    """A single document of JSON, if it is not large, with the lines of its fields from its YAML."""
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
        for content, line in yaml_documents(
            text, DEEPEST, has_aliases=True, is_forgiven=is_forgiven
        ):
            if content is not None:
                _append(documents, content, line)
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
    """Whether more than `deepest` mappings and lists are nested."""
    level: list[object] = [content]
    for _ in range(deepest + 1):
        level = [
            child
            for each in level
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)
