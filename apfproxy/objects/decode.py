"""Reads the objects of a file: every document, every item of a List; problems with their place."""

from __future__ import annotations

import re
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from apfproxy.base.build import shipped
from apfproxy.objects.documents import UNRENDERED, Mapping, Sequence, split_documents
from apfproxy.objects.field_errors import FieldError, Reason, one_line, shown
from apfproxy.objects.reading import (
    API_VERSIONS,
    SERVED_UNTIL,
    read_object,
    type_name,
    type_of,
    with_type,
)
from apfproxy.objects.types import GROUP, MODELS, FlowControlObject, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DIRECTORY = shipped("bootstrap")

MANDATORY_FILE, SUGGESTED_FILE = "mandatory.yaml", "suggested.yaml"
HTTP_FILE, LLM_FILE = "http.yaml", "llm.yaml"

MOST_PROBLEMS = 100
"""Problems of one file: further ones usually have the same cause."""
MOST_MESSAGES = 20
MOST_KINDS = 20
NO_KIND = "a document without a kind"
"""Stands for the kind of what is no object of any API."""
SMALL_KINDS = frozenset(kind.lower() for kind in MODELS)
OBJECT_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec"})
LONGEST_NAME = 60
PLACEHOLDER = re.compile(r"\{\{|\{%|\$\{")
FIELD_PART = re.compile(r"\[(?P<index>[0-9]{1,9})\]|\[(?P<key>[^\]]*)\]|(?P<name>[^.\[\]]+)")
"""One step of a field's path, such as `rules`, `[0]` or `[apfproxy.io/ban]`."""


def _placed(source: str, line: int | None, *parts: str) -> str:
    place = source if line is None else f"{source}:{line}"
    return one_line(": ".join([place, *filter(None, parts)]))


class Problem(msgspec.Struct, frozen=True):
    """Why one object, or the rest of a file, cannot be used.

    Attributes:
        messages: The first errors, each with its field's path where it concerns a field.
        line: Where the object begins, or where the text cannot be read; counted from 1.
        errors: All errors that concern fields.
        lines: Where the field of each of them stands, or what there is around it.
    """

    source: str
    messages: tuple[str, ...]
    line: int | None = None
    kind: str = ""
    name: str = ""
    errors: tuple[FieldError, ...] = ()
    lines: tuple[int, ...] = ()

    def __str__(self) -> str:
        name = self.name and shown(self.name[:LONGEST_NAME])
        what = " ".join(part for part in (self.kind[:LONGEST_NAME], name) if part)
        return _placed(self.source, self.line, what, "; ".join(self.messages))


def parts_of(problems: Iterable[Problem]) -> Iterator[str]:
    """A line for each message of each problem, with the line of its field where it has one."""
    for problem in problems:
        lines = dict(enumerate(problem.lines))
        for index, message in enumerate(problem.messages):
            line = lines.get(index, problem.line)
            yield str(Problem(problem.source, (message,), line, problem.kind, problem.name))


class LeftOut(msgspec.Struct, frozen=True):
    """Things in a file that are no objects of flow control; the line is that of the first."""

    source: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        return _placed(self.source, self.line, self.message)


class Candidate(msgspec.Struct, frozen=True):
    """An object to be read, or an error if its surroundings forbid one there."""

    wire: object
    line: int
    error: FieldError | None = None

    def line_of(self, field: str) -> int:
        line, here = self.line, self.wire
        for part in FIELD_PART.finditer(field):
            key = part["name"] or part["key"] or part["index"]
            if isinstance(here, dict) and key in here:
                line = here.key_lines[key] if isinstance(here, Mapping) else line
                here = here[key]
            elif isinstance(here, list) and part["index"] and int(key) < len(here):
                line = here.item_lines[int(key)] if isinstance(here, Sequence) else line
                here = here[int(key)]
            else:
                break
        return line


class Decoded(msgspec.Struct, frozen=True):
    """The content of a file.

    Attributes:
        objects: In v1, with defaults, valid, in the file's order, no two of one kind and name.
        written: Kind and name of each object to how the file has it.
        left_out: The note about objects of other kinds: one at most.
    """

    objects: list[FlowControlObject]
    problems: list[Problem]
    written: dict[tuple[str, str], Candidate]
    left_out: tuple[LeftOut, ...] = ()


def decode_documents(data: bytes, source: str, *, is_found: bool = False) -> Decoded:
    """Read the objects of a file, skipping broken ones; no bytes make this raise.

    One that `is_found` in a directory, not named itself, may have none of Kubernetes.
    """
    documents, failure = split_documents(data, partial(_is_left_out, is_found=is_found))
    may_be_foreign = is_found or not all(_is_foreign(each.content) for each in documents)
    objects: dict[tuple[str, str], FlowControlObject] = {}
    written: dict[tuple[str, str], Candidate] = {}
    problems: list[Problem] = []
    others: dict[str, int] = {}
    candidates = (
        [Candidate({"kind": NO_KIND, "apiVersion": NO_KIND}, _line_of(each.content, each.line))]
        if may_be_foreign and _is_foreign(each.content)
        else _candidates(each.content, each.line)
        for each in documents
    )
    for candidate in chain.from_iterable(candidates):
        if candidate.error is None and (other := _other_kind(candidate.wire)):
            others.setdefault(other, candidate.line)
            continue
        if len(problems) >= MOST_PROBLEMS:
            message = f"more than {MOST_PROBLEMS} problems: the rest of the file was not read"
            problems.append(Problem(source, (message,), candidate.line))
            break
        found = [candidate.error] if candidate.error else read_object(candidate.wire, strict=True)
        if isinstance(found, list):
            problems.append(_problem(source, candidate, found))
            continue
        kind, name = kind_of(found), found.metadata.name
        if (kind, name) in objects:
            message = "defined a second time in this file: remove one"
            problems.append(Problem(source, (message,), candidate.line, kind, name))
        else:
            objects[kind, name] = found
            written[kind, name] = candidate
    if failure is not None:
        problems.append(Problem(source, (str(failure),), failure.line))
    return Decoded(list(objects.values()), problems, written, _left_out(source, others))


def _other_kind(wire: object) -> str:
    """The kind of an object of another API; "" for any other content."""
    kind, api_version = type_of(wire)
    is_ours = api_version.partition("/")[0] == GROUP or kind.lower() in SMALL_KINDS
    return "" if is_ours or not api_version else kind


def _is_left_out(content: object, *, is_found: bool) -> bool:
    is_other = _other_kind(content) not in {"", "List"}
    return is_other or (is_found and _is_foreign(content))


def _is_foreign(content: object) -> bool:
    items = content if isinstance(content, list) else [content]
    return all(isinstance(each, dict) and OBJECT_FIELDS.isdisjoint(each) for each in items)


def _left_out(source: str, others: dict[str, int]) -> tuple[LeftOut, ...]:
    if not others:
        return ()
    kinds = [kind[:LONGEST_NAME] for kind in sorted(others)[:MOST_KINDS]]
    more = f" and {len(others) - MOST_KINDS} more" if len(others) > MOST_KINDS else ""
    message = f"left out, as it is no object of flow control: {', '.join(kinds)}{more}"
    return (LeftOut(source, message, min(others.values())),)


def _line_of(content: object, line: int) -> int:
    return content.line if isinstance(content, Mapping) else line


def _candidates(content: object, line: int, depth: int = 2) -> Iterator[Candidate]:
    line = _line_of(content, line)
    if not isinstance(content, dict):
        yield _unfit(content, line, "", "want an object with apiVersion and kind", content)
        return
    kind, api_version = type_of(content)
    typed = kind.removesuffix("List") in MODELS and api_version in {*API_VERSIONS, *SERVED_UNTIL}
    if not kind.endswith("List") or not (typed or (kind, api_version) == ("List", "v1")):
        yield Candidate(content, line)
        return
    items = content.get("items")
    if depth == 0 or not isinstance(items, list | None):
        detail = "want a list of objects" if depth else "a List in a List in a List"
        yield _unfit(content, line, "items", detail, items)
        return
    for item in items or ():
        typed_item = with_type(item, kind.removesuffix("List"), api_version) if typed else item
        yield from _candidates(typed_item, _line_of(item, line), depth - 1)


def _unfit(content: object, line: int, field: str, detail: str, value: object) -> Candidate:
    error = FieldError(field, Reason.TYPE_INVALID, detail, type_name(value))
    return Candidate(content, line, error)


def _problem(source: str, candidate: Candidate, errors: list[FieldError]) -> Problem:
    kind, _ = type_of(candidate.wire)
    templates = (PLACEHOLDER.search(str(error)) for error in errors)
    if (template := next(filter(None, templates), None)) is not None:
        errors = [*errors, FieldError("", Reason.INVALID, f"is of {UNRENDERED}", template[0])]
    metadata = candidate.wire.get("metadata") if isinstance(candidate.wire, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    messages = [str(error) for error in errors[:MOST_MESSAGES]]
    if len(errors) > MOST_MESSAGES:
        messages.append(f"and {len(errors) - MOST_MESSAGES} more")
    name = name if isinstance(name, str) else ""
    lines = tuple(candidate.line_of(error.field) for error in errors)
    return Problem(source, tuple(messages), candidate.line, kind, name, tuple(errors), lines)


def mandatory_objects() -> tuple[FlowControlObject, ...]:
    return built_in(MANDATORY_FILE)


def suggested_objects() -> tuple[FlowControlObject, ...]:
    return built_in(SUGGESTED_FILE)


@cache
def built_in(file: str) -> tuple[FlowControlObject, ...]:
    """The objects of one of the shipped files; ValueError if an edited one has problems."""
    decoded = decode_documents((DIRECTORY / file).read_bytes(), file)
    if decoded.problems:
        raise ValueError("; ".join(str(problem) for problem in decoded.problems))
    return tuple(decoded.objects)
