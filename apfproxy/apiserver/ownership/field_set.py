"""Sets of field paths, in the very shape that `fieldsV1` of a managed fields entry has.

A set is a tree of dictionaries whose keys are path elements:

- `f:name` is a field of a struct, or a key of a map,
- `k:{"name":"c"}` is the item of a list that has these keys, by name,
- `v:"text"` is the item of a set that has this value,
- `i:0` is an item by its position.

A path belongs to the set when the dictionary at its end is empty or holds the key `.`.  The root
stands for no path: an empty root is the empty set.  No function changes its arguments; results
share parts with them, so that only a set that one has made oneself may be changed.

Sources: Kubernetes API reference, "FieldsV1"; structured-merge-diff v6, package fieldpath.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import msgspec

from apfproxy.objects.go_text import html_safe

if TYPE_CHECKING:
    from collections.abc import Iterator

FieldSet = dict[str, Any]
Path = tuple[str, ...]

SELF: Final = "."
DEEPEST: Final = 100
"""Elements of the longest path that clients may send: real objects have about twenty."""
MOST_ELEMENTS: Final = 100_000
"""Path elements in one set that clients may send; etcd's limit of 1.5 MiB allows no more either."""
ELEMENT_TYPES: Final = ".fkvi"  # first letters of path elements, in the order of writing


class FieldSetError(ValueError):
    """A client has sent something that should be a set of field paths and is none."""


def as_json(value: object) -> str:
    """The value as Go writes it: compact, sorted, and safe inside HTML."""
    return html_safe(msgspec.json.encode(value, order="sorted").decode())


def is_member(node: FieldSet) -> bool:
    """Whether the path that leads to this node (which is not the root) is in the set."""
    return not node or SELF in node


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not right:
        return left
    result = dict(left)
    for element, theirs in right.items():
        ours = result.get(element)
        if ours is None:
            result[element] = theirs
        elif ours is not theirs and element != SELF:
            below = union(ours, theirs)
            if below and (is_member(ours) or is_member(theirs)):
                below = {SELF: {}, **below}
            result[element] = below
    return result


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """The paths of `left` that are not in `right`; `left` itself if that is all of them.

    Taking away a parent leaves its children, and the other way round.
    """
    result = left
    for element, theirs in right.items():
        ours = left.get(element)
        if ours is None or element == SELF:
            continue
        below = difference(ours, theirs)
        was_member = is_member(ours)
        stays = was_member and not is_member(theirs)
        if below is ours and stays == was_member:
            continue
        if result is left:
            result = dict(left)
        below = {name: node for name, node in below.items() if name != SELF}
        if below and stays:
            below = {SELF: {}, **below}
        if below or stays:
            result[element] = below
        else:
            del result[element]
    return result


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    return difference(left, difference(left, right))


def paths(whole: FieldSet) -> Iterator[Path]:
    """All paths, in the order of the set; at each level those that end there come first."""
    children = {element: node for element, node in whole.items() if element != SELF}
    yield from ((element,) for element, node in children.items() if is_member(node))
    for element, node in children.items():
        for path in paths(node):
            yield (element, *path)


def in_order(whole: FieldSet) -> FieldSet:
    elements = sorted(whole)
    # Text order is right for names, and what has a name comes before what has not.
    if len(elements) > 1 and elements[-1] >= "i":
        elements.sort(key=rank)
    return {element: in_order(whole[element]) for element in elements}


@functools.lru_cache(maxsize=4096)
def rank(element: str) -> tuple[int, object]:
    order = ELEMENT_TYPES.index(element[0])
    if element[0] in ".f":
        return order, element
    value = msgspec.json.decode(element[2:])
    if element[0] == "k":
        return order, [(name, rank_of(each)) for name, each in value.items()]
    return order, rank_of(value)


def rank_of(value: object) -> tuple[int, Any]:
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else (3, as_json(value))


def shown(path: Path) -> str:
    r"""The path as messages name it: `.spec.containers[name="c"].image`."""
    return "".join(map(shown_element, path))


def shown_element(element: str) -> str:
    kind, text = element[0], element[2:]
    if kind == "f":
        return f".{text}"
    if kind == "k":
        keys = msgspec.json.decode(text)
        return f"[{','.join(f'{name}={as_json(value)}' for name, value in keys.items())}]"
    return f"[={text}]" if kind == "v" else f"[{text}]"


def parse(raw: object) -> FieldSet:
    """Read the value of `fieldsV1` that a client sent, without elements of unknown types.

    Raises:
        FieldSetError: It is no object of path elements, or too deep or too large.
    """
    result = parse_below(raw, DEEPEST, [MOST_ELEMENTS])
    return in_order({element: node for element, node in result.items() if element != SELF})


def parse_below(raw: object, depth: int, budget: list[int]) -> FieldSet:
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise FieldSetError(f"must be an object, not {msgspec.json.encode(raw)[:100].decode()}")
    budget[0] -= len(raw)
    if depth == 0 or budget[0] < 0:
        raise FieldSetError(f"must not have more than {DEEPEST} levels or {MOST_ELEMENTS} elements")
    result: FieldSet = {}
    for text, below in raw.items():
        element = None if text == SELF else parse_element(text)
        if element:
            found = {element: parse_below(below, depth - 1, budget)}
            result |= union({element: result[element]}, found) if element in result else found
    return {SELF: {}, **result} if result and SELF in raw else result


def parse_element(text: str) -> str | None:
    if len(text) < 2:  # noqa: PLR2004  a letter and a colon
        raise FieldSetError(f"key must be 2 characters long: {text}")
    if text[1] != ":":
        raise FieldSetError(f"missing colon: {text}")
    if text[0] == "f":
        return text
    if text[0] not in ELEMENT_TYPES:
        return None
    try:
        value = msgspec.json.decode(text[2:])
    except (msgspec.DecodeError, RecursionError) as error:
        raise FieldSetError(f"{text[:100]}: {error}") from error
    if text[0] == "k" and not isinstance(value, dict):
        raise FieldSetError(f"keys must be an object: {text[:100]}")
    if text[0] == "i" and type(value) is not int:
        raise FieldSetError(f"position must be a whole number: {text[:100]}")
    return f"{text[0]}:{as_json(value)}"
